//! Filling the tables, counting what they hold, and measuring writes.

use super::cells::{DISK, DISK_BYTES, WRITES};
use super::experiment::{Layouts, Nodes, Open};
use super::orders::PARTITION;
use super::tables::Copies;
use super::writes::{INSERT, Inserts, Writer};
use crate::experiments::arms::watched_with;
use crate::measure::Recorder;
use crate::recording::Recording;
use crate::report::Report;
use crate::report::spread::rotation;
use crate::run::{Limit, Plan, record_closed};
use crate::workload::fill::{fill, pause_before};
use crate::workload::kv::prepare;
use anyhow::{Context, Result, bail, ensure};
use scylla::statement::Consistency;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, interval_at};

/// For how long views may be behind.
const CATCH_UP: Duration = Duration::from_secs(120);
/// Turns of each arm in a round of writes.
const SLICES: usize = 5;
/// How often it is said how far a table has been filled.
const BEAT: Duration = Duration::from_secs(10);

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
        let of = self.copies.len();
        let writers = self.arms.iter().zip(open);
        let writers = writers.filter_map(|(arm, open)| Some((arm, open.writer.as_ref()?)));
        for (number, (arm, writer)) in writers.enumerate() {
            let name = &arm.arm.endpoint.name;
            let what = format!("filling {} orders: {name}, {}/{of}", rows.len(), number + 1);
            say(what.clone());
            let (began, written) = (Instant::now(), Arc::new(AtomicU64::new(0)));
            let filling = writer.fill(rows.clone(), self.writing_clients, &written);
            let mut filling = std::pin::pin!(filling);
            let mut beat = interval_at(Instant::now() + BEAT, BEAT);
            let filled = loop {
                tokio::select! {
                    filled = &mut filling => break filled,
                    _ = beat.tick() => {
                        let share = written.load(Ordering::Relaxed) as f64 / rows.len() as f64;
                        say(format!("{what}, {:.0} %", 100.0 * share));
                    }
                }
            };
            filled.with_context(|| format!("filling: {name}"))?;
            let mut phase = Recorder::new(1).into_phase(&INSERT, began.elapsed(), None);
            phase.ops = rows.len() as u64;
            phase.ops_per_second = phase.ops as f64 / phase.seconds.max(1e-9);
            report.add(name, "filling in batches", phase);
        }
        Ok(())
    }

    /// In each round each writing arm writes the next orders, in slices in which the arms take turns: what the
    /// nodes learn while they write, and what happens on the machine, is shared by all arms. The first slice is
    /// a warm-up.
    pub(super) async fn write(
        &self,
        open: &[Open],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        for round in 0..self.rounds {
            let from = self.filled() + round * self.measured_rows;
            let mut recordings: BTreeMap<usize, Recording> = BTreeMap::new();
            for slice in 0..SLICES {
                let at = |slice: usize| from + self.measured_rows * slice / SLICES;
                let rows = at(slice)..at(slice + 1);
                let (number, of) = (round + 1, self.rounds);
                for arm in rotation(self.arms.len(), round + slice) {
                    let Some(writer) = &open[arm].writer else {
                        continue;
                    };
                    let name = &self.arms[arm].arm.endpoint.name;
                    let part = slice + 1;
                    say(format!(
                        "round {number}/{of}: {WRITES}, slice {part}/{SLICES}: {name}"
                    ));
                    let written = self.write_slice(arm, writer, rows.clone()).await?;
                    match recordings.get_mut(&arm) {
                        Some(recording) => recording.merge(written),
                        None if slice == 0 => {}
                        None => drop(recordings.insert(arm, written)),
                    }
                }
            }
            for (arm, recording) in recordings {
                let name = &self.arms[arm].arm.endpoint.name;
                report.add(name, WRITES, recording.into_phase(&INSERT));
            }
        }
        Ok(())
    }

    async fn write_slice(
        &self,
        arm: usize,
        writer: &Arc<Writer>,
        rows: Range<usize>,
    ) -> Result<Recording> {
        let arm = &self.arms[arm].arm;
        let mut plan = Plan::new(self.writing_clients, Limit::Ops(rows.len() as u64));
        plan.watched = watched_with(&self.watched, arm.proxy_pid);
        let inserts = Arc::new(Inserts::new(writer, rows));
        let recording = record_closed(&inserts, &plan).await;
        let failed = recording.recorder.errors();
        let name = &arm.endpoint.name;
        ensure!(
            failed.is_empty(),
            "{name} could not write all orders: {failed:?}"
        );
        Ok(recording)
    }

    /// Every table and view must have all rows, at the latest after a while.
    pub(super) async fn count(&self, rows: usize, say: &mut dyn FnMut(String)) -> Result<()> {
        let expected = Arc::new(self.orders.counts(0..rows));
        let endpoint = self.arms[0].arm.endpoint.at(Consistency::All);
        let session = Arc::new(endpoint.connect().await?);
        let tables: Vec<String> = self.copies.iter().flat_map(Copies::all).collect();
        let of = tables.len();
        for (number, table) in tables.into_iter().enumerate() {
            say(format!("counting {table}, {}/{of}", number + 1));
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
            let copies = &self.copies[arm.copies];
            let mut bytes = 0;
            for keyspace in copies.keyspaces() {
                bytes += nodes.disk_bytes(&keyspace)?;
            }
            let mut phase = Recorder::new(1).into_phase(&INSERT, Duration::ZERO, None);
            phase.extra.insert(DISK_BYTES.into(), bytes as f64);
            report.add(&arm.arm.endpoint.name, DISK, phase);
        }
        Ok(())
    }
}
