//! The experiment `overhead`: what it costs to go through a proxy.
//!
//! Cells: reads and writes, each from one client at a time (closed loop), at a low fixed rate (open
//! loop) and with many clients (closed loop, saturation). Every arm asks the same table with the
//! same driver settings; the order of arms rotates from round to round.

use crate::endpoint::Endpoint;
use crate::idle::open_idle;
use crate::keys::Keys;
use crate::kv::{KeyValue, Table};
use crate::measure::Phase;
use crate::process::{self, Watched};
use crate::report::Report;
use crate::run::{Limit, Plan, run_closed, run_open};
use crate::spread::{geometric_mean, rotation};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::time::Duration;

pub const TOKEN_AWARE: &str = "direct-token-aware";
pub const ROUND_ROBIN: &str = "direct-round-robin";
pub const HELENUS: &str = "helenus";

/// The name under which a proxy's own process appears in a phase.
const PROXY_PROCESS: &str = "proxy";

/// A way to the data.
#[derive(Clone, Debug)]
pub struct Arm {
    pub endpoint: Endpoint,
    /// The proxy's process, if there is one on this machine.
    pub proxy_pid: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Overhead {
    pub table: Table,
    /// The first must be [`TOKEN_AWARE`], which the others are compared with.
    pub arms: Vec<Arm>,
    pub rounds: usize,
    /// Before the first round, for each arm.
    pub arm_warmup: Duration,
    pub cell_warmup: Duration,
    pub cell_time: Duration,
    pub low_rate_per_second: f64,
    pub saturation_clients: Vec<usize>,
    /// Idle clients opened per round; none: memory is not measured.
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
    fn name(self) -> String {
        match self.load {
            Load::Closed(clients) => format!("{}, {clients} clients", self.kind),
            Load::Open(rate) => format!("{}, {rate}/s", self.kind),
        }
    }
}

impl Overhead {
    /// Runs all rounds and fills `report`; `say` is told what happens next.
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
            say(format!("warming up {}", arm.endpoint.name));
            let keys = Keys::uniform(self.table.keys);
            let mixed = KeyValue::open(&arm.endpoint, &self.table, keys, 0.5, 1).await?;
            workloads.push(Arc::new(mixed));
        }
        // Two shorter turns each, so that the arm that happens to come first is not the one that
        // waits for the nodes' compiler.
        for turn in 0..2 {
            for arm in rotation(workloads.len(), turn) {
                let plan = Plan::new(64, Limit::Time(self.arm_warmup / 2));
                run_closed(&workloads[arm], &plan).await;
            }
        }
        for round in 0..self.rounds {
            for cell in self.cells() {
                for arm in rotation(self.arms.len(), round) {
                    let name = &self.arms[arm].endpoint.name;
                    say(format!(
                        "round {}/{}: {}: {name}",
                        round + 1,
                        self.rounds,
                        cell.name()
                    ));
                    let phase = self.measure(arm, &workloads[arm], cell, round).await;
                    report.add(name, &cell.name(), phase);
                }
            }
        }
        self.compare(report);
        Ok(())
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

    async fn measure(&self, arm: usize, mixed: &KeyValue, cell: Cell, round: usize) -> Phase {
        let read_share = if cell.kind == "read" { 1.0 } else { 0.0 };
        let workload = Arc::new(mixed.with_read_share(read_share));
        let mut plan = Plan::new(1, Limit::Time(self.cell_time));
        plan.warmup = self.cell_warmup;
        // The same keys in the same order for every arm of a round.
        plan.seed = self.seed.wrapping_add(round as u64);
        plan.watched = self.watched.clone();
        plan.watched.push(Watched::this_process());
        if let Some(pid) = self.arms[arm].proxy_pid {
            plan.watched.push(Watched::new(PROXY_PROCESS, pid));
        }
        match cell.load {
            Load::Closed(clients) => run_closed(&workload, &Plan { clients, ..plan }).await,
            Load::Open(rate) => run_open(&workload, rate, &plan).await,
        }
    }

    /// Measured on a proxy that has seen no load yet, and each round adds clients to those of the
    /// rounds before: memory freed by earlier work would otherwise be reused and cost nothing.
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
                ratio_key(arm, "memory_kib_per_idle_client"),
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
                report.set_ratio(ratio_key(arm, &key), &added);
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
                    report.set_ratio(ratio_key(arm, &key), &ratios);
                    by_cell.push(ratios);
                }
                let key = ratio_key(arm, &format!("throughput_vs_{suffix}"));
                report.set_ratio(key, &per_round(&by_cell, self.rounds));
            }
            if arm.proxy_pid.is_some() {
                let cpu = self.proxy_cpu_us_per_query(report, name, &full);
                report.set_ratio(ratio_key(arm, "cpu_us_per_query"), &cpu);
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
            ("replication factor", self.table.replication.to_string()),
            ("key distribution", "uniform".into()),
            ("seconds per cell", self.cell_time.as_secs_f64().to_string()),
            (
                "seconds of warm-up per cell",
                self.cell_warmup.as_secs_f64().to_string(),
            ),
            (
                "connections per host",
                self.arms[0].endpoint.connections_per_host.to_string(),
            ),
            (
                "consistency",
                format!("{:?}", self.arms[0].endpoint.consistency),
            ),
            ("idle clients per round", self.idle_clients.to_string()),
            ("seed", self.seed.to_string()),
        ];
        report
            .settings
            .extend(settings.map(|(name, value)| (name.to_owned(), value)));
        report.notes.push(
            "Client, proxies and nodes share this machine's cores: at saturation a proxy's CPU time \
             is taken from the nodes, which a proxy on its own machine would not do."
                .into(),
        );
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

/// Helenus's keys are the documented ones; other arms' carry their name in front.
fn ratio_key(arm: &Arm, key: &str) -> String {
    match arm.endpoint.name.as_str() {
        HELENUS => key.to_owned(),
        name => format!("{name}.{key}"),
    }
}

/// The geometric mean over cells, for each round that has them all.
fn per_round(by_cell: &[Vec<f64>], rounds: usize) -> Vec<f64> {
    (0..rounds)
        .filter_map(|round| {
            let cells: Option<Vec<f64>> = by_cell
                .iter()
                .map(|values| values.get(round).copied())
                .collect();
            geometric_mean(&cells?)
        })
        .collect()
}

#[cfg(test)]
mod tests;
