//! The experiment `scheduling`: point reads beside range scans.
//!
//! It repeats the evaluation of the paper on query scheduling (rows of 1 KB in several tables,
//! replication 1, point reads and ranges 9:1 and 5:5 from 125 to 1000 clients, ranges of up to
//! 10,000 rows from random positions) scaled to one machine, and adds the cases in which a
//! scheduler may do harm: few clients, a lone scan, a storm of scans over a trickle of point reads.
//!
//! - **The same queries.** Query number n of a cell depends on the seed and n, not on the client
//!   that happens to send it: every arm gets the same queries in the same order. Every row of every
//!   result is checked against the tables' contents.
//! - **Failures cost time.** In the compared means and percentiles a failed query counts with the
//!   client's time-out; otherwise an arm that loses the slow half of its scans would look fast. The
//!   number of failures is reported beside them.
//! - **Beside the paper** there are large reads, look-ups in an index, wide partitions and open loops
//!   (`further`), and a client without a driver (`plain`).
//! - **Turns.** An arm's cell runs to its end; then point reads sent straight to the nodes must be
//!   fast again before the next arm's turn. The order of arms rotates with each round.

pub use crate::experiments::arms::{Arm, HELENUS, ROUND_ROBIN, TOKEN_AWARE};
use crate::experiments::arms::{check, watched_with};
use crate::experiments::experiment::Cell;
use crate::report::Report;
use crate::run::{Limit, Plan, record_closed, record_open};
use anyhow::{Context, Result, ensure};
use cells::Job;
use further::queries::{Contents, Statements};
use open::{Open, limit};
use plain::queries::PlainConnections;
use queries::{QueryPattern, Sessions};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod calibrate;
mod cells;
mod charts;
mod declared;
mod experiment;
mod figures;
mod further;
mod mix;
mod open;
mod pages;
mod plain;
mod queries;
mod ratios;
mod selection;
mod settle;
mod tables;

pub use calibrate::{Calibration, Mixed as MixedCosts};
pub use experiment::{KINDS, Scheduling, Storm};
pub use further::{Further, Indexed, Wide};
pub use mix::{Mix, Mixed};
pub use plain::Plain;
pub use ratios::SCHEDULING_KEYS;
pub use selection::CellKind;
pub use tables::Tables;

/// Aggregates per table: three, so that the first, from which a proxy learns, counts a third.
const AGGREGATES_OF_EACH: u64 = 3;
/// Reads by `IN` with one client; with more clients it grows with the square root of their number.
const SEVERAL_EACH: u64 = 100;
/// How long the scans of the storm run alone before the point reads start.
const STORM_LEAD: Duration = Duration::from_secs(2);
/// Half points, half scans.
const HALF: Mix = Mix {
    points: 1,
    scans: 1,
};

impl Scheduling {
    /// Creates the tables and fills those that are not filled yet.
    pub async fn prepare(&self, say: &mut dyn FnMut(String)) -> Result<()> {
        check(self.arms.iter(), &[TOKEN_AWARE])?;
        let first = &self.arms[0];
        self.tables.create_and_fill(&first.endpoint, say).await?;
        if let Some(plain) = self.plain() {
            plain.tables.create_and_fill(&first.endpoint, say).await?;
        }
        if let Some(further) = self.with_own_tables() {
            further.wide.create_and_fill(&first.endpoint, say).await?;
            let indexed = &further.indexed;
            indexed.create_and_fill(&first.endpoint, say).await?;
        }
        Ok(())
    }

    /// Runs all rounds and fills `report`; [`Self::prepare`] comes first.
    pub async fn run(&self, report: &mut Report, say: &mut dyn FnMut(String)) -> Result<()> {
        let mut open = self.open(say).await?;
        self.describe(report, &open.index);
        self.warm_up(&open, report, say).await?;
        let (experiment, mut unsettled) = (self.declared(), 0);
        let measured = experiment.measure(report, say, async |cell, round, report, say| {
            let name = &cell.name;
            if let Job::Further(cell) = cell.job {
                say(format!("round {}/{}: {name}", round + 1, self.rounds));
                open.rate = self.open_rate(&open, cell, round, report).await?;
                if open.rate.is_some() {
                    self.settle(&open).await;
                }
            }
            for arm in cell.turns(round) {
                say(experiment.turn(cell, arm, round));
                if self.drop_caches {
                    settle::drop_caches()?;
                }
                self.measure(arm, &open, cell, round, report).await?;
                say(format!("waiting until the nodes have settled ({name})"));
                let is_settled = self.settle(&open).await;
                unsettled += usize::from(!is_settled);
            }
            Ok(ControlFlow::Continue(()))
        });
        measured.await?;
        if unsettled > 0 {
            report.notes.push(format!(
                "After {unsettled} turns the nodes had not settled within {} s: they were still working for \
                 the previous arm, or something else was running on this machine.",
                self.settle_max.as_secs_f64()
            ));
        }
        self.finish(report);
        Ok(())
    }

    async fn open(&self, say: &mut dyn FnMut(String)) -> Result<Open> {
        say("reading the rows of the tables".into());
        let first = &self.arms.first().context("no arms to compare")?.endpoint;
        let index = Arc::new(self.tables.index(first).await?);
        let plain_index = match self.plain() {
            Some(plain) => Some((plain, Arc::new(plain.tables.index(first).await?))),
            None => None,
        };
        let contents = match self.with_own_tables() {
            Some(further) => {
                let rows_max = self.tables.scan_rows_max;
                let contents = Contents::of(further, first, index.order(), rows_max);
                Some((further, Arc::new(contents.await?)))
            }
            None => None,
        };
        let (mut sessions, mut plain, mut statements) = (Vec::new(), Vec::new(), Vec::new());
        for Arm { endpoint, .. } in &self.arms {
            say(format!("connecting to {}", endpoint.name));
            let opened = Sessions::open(endpoint, &self.tables, index.order(), self.sessions);
            let opened = Arc::new(opened.await?);
            if let Some((further, _)) = &contents {
                let prepared = Statements::prepare(&opened, further, index.order());
                statements.push(Arc::new(prepared.await?));
            }
            sessions.push(opened);
            plain.push(match &plain_index {
                Some((settings, index)) if settings.takes_part(&endpoint.name) => {
                    let opened = PlainConnections::open(endpoint, settings, index.clone());
                    Some(Arc::new(opened.await?))
                }
                _ => None,
            });
        }
        Ok(Open {
            index,
            sessions,
            plain,
            further: contents.map(|(_, contents)| (contents, statements)),
            rate: None,
        })
    }

    async fn settle(&self, open: &Open) -> bool {
        settle::wait(&open.sessions[0], &open.index, self.settle_max).await
    }

    fn finish(&self, report: &mut Report) {
        self.declared().finish(report);
        let arms = self.arms.iter().map(Arm::name);
        for arm in arms.filter(|arm| *arm != TOKEN_AWARE) {
            self.worst_cell(report, arm);
        }
        self.note_failures(report);
    }

    /// Sends the same queries straight to the nodes until throughput is steady, then a few through
    /// every arm.
    async fn warm_up(
        &self,
        open: &Open,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let half = QueryPattern::Mixed(HALF);
        let (began, mut last) = (Instant::now(), None);
        for span in 0.. {
            say(format!("warming up, span {}", span + 1));
            let queries = self.queries(open, 0, half, u64::MAX - span);
            let plan = Plan::new(32, Limit::Time(settle::SPAN));
            let rate = self
                .phase(record_closed(&queries, &plan).await)
                .ops_per_second;
            let settled = last.is_some_and(|last| settle::is_steady(last, rate));
            if settled || began.elapsed() + settle::SPAN > self.warmup {
                report.settings.insert(
                    "seconds of warm-up before the first round".into(),
                    format!("{:.0}", began.elapsed().as_secs_f64()),
                );
                break;
            }
            last = Some(rate);
        }
        for (number, arm) in self.arms.iter().enumerate() {
            let name = &arm.endpoint.name;
            say(format!("warming up: {name}"));
            let plan = Plan::new(8, Limit::Ops(40));
            let queries = self.queries(open, number, half, u64::MAX);
            let mut phases = vec![self.phase(record_closed(&queries, &plan).await)];
            if let Some(plain) = &open.plain[number] {
                let queries = self.plain_queries(plain, HALF, false, u64::MAX);
                phases.push(self.phase(record_closed(&queries, &plan).await));
            }
            phases.extend(self.warm_up_further(open, number).await?);
            for phase in phases {
                ensure!(
                    phase.ops > 0 && !phase.errors.contains_key(queries::WRONG),
                    "{name} gives wrong answers or none: {:?}",
                    phase.errors
                );
            }
        }
        self.settle(open).await;
        Ok(())
    }

    async fn measure(
        &self,
        arm: usize,
        open: &Open,
        cell: &Cell<Job>,
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        let proxy_pid = self.arms[arm].proxy_pid;
        let plan = |clients, limit| Plan {
            watched: watched_with(&self.watched, proxy_pid),
            ..Plan::new(clients, limit)
        };
        let queries = |pattern| self.queries(open, arm, pattern, round as u64);
        let name = &self.arms[arm].endpoint.name;
        let recording = match cell.job {
            Job::Mixed(mixed) => {
                let limit = limit(mixed.queries, self.cell_time);
                record_closed(
                    &queries(QueryPattern::Mixed(mixed.mix)),
                    &plan(mixed.clients, limit),
                )
                .await
            }
            Job::Plain(cell) => {
                let settings = self.plain.as_ref().context("no plain client")?;
                let connections = open.plain[arm].as_ref().context("no plain connections")?;
                let queries = self.plain_queries(connections, cell.mix, cell.apart, round as u64);
                let limit = limit(settings.queries, settings.cell_time);
                record_closed(&queries, &plan(cell.clients, limit)).await
            }
            Job::IdleScan => {
                let limit = Limit::Ops(self.tables.count as u64);
                record_closed(&queries(QueryPattern::WholeTable), &plan(1, limit)).await
            }
            Job::IdleAggregates => {
                let limit = Limit::Ops(AGGREGATES_OF_EACH * self.tables.count as u64);
                record_closed(&queries(QueryPattern::Aggregates), &plan(1, limit)).await
            }
            Job::Several(clients) => {
                let limit = Limit::Ops(SEVERAL_EACH * clients.isqrt() as u64);
                record_closed(&queries(QueryPattern::Several), &plan(clients, limit)).await
            }
            Job::Unloaded(storm) => {
                let points = queries(QueryPattern::Mixed(Mix::POINTS));
                let plan = plan(1, Limit::Time(storm.time));
                record_open(&points, storm.points_per_second, &plan).await
            }
            Job::Further(cell) => self.measure_further(arm, open, cell, round, report).await?,
            Job::Storm(storm) => {
                let scans = queries(QueryPattern::Mixed(Mix::SCANS));
                let scans_plan =
                    Plan::new(storm.scan_clients, Limit::Time(STORM_LEAD + storm.time));
                let points = queries(QueryPattern::Mixed(Mix::POINTS));
                let points_plan = plan(1, Limit::Time(storm.time));
                let (scans, points) = tokio::join!(record_closed(&scans, &scans_plan), async {
                    tokio::time::sleep(STORM_LEAD).await;
                    record_open(&points, storm.points_per_second, &points_plan).await
                });
                report.add(name, &cells::storm_scans(storm), self.phase(scans));
                points
            }
        };
        report.add(name, &cell.name, self.phase(recording));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
