//! Writing orders: in batches to fill the tables, one by one to measure.

use super::orders::{COLUMNS, Order, Orders};
use super::tables::Copies;
use crate::client::endpoint::Endpoint;
use crate::client::failure::error_kind;
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::fill::{ATTEMPTS, fill, pause_before};
use crate::workload::kv::prepare;
use anyhow::Result;
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Nodes warn of large batches, and refuse them, only if they are of several partitions; still this is far below
/// what they refuse.
const BATCH_ROWS: usize = 50;

/// A session that writes one arm's tables.
pub(super) struct Writer {
    session: Session,
    /// One for each table that the client writes.
    inserts: Vec<PreparedStatement>,
    orders: Arc<Orders>,
}

impl Writer {
    pub(super) async fn open(
        endpoint: &Endpoint,
        copies: &Copies,
        orders: &Arc<Orders>,
    ) -> Result<Self> {
        let session = endpoint.connect().await?;
        let names = COLUMNS.map(|(name, _)| name).join(", ");
        let mut inserts = Vec::new();
        for table in copies.written() {
            let text =
                format!("INSERT INTO {table} ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
            inserts.push(prepare(&session, &text).await?);
        }
        Ok(Self {
            session,
            inserts,
            orders: orders.clone(),
        })
    }

    /// Writes rows of one branch: a single mutation for Cassandra.
    async fn write(&self, rows: &[&Order]) -> Result<(), ExecutionError> {
        if let ([insert], [row]) = (&*self.inserts, rows) {
            let done = self.session.execute_unpaged(insert, row.values()).await;
            return done.map(drop);
        }
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_is_idempotent(true);
        let mut values = Vec::with_capacity(rows.len() * self.inserts.len());
        for row in rows {
            for insert in &self.inserts {
                batch.append_statement(insert.clone());
                values.push(row.values());
            }
        }
        self.session.batch(&batch, values).await.map(drop)
    }

    /// Writes these rows in batches, and counts them in `written`; what fails is tried again.
    pub(super) async fn fill(
        self: &Arc<Self>,
        rows: Range<usize>,
        clients: usize,
        written: &Arc<AtomicU64>,
    ) -> Result<()> {
        let groups = Arc::new(self.orders.groups(rows, BATCH_ROWS));
        let (writer, written) = (self.clone(), written.clone());
        fill(groups.len() as u64, clients, move |number| {
            let (writer, groups, written) = (writer.clone(), groups.clone(), written.clone());
            async move {
                let rows = groups[number as usize].iter();
                let rows: Vec<&Order> = rows.map(|&row| &writer.orders.rows[row]).collect();
                writer.write(&rows).await?;
                written.fetch_add(rows.len() as u64, Ordering::Relaxed);
                Ok(())
            }
        })
        .await
    }
}

/// Each operation writes the next row.
pub(super) struct Inserts {
    writer: Arc<Writer>,
    rows: Range<usize>,
    next: AtomicUsize,
}

pub(super) const INSERT: [&str; 1] = ["insert"];

impl Inserts {
    pub(super) fn new(writer: &Arc<Writer>, rows: Range<usize>) -> Self {
        Self {
            writer: writer.clone(),
            next: AtomicUsize::new(rows.start),
            rows,
        }
    }
}

impl Workload for Inserts {
    fn kinds(&self) -> Vec<&str> {
        INSERT.to_vec()
    }

    /// A row that fails is tried again, which counts as part of its latency: later reads need all rows.
    async fn call(&self, _: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let row = self.next.fetch_add(1, Ordering::Relaxed);
        if !self.rows.contains(&row) {
            return (0, Err("nothing left to write"));
        }
        let row = [&self.writer.orders.rows[row]];
        let mut attempt = 1;
        loop {
            match self.writer.write(&row).await {
                Ok(()) => return (0, Ok(())),
                Err(error) if attempt == ATTEMPTS => return (0, Err(error_kind(&error))),
                Err(_) => pause_before(attempt).await,
            }
            attempt += 1;
        }
    }
}
