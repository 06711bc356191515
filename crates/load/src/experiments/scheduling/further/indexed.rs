//! A table with an index on one of its columns.

use crate::client::endpoint::Endpoint;
use crate::experiments::scheduling::tables::{Order, rows_of};
use crate::workload::fill::fill;
use crate::workload::kv::{create_keyspace, prepare, value_of};
use anyhow::{Context, Result, ensure};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Rows with the same value in the indexed column.
pub(super) const ROWS_OF_A_VALUE: u64 = 4;
const VALUE_BYTES: usize = 100;
const FILLING_CLIENTS: usize = 64;

#[derive(Clone, Debug)]
pub struct Indexed {
    pub keyspace: String,
    pub replication: usize,
    pub rows: u64,
}

impl Indexed {
    pub(in crate::experiments::scheduling) fn name(&self) -> String {
        format!("{}.indexed{}", self.keyspace, self.rows)
    }

    /// Values of the indexed column that all have the same number of rows.
    pub(super) fn values(&self) -> u64 {
        (self.rows / ROWS_OF_A_VALUE).max(1)
    }

    pub(in crate::experiments::scheduling) async fn create_and_fill(
        &self,
        endpoint: &Endpoint,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        ensure!(
            self.rows >= ROWS_OF_A_VALUE,
            "at least {ROWS_OF_A_VALUE} rows with an index are needed"
        );
        let name = self.name();
        let session = Arc::new(endpoint.connect().await?);
        create_keyspace(&session, &self.keyspace, self.replication).await?;
        for text in [
            format!("CREATE TABLE IF NOT EXISTS {name} (k bigint PRIMARY KEY, c bigint, v blob)"),
            format!("CREATE INDEX IF NOT EXISTS ON {name} (c)"),
        ] {
            let done = session.query_unpaged(&*text, ()).await;
            done.with_context(|| format!("cannot execute {text}"))?;
        }
        let there = rows_of(&session, &name, "", "k", Order::Keys).await?;
        if there.len() as u64 == self.rows {
            return Ok(());
        }
        say(format!("filling {} rows with an index", self.rows));
        let text = format!("INSERT INTO {name} (k, c, v) VALUES (?, ?, ?)");
        let insert = prepare(&session, &text).await?;
        fill(self.rows, FILLING_CLIENTS, move |number| {
            let (session, insert) = (session.clone(), insert.clone());
            async move {
                let mut rng = ChaCha8Rng::seed_from_u64(number);
                let value = value_of(number, VALUE_BYTES, &mut rng);
                let row = (number as i64, (number / ROWS_OF_A_VALUE) as i64, value);
                session.execute_unpaged(&insert, row).await?;
                Ok(())
            }
        })
        .await
        .with_context(|| format!("filling {name} failed"))
    }
}
