//! A lost layout comes back, and, for comparison, a lost replica of a table.
//!
//! Either way one whole copy of the orders is lost and restored:
//!
//! - that of a derived layout of one replica, which is spread over the nodes: its table is emptied, and
//!   `helenus layouts rebuild` fills it from the table of two replicas;
//! - that of one node, of a table with a replica on each of three nodes: its files are removed while it is
//!   stopped, and `nodetool repair -full` streams them from the others.
//!
//! Both are timed as commands, from their start to their end. `layouts rebuild` waits twice until every proxy
//! knows, however small the table is; the time in which it copies and compares is told beside the whole.
//! In each round both are restored, in an order that rotates, and before each all tables are flushed and
//! merged, so that neither pays for what the other has left behind.

use super::experiment::Layouts;
use super::tables::{Derived, Form};
use crate::experiments::arms::describe;
use crate::experiments::experiment::is_late;
use crate::measure::{Phase, Recorder};
use crate::report::Report;
use crate::report::chart::Chart;
use crate::report::figures::Figure;
use crate::report::ratios::{Ratios, Side, Value};
use crate::report::spread::rotation;
use anyhow::{Result, bail, ensure};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Who restores, as arms of the report.
pub const REBUILD: &str = "layouts-rebuild";
pub const REPAIR: &str = "nodetool-repair";
/// The cell of both.
pub const RECOVERY: &str = "recovery of one copy";
/// Among that cell's further figures: bytes on disk that were lost,
pub const LOST_BYTES: &str = "lost_bytes";
/// and the part of the seconds in which a layout is copied and compared.
pub const FILLING_SECONDS: &str = "filling_seconds";

/// Keys of the recovery alone.
pub const RECOVERY_KEYS: [&str; 2] = ["rebuild_vs_repair", "rebuild_filling_vs_repair"];

const SECONDS: Figure = Figure::Of(|phase| Some(phase.seconds));
const BOTH: [&str; 2] = [REBUILD, REPAIR];

/// Losses of copies, and what brings them back. Tables have their full names.
pub trait Losses {
    /// Has all nodes write what they hold in memory to disk, and merge each table's files into one.
    fn settle(&mut self) -> Result<()>;
    /// Empties the table of a layout behind the back of Helenus. Returns how many bytes it had on all nodes.
    fn lose_layout(&mut self, layout: &str) -> Result<u64>;
    /// Stops a node, removes its files of a table, and starts it again. Returns how many bytes these had.
    fn lose_replica(&mut self, table: &str) -> Result<u64>;
    /// Rows of a partition that this node has itself.
    fn own_rows(&mut self, table: &str, branch: i32) -> Result<u64>;
    /// `helenus layouts rebuild`, until proxies may read the layouts of the table.
    fn rebuild(&mut self, table: &str) -> impl Future<Output = Result<Rebuilt>>;
    /// `nodetool repair -full` of a table through the node that has lost its replica.
    fn repair(&mut self, table: &str) -> impl Future<Output = Result<()>>;
    /// Fails unless the layouts of a table are read and have all of its rows. Returns how many these are.
    fn verify(&mut self, table: &str) -> impl Future<Output = Result<u64>>;
}

/// What `layouts rebuild` tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rebuilt {
    pub rows: u64,
    /// The time in which rows were copied and compared.
    pub filling: Duration,
}

impl Layouts {
    pub(super) fn check_recovery(&self) -> Result<()> {
        let [plain, layouts] = &self.copies[..] else {
            bail!("recovery has two ways of holding the orders");
        };
        ensure!(
            plain.form == Form::Plain && layouts.form == Form::Layouts,
            "recovery compares a table without layouts with one that has them"
        );
        ensure!(
            matches!(layouts.derived, Some(Derived::Together(_))) && layouts.orders.len() == 2,
            "recovery is of one derived layout"
        );
        Ok(())
    }

    pub(super) fn describe_recovery(&self, report: &mut Report) {
        let settings = [
            ("orders", self.orders.rows.len().to_string()),
            ("partitions (branches)", self.orders.branches.to_string()),
            ("writing clients", self.writing_clients.to_string()),
        ];
        let endpoint = &self.arms[0].arm.endpoint;
        describe(report, endpoint, self.replication, self.seed, settings);
        let replication = self.replication;
        let of_table = self.copies.iter().find_map(|copies| match copies.derived {
            Some(Derived::Together(of_table)) => Some(of_table),
            _ => None,
        });
        let of_table = of_table.unwrap_or(replication);
        for line in [
            format!(
                "Either way one whole copy of the orders is lost: by {REBUILD}, that of a derived layout of one \
                 replica, spread over the nodes, of a table of {of_table} replicas; by {REPAIR}, that of one node, of \
                 a table of {replication}."
            ),
            "Times are of the commands as an operator runs them, from start to end, without other load: `helenus \
             layouts rebuild KEYSPACE.TABLE`, and `nodetool repair -full KEYSPACE TABLE` through the node that has \
             lost its files and was started again."
                .into(),
            "`layouts rebuild` waits twice until every proxy knows, for as long with few rows as with many: \
             rebuild_filling_vs_repair is of the time in which it copies and compares."
                .into(),
            "After each round the layout was compared with its table, and the rows were counted that the restored \
             node has itself."
                .into(),
        ] {
            report.note(line);
        }
    }

    /// Runs all rounds and fills `report`. [`Self::fill_for_recovery`] must have been called.
    pub async fn recover<L: Losses>(
        &self,
        losses: &mut L,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let mut took = BTreeMap::new();
        for round in 0..self.rounds {
            // Without the first one there would be nothing to report.
            if round > 0 && is_late(self.until, RECOVERY, round, &took, report) {
                break;
            }
            let began = Instant::now();
            for turn in rotation(BOTH.len(), round) {
                let by = BOTH[turn];
                let tell = &mut |what: &str| {
                    say(format!("round {}/{}: {by}: {what}", round + 1, self.rounds));
                };
                tell("flushing and merging");
                losses.settle()?;
                let phase = match by {
                    REBUILD => self.rebuild(losses, tell).await?,
                    _ => self.repair(losses, tell).await?,
                };
                report.add(by, RECOVERY, phase);
            }
            self.check_whole(losses, say).await?;
            took.insert(RECOVERY.to_owned(), began.elapsed());
        }
        self.compare_recovery(report);
        Ok(())
    }

    async fn rebuild<L: Losses>(
        &self,
        losses: &mut L,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Phase> {
        let copies = &self.copies[1];
        tell("losing the layout");
        let lost_bytes = losses.lose_layout(&copies.table(1))?;
        tell("rebuilding it");
        let began = Instant::now();
        let rebuilt = losses.rebuild(&copies.table(0)).await?;
        let mut phase = restored(began.elapsed(), rebuilt.rows, lost_bytes);
        let filling = rebuilt.filling.as_secs_f64();
        phase.extra.insert(FILLING_SECONDS.into(), filling);
        Ok(phase)
    }

    async fn repair<L: Losses>(&self, losses: &mut L, tell: &mut dyn FnMut(&str)) -> Result<Phase> {
        let table = self.copies[0].table(0);
        tell("losing the files of a node");
        let lost_bytes = losses.lose_replica(&table)?;
        let left = self.own_rows(losses, &table)?;
        ensure!(
            left.iter().all(|rows| *rows == 0),
            "the node that was to lose its replica of {table} has kept rows of it: {left:?}"
        );
        tell("repairing them");
        let began = Instant::now();
        losses.repair(&table).await?;
        let rows = self.filled() as u64;
        Ok(restored(began.elapsed(), rows, lost_bytes))
    }

    /// Of each partition.
    fn own_rows<L: Losses>(&self, losses: &mut L, table: &str) -> Result<Vec<u64>> {
        let branches = 0..self.orders.branches;
        branches
            .map(|branch| losses.own_rows(table, branch))
            .collect()
    }

    /// What was lost must be there again, to the last row.
    async fn check_whole<L: Losses>(
        &self,
        losses: &mut L,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let table = self.copies[0].table(0);
        say(format!("counting {table} on the node that was repaired"));
        let (expected, own) = (
            self.orders.counts(0..self.filled()),
            self.own_rows(losses, &table)?,
        );
        ensure!(
            own == expected,
            "after the repair the node has {own:?} rows of the partitions of {table}, not {expected:?}"
        );
        let table = self.copies[1].table(0);
        say(format!("comparing {table} with its layout"));
        let (rows, expected) = (losses.verify(&table).await?, self.filled() as u64);
        ensure!(
            rows == expected,
            "{table} and its layout have {rows} rows where {expected} were written"
        );
        Ok(())
    }

    pub(super) fn compare_recovery(&self, report: &mut Report) {
        let cells = [RECOVERY.to_owned()];
        let [whole, filling] = RECOVERY_KEYS.map(str::to_owned);
        let mut ratios = Ratios::default();
        ratios.over(whole, REBUILD, REPAIR, &cells, SECONDS);
        let of_filling = Side::new(REBUILD, &cells, Figure::Extra(FILLING_SECONDS));
        let of_repair = Side::new(REPAIR, &cells, SECONDS);
        ratios.add(filling, Value::Quotient(of_filling, of_repair));
        ratios.set(report, self.rounds);
        let chart = Chart::bars("Until a lost copy is back", "s", &cells, SECONDS);
        report.charts = chart.svg(report, &BOTH).into_iter().collect();
    }
}

pub(super) fn restored(took: Duration, rows: u64, lost_bytes: u64) -> Phase {
    let mut phase = Recorder::new(1).into_phase(&["restore"], took, None);
    phase.ops = rows;
    phase.ops_per_second = rows as f64 / took.as_secs_f64().max(1e-9);
    phase.extra.insert(LOST_BYTES.into(), lost_bytes as f64);
    phase
}
