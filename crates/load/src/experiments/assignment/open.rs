//! An arm's sessions, whichever driver they are of.

use super::experiment::Assignment;
use crate::client::ClientKind;
use crate::client::java::{JavaClient, Load};
use crate::experiments::arms::{Arm, JAVA};
use crate::recording::Recording;
use crate::run::{Plan, record_closed, record_open};
use crate::workload::ycsb::{Core, RequestDistribution, Shape, Ycsb};
use anyhow::{Context, Result};
use scylla::statement::Consistency;
use std::sync::Arc;

/// The default page size of drivers.
const PAGE_ROWS: i32 = 5_000;
const SCANS: Shape = Shape {
    shares: [0.0, 0.0, 0.0, 1.0, 0.0],
    request: RequestDistribution::Zipfian,
};

/// They end when this is dropped.
#[derive(Debug)]
pub struct Open(Sessions);

#[derive(Debug)]
enum Sessions {
    /// One for each consistency level.
    Driver(Vec<Arc<Ycsb>>),
    Java {
        client: JavaClient,
        levels: Vec<Consistency>,
        /// Draws the same requests as for other arms.
        requests: Arc<Ycsb>,
    },
}

impl Open {
    /// `first` is the arm opened first, if there is one yet.
    pub(super) async fn of(
        experiment: &Assignment,
        arm: &Arm,
        first: Option<&Open>,
    ) -> Result<Self> {
        if arm.endpoint.name == JAVA {
            let program = experiment
                .java
                .as_ref()
                .context("no Java program is built")?;
            let table = format!("{}.usertable", experiment.users.keyspace);
            let requests = first.and_then(|first| first.ycsb(0));
            return Ok(Self(Sessions::Java {
                client: JavaClient::start(program, &arm.endpoint, &table).await?,
                levels: experiment.levels.clone(),
                requests: requests.context("another arm comes first")?.clone(),
            }));
        }
        let mut levels = Vec::new();
        for &consistency in &experiment.levels {
            let mut endpoint = arm.endpoint.clone();
            endpoint.consistency = consistency;
            let (driver, shape) = (ClientKind::Driver, Core::C.shape());
            let ycsb = Ycsb::open(driver, &endpoint, &experiment.users, shape, 0, 1).await?;
            let ycsb = ycsb.paged(PAGE_ROWS);
            levels.push(Arc::new(ycsb.with_scan_rows(experiment.scan_rows_max)));
        }
        Ok(Self(Sessions::Driver(levels)))
    }

    /// For reads at a level by this program's driver.
    pub(super) fn ycsb(&self, level: usize) -> Option<&Arc<Ycsb>> {
        match &self.0 {
            Sessions::Driver(levels) => levels.get(level),
            Sessions::Java { .. } => None,
        }
    }

    /// The policy that the driver of another program has chosen.
    pub(super) fn java_policy(&self) -> Option<&str> {
        match &self.0 {
            Sessions::Driver(_) => None,
            Sessions::Java { client, .. } => Some(&client.policy),
        }
    }

    /// Reads, or scans, in a closed loop or in an open one of this rate.
    pub(super) async fn record(
        &self,
        level: usize,
        is_scan: bool,
        rate_per_second: Option<f64>,
        plan: &Plan,
    ) -> Result<Recording> {
        match &self.0 {
            Sessions::Java {
                client,
                levels,
                requests,
            } => {
                let load = Load {
                    is_scan,
                    level: *levels.get(level).context("no such level")?,
                    rate_per_second,
                };
                client.record(load, requests, plan).await
            }
            Sessions::Driver(levels) => {
                let reads = levels.get(level).context("no such level")?;
                let ycsb = match is_scan {
                    true => &Arc::new(reads.with_shape(SCANS, 0)),
                    false => reads,
                };
                Ok(match rate_per_second {
                    Some(rate) => record_open(ycsb, rate, plan).await,
                    None => record_closed(ycsb, plan).await,
                })
            }
        }
    }
}
