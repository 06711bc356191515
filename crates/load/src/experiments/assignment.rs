//! The experiment `assignment`: which of its replicas answers a read.
//!
//! It repeats the evaluation of the paper on resource-based assignment (rows of ten columns of 100
//! bytes, Zipf-distributed keys, replication 3, only reads or only scans of up to 1,000 rows, with and
//! without stress on every second node) scaled to one machine, and adds QUORUM, more clients, and a
//! node that stands still for a while or again and again, that compacts, or whose network or disk is slow.
//!
//! - **Alike for all arms.** The same table, driver, keys and warm-up. An arm's cell runs to its end
//!   before the next arm's turn, and the order of arms rotates with each round. A fault outlasts the
//!   turns of all arms, or is repeated for each of them.
//! - **Stress** is CPU and memory work inside the CPU limit of the stressed nodes, so it takes nothing
//!   from other nodes, proxies and clients.
//! - **A fault of one node** is measured in an open loop: in a closed one, all clients would soon wait for
//!   that node, and few requests would show it.
//! - **Errors of prediction** are what proxies show in their metrics, after reads and scans of a few
//!   clients: with many, most of the time would be waiting.
//! - **Failures cost time.** In the compared percentiles a failed request counts with the client's
//!   time-out.

use crate::client::endpoint::Endpoint;
use crate::experiments::arms::{Arm, JAVA, TOKEN_AWARE, watched_with};
use crate::measure::{ErrorKind, Phase};
use crate::recording::Recording;
use crate::report::Report;
use crate::report::spread::rotation;
use crate::run::{Limit, Plan, record_closed};
use crate::scrape::Metrics;
use crate::workload::Workload;
use crate::workload::ycsb::{KINDS, RequestDistribution, Shape, Ycsb};
use anyhow::{Context, Result, ensure};
use cells::{Cell, Job};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use scylla::statement::Consistency;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod cells;
mod compare;
mod disturb;
mod experiment;
mod figures;
mod open;
mod plots;

pub use compare::{ASSIGNMENT_KEYS, latency};
pub use experiment::{Assignment, Faults, Scenario};
pub use open::Open;

/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(2);
const WARMUP_CLIENTS: usize = 32;
/// An open loop does not depend on it.
const OPEN_CLIENTS: usize = 16;
/// The nodes have settled when so many point reads in a row have each taken no longer than [`QUICK`].
const QUICK_IN_A_ROW: usize = 20;
const QUICK: Duration = Duration::from_millis(50);
/// Each half of the requests, so that both show among the answers that proxies compare.
const MIXED: Shape = Shape {
    shares: [0.5, 0.0, 0.0, 0.5, 0.0],
    request: RequestDistribution::Zipfian,
};
const MIXED_CLIENTS: usize = 4;
/// For at most so many times the time of a cell.
const MIXED_SLICES_MAX: usize = 8;

impl Assignment {
    /// Creates and fills the table, and warms all arms up alike.
    pub async fn prepare(&self, say: &mut dyn FnMut(String)) -> Result<Vec<Open>> {
        self.check()?;
        let endpoint = &self.arms.first().context("no arms to compare")?.endpoint;
        self.users.create(endpoint).await?;
        say(format!("filling {} records", self.users.records));
        // Reads at ONE find them on any replica.
        let everywhere = Endpoint {
            consistency: Consistency::All,
            ..endpoint.clone()
        };
        self.users.fill(&everywhere, Arc::default()).await?;
        let mut open: Vec<Open> = Vec::new();
        for arm in &self.arms {
            say(format!("connecting to {}", arm.endpoint.name));
            let of_arm = Open::of(self, arm, open.first()).await;
            open.push(of_arm.with_context(|| arm.endpoint.name.clone())?);
        }
        let turns = self.warmup.as_secs_f64() / WARMUP_TURN.as_secs_f64();
        // Every arm as often as the others, with reads and scans.
        let turns = (turns.ceil() as usize).next_multiple_of(2 * open.len());
        for turn in 0..turns {
            let arm = turn % open.len();
            let name = &self.arms[arm].endpoint.name;
            say(format!("warming up: {name}"));
            let is_scan = turn / open.len() % 2 == 1;
            let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(WARMUP_TURN));
            let recording = open[arm].record(0, is_scan, None, &plan).await?;
            let phase = recording.into_phase(&KINDS);
            ensure!(
                phase.ops > 0 && !phase.errors.contains_key("wrong answer"),
                "{name} gives wrong answers or none: {:?}",
                phase.errors
            );
        }
        Ok(open)
    }

    /// Runs all rounds and fills `report`. `open` is what [`Self::prepare`] has returned.
    pub async fn run(
        &self,
        open: &[Open],
        faults: &mut dyn Faults,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        self.describe(report);
        for policy in open.iter().filter_map(Open::java_policy) {
            report.notes.push(format!(
                "{JAVA} is a Java program with the Java driver's own settings but for connections and \
                 time-out; its policy is {policy}. It retries some failed reads once, as is its default."
            ));
        }
        let mut took: BTreeMap<String, Duration> = BTreeMap::new();
        for round in 0..self.rounds {
            for &scenario in &self.scenarios {
                match scenario {
                    Scenario::Stressed => faults.stress()?,
                    Scenario::SlowDisk => faults.flush(&self.users.keyspace)?,
                    _ => {}
                }
                for cell in self.cells(scenario) {
                    let name = cell.name(self);
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
                    for arm in rotation(self.arms.len(), round) {
                        if !self.has(&self.arms[arm], &cell) {
                            continue;
                        }
                        let (arm_name, of) = (&self.arms[arm].endpoint.name, self.rounds);
                        say(format!("round {}/{of}: {name}: {arm_name}", round + 1));
                        let phase = self.measure(arm, &open[arm], &cell, round, faults).await;
                        let phase = phase.with_context(|| format!("{arm_name}, {name}"))?;
                        report.add(arm_name, &name, phase);
                        if cell.job == Job::Fault {
                            self.settle(&open[0], report).await;
                        }
                    }
                    took.insert(name, began.elapsed());
                }
                if scenario == Scenario::Stressed {
                    faults.relax()?;
                    self.settle(&open[0], report).await;
                }
            }
        }
        self.compare(report);
        report.charts = self.plots(report);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let names: Vec<&str> = self.arms.iter().map(|arm| &*arm.endpoint.name).collect();
        ensure!(
            names.first() == Some(&TOKEN_AWARE),
            "the first arm must be {TOKEN_AWARE}"
        );
        let different: BTreeSet<&&str> = names.iter().collect();
        ensure!(
            different.len() == names.len(),
            "two arms have the same name"
        );
        ensure!(!self.levels.is_empty(), "no consistency level is given");
        Ok(())
    }

    async fn measure(
        &self,
        arm: usize,
        open: &Open,
        cell: &Cell,
        round: usize,
        faults: &mut dyn Faults,
    ) -> Result<Phase> {
        let arm = &self.arms[arm];
        let before = figures::metrics(arm).await;
        let recording = match cell.job {
            Job::Reads(clients) => {
                let plan = self.plan(arm, round, clients, self.cell_time);
                open.record(cell.level, false, None, &plan).await?
            }
            Job::Scans(clients) => {
                let plan = self.plan(arm, round, clients, self.cell_time);
                open.record(cell.level, true, None, &plan).await?
            }
            Job::Mixed => {
                let ycsb = open.ycsb(cell.level).context("of another program")?;
                let before = before.as_ref().context("its metrics cannot be read")?;
                return self.predicted(arm, ycsb, round, before).await;
            }
            Job::Steady | Job::Fault => {
                let plan = self.plan(arm, round, OPEN_CLIENTS, self.open_time(cell));
                self.open_loop(open, &plan, cell, round, faults).await?
            }
        };
        let mut phase = self.phase(recording);
        if let (Some(before), Some(after)) = (before, figures::metrics(arm).await) {
            figures::add_hedging(&mut phase, &before, &after);
        }
        Ok(phase)
    }

    fn plan(&self, arm: &Arm, round: usize, clients: usize, time: Duration) -> Plan {
        Plan {
            warmup: self.cell_warmup,
            // Every arm of a round gets the same keys in the same order.
            seed: self.seed.wrapping_add(round as u64),
            watched: watched_with(&self.watched, arm.proxy_pid),
            ..Plan::new(clients, Limit::Time(time))
        }
    }

    /// Reads and scans until what the proxy shows of its predictions is of these alone.
    async fn predicted(
        &self,
        arm: &Arm,
        ycsb: &Arc<Ycsb>,
        round: usize,
        before: &Metrics,
    ) -> Result<Phase> {
        let mixed = Arc::new(ycsb.with_shape(MIXED, 0));
        let mut recording: Option<Recording> = None;
        let mut after = None;
        for slice in 0..MIXED_SLICES_MAX {
            let mut plan = self.plan(arm, round, MIXED_CLIENTS, self.cell_time);
            plan.seed = plan.seed.wrapping_add(slice as u64);
            let further = record_closed(&mixed, &plan).await;
            match &mut recording {
                Some(recording) => recording.merge(further),
                None => recording = Some(further),
            }
            after = figures::metrics(arm).await;
            let is_enough = |after: &Metrics| figures::is_of_this_cell(before, after);
            if after.as_ref().is_some_and(is_enough) {
                break;
            }
            after = None;
        }
        let mut phase = self.phase(recording.context("nothing was measured")?);
        if let Some(after) = after {
            figures::add_hedging(&mut phase, before, &after);
            figures::add_prediction(&mut phase, &after);
        }
        Ok(phase)
    }

    fn phase(&self, recording: Recording) -> Phase {
        recording.into_phase_at_cost(&KINDS, Some(self.time_out))
    }

    /// Waits until point reads sent straight to the nodes are quick again.
    async fn settle(&self, direct: &Open, report: &mut Report) {
        let Some(ycsb) = direct.ycsb(0) else {
            return;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let (began, mut quick) = (Instant::now(), 0);
        while quick < QUICK_IN_A_ROW {
            let left = self.settle_max.saturating_sub(began.elapsed());
            if left.is_zero() {
                let limit = self.settle_max.as_secs_f64();
                let note = format!("After a fault the nodes had not settled within {limit} s.");
                if !report.notes.contains(&note) {
                    report.notes.push(note);
                }
                return;
            }
            let sent = Instant::now();
            let answered = tokio::time::timeout(left, ycsb.call(0, &mut rng)).await;
            let outcome: Result<(), ErrorKind> =
                answered.map_or(Err("client timeout"), |(_, of)| of);
            let is_quick = outcome.is_ok() && sent.elapsed() <= QUICK;
            quick = if is_quick { quick + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[cfg(test)]
mod tests;
