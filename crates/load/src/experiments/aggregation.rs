//! The experiment `aggregation`: the gain from packing many clients' queries into few frames.
//!
//! It repeats the evaluation of the paper on query aggregation by a proxy (asynchronous INSERTs of
//! 20-byte items on three nodes, aggregation windows of 0 to 30 µs, against a round-robin and a
//! token-aware client) and adds reads, YCSB A to C, tail latency at equal offered rate, a thousand
//! small clients, hot keys, and compare-and-set on one row.
//!
//! Every cell is measured on all of its arms one after another, in an order that rotates with each
//! round; all arms use the same tables, the same client and the same keys. A proxy's system calls
//! and frames are scraped before and after a phase and so include the phase's warm-up.

use crate::client::ClientKind;
use crate::experiments::arms::{Arm, check, watched_with};
use crate::experiments::prepare::turns;
use crate::interleaved::{LoadModel, record};
use crate::measure::Phase;
use crate::report::Report;
use crate::run::{Limit, Plan, run_closed};
use crate::scrape::Metrics;
use crate::workload::cas::Cas;
use crate::workload::keys::Keys;
use crate::workload::kv::{KeyValue, Mix};
use crate::workload::ycsb::{Core, Ycsb};
use anyhow::{Context, Result};
use cells::{Job, What};
use experiment::CAS_CLIENTS;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod cells;
mod declared;
mod experiment;

pub use crate::experiments::arms::{HELENUS, MERGED, ROUND_ROBIN, TOKEN_AWARE};
pub use cells::CELL_KINDS;
pub use experiment::{Aggregation, Contender, Part};

const CAS_TIME_MIN: Duration = Duration::from_secs(2);
/// The share of all reads that go to the viral key.
const VIRAL_SHARE: f64 = 0.5;
/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(2);

/// An arm's sessions.
struct ArmSessions {
    kv: Arc<KeyValue>,
    ycsb: Option<Arc<Ycsb>>,
    many: Option<Arc<KeyValue>>,
    cas: Option<Arc<Cas>>,
}

impl Aggregation {
    /// Creates and fills the tables. `say` receives progress messages.
    pub async fn prepare(&self, say: &mut dyn FnMut(String)) -> Result<()> {
        check(self.arms(), &[TOKEN_AWARE, ROUND_ROBIN])?;
        self.check_cells()?;
        let endpoint = &self.arms[0].arm.endpoint;
        let session = endpoint.connect().await?;
        self.table.create(&session).await?;
        self.counters.create(&session).await?;
        self.users.create(endpoint).await?;
        say(format!("filling {} rows", self.table.keys));
        self.table.fill(endpoint, 128, Arc::default()).await?;
        say(format!("filling {} records of YCSB", self.users.records));
        self.users.fill(endpoint, Arc::default()).await
    }

    /// Runs all rounds and fills `report`; [`Self::prepare`] comes first.
    pub async fn run(&self, report: &mut Report, say: &mut dyn FnMut(String)) -> Result<()> {
        let mut open = Vec::new();
        for contender in &self.arms {
            say(format!("connecting to {}", contender.arm.name()));
            open.push(self.open(contender).await?);
        }
        for (arm, _) in turns(self.warmup, WARMUP_TURN, open.len(), 0) {
            say(format!("warming up: {}", self.arms[arm].arm.name()));
            run_closed(&open[arm].kv, &Plan::new(128, Limit::Time(WARMUP_TURN))).await;
        }
        self.describe(report);
        let experiment = self.declared();
        let phases: usize = experiment.cells.iter().map(|cell| cell.arms.len()).sum();
        let mut phases_left = phases * self.rounds;
        let measured = experiment.measure(report, say, async |cell, round, report, say| {
            let job = &cell.job;
            // All arms of the round have the same time and rate.
            let time = self.fitting_cell_time(phases_left);
            let load = self.load_model(job, report);
            phases_left = phases_left.saturating_sub(cell.arms.len());
            for arm in cell.turns(round) {
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(ControlFlow::Break(format!(
                        "The time was up in round {} at the cell {}: later cells of that round are \
                         missing.",
                        round + 1,
                        cell.name
                    )));
                }
                say(experiment.turn(cell, arm, round));
                let name = experiment.arms[arm].name();
                let phase = self.measure(arm, &open[arm], job, load, time, round).await;
                let phase = phase.with_context(|| format!("{name}, {}", cell.name))?;
                report.add(name, &cell.name, phase);
            }
            Ok(ControlFlow::Continue(()))
        });
        measured.await?;
        self.finish(report);
        Ok(())
    }

    async fn open(&self, contender: &Contender) -> Result<ArmSessions> {
        let Contender { arm, part } = contender;
        let keys = || Keys::uniform(self.table.keys);
        let mix = Mix::of_reads(0.5);
        let kv = KeyValue::open(&arm.endpoint, &self.table, keys(), mix, 1).await?;
        let mut open = ArmSessions {
            kv: Arc::new(kv),
            ycsb: None,
            many: None,
            cas: None,
        };
        if matches!(part, Part::All | Part::Throughput) {
            let (driver, shape) = (ClientKind::Driver, Core::C.shape());
            let ycsb = Ycsb::open(driver, &arm.endpoint, &self.users, shape, 0, 1).await?;
            open.ycsb = Some(Arc::new(ycsb));
        }
        if *part == Part::All {
            let (raw, count) = (ClientKind::Raw, self.many_clients);
            let many = KeyValue::open_as(raw, &arm.endpoint, &self.table, keys(), mix, count);
            open.many = Some(Arc::new(many.await?));
        }
        if matches!(part, Part::All | Part::Cas) {
            let cas = Cas::open(&arm.endpoint, &self.counters, CAS_CLIENTS).await?;
            open.cas = Some(Arc::new(cas));
        }
        Ok(open)
    }

    /// The configured time of a cell, or less if the remaining time divided by the remaining phases
    /// is less. Computed anew for each cell, because the overhead of a phase is not known
    /// beforehand.
    fn fitting_cell_time(&self, phases: usize) -> Duration {
        let Some(until) = self.until else {
            return self.cell_time;
        };
        let left = until.saturating_duration_since(Instant::now());
        let each = left.div_f64(phases.max(1) as f64);
        // Time for starting and ending a phase.
        let phase_overhead = self.cell_warmup + Duration::from_millis(60);
        let shortest = Duration::from_millis(300);
        each.saturating_sub(phase_overhead)
            .clamp(shortest, self.cell_time.max(shortest))
    }

    fn load_model(&self, job: &Job, report: &Report) -> LoadModel {
        match job.what {
            What::SameRate(kind) => LoadModel::Open(self.same_rate(report, kind)),
            _ => LoadModel::Closed,
        }
    }

    async fn measure(
        &self,
        arm: usize,
        open: &ArmSessions,
        job: &Job,
        load: LoadModel,
        cell_time: Duration,
        round: usize,
    ) -> Result<Phase> {
        let Arm {
            proxy_pid, admin, ..
        } = self.arms[arm].arm;
        // Fifty clients on one row achieve few successes per second.
        let time = match job.what {
            What::Cas(_) => cell_time.max(CAS_TIME_MIN),
            _ => cell_time,
        };
        let mut plan = Plan::new(job.clients, Limit::Time(time));
        plan.warmup = self.cell_warmup;
        // Every arm of a round gets the same keys in the same order.
        plan.seed = self.seed.wrapping_add(round as u64);
        plan.watched = watched_with(&self.watched, proxy_pid);
        let metrics = match admin {
            Some(admin) => Metrics::of(admin).await.ok(),
            None => None,
        };
        let mut phase = self.perform(open, job, load, &plan, arm, round).await?;
        if let LoadModel::Open(rate) = load {
            phase.extra.insert("offered_per_second".into(), rate);
        }
        // If the metrics page cannot be read, figures are missing; the experiment goes on.
        if let (Some(before), Some(admin)) = (metrics, admin)
            && let Ok(after) = Metrics::of(admin).await
        {
            cells::add_metrics(&mut phase, &after.since(&before));
        }
        Ok(phase)
    }

    async fn perform(
        &self,
        open: &ArmSessions,
        job: &Job,
        load: LoadModel,
        plan: &Plan,
        arm: usize,
        round: usize,
    ) -> Result<Phase> {
        let keyed = |keys: Keys| Arc::new(open.kv.with_keys(keys).with_mix(Mix::READS));
        let kv = match job.what {
            What::KeyValue(kind) | What::SameRate(kind) => Arc::new(open.kv.with_mix(kind.mix())),
            What::ManyClients(kind) => {
                let many = open.many.as_ref().context("it has no plain connections")?;
                Arc::new(many.with_mix(kind.mix()))
            }
            What::HotZipf => keyed(Keys::zipfian(self.table.keys)),
            What::HotViral => keyed(Keys::uniform(self.table.keys).with_hot_key(VIRAL_SHARE)),
            What::Ycsb(core) => {
                let ycsb = open.ycsb.as_ref().context("it has no YCSB session")?;
                let ycsb = Arc::new(ycsb.with_shape(core.shape(), 0));
                let recording = record(&ycsb, load, plan).await;
                return Ok(recording.into_phase(&crate::workload::ycsb::KINDS));
            }
            What::Cas(learns) => {
                let cas = open
                    .cas
                    .as_ref()
                    .context("it has no compare-and-set session")?;
                let row = 2 * (round * self.arms.len() + arm) + learns as usize;
                cas.begin(row as i64, learns).await?;
                let recording = record(cas, load, plan).await;
                let mut phase = recording.into_phase(&crate::workload::cas::KINDS);
                cells::add_balance(&mut phase, cas.balance().await?);
                return Ok(phase);
            }
        };
        let recording = record(&kv, load, plan).await;
        Ok(recording.into_phase(&crate::workload::kv::KINDS))
    }
}

#[cfg(test)]
mod tests;
