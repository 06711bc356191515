//! The experiment `scheduling`: how point reads fare among range scans.
//!
//! It repeats the evaluation of the paper on query scheduling (rows of 1 KB over several tables,
//! replication 1, single reads and ranges 9:1 and 5:5 from 125 to 1000 clients, a range of up to
//! 10,000 rows from anywhere on) scaled to one machine, and adds the cases in which a scheduler may
//! do harm: few clients, a scan alone, a storm of scans over a trickle of point reads.
//!
//! - **The same queries.** Query number n of a cell is drawn from the seed and n, not by the client
//!   that happens to send it: every arm answers the same queries in the same order. Every row of
//!   every answer is compared with what the tables hold.
//! - **Failures cost time.** A query that failed counts with the client's time-out in the means and
//!   percentiles that are compared; otherwise an arm that loses the slow half of its scans would
//!   look quick. How many failed stands beside them.
//! - **Turns.** An arm's cell runs to its end; then point reads sent straight to the nodes must be
//!   quick again before the next arm has its turn. The order of arms moves on with each round.

use crate::arms::watched_with;
pub use crate::arms::{Arm, HELENUS, ROUND_ROBIN, TOKEN_AWARE};
use crate::measure::Phase;
use crate::process::Watched;
use crate::report::Report;
use crate::run::{Limit, Plan, take_closed, take_open};
use crate::spread::rotation;
use anyhow::{Context, Result, ensure};
use cells::{Cell, Job};
use queries::{Ask, Queries, Sessions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::Index;

mod cells;
mod compare;
mod plots;
mod queries;
mod quiet;
mod tables;

pub use cells::{Mix, Mixed};
pub use compare::SCHEDULING_KEYS;
pub use tables::Tables;

/// Kinds of query, by index.
pub const KINDS: [&str; 2] = ["point", "scan"];
/// Aggregates of each table: what a proxy learns from the first one counts a third.
const AGGREGATES_OF_EACH: u64 = 3;
/// Reads by `IN` of one client; of more clients more, by the root of their number.
const SEVERAL_EACH: u64 = 100;
/// Scans of the storm run alone for so long before the point reads are counted.
const STORM_LEAD: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub struct Storm {
    pub scan_clients: usize,
    /// Point reads, at fixed moments.
    pub points_per_second: f64,
    pub time: Duration,
    /// Only in the first round, and not for the arms that serve as a second reference.
    pub short: bool,
}

#[derive(Clone, Debug)]
pub struct Scheduling {
    pub tables: Tables,
    /// The first must be [`TOKEN_AWARE`], which the others are compared with.
    pub arms: Vec<Arm>,
    pub rounds: usize,
    pub mixed: Vec<Mixed>,
    /// No cell sends queries for longer than this.
    pub cell_time: Option<Duration>,
    pub storm: Option<Storm>,
    /// Driver sessions of each arm, which its clients share.
    pub sessions: usize,
    /// How long a client waits for a whole query, and what a failed one counts.
    pub time_out: Duration,
    /// Before the first round, at most.
    pub warmup: Duration,
    /// After each turn, at most, until the nodes are quick again.
    pub quiet: Duration,
    /// Empty the page cache before each cell.
    pub drop_caches: bool,
    /// No cell begins that would not be done by then.
    pub until: Option<Instant>,
    /// Further processes whose CPU time is recorded: the nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}

impl Scheduling {
    /// Creates the tables and fills those that are not filled yet.
    pub async fn prepare(&self, say: &mut dyn FnMut(String)) -> Result<()> {
        let first = self.arms.first().context("no arms to compare")?;
        ensure!(
            first.endpoint.name == TOKEN_AWARE,
            "the first arm must be {TOKEN_AWARE}"
        );
        let names: BTreeSet<&str> = self.arms.iter().map(|arm| &*arm.endpoint.name).collect();
        ensure!(
            names.len() == self.arms.len(),
            "two arms have the same name"
        );
        self.tables.create_and_fill(&first.endpoint, say).await
    }

    /// Runs all rounds and fills `report`; [`Self::prepare`] comes first.
    pub async fn run(&self, report: &mut Report, say: &mut dyn FnMut(String)) -> Result<()> {
        say("reading which rows there are".into());
        let first = self.arms.first().context("no arms to compare")?;
        let index = Arc::new(self.tables.index(&first.endpoint).await?);
        let mut open = Vec::new();
        for arm in &self.arms {
            say(format!("connecting to {}", arm.endpoint.name));
            let opened = Sessions::open(&arm.endpoint, &self.tables, index.order(), self.sessions);
            open.push(Arc::new(opened.await?));
        }
        self.describe(report, &index);
        self.warm_up(&open, &index, report, say).await?;
        let mut took: BTreeMap<String, Duration> = BTreeMap::new();
        let mut restless = 0;
        for round in 0..self.rounds {
            for cell in self.cells(round) {
                let name = cell.name();
                let expected = took.get(&name).copied().unwrap_or_default();
                if self
                    .until
                    .is_some_and(|until| Instant::now() + expected >= until)
                {
                    report.notes.push(format!(
                        "Not enough time was left in round {} for the cell {name}.",
                        round + 1
                    ));
                    continue;
                }
                let began = Instant::now();
                let arms = self.taking_part(&cell);
                for turn in rotation(arms.len(), round) {
                    let arm = arms[turn];
                    let arm_name = &self.arms[arm].endpoint.name;
                    let of = self.rounds;
                    say(format!("round {}/{of}: {name}: {arm_name}", round + 1));
                    if self.drop_caches {
                        quiet::drop_caches()?;
                    }
                    self.measure(arm, &open[arm], &index, &cell, round, report)
                        .await;
                    say(format!("waiting until the nodes are quick again ({name})"));
                    let is_quiet = quiet::wait(&open[0], &index, self.quiet).await;
                    restless += usize::from(!is_quiet);
                }
                took.insert(name, began.elapsed());
            }
        }
        if restless > 0 {
            report.notes.push(format!(
                "After {restless} turns the nodes were not quick again within {} s: they still worked \
                 for the arm before, or something else on this machine did.",
                self.quiet.as_secs_f64()
            ));
        }
        self.finish(report);
        Ok(())
    }

    fn finish(&self, report: &mut Report) {
        self.compare(report);
        report.charts = self.plots(report);
    }

    /// The same queries straight to the nodes until their throughput no longer changes, then a few
    /// through every arm.
    async fn warm_up(
        &self,
        open: &[Arc<Sessions>],
        index: &Arc<Index>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let half = Ask::Mixed(Mix {
            points: 1,
            scans: 1,
        });
        let (began, mut last) = (Instant::now(), None);
        for span in 0.. {
            say(format!("warming up, span {}", span + 1));
            let queries = self.queries(&open[0], index, half, u64::MAX - span);
            let plan = Plan::new(32, Limit::Time(quiet::SPAN));
            let rate = self
                .phase(take_closed(&queries, &plan).await)
                .ops_per_second;
            let settled = last.is_some_and(|last| quiet::is_steady(last, rate));
            if settled || began.elapsed() + quiet::SPAN > self.warmup {
                report.settings.insert(
                    "seconds of warm-up before the first round".into(),
                    format!("{:.0}", began.elapsed().as_secs_f64()),
                );
                break;
            }
            last = Some(rate);
        }
        for (arm, sessions) in self.arms.iter().zip(open) {
            let name = &arm.endpoint.name;
            say(format!("warming up: {name}"));
            let queries = self.queries(sessions, index, half, u64::MAX);
            let phase = self.phase(take_closed(&queries, &Plan::new(8, Limit::Ops(40))).await);
            ensure!(
                phase.ops > 0 && !phase.errors.contains_key(queries::WRONG),
                "{name} does not answer as it should: {:?}",
                phase.errors
            );
        }
        quiet::wait(&open[0], index, self.quiet).await;
        Ok(())
    }

    async fn measure(
        &self,
        arm: usize,
        sessions: &Arc<Sessions>,
        index: &Arc<Index>,
        cell: &Cell,
        round: usize,
        report: &mut Report,
    ) {
        let proxy_pid = self.arms[arm].proxy_pid;
        let plan = |clients, limit| Plan {
            watched: watched_with(&self.watched, proxy_pid),
            ..Plan::new(clients, limit)
        };
        let queries = |ask| self.queries(sessions, index, ask, round as u64);
        let name = &self.arms[arm].endpoint.name;
        let taken = match cell.job {
            Job::Mixed(mixed) => {
                let ops = mixed.queries;
                let limit = match self.cell_time {
                    Some(time) => Limit::Within { ops, time },
                    None => Limit::Ops(ops),
                };
                take_closed(&queries(Ask::Mixed(mixed.mix)), &plan(mixed.clients, limit)).await
            }
            Job::IdleScan => {
                let limit = Limit::Ops(self.tables.count as u64);
                take_closed(&queries(Ask::WholeTable), &plan(1, limit)).await
            }
            Job::IdleAggregates => {
                let limit = Limit::Ops(AGGREGATES_OF_EACH * self.tables.count as u64);
                take_closed(&queries(Ask::Aggregates), &plan(1, limit)).await
            }
            Job::Several(clients) => {
                let limit = Limit::Ops(SEVERAL_EACH * clients.isqrt() as u64);
                take_closed(&queries(Ask::Several), &plan(clients, limit)).await
            }
            Job::Unloaded(storm) => {
                let points = queries(Ask::Mixed(Mix::POINTS));
                let plan = plan(1, Limit::Time(storm.time));
                take_open(&points, storm.points_per_second, &plan).await
            }
            Job::Storm(storm) => {
                let scans = queries(Ask::Mixed(Mix::SCANS));
                let scans_plan =
                    Plan::new(storm.scan_clients, Limit::Time(STORM_LEAD + storm.time));
                let points = queries(Ask::Mixed(Mix::POINTS));
                let points_plan = plan(1, Limit::Time(storm.time));
                let (scans, points) = tokio::join!(take_closed(&scans, &scans_plan), async {
                    tokio::time::sleep(STORM_LEAD).await;
                    take_open(&points, storm.points_per_second, &points_plan).await
                });
                report.add(name, &cells::storm_scans(storm), self.phase(scans));
                points
            }
        };
        report.add(name, &cell.name(), self.phase(taken));
    }

    fn queries(
        &self,
        sessions: &Arc<Sessions>,
        index: &Arc<Index>,
        ask: Ask,
        round: u64,
    ) -> Arc<Queries> {
        let seed = self.seed.wrapping_add(round);
        let (sessions, index) = (sessions.clone(), index.clone());
        Arc::new(Queries::new(sessions, index, ask, self.time_out, seed))
    }

    fn phase(&self, taken: crate::taken::Taken) -> Phase {
        taken.into_phase_at_cost(&KINDS, Some(self.time_out))
    }
}

#[cfg(test)]
mod tests;
