//! Filling the tables, counting what they hold, and measuring writes.

use super::cells::{DISK, DISK_BYTES, WRITES};
use super::experiment::{Layouts, Nodes, Open, at};
use super::orders::PARTITION;
use super::tables::Copies;
use super::writes::{INSERT, Inserts};
use crate::arms::watched_with;
use crate::fill::{fill, pause_before};
use crate::kv::prepare;
use crate::measure::Recorder;
use crate::report::Report;
use crate::run::{Limit, Plan, record_closed};
use crate::spread::rotation;
use anyhow::{Context, Result, bail, ensure};
use scylla::statement::Consistency;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long views may be behind.
const CATCH_UP: Duration = Duration::from_secs(120);

impl Layouts {
    /// Orders written before the rounds.
    pub(super) fn filled(&self) -> usize {
        self.orders.rows.len() - self.rounds * self.measured_rows
    }

    /// In batches, all that is not left for the rounds.
    pub(super) async fn fill(
        &self,
        open: &[Open],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let rows = 0..self.filled();
        for (arm, open) in self.arms.iter().zip(open) {
            let Some(writer) = &open.writer else { continue };
            let name = &arm.arm.endpoint.name;
            say(format!("filling {} orders: {name}", rows.len()));
            let began = Instant::now();
            let filling = writer.fill(rows.clone(), self.writing_clients);
            filling.await.with_context(|| format!("filling: {name}"))?;
            let mut phase = Recorder::new(1).into_phase(&INSERT, began.elapsed(), None);
            phase.ops = rows.len() as u64;
            phase.ops_per_second = phase.ops as f64 / phase.seconds.max(1e-9);
            report.add(name, "filling in batches", phase);
        }
        Ok(())
    }

    /// In each round each writing arm writes the next orders.
    pub(super) async fn write(
        &self,
        open: &[Open],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        for round in 0..self.rounds {
            let from = self.filled() + round * self.measured_rows;
            let rows = from..from + self.measured_rows;
            for arm in rotation(self.arms.len(), round) {
                let (Some(writer), arm) = (&open[arm].writer, &self.arms[arm].arm) else {
                    continue;
                };
                let name = &arm.endpoint.name;
                say(format!("round {}: {WRITES}: {name}", round + 1));
                let mut plan = Plan::new(self.writing_clients, Limit::Ops(rows.len() as u64));
                plan.watched = watched_with(&self.watched, arm.proxy_pid);
                let inserts = Arc::new(Inserts::new(writer, rows.clone()));
                let phase = record_closed(&inserts, &plan).await.into_phase(&INSERT);
                ensure!(
                    phase.errors.is_empty(),
                    "{name} could not write all orders: {:?}",
                    phase.errors
                );
                report.add(name, WRITES, phase);
            }
        }
        Ok(())
    }

    /// Every table and view must have all rows, at the latest after a while.
    pub(super) async fn count(&self, rows: usize) -> Result<()> {
        let expected = Arc::new(self.orders.counts(0..rows));
        let endpoint = at(&self.arms[0].arm.endpoint, Consistency::All);
        let session = Arc::new(endpoint.connect().await?);
        for table in self.copies.iter().flat_map(Copies::all) {
            let text = format!("SELECT count(*) FROM {table} WHERE {PARTITION} = ?");
            let statement = Arc::new(prepare(&session, &text).await?);
            let began = Instant::now();
            let branches = expected.len() as u64;
            let (session, expected) = (session.clone(), expected.clone());
            let count = move |branch: u64| {
                let (session, statement) = (session.clone(), statement.clone());
                let wanted = expected[branch as usize] as i64;
                async move {
                    loop {
                        let values = (branch as i32,);
                        let answer = session.execute_unpaged(&statement, values).await?;
                        let (count,) = answer.into_rows_result()?.single_row::<(i64,)>()?;
                        if count == wanted {
                            return Ok(());
                        }
                        if began.elapsed() > CATCH_UP {
                            bail!("branch {branch} has {count} rows where {wanted} were written");
                        }
                        pause_before(1).await;
                    }
                }
            };
            fill(branches, 2, count).await.context(table)?;
        }
        Ok(())
    }

    pub(super) fn weigh(&self, nodes: &dyn Nodes, report: &mut Report) -> Result<()> {
        for arm in self.arms.iter().filter(|arm| arm.writes) {
            let bytes = nodes.disk_bytes(&self.copies[arm.copies].keyspace)?;
            let mut phase = Recorder::new(1).into_phase(&INSERT, Duration::ZERO, None);
            phase.extra.insert(DISK_BYTES.into(), bytes as f64);
            report.add(&arm.arm.endpoint.name, DISK, phase);
        }
        Ok(())
    }
}
