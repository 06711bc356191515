//! A table of wide partitions.

use crate::client::endpoint::Endpoint;
use crate::experiments::scheduling::tables::{Order, rows_of};
use crate::workload::fill::fill;
use crate::workload::kv::{create_keyspace, is_value_of, prepare, value_of};
use anyhow::{Context, Result, ensure};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};
use std::sync::Arc;

/// Partition key and clustering key.
const KEY_BYTES: usize = 16;
/// Rows of one partition that are written with one request.
const BATCH_ROWS: u64 = 32;
const FILLING_CLIENTS: usize = 16;

#[derive(Clone, Debug)]
pub struct Wide {
    pub keyspace: String,
    pub replication: usize,
    pub partitions: u64,
    /// Rows of each partition.
    pub rows: u64,
    pub row_bytes: usize,
}

/// Its partitions in ring order: position on the ring (token or key), and key.
#[derive(Debug)]
pub(in crate::experiments::scheduling) struct WideIndex {
    partitions: Vec<(i64, i64)>,
    rows: u64,
    value_bytes: usize,
}

impl Wide {
    pub(in crate::experiments::scheduling) fn name(&self) -> String {
        let (keyspace, partitions, rows) = (&self.keyspace, self.partitions, self.rows);
        // The size is part of the name: a table that exists already has the right rows.
        format!("{keyspace}.wide{partitions}x{rows}x{}", self.row_bytes)
    }

    fn value_bytes(&self) -> usize {
        self.row_bytes.saturating_sub(KEY_BYTES)
    }

    pub(in crate::experiments::scheduling) async fn create_and_fill(
        &self,
        endpoint: &Endpoint,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        ensure!(
            self.partitions > 0 && self.rows > 0,
            "at least one wide partition of one row is needed"
        );
        let name = self.name();
        let session = Arc::new(endpoint.connect().await?);
        create_keyspace(&session, &self.keyspace, self.replication).await?;
        let columns = "p bigint, c bigint, v blob, PRIMARY KEY (p, c)";
        let create = format!("CREATE TABLE IF NOT EXISTS {name} ({columns})");
        session
            .query_unpaged(create, ())
            .await
            .with_context(|| format!("cannot create table {name}"))?;
        let count = prepare(
            &session,
            &format!("SELECT count(*) FROM {name} WHERE p = ?"),
        )
        .await?;
        let mut missing = Vec::new();
        for partition in 0..self.partitions {
            let response = session.execute_unpaged(&count, (partition as i64,)).await?;
            let (rows,) = response.into_rows_result()?.single_row::<(i64,)>()?;
            if rows as u64 != self.rows {
                missing.push(partition);
            }
        }
        if !missing.is_empty() {
            let (number, rows) = (missing.len(), self.rows);
            say(format!("filling {number} wide partitions of {rows} rows"));
            self.fill(session, missing).await?;
        }
        Ok(())
    }

    async fn fill(&self, session: Arc<Session>, missing: Vec<u64>) -> Result<()> {
        let name = self.name();
        let text = format!("INSERT INTO {name} (p, c, v) VALUES (?, ?, ?)");
        let insert = prepare(&session, &text).await?;
        let (rows, value_bytes) = (self.rows, self.value_bytes());
        let batches = rows.div_ceil(BATCH_ROWS);
        let count = batches * missing.len() as u64;
        fill(count, FILLING_CLIENTS, move |number| {
            let partition = missing[(number / batches) as usize];
            let from = number % batches * BATCH_ROWS;
            let (session, insert) = (session.clone(), insert.clone());
            async move {
                let mut rng = ChaCha8Rng::seed_from_u64(number);
                let mut batch = Batch::new(BatchType::Unlogged);
                batch.set_is_idempotent(true);
                let mut values = Vec::new();
                for row in from..rows.min(from + BATCH_ROWS) {
                    let value = value_of(partition * rows + row, value_bytes, &mut rng);
                    batch.append_statement(insert.clone());
                    values.push((partition as i64, row as i64, value));
                }
                session.batch(&batch, values).await?;
                Ok(())
            }
        })
        .await
        .with_context(|| format!("filling {name} failed"))
    }

    pub(in crate::experiments::scheduling) async fn index(
        &self,
        endpoint: &Endpoint,
        order: Order,
    ) -> Result<WideIndex> {
        let session = endpoint.connect().await?;
        let partitions = rows_of(&session, &self.name(), "DISTINCT ", "p", order).await?;
        ensure!(
            partitions.len() as u64 == self.partitions,
            "{} has {} partitions where {} were written",
            self.name(),
            partitions.len(),
            self.partitions
        );
        Ok(WideIndex::new(partitions, self))
    }
}

impl WideIndex {
    pub(in crate::experiments::scheduling) fn new(
        mut partitions: Vec<(i64, i64)>,
        wide: &Wide,
    ) -> Self {
        partitions.sort_unstable();
        Self {
            partitions,
            rows: wide.rows,
            value_bytes: wide.value_bytes(),
        }
    }

    pub(in crate::experiments::scheduling) fn partitions(&self) -> u64 {
        self.partitions.len() as u64
    }

    /// The rows of a partition: partition key and clustering key.
    pub(in crate::experiments::scheduling) fn partition(
        &self,
        key: i64,
    ) -> impl Iterator<Item = (i64, i64)> {
        (0..self.rows as i64).map(move |row| (key, row))
    }

    /// Rows that `token(p) > start LIMIT limit` must return.
    pub(in crate::experiments::scheduling) fn after(
        &self,
        start: i64,
        limit: usize,
    ) -> impl Iterator<Item = (i64, i64)> {
        let from = self
            .partitions
            .partition_point(|&(position, _)| position <= start);
        let partitions = self.partitions[from..].iter();
        partitions
            .flat_map(move |&(_, key)| self.partition(key))
            .take(limit)
    }

    pub(in crate::experiments::scheduling) fn is_right(
        &self,
        key: i64,
        row: i64,
        value: &[u8],
    ) -> bool {
        is_value_of(key as u64 * self.rows + row as u64, value, self.value_bytes)
    }
}
