//! The experiment `overhead`: the cost of going through a proxy.
//!
//! Cells: reads and writes, each from one client (closed loop), at a low fixed rate (open loop) and
//! from many clients (closed loop, saturation). All arms use the same table and the same driver
//! settings; the order of arms rotates from round to round.
//!
//! The arms differ by tens of microseconds, or a few percent of throughput: less than a node drifts
//! within half a minute while its JIT compiler warms up and the machine does other things. Two
//! measures keep that drift out of the differences:
//!
//! - **Warm-up.** Before the first round all arms take turns of two seconds with 128 clients, long
//!   enough that the nodes have compiled what the cells use.
//! - **Slices.** A cell is not one run per arm. Within a round the arms take turns in slices of 400
//!   ms at low load and 1.25 s at saturation, of which the first 50 and 250 ms are not recorded;
//!   the starting arm rotates. An arm's slices are merged into one histogram per round, so drift
//!   over seconds affects all arms alike. The `n`-th slices of all arms use the same keys in the
//!   same order.

use crate::client::idle::open_idle;
use crate::experiments::arms::{PROXY_PROCESS, check, describe, ratio_key};
use crate::experiments::experiment::{Cell, Experiment, named};
use crate::experiments::prepare::turns;
use crate::interleaved::{Interleaved, LoadModel};
use crate::process::{self, Watched};
use crate::report::Report;
use crate::report::figures::{Figure, PER_SECOND};
use crate::report::ratios::{Ratios, Side, Value};
use crate::run::{Limit, Plan, run_closed};
use crate::workload::keys::Keys;
use crate::workload::kv::{KeyValue, Mix, Table};
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;

pub use crate::experiments::arms::{Arm, HELENUS, ROUND_ROBIN, TOKEN_AWARE};

/// One arm's turn in a low-load cell, and the part at its start that is not recorded.
pub const SLICE: Duration = Duration::from_millis(400);
pub const SLICE_WARMUP: Duration = Duration::from_millis(50);
/// Recorded part of one arm's turn in a saturated cell, and the warm-up before it: many clients
/// take a moment to ramp up after a change of arm.
const FULL_SLICE: Duration = Duration::from_secs(1);
const FULL_SLICE_WARMUP: Duration = Duration::from_millis(250);
/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(2);
const WARMUP_CLIENTS: usize = 128;

#[derive(Clone, Debug)]
pub struct Overhead {
    pub table: Table,
    /// The first must be [`TOKEN_AWARE`], the baseline.
    pub arms: Vec<Arm>,
    pub rounds: usize,
    /// Before the first round, for all arms together.
    pub warmup: Duration,
    /// Recorded time of a saturated cell.
    pub cell_time: Duration,
    /// Slices of length [`SLICE`] per arm and low-load cell.
    pub slices: usize,
    pub low_rate_per_second: f64,
    pub saturation_clients: Vec<usize>,
    /// Idle clients opened per round; 0: memory is not measured.
    pub idle_clients: usize,
    /// Further processes whose CPU time is recorded, such as the nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}

const P50_US: Figure = Figure::Of(|phase| Some(phase.latency.us_p50 as f64));
/// Of phases that a proxy's process was seen in.
const PROXY_CPU_TOTAL_US: Figure =
    Figure::Of(|phase| Some(phase.processes.get(PROXY_PROCESS)?.cpu_seconds * 1e6));
const PROXY_QUERIES: Figure = Figure::Of(|phase| {
    let has_proxy = phase.processes.contains_key(PROXY_PROCESS);
    has_proxy.then_some((phase.ops + phase.errors_total()) as f64)
});

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Job {
    kind: &'static str,
    load: LoadModel,
    /// An open loop is driven by its rate: one client is enough.
    clients: usize,
}

impl Job {
    fn name(self) -> String {
        match self.load {
            LoadModel::Closed => format!("{}, {} clients", self.kind, self.clients),
            LoadModel::Open(rate) => format!("{}, {rate}/s", self.kind),
        }
    }

    fn is_saturating(self) -> bool {
        self.clients > 1
    }
}

impl Overhead {
    /// # Errors
    /// The arms cannot be compared.
    pub fn check(&self) -> Result<()> {
        check(self.arms.iter(), &[TOKEN_AWARE])
    }

    /// Runs all rounds and fills `report`; `say` receives progress messages.
    pub async fn run(&self, report: &mut Report, say: &mut dyn FnMut(String)) -> Result<()> {
        self.check()?;
        self.describe(report);
        self.measure_idle(report, say).await?;

        let mut open = Vec::new();
        for arm in &self.arms {
            let (keys, mix) = (Keys::uniform(self.table.keys), Mix::of_reads(0.5));
            let mixed = KeyValue::open(&arm.endpoint, &self.table, keys, mix, 1).await?;
            open.push(Arc::new(mixed));
        }
        for (arm, _) in turns(self.warmup, WARMUP_TURN, open.len(), 0) {
            say(format!("warming up: {}", self.arms[arm].name()));
            let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(WARMUP_TURN));
            run_closed(&open[arm], &plan).await;
        }
        let experiment = self.declared();
        let measured = experiment.run(report, say, async |cell, round, report, say| {
            let plan = self.interleaved(&cell.job);
            let mix = match cell.job.kind {
                "read" => Mix::READS,
                _ => Mix::WRITES,
            };
            let mixed = |arm: usize| Arc::new(open[arm].with_mix(mix));
            let phases = experiment.in_slices(&plan, cell, round, mixed, report, say);
            phases.await
        });
        measured.await
    }

    fn interleaved(&self, job: &Job) -> Interleaved {
        let (slices, slice, warmup) = if job.is_saturating() {
            let slices = self.cell_time.as_secs_f64() / FULL_SLICE.as_secs_f64();
            (
                slices.ceil().max(1.0) as usize,
                FULL_SLICE,
                FULL_SLICE_WARMUP,
            )
        } else {
            (self.slices, SLICE - SLICE_WARMUP, SLICE_WARMUP)
        };
        Interleaved {
            clients: job.clients,
            load: job.load,
            time: slice * slices as u32,
            slices,
            warmup_first: warmup,
            warmup,
            seed: self.seed,
            progress: Arc::default(),
        }
    }

    fn declared(&self) -> Experiment<Job> {
        let closed = |&clients: &usize| (LoadModel::Closed, clients);
        let low = [closed(&1), (LoadModel::Open(self.low_rate_per_second), 1)];
        let loads = low
            .into_iter()
            .chain(self.saturation_clients.iter().map(closed));
        let with = |kind| {
            loads.clone().map(move |(load, clients)| Job {
                kind,
                load,
                clients,
            })
        };
        let jobs = with("read").chain(with("write"));
        let cells = jobs.map(|job| Cell::of_all(job.name(), job, self.arms.len()));
        let cells: Vec<Cell<Job>> = cells.collect();
        let ratios = self.ratios(&cells);
        Experiment {
            arms: self.arms.clone(),
            rounds: self.rounds,
            until: None,
            watched: self.watched.clone(),
            cells,
            ratios,
            // The page draws the cells itself.
            charts: Vec::new(),
        }
    }

    fn ratios(&self, cells: &[Cell<Job>]) -> Ratios {
        let (full, low): (Vec<&Cell<Job>>, Vec<&Cell<Job>>) =
            cells.iter().partition(|cell| cell.job.is_saturating());
        let all_full = named(cells, |job| job.is_saturating());
        let mut ratios = Ratios::default();
        for arm in self.arms.iter().skip(1) {
            let name = arm.name();
            let key = |key: &str| ratio_key(name, key);
            for cell in &low {
                let of = match (cell.job.kind, cell.job.load) {
                    ("read", LoadModel::Closed) => "added_latency_us_p50".to_owned(),
                    (kind, LoadModel::Closed) => format!("added_latency_us_p50_{kind}"),
                    (kind, LoadModel::Open(_)) => format!("added_latency_us_p50_{kind}_open"),
                };
                let side = |arm| Side::new(arm, std::slice::from_ref(&cell.name), P50_US);
                ratios.add(key(&of), Value::Raise(side(name), side(TOKEN_AWARE)));
            }
            for baseline in [TOKEN_AWARE, ROUND_ROBIN] {
                let suffix = baseline.trim_start_matches("direct-").replace('-', "_");
                let of = format!("throughput_vs_{suffix}");
                for Cell {
                    name: cell, job, ..
                } in &full
                {
                    let of_cell = key(&format!("{of}_{}_{}", job.kind, job.clients));
                    let cell = std::slice::from_ref(cell);
                    ratios.over(of_cell, name, baseline, cell, PER_SECOND);
                }
                ratios.over(key(&of), name, baseline, &all_full, PER_SECOND);
            }
            if arm.proxy_pid.is_some() {
                let side = |of| Side::new(name, &all_full, of);
                let cpu = Value::Share(side(PROXY_CPU_TOTAL_US), side(PROXY_QUERIES));
                ratios.add(key("cpu_us_per_query"), cpu);
            }
        }
        ratios
    }

    /// Measured on a proxy that has not seen load yet, with clients accumulating over the rounds:
    /// otherwise memory freed by earlier work would be reused and seem to cost nothing.
    async fn measure_idle(&self, report: &mut Report, say: &mut dyn FnMut(String)) -> Result<()> {
        if self.idle_clients == 0 {
            return Ok(());
        }
        for arm in &self.arms {
            let (Some(pid), Some(address)) = (arm.proxy_pid, arm.endpoint.contact_points.first())
            else {
                continue;
            };
            say(format!(
                "{}: {} idle clients, {} times",
                arm.name(),
                self.idle_clients,
                self.rounds
            ));
            let mut open = open_idle(address, 20).await?;
            let mut kib_per_client = Vec::new();
            for _ in 0..self.rounds {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let before = process::resident_kib(pid)?;
                open.extend(open_idle(address, self.idle_clients).await?);
                tokio::time::sleep(Duration::from_millis(500)).await;
                let grown = process::resident_kib(pid)?.saturating_sub(before);
                kib_per_client.push(grown as f64 / self.idle_clients as f64);
            }
            let key = ratio_key(arm.name(), "memory_kib_per_idle_client");
            report.set_ratio(key, &kib_per_client);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    fn describe(&self, report: &mut Report) {
        let settings = [
            ("keys", self.table.keys.to_string()),
            ("value bytes", self.table.value_bytes.to_string()),
            ("key distribution", "uniform".into()),
            (
                "seconds per saturated cell",
                self.cell_time.as_secs_f64().to_string(),
            ),
            (
                "low-load cells",
                format!(
                    "{} slices of {} ms per arm and round, the first {} ms of each not recorded",
                    self.slices,
                    SLICE.as_millis(),
                    SLICE_WARMUP.as_millis()
                ),
            ),
            (
                "seconds of warm-up before the first round",
                self.warmup.as_secs_f64().to_string(),
            ),
            ("idle clients per round", self.idle_clients.to_string()),
        ];
        let (endpoint, replication) = (&self.arms[0].endpoint, self.table.replication);
        describe(report, endpoint, replication, self.seed, settings);
        report.notes.push(
            "The same number of connections per host means that a driver opens more connections to \
             three nodes than to one proxy."
                .into(),
        );
    }
}

#[cfg(test)]
mod tests;
