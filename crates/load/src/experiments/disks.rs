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

use crate::experiments::arms::{Arm, HELENUS, TOKEN_AWARE, ratio_key};
use crate::experiments::experiment::{Cell, Experiment, Took, named};
use crate::experiments::prepare::{open_table, warm_up};
use crate::interleaved::Interleaved;
use crate::process::Watched;
use crate::report::Report;
use crate::report::chart::Chart;
use crate::report::figures::{Figure, P99_MS, P99_US, PER_SECOND};
use crate::report::ratios::{Ratios, Side, Value};
use crate::report::spread::rotation;
use crate::run::{Limit, Plan, run_closed};
use crate::workload::kv::{Mix, Table};
use anyhow::Result;
use std::time::Duration;

const WARMUP_CLIENTS: usize = 10;
const MEAN_US: Figure = Figure::Of(|phase| Some(phase.latency.us_mean));
const MEAN_MS: Figure = Figure::Of(|phase| Some(phase.latency.us_mean / 1000.0));

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

#[derive(Clone, Copy, Debug)]
struct Job {
    disk: Disk,
    clients: usize,
}

impl Disks {
    pub async fn run(
        &self,
        throttle: &mut dyn Throttle,
        watched: &[Watched],
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let open = open_table(&self.arms, &self.table, None, Mix::WRITES, say).await?;
        warm_up(&self.arms, &open, WARMUP_CLIENTS, self.warmup_max, say).await;
        let experiment = self.declared(watched);
        let mut took = Took::new();
        let mut measure = async |cell: &Cell<Job>,
                                 round: usize,
                                 report: &mut Report,
                                 say: &mut dyn FnMut(String)| {
            let plan =
                Interleaved::closed(cell.job.clients, self.cell_time, self.slices, self.seed);
            let sessions = |arm: usize| open[arm].clone();
            let phases = experiment.in_slices(&plan, cell, round, sessions, report, say);
            phases.await
        };
        for round in 0..self.rounds {
            for turn in rotation(Disk::ALL.len(), round) {
                let disk = Disk::ALL[turn];
                throttle.set(disk)?;
                if let Some(sessions) = open.first() {
                    let plan = Plan::new(WARMUP_CLIENTS, Limit::Time(self.settling));
                    run_closed(sessions, &plan).await;
                }
                let is_chosen = |job: &Job| job.disk == disk;
                let measure = &mut measure;
                let all = experiment.round(round, is_chosen, &mut took, report, say, measure);
                let _ = all.await?;
            }
        }
        throttle.set(Disk::AsItIs)?;
        experiment.finish(report);
        Ok(())
    }

    fn declared(&self, watched: &[Watched]) -> Experiment<Job> {
        let of_clients = |&clients: &usize| Disk::ALL.map(|disk| Job { disk, clients });
        let jobs = self.clients.iter().flat_map(of_clients);
        let cells = jobs.map(|job| Cell::of_all(cell(job.disk, job.clients), job, self.arms.len()));
        let cells: Vec<Cell<Job>> = cells.collect();
        let names = named(&cells, |_| true);
        Experiment {
            arms: self.arms.clone(),
            rounds: self.rounds,
            until: None,
            watched: watched.to_vec(),
            cells,
            ratios: self.ratios(),
            charts: vec![
                Chart::bars("Writes", "writes/s", &names, PER_SECOND),
                Chart::bars("Mean latency", "ms", &names, MEAN_MS),
                Chart::bars("99th percentile", "ms", &names, P99_MS),
            ],
        }
    }

    /// They are of the first number of clients, which is the paper's by default.
    fn ratios(&self) -> Ratios {
        let first = self.clients.iter().take(1);
        let of = |disk| -> Vec<String> { first.clone().map(|&of| cell(disk, of)).collect() };
        let (fast, slow) = (of(Disk::AsItIs), of(Disk::LikeHdd));
        let mut ratios = Ratios::default();
        for arm in self.arms.iter().map(Arm::name) {
            for (key, of) in [
                ("ssd_vs_hdd_writes", PER_SECOND),
                ("ssd_vs_hdd_latency", MEAN_US),
                ("ssd_vs_hdd_p99", P99_US),
            ] {
                let (fast, slow) = (Side::new(arm, &fast, of), Side::new(arm, &slow, of));
                ratios.add(ratio_key(arm, key), Value::Quotient(fast, slow));
            }
        }
        for (key, cells) in [("writes_vs_direct", &fast), ("hdd_writes_vs_direct", &slow)] {
            ratios.over(key.into(), HELENUS, TOKEN_AWARE, cells, PER_SECOND);
        }
        ratios
    }
}

fn cell(disk: Disk, clients: usize) -> String {
    format!("{}, {clients} clients", disk.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Recorder;
    use crate::report::machine::Machine;

    #[test]
    fn a_disk_that_is_slower_has_fewer_writes_and_longer_ones() {
        let experiment = Disks {
            table: Table {
                keyspace: "k".into(),
                table: "t".into(),
                replication: 1,
                keys: 10,
                value_bytes: 12,
            },
            arms: [TOKEN_AWARE, HELENUS].map(Arm::named).to_vec(),
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
        experiment.declared(&[]).finish(&mut report);
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
