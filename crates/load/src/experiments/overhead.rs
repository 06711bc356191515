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
use crate::experiments::arms::{PROXY_PROCESS, describe, per_round, ratio_key, watched_with};
use crate::interleaved::{ArmRun, Interleaved, LoadModel};
use crate::process::{self, Watched};
use crate::report::Report;
use crate::run::{Limit, Plan, run_closed};
use crate::workload::keys::Keys;
use crate::workload::kv::{KeyValue, Mix, Table};
use anyhow::{Context, Result, ensure};
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

/// One cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    kind: &'static str,
    load: Load,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    Closed(usize),
    Open(f64),
}

impl Cell {
    fn mix(self) -> Mix {
        match self.kind {
            "read" => Mix::READS,
            _ => Mix::WRITES,
        }
    }

    /// An open loop is driven by its rate: one client is enough.
    fn clients(self) -> usize {
        match self.load {
            Load::Closed(clients) => clients,
            Load::Open(_) => 1,
        }
    }

    fn load_model(self) -> LoadModel {
        match self.load {
            Load::Closed(_) => LoadModel::Closed,
            Load::Open(rate) => LoadModel::Open(rate),
        }
    }

    fn name(self) -> String {
        match self.load {
            Load::Closed(clients) => format!("{}, {clients} clients", self.kind),
            Load::Open(rate) => format!("{}, {rate}/s", self.kind),
        }
    }
}

impl Overhead {
    /// Runs all rounds and fills `report`; `say` receives progress messages.
    pub async fn run(&self, report: &mut Report, say: &mut dyn FnMut(String)) -> Result<()> {
        let first = self.arms.first().context("no arms to compare")?;
        ensure!(
            first.endpoint.name == TOKEN_AWARE,
            "the first arm must be {TOKEN_AWARE}"
        );
        self.describe(report);
        self.measure_idle(report, say).await?;

        let mut workloads = Vec::new();
        for arm in &self.arms {
            let keys = Keys::uniform(self.table.keys);
            let mixed =
                KeyValue::open(&arm.endpoint, &self.table, keys, Mix::of_reads(0.5), 1).await?;
            workloads.push(Arc::new(mixed));
        }
        self.warm_up(&workloads, say).await;
        for round in 0..self.rounds {
            for cell in self.cells() {
                let what = format!("round {}/{}: {}", round + 1, self.rounds, cell.name());
                say(what);
                self.measure(&workloads, cell, round, report).await;
            }
        }
        self.compare(report);
        Ok(())
    }

    /// In many short turns, so that JIT warm-up of the nodes is not charged to the first arm.
    async fn warm_up(&self, workloads: &[Arc<KeyValue>], say: &mut dyn FnMut(String)) {
        let turns = self.warmup.as_secs_f64() / WARMUP_TURN.as_secs_f64();
        for turn in 0..turns.ceil() as usize {
            let arm = turn % workloads.len();
            say(format!("warming up: {}", self.arms[arm].endpoint.name));
            let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(WARMUP_TURN));
            run_closed(&workloads[arm], &plan).await;
        }
    }

    async fn measure(
        &self,
        workloads: &[Arc<KeyValue>],
        cell: Cell,
        round: usize,
        report: &mut Report,
    ) {
        let arm_run = |arm: usize| ArmRun {
            workload: Arc::new(workloads[arm].with_mix(cell.mix())),
            watched: watched_with(&self.watched, self.arms[arm].proxy_pid),
        };
        let arms: Vec<ArmRun<KeyValue>> = (0..self.arms.len()).map(arm_run).collect();
        let (slices, slice, warmup) = if is_saturating(&cell) {
            let slices = self.cell_time.as_secs_f64() / FULL_SLICE.as_secs_f64();
            (
                slices.ceil().max(1.0) as usize,
                FULL_SLICE,
                FULL_SLICE_WARMUP,
            )
        } else {
            (self.slices, SLICE - SLICE_WARMUP, SLICE_WARMUP)
        };
        let interleaved = Interleaved {
            clients: cell.clients(),
            load: cell.load_model(),
            time: slice * slices as u32,
            slices,
            warmup_first: warmup,
            warmup,
            seed: self.seed,
            progress: Arc::default(),
        };
        let phases = interleaved.round(&arms, round, &mut |_| ()).await;
        for (arm, phase) in self.arms.iter().zip(phases) {
            report.add(&arm.endpoint.name, &cell.name(), phase);
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let mut loads = vec![Load::Closed(1), Load::Open(self.low_rate_per_second)];
        loads.extend(
            self.saturation_clients
                .iter()
                .map(|&clients| Load::Closed(clients)),
        );
        let with = |kind| loads.iter().map(move |&load| Cell { kind, load });
        with("read").chain(with("write")).collect()
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
                arm.endpoint.name, self.idle_clients, self.rounds
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
            report.set_ratio(
                ratio_key(&arm.endpoint.name, "memory_kib_per_idle_client"),
                &kib_per_client,
            );
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    fn compare(&self, report: &mut Report) {
        let low: Vec<Cell> = self
            .cells()
            .into_iter()
            .filter(|cell| !is_saturating(cell))
            .collect();
        let full: Vec<Cell> = self.cells().into_iter().filter(is_saturating).collect();
        for arm in self.arms.iter().skip(1) {
            let name = &arm.endpoint.name;
            for cell in &low {
                let added = report.compare(name, TOKEN_AWARE, &cell.name(), |one, direct| {
                    one.latency.us_p50 as f64 - direct.latency.us_p50 as f64
                });
                let key = match (cell.kind, cell.load) {
                    ("read", Load::Closed(_)) => "added_latency_us_p50".to_owned(),
                    (kind, Load::Closed(_)) => format!("added_latency_us_p50_{kind}"),
                    (kind, Load::Open(_)) => format!("added_latency_us_p50_{kind}_open"),
                };
                report.set_ratio(ratio_key(name, &key), &added);
            }
            for baseline in [TOKEN_AWARE, ROUND_ROBIN] {
                let suffix = baseline.trim_start_matches("direct-").replace('-', "_");
                if name == baseline {
                    continue;
                }
                let mut by_cell = Vec::new();
                for cell in &full {
                    let ratios = report.compare(name, baseline, &cell.name(), |one, direct| {
                        one.ops_per_second / direct.ops_per_second
                    });
                    let Load::Closed(clients) = cell.load else {
                        continue;
                    };
                    let key = format!("throughput_vs_{suffix}_{}_{clients}", cell.kind);
                    report.set_ratio(ratio_key(name, &key), &ratios);
                    by_cell.push(ratios);
                }
                let values = per_round(self.rounds, &by_cell, |cell, round| {
                    cell.get(round).copied()
                });
                let key = ratio_key(name, &format!("throughput_vs_{suffix}"));
                report.set_ratio(key, &values);
            }
            if arm.proxy_pid.is_some() {
                let cpu = self.proxy_cpu_us_per_query(report, name, &full);
                report.set_ratio(ratio_key(name, "cpu_us_per_query"), &cpu);
            }
        }
    }

    /// The proxy's CPU time over all saturated cells of a round, divided by their queries.
    fn proxy_cpu_us_per_query(&self, report: &Report, arm: &str, cells: &[Cell]) -> Vec<f64> {
        (0..self.rounds)
            .map(|round| {
                let (mut cpu_seconds, mut queries) = (0.0, 0);
                for cell in cells {
                    let Some(phase) = report.phases(arm, &cell.name()).get(round) else {
                        continue;
                    };
                    let Some(proxy) = phase.processes.get(PROXY_PROCESS) else {
                        continue;
                    };
                    cpu_seconds += proxy.cpu_seconds;
                    queries += phase.ops + phase.errors_total();
                }
                cpu_seconds * 1e6 / queries as f64
            })
            .collect()
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

fn is_saturating(cell: &Cell) -> bool {
    matches!(cell.load, Load::Closed(clients) if clients > 1)
}

#[cfg(test)]
mod tests;
