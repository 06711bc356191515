//! The experiment as data: its cells, and what is told of them.

use super::experiment::{Assignment, Scenario};
use super::figures::{RANK_CORRELATION, SECOND_ATTEMPTS, SENT_TO_NODES};
use crate::experiments::arms::{Arm, JAVA, ROUND_ROBIN, TOKEN_AWARE, ratio_key};
use crate::experiments::experiment::{Cell, Experiment, named};
use crate::report::chart::Chart;
use crate::report::figures::{Figure, PER_SECOND, at_cost};
use crate::report::ratios::{Ratios, Side, Value};

/// The documented keys.
pub const ASSIGNMENT_KEYS: [&str; 12] = [
    "idle_vs_best_arm",
    "stressed_throughput_vs_best_direct",
    "stressed_p99_vs_best_direct",
    "stressed_client_errors",
    "frozen_node_p99_raise_ms",
    "stalling_node_p99_raise_ms",
    "compacting_node_p99_raise_ms",
    "slow_node_p99_vs_healthy",
    "slow_disk_p99_vs_healthy",
    "prediction_rank_correlation",
    "hedge_extra_load",
    "frozen_hedge_extra_load",
];
const DIRECT: [&str; 3] = [TOKEN_AWARE, ROUND_ROBIN, JAVA];
/// Greater is better, as with throughput.
const P99_INVERSE: Figure = Figure::Of(|phase| Some(1.0 / at_cost::P99_MS.of(phase)?));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Point reads of so many clients in a closed loop.
    Reads(usize),
    Scans(usize),
    /// Point reads and scans: of proxies whose metrics show how long they were predicted to take.
    Mixed,
    /// Point reads in an open loop, without a fault: what the following are compared with.
    Steady,
    /// With the scenario's fault of one node: all the time, or in the middle.
    Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub scenario: Scenario,
    /// Index into [`Assignment::levels`].
    pub level: usize,
    pub load: Load,
}

impl Assignment {
    pub(super) fn declared(&self) -> Experiment<Job> {
        let jobs = self.scenarios.iter().flat_map(|&of| self.jobs(of));
        let cells = jobs.map(|job| {
            let takes_part = |arm: &Arm| job.load != Load::Mixed || arm.admin.is_some();
            Cell::of_some(self.name(job), job, self.arms.iter().map(takes_part))
        });
        let cells: Vec<Cell<Job>> = cells.collect();
        let (ratios, charts) = (self.ratios(&cells), self.charts(&cells));
        Experiment {
            arms: self.arms.clone(),
            rounds: self.rounds,
            until: self.until,
            watched: self.watched.clone(),
            cells,
            ratios,
            charts,
        }
    }

    fn jobs(&self, scenario: Scenario) -> Vec<Job> {
        let levels = 0..self.levels.len();
        let job = |level, load| Job {
            scenario,
            level,
            load,
        };
        match scenario {
            Scenario::Idle | Scenario::Stressed => {
                let scans = job(0, Load::Scans(self.scan_clients));
                let of = |&clients: &usize| levels.clone().map(move |l| (l, clients));
                let reads = self.clients.iter().flat_map(of);
                let reads = reads.map(|(level, clients)| job(level, Load::Reads(clients)));
                let mixed = (scenario == Scenario::Idle).then(|| job(0, Load::Mixed));
                reads.chain([scans]).chain(mixed).collect()
            }
            Scenario::Frozen
            | Scenario::Stalling
            | Scenario::Compacting
            | Scenario::SlowNetwork
            | Scenario::SlowDisk => {
                let faulty = levels.take(self.fault_levels);
                faulty
                    .flat_map(|level| [Load::Steady, Load::Fault].map(|load| job(level, load)))
                    .collect()
            }
        }
    }

    fn name(&self, job: Job) -> String {
        let level = format!("{:?}", self.levels[job.level]).to_uppercase();
        let scenario = match job.scenario {
            Scenario::Idle => "idle",
            Scenario::Stressed => "stressed",
            Scenario::Frozen => "frozen",
            Scenario::Stalling => "stalling",
            Scenario::Compacting => "compacting",
            Scenario::SlowNetwork => "slow network",
            Scenario::SlowDisk => "slow disk",
        };
        let rate = self.rate_per_second;
        match job.load {
            Load::Reads(clients) => format!("{scenario}, reads at {level}, {clients} clients"),
            Load::Scans(clients) => format!("{scenario}, scans at {level}, {clients} clients"),
            Load::Mixed => format!("{scenario}, reads and scans at {level}, predicted"),
            Load::Steady => format!("{scenario}, reads at {level}, {rate}/s, before"),
            Load::Fault => format!("{scenario}, reads at {level}, {rate}/s, one node"),
        }
    }

    fn ratios(&self, cells: &[Cell<Job>]) -> Ratios {
        let of = |scenario: Scenario| named(cells, |job| job.scenario == scenario);
        let open = |scenario: Scenario, load: Load| {
            named(cells, |job| job.scenario == scenario && job.load == load)
        };
        let mixed = open(Scenario::Idle, Load::Mixed);
        let mut idle = of(Scenario::Idle);
        idle.retain(|cell| !mixed.contains(cell));
        let stressed = of(Scenario::Stressed);
        let arms: Vec<&str> = self.arms.iter().map(Arm::name).collect();
        let mut ratios = Ratios::default();
        for &arm in &arms {
            let key = |key: &str| ratio_key(arm, key);
            let side = |cells: &[String], of| Side::new(arm, cells, of);
            if !DIRECT.contains(&arm) {
                let mut others = arms.clone();
                others.retain(|other| *other != arm);
                let best = Side::best(&others, &idle, PER_SECOND);
                let of = Value::Quotient(side(&idle, PER_SECOND), best);
                ratios.add(key("idle_vs_best_arm"), of);
                let best = Side::best(&DIRECT, &stressed, PER_SECOND);
                let of = Value::Quotient(side(&stressed, PER_SECOND), best);
                ratios.add(key("stressed_throughput_vs_best_direct"), of);
                let best = Side::best(&DIRECT, &stressed, P99_INVERSE);
                let of = Value::Quotient(best, side(&stressed, P99_INVERSE));
                ratios.add(key("stressed_p99_vs_best_direct"), of);
            }
            ratios.errors(key("stressed_client_errors"), arm, &stressed);
            ratios.errors(key("client_errors"), arm, &named(cells, |_| true));
            // Of the consistency levels the greatest counts.
            let p99s = |scenario| {
                [Load::Fault, Load::Steady].map(|load| side(&open(scenario, load), at_cost::P99_MS))
            };
            for (scenario, of) in [
                (Scenario::Frozen, "frozen_node_p99_raise_ms"),
                (Scenario::Stalling, "stalling_node_p99_raise_ms"),
                (Scenario::Compacting, "compacting_node_p99_raise_ms"),
            ] {
                let [with, before] = p99s(scenario);
                ratios.add(key(of), Value::Raise(with, before));
            }
            for (scenario, of) in [
                (Scenario::SlowNetwork, "slow_node_p99_vs_healthy"),
                (Scenario::SlowDisk, "slow_disk_p99_vs_healthy"),
            ] {
                let [with, before] = p99s(scenario);
                ratios.add(key(of), Value::Worst(with, before));
            }
            for (scenario, name) in [
                (Scenario::Idle, "hedge_extra_load"),
                (Scenario::Frozen, "frozen_hedge_extra_load"),
            ] {
                let sum = |name| side(&of(scenario), Figure::Extra(name));
                let share = Value::Share(sum(SECOND_ATTEMPTS), sum(SENT_TO_NODES));
                ratios.add(key(name), share);
            }
            let correlation = Value::Mean(side(&mixed, Figure::Extra(RANK_CORRELATION)));
            ratios.add(key(RANK_CORRELATION), correlation);
        }
        ratios
    }

    fn charts(&self, cells: &[Cell<Job>]) -> Vec<Chart> {
        let mut charts = Vec::new();
        let both = [Scenario::Idle, Scenario::Stressed];
        for scenario in both {
            for (level, consistency) in self.levels.iter().enumerate() {
                let position = |&clients: &usize| {
                    let load = Load::Reads(clients);
                    let job = Job {
                        scenario,
                        level,
                        load,
                    };
                    (clients.to_string(), self.name(job))
                };
                let positions: Vec<(String, String)> = self.clients.iter().map(position).collect();
                let title = format!("{scenario:?}: reads at {consistency:?}");
                let heads = (&*title, "reads/s", "clients");
                charts.push(Chart::lines(heads, positions.clone(), PER_SECOND));
                let title = format!("{title}, 99th percentile");
                let heads = (&*title, "ms", "clients");
                charts.push(Chart::lines(heads, positions, at_cost::P99_MS));
            }
        }
        let scans = named(cells, |job| matches!(job.load, Load::Scans(_)));
        charts.push(Chart::bars("Scans", "scans/s", &scans, PER_SECOND));
        for (scenario, title) in [
            (Scenario::Frozen, "A node stands still"),
            (Scenario::Stalling, "A node stands still again and again"),
            (Scenario::Compacting, "A node compacts"),
            (Scenario::SlowNetwork, "The network to a node is slow"),
            (Scenario::SlowDisk, "The disk of a node is slow"),
        ] {
            let cells = named(cells, |job| job.scenario == scenario);
            let axis = "99th percentile, ms";
            charts.push(Chart::bars(title, axis, &cells, at_cost::P99_MS));
        }
        charts
    }
}
