//! Statements that are executed once, such as those that change the schema.

use super::connection::{Connection, VERSION};
use super::message::Plan;

use crate::client::endpoint::Endpoint;
use anyhow::{Context, Result, bail, ensure};
use helenus_client::{Opcode, Options, Statement, request};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const PAUSE: Duration = Duration::from_millis(100);
/// As long as most drivers wait for nodes to agree on the schema.
const AGREEMENT_MAX: Duration = Duration::from_secs(10);

/// A connection to the first contact point that takes one.
#[derive(Debug)]
pub(in crate::client) struct Once {
    connection: Connection,
    consistency: u16,
    request_timeout: Duration,
}

impl Once {
    pub(in crate::client) async fn open(endpoint: &Endpoint) -> Result<Self> {
        let plan = Plan::new(endpoint, &[])?;
        let mut last = None;
        for number in 0..plan.contact_points.len() {
            match Connection::open(&plan, number).await {
                Ok(connection) => {
                    return Ok(Self {
                        connection,
                        consistency: plan.consistency,
                        request_timeout: plan.request_timeout,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => Err(error),
            None => bail!("{} has no contact point", endpoint.name),
        }
    }

    /// Returns when the nodes agree on the schema.
    pub(in crate::client) async fn execute(&mut self, text: &str) -> Result<()> {
        self.query(text).await?;
        let began = Instant::now();
        while !self.nodes_agree().await? {
            ensure!(
                began.elapsed() < AGREEMENT_MAX,
                "the nodes did not agree on the schema in {AGREEMENT_MAX:?}"
            );
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Nodes that are known but were never reached have no version.
    async fn nodes_agree(&mut self) -> Result<bool> {
        let mut versions = BTreeSet::new();
        for table in ["system.local", "system.peers"] {
            let text = format!("SELECT schema_version FROM {table}");
            versions.extend(self.query(&text).await?);
        }
        Ok(versions.len() < 2)
    }

    /// The first cell of each row, without nulls.
    async fn query(&mut self, text: &str) -> Result<Vec<Vec<u8>>> {
        let options = Options::at(self.consistency);
        let body = request(VERSION, Statement::Text(text), &options);
        let request = self.connection.request(Opcode::Query, &body);
        let answer = timeout(self.request_timeout, request)
            .await
            .context("no answer in time")??;
        if answer.opcode != Opcode::Result as u8 {
            bail!("{}", answer.error_text());
        }
        let rows = answer.rows()?.into_iter();
        Ok(rows.filter_map(|row| row.into_iter().next()?).collect())
    }
}
