//! The experiment `storage`: writes to one node, by the disk that it has.
//!
//! The node's disk is used as it is, or held back so that it is about as slow as a rotating one;
//! [`Throttle`] switches between the two while the node runs, so data, caches and compiled code are
//! the same. Per round both disks have a turn, in an order that rotates; within it the arms take
//! turns in slices. After each switch some time passes unmeasured, until what was queued for the
//! other disk is done.
//!
//! Writes have to wait for the disk, or it would make no difference within minutes: the node's
//! commit log is synced before a write is answered (`commitlog_sync: batch`), unless the settings
//! say otherwise.
//!
//! Repeats: Jamal, Nayyar, table of storage: a hard disk against a solid-state one, 10 threads.

use crate::experiments::arms::{Arm, HELENUS, TOKEN_AWARE, ratio_key, watched_with};
use crate::interleaved::{ArmRun, Interleaved, LoadModel};
use crate::measure::Phase;
use crate::process::Watched;
use crate::ramp::warmup::Warmup;
use crate::report::Report;
use crate::report::plot::bars;
use crate::report::spread::rotation;
use crate::run::{Limit, Plan, run_closed};
use crate::workload::keys::Keys;
use crate::workload::kv::{KeyValue, Mix, Table};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WARMUP_CLIENTS: usize = 10;
const WARMUP_WINDOW: Duration = Duration::from_secs(1);

/// How the node's disk is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    AsItIs,
    LikeHdd,
}

impl Disk {
    pub const ALL: [Disk; 2] = [Disk::AsItIs, Disk::LikeHdd];

    pub fn name(self) -> &'static str {
        match self {
            Self::AsItIs => "disk as it is",
            Self::LikeHdd => "disk like an HDD",
        }
    }
}

/// Switches the node's disk.
pub trait Throttle {
    /// # Errors
    /// If limits cannot be set here.
    fn set(&mut self, disk: Disk) -> Result<()>;
}

#[derive(Clone, Debug)]
pub struct Disks {
    pub table: Table,
    pub arms: Vec<Arm>,
    pub clients: Vec<usize>,
    pub rounds: usize,
    /// Measured time per arm, disk, number of clients and round.
    pub cell_time: Duration,
    pub slices: usize,
    pub warmup_max: Duration,
    /// After each switch of the disk.
    pub settling: Duration,
    pub seed: u64,
}

impl Disks {
    pub async fn run(
        &self,
        throttle: &mut dyn Throttle,
        watched: &[Watched],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let runs = self.prepare(watched, say).await?;
        self.warm_up(&runs, say).await;
        for round in 0..self.rounds {
            for turn in rotation(Disk::ALL.len(), round) {
                let disk = Disk::ALL[turn];
                throttle.set(disk)?;
                self.settle(&runs).await;
                for &clients in &self.clients {
                    let cell = cell(disk, clients);
                    let mut on_turn = |arm: usize| {
                        say(format!("{cell}: {}", self.arms[arm].endpoint.name));
                    };
                    let plan = self.interleaved(clients);
                    let phases = plan.round(&runs, round, &mut on_turn).await;
                    for (arm, phase) in self.arms.iter().zip(phases) {
                        report.add(&arm.endpoint.name, &cell, phase);
                    }
                }
            }
        }
        throttle.set(Disk::AsItIs)?;
        self.finish(report);
        Ok(())
    }

    async fn prepare(
        &self,
        watched: &[Watched],
        say: &mut dyn FnMut(String),
    ) -> Result<Vec<ArmRun<KeyValue>>> {
        let first = self.arms.first().context("no arms to compare")?;
        self.table.create(&first.endpoint.connect().await?).await?;
        say(format!("filling {} rows", self.table.keys));
        self.table.fill(&first.endpoint, 64, Arc::default()).await?;
        let mut runs = Vec::new();
        for arm in &self.arms {
            let keys = Keys::uniform(self.table.keys);
            let opened = KeyValue::open(&arm.endpoint, &self.table, keys, Mix::WRITES, 1).await;
            runs.push(ArmRun {
                workload: Arc::new(opened.with_context(|| arm.endpoint.name.clone())?),
                watched: watched_with(watched, arm.proxy_pid),
            });
        }
        Ok(runs)
    }

    /// All arms in turn, until throughput no longer rises by itself.
    async fn warm_up(&self, runs: &[ArmRun<KeyValue>], say: &mut dyn FnMut(String)) {
        let began = Instant::now();
        let mut warmups = vec![Warmup::default(); runs.len()];
        while began.elapsed() < self.warmup_max && !warmups.iter().all(Warmup::has_settled) {
            for (run, warmup) in runs.iter().zip(&mut warmups) {
                let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(WARMUP_WINDOW));
                let phase = run_closed(&run.workload, &plan).await;
                say(format!("warming up: {:.0} writes/s", phase.ops_per_second));
                warmup.on_window(phase.ops_per_second);
            }
        }
    }

    async fn settle(&self, runs: &[ArmRun<KeyValue>]) {
        if let Some(run) = runs.first() {
            let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(self.settling));
            run_closed(&run.workload, &plan).await;
        }
    }

    fn interleaved(&self, clients: usize) -> Interleaved {
        Interleaved {
            clients,
            load: LoadModel::Closed,
            time: self.cell_time,
            slices: self.slices,
            warmup_first: Duration::from_millis(500),
            warmup: Duration::from_millis(200),
            seed: self.seed,
            progress: Arc::default(),
        }
    }

    /// The ratios are of the first number of clients, which is the paper's by default.
    fn finish(&self, report: &mut Report) {
        let Some(&clients) = self.clients.first() else {
            return;
        };
        let (fast, slow) = (cell(Disk::AsItIs, clients), cell(Disk::LikeHdd, clients));
        for arm in &self.arms {
            let name = &*arm.endpoint.name;
            for (key, of) in [
                ("ssd_vs_hdd_writes", ops as fn(&Phase) -> f64),
                ("ssd_vs_hdd_latency", mean),
                ("ssd_vs_hdd_p99", p99),
            ] {
                let phases = report.phases(name, &fast).iter();
                let pairs = phases.zip(report.phases(name, &slow));
                let ratios: Vec<f64> = pairs.map(|(fast, slow)| of(fast) / of(slow)).collect();
                report.set_ratio(ratio_key(name, key), &ratios);
            }
        }
        for (disk, key) in [
            (Disk::AsItIs, "writes_vs_direct"),
            (Disk::LikeHdd, "hdd_writes_vs_direct"),
        ] {
            let cell = cell(disk, clients);
            let ratios = report.compare(HELENUS, TOKEN_AWARE, &cell, |helenus, direct| {
                ops(helenus) / ops(direct)
            });
            report.set_ratio(key, &ratios);
        }
        let arms: Vec<&str> = self.arms.iter().map(|arm| &*arm.endpoint.name).collect();
        let cells: Vec<String> = self
            .clients
            .iter()
            .flat_map(|&clients| Disk::ALL.map(|disk| cell(disk, clients)))
            .collect();
        let charts = [
            bars(report, &arms, ("Writes", "writes/s"), &cells, &|phase| {
                Some(ops(phase))
            }),
            bars(report, &arms, ("Mean latency", "ms"), &cells, &|phase| {
                Some(mean(phase) / 1000.0)
            }),
            bars(report, &arms, ("99th percentile", "ms"), &cells, &|phase| {
                Some(p99(phase) / 1000.0)
            }),
        ];
        report.charts = charts.into_iter().flatten().collect();
    }
}

pub fn cell(disk: Disk, clients: usize) -> String {
    format!("{}, {clients} clients", disk.name())
}

fn ops(phase: &Phase) -> f64 {
    phase.ops_per_second
}

fn mean(phase: &Phase) -> f64 {
    phase.latency.us_mean
}

fn p99(phase: &Phase) -> f64 {
    phase.latency.us_p99 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::endpoint::{Endpoint, Policy};
    use crate::measure::Recorder;
    use crate::report::machine::Machine;

    #[test]
    fn a_disk_that_is_slower_has_fewer_writes_and_longer_ones() {
        let arm = |name: &str| Arm {
            endpoint: Endpoint::new(name, vec!["127.0.0.1:1".into()], Policy::TokenAware),
            proxy_pid: None,
            admin: None,
        };
        let experiment = Disks {
            table: Table {
                keyspace: "k".into(),
                table: "t".into(),
                replication: 1,
                keys: 10,
                value_bytes: 12,
            },
            arms: vec![arm(TOKEN_AWARE), arm(HELENUS)],
            clients: vec![10, 40],
            rounds: 2,
            cell_time: Duration::from_secs(1),
            slices: 1,
            warmup_max: Duration::ZERO,
            settling: Duration::ZERO,
            seed: 1,
        };
        let mut report = Report::new("storage", String::new(), Machine::default(), 2);
        let mut measured = |arm: &str, disk, ops, ms| {
            let mut recorder = Recorder::new(1);
            recorder.record_times(0, Duration::from_millis(ms), ops);
            let phase = recorder.into_phase(&["write"], Duration::from_secs(1), None);
            report.add(arm, &cell(disk, 10), phase);
        };
        for round in 1..=2 {
            measured(TOKEN_AWARE, Disk::AsItIs, 2000 * round, 5);
            measured(TOKEN_AWARE, Disk::LikeHdd, 800 * round, 12);
            measured(HELENUS, Disk::AsItIs, 3000 * round, 4);
            measured(HELENUS, Disk::LikeHdd, 1000 * round, 10);
        }
        experiment.finish(&mut report);
        let median = |key: &str| report.ratios[key].median;
        assert_eq!(median("direct-token-aware.ssd_vs_hdd_writes"), 2.5);
        assert_eq!(median("ssd_vs_hdd_writes"), 3.0);
        assert!((median("ssd_vs_hdd_latency") - 0.4).abs() < 0.001);
        assert_eq!(median("writes_vs_direct"), 1.5);
        assert_eq!(median("hdd_writes_vs_direct"), 1.25);
        assert_eq!(report.charts.len(), 3);
        assert!(report.charts[0].contains("disk like an HDD, 10 clients"));
    }
}
