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

use crate::experiments::arms::{Arm, JAVA, TOKEN_AWARE, check, watched_with};
use crate::experiments::experiment::{Cell, Measured, Took};
use crate::experiments::prepare;
use crate::measure::Phase;
use crate::recording::Recording;
use crate::report::Report;
use crate::run::{Limit, Plan, record_closed};
use crate::scrape::Metrics;
use crate::workload::Workload;
use crate::workload::ycsb::{KINDS, RequestDistribution, Shape, Ycsb};
use anyhow::{Context, Result, ensure};
use declared::{Job, Load};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use scylla::statement::Consistency;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

mod declared;
mod describe;
mod disturb;
mod experiment;
mod figures;
mod open;

pub use declared::ASSIGNMENT_KEYS;
pub use experiment::{Assignment, Faults, Scenario};
pub use open::Open;

/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(2);
const WARMUP_CLIENTS: usize = 32;
/// An open loop does not depend on it.
const OPEN_CLIENTS: usize = 16;
/// The nodes have settled when point reads take no longer.
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
        check(self.arms.iter(), &[TOKEN_AWARE])?;
        ensure!(!self.levels.is_empty(), "no consistency level is given");
        let endpoint = &self.arms.first().context("no arms to compare")?.endpoint;
        self.users.create(endpoint).await?;
        say(format!("filling {} records", self.users.records));
        // Reads at ONE find them on any replica.
        let everywhere = endpoint.at(Consistency::All);
        self.users.fill(&everywhere, Arc::default()).await?;
        let mut open: Vec<Open> = Vec::new();
        for arm in &self.arms {
            say(format!("connecting to {}", arm.endpoint.name));
            let of_arm = Open::of(self, arm, open.first()).await;
            open.push(of_arm.with_context(|| arm.endpoint.name.clone())?);
        }
        // Every arm as often as the others, with reads and scans.
        for (arm, before) in prepare::turns(self.warmup, WARMUP_TURN, open.len(), 2) {
            let name = self.arms[arm].name();
            say(format!("warming up: {name}"));
            let is_scan = before % 2 == 1;
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
        let (experiment, mut took) = (self.declared(), Took::new());
        for round in 0..self.rounds {
            for &scenario in &self.scenarios {
                match scenario {
                    Scenario::Stressed => faults.stress()?,
                    Scenario::SlowDisk => faults.flush(&self.users.keyspace)?,
                    _ => {}
                }
                let is_chosen = |job: &Job| job.scenario == scenario;
                let measure = async |cell: &Cell<Job>,
                                     round: usize,
                                     report: &mut Report,
                                     say: &mut dyn FnMut(String)|
                       -> Measured {
                    for arm in cell.turns(round) {
                        say(experiment.turn(cell, arm, round));
                        let (name, job) = (experiment.arms[arm].name(), &cell.job);
                        let phase = self.measure(arm, &open[arm], job, round, faults).await;
                        let phase = phase.with_context(|| format!("{name}, {}", cell.name))?;
                        report.add(name, &cell.name, phase);
                        if job.load == Load::Fault {
                            self.settle(&open[0], report).await;
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                };
                let all = experiment.round(round, is_chosen, &mut took, report, say, measure);
                let _ = all.await?;
                if scenario == Scenario::Stressed {
                    faults.relax()?;
                    self.settle(&open[0], report).await;
                }
            }
        }
        experiment.finish(report);
        Ok(())
    }

    async fn measure(
        &self,
        arm: usize,
        open: &Open,
        job: &Job,
        round: usize,
        faults: &mut dyn Faults,
    ) -> Result<Phase> {
        let arm = &self.arms[arm];
        let before = figures::metrics(arm).await;
        let recording = match job.load {
            Load::Reads(clients) => {
                let plan = self.plan(arm, round, clients, self.cell_time);
                open.record(job.level, false, None, &plan).await?
            }
            Load::Scans(clients) => {
                let plan = self.plan(arm, round, clients, self.cell_time);
                open.record(job.level, true, None, &plan).await?
            }
            Load::Mixed => {
                let ycsb = open.ycsb(job.level).context("of another program")?;
                let before = before.as_ref().context("its metrics cannot be read")?;
                return self.predicted(arm, ycsb, round, before).await;
            }
            Load::Steady | Load::Fault => {
                let plan = self.plan(arm, round, OPEN_CLIENTS, self.open_time(job));
                self.open_loop(open, &plan, job, round, faults).await?
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
        let ask = async |_: usize| ycsb.call(0, &mut rng).await.1.is_ok();
        if !prepare::settle(self.settle_max, QUICK, ask).await {
            let limit = self.settle_max.as_secs_f64();
            report.note(format!(
                "After a fault the nodes had not settled within {limit} s."
            ));
        }
    }
}

#[cfg(test)]
mod tests;
