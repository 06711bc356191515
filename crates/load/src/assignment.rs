//! The experiment `assignment`: which of its replicas answers a read.
//!
//! It repeats the evaluation of the paper on resource-based assignment (rows of ten columns of 100
//! bytes, Zipf-distributed keys, replication 3, only reads or only scans of up to 1,000 rows, with and
//! without stress on every second node) scaled to one machine, and adds QUORUM, more clients, and a
//! node that stands still for a while, or whose network is slow.
//!
//! - **Alike for all arms.** The same table, driver, keys and warm-up. An arm's cell runs to its end
//!   before the next arm's turn, and the order of arms rotates with each round. A fault outlasts the
//!   turns of all arms, or is repeated for each of them.
//! - **Stress** is CPU and memory work inside the CPU limit of the stressed nodes, so it takes nothing
//!   from other nodes, proxies and clients.
//! - **A frozen or distant node** is measured in an open loop: in a closed one, all clients would soon wait for
//!   that node, and few requests would show it.
//! - **Failures cost time.** In the compared percentiles a failed request counts with the client's
//!   time-out.

use crate::arms::{TOKEN_AWARE, watched_with};
use crate::client::ClientKind;
use crate::measure::{ErrorKind, Phase};
use crate::recording::Recording;
use crate::report::Report;
use crate::run::{Limit, Plan, record_closed, record_open, run_closed};
use crate::spread::rotation;
use crate::workload::Workload;
use crate::ycsb::{Core, KINDS, RequestDistribution, Shape, Ycsb};
use anyhow::{Context, Result, ensure};
use cells::{Cell, Job};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod cells;
mod compare;
mod experiment;
mod plots;

pub use compare::{ASSIGNMENT_KEYS, latency};
pub use experiment::{Assignment, Faults, Scenario};

/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(2);
const WARMUP_CLIENTS: usize = 32;
/// An open loop does not depend on it.
const OPEN_CLIENTS: usize = 16;
/// The nodes have settled when so many point reads in a row have each taken no longer than [`QUICK`].
const QUICK_IN_A_ROW: usize = 20;
const QUICK: Duration = Duration::from_millis(50);
/// The default page size of drivers.
const PAGE_ROWS: i32 = 5_000;
const SCANS: Shape = Shape {
    shares: [0.0, 0.0, 0.0, 1.0, 0.0],
    request: RequestDistribution::Zipfian,
};

/// An arm's sessions, one for each consistency level.
type Open = Vec<Arc<Ycsb>>;

impl Assignment {
    /// Creates and fills the table, and warms all arms up alike.
    pub async fn prepare(&self, say: &mut dyn FnMut(String)) -> Result<Vec<Open>> {
        self.check()?;
        let endpoint = &self.arms.first().context("no arms to compare")?.endpoint;
        self.users.create(endpoint).await?;
        say(format!("filling {} records", self.users.records));
        self.users.fill(endpoint, Arc::default()).await?;
        let mut open = Vec::new();
        for arm in &self.arms {
            say(format!("connecting to {}", arm.endpoint.name));
            let mut levels = Vec::new();
            for &consistency in &self.levels {
                let mut endpoint = arm.endpoint.clone();
                endpoint.consistency = consistency;
                let (driver, shape) = (ClientKind::Driver, Core::C.shape());
                let ycsb = Ycsb::open(driver, &endpoint, &self.users, shape, 0, 1).await?;
                let ycsb = ycsb.paged(PAGE_ROWS).with_scan_rows(self.scan_rows_max);
                levels.push(Arc::new(ycsb));
            }
            open.push(levels);
        }
        let turns = self.warmup.as_secs_f64() / WARMUP_TURN.as_secs_f64();
        // Every arm as often as the others, with reads and scans.
        let turns = (turns.ceil() as usize).next_multiple_of(2 * open.len());
        for turn in 0..turns {
            let arm = turn % open.len();
            let name = &self.arms[arm].endpoint.name;
            say(format!("warming up: {name}"));
            let ycsb = match turn / open.len() % 2 {
                0 => open[arm][0].clone(),
                _ => Arc::new(open[arm][0].with_shape(SCANS, 0)),
            };
            let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(WARMUP_TURN));
            let phase = run_closed(&ycsb, &plan).await;
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
        let mut took: BTreeMap<String, Duration> = BTreeMap::new();
        for round in 0..self.rounds {
            for &scenario in &self.scenarios {
                if scenario == Scenario::Stressed {
                    faults.stress()?;
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
                        let (arm_name, of) = (&self.arms[arm].endpoint.name, self.rounds);
                        say(format!("round {}/{of}: {name}: {arm_name}", round + 1));
                        let phase = self.measure(arm, &open[arm], &cell, round, faults).await;
                        let phase = phase.with_context(|| format!("{arm_name}, {name}"))?;
                        report.add(arm_name, &name, phase);
                        if matches!(cell.job, Job::Frozen | Job::SlowNetwork) {
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
        let ycsb = &open[cell.level];
        let plan = |clients, time| Plan {
            warmup: self.cell_warmup,
            // The same keys in the same order for every arm of a round.
            seed: self.seed.wrapping_add(round as u64),
            watched: watched_with(&self.watched, self.arms[arm].proxy_pid),
            ..Plan::new(clients, Limit::Time(time))
        };
        let rate = self.rate_per_second;
        let recording = match cell.job {
            Job::Reads(clients) => record_closed(ycsb, &plan(clients, self.cell_time)).await,
            Job::Scans(clients) => {
                let scans = Arc::new(ycsb.with_shape(SCANS, 0));
                record_closed(&scans, &plan(clients, self.cell_time)).await
            }
            Job::Steady => {
                let time = match cell.scenario {
                    Scenario::Frozen => self.freeze,
                    _ => self.cell_time,
                };
                record_open(ycsb, rate, &plan(OPEN_CLIENTS, time)).await
            }
            Job::SlowNetwork => {
                faults.slow_network(true)?;
                let plan = plan(OPEN_CLIENTS, self.cell_time);
                let recording = record_open(ycsb, rate, &plan).await;
                faults.slow_network(false)?;
                recording
            }
            Job::Frozen => {
                let plan = plan(OPEN_CLIENTS, 2 * self.around_freeze + self.freeze);
                let fault = async {
                    tokio::time::sleep(self.cell_warmup + self.around_freeze).await;
                    faults.freeze()?;
                    tokio::time::sleep(self.freeze).await;
                    faults.thaw()
                };
                let (recording, fault) = tokio::join!(record_open(ycsb, rate, &plan), fault);
                fault?;
                recording
            }
        };
        Ok(self.phase(recording))
    }

    fn phase(&self, recording: Recording) -> Phase {
        recording.into_phase_at_cost(&KINDS, Some(self.time_out))
    }

    /// Waits until point reads sent straight to the nodes are quick again.
    async fn settle(&self, direct: &Open, report: &mut Report) {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let (began, mut quick) = (Instant::now(), 0);
        while quick < QUICK_IN_A_ROW {
            let left = self.settle_max.saturating_sub(began.elapsed());
            if left.is_zero() {
                report.notes.push(format!(
                    "After a fault the nodes had not settled within {} s.",
                    self.settle_max.as_secs_f64()
                ));
                return;
            }
            let sent = Instant::now();
            let answered = tokio::time::timeout(left, direct[0].call(0, &mut rng)).await;
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
