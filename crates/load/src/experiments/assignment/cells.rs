//! The cells of the experiment.

use super::experiment::{Assignment, Scenario};
use crate::experiments::arms::{Arm, describe};
use crate::report::Report;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
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
pub(super) struct Cell {
    pub scenario: Scenario,
    /// Index into [`Assignment::levels`].
    pub level: usize,
    pub job: Job,
}

impl Cell {
    pub(super) fn name(&self, experiment: &Assignment) -> String {
        let level = format!("{:?}", experiment.levels[self.level]).to_uppercase();
        let scenario = match self.scenario {
            Scenario::Idle => "idle",
            Scenario::Stressed => "stressed",
            Scenario::Frozen => "frozen",
            Scenario::Stalling => "stalling",
            Scenario::Compacting => "compacting",
            Scenario::SlowNetwork => "slow network",
            Scenario::SlowDisk => "slow disk",
        };
        let rate = experiment.rate_per_second;
        match self.job {
            Job::Reads(clients) => format!("{scenario}, reads at {level}, {clients} clients"),
            Job::Scans(clients) => format!("{scenario}, scans at {level}, {clients} clients"),
            Job::Mixed => format!("{scenario}, reads and scans at {level}, predicted"),
            Job::Steady => format!("{scenario}, reads at {level}, {rate}/s, before"),
            Job::Fault => format!("{scenario}, reads at {level}, {rate}/s, one node"),
        }
    }
}

impl Assignment {
    pub(super) fn cells(&self, scenario: Scenario) -> Vec<Cell> {
        let levels = 0..self.levels.len();
        let cell = |level, job| Cell {
            scenario,
            level,
            job,
        };
        match scenario {
            Scenario::Idle | Scenario::Stressed => {
                let scans = cell(0, Job::Scans(self.scan_clients));
                let of = |&clients: &usize| levels.clone().map(move |l| (l, clients));
                let reads = self.clients.iter().flat_map(of);
                let reads = reads.map(|(level, clients)| cell(level, Job::Reads(clients)));
                let mixed = (scenario == Scenario::Idle).then(|| cell(0, Job::Mixed));
                reads.chain([scans]).chain(mixed).collect()
            }
            Scenario::Frozen
            | Scenario::Stalling
            | Scenario::Compacting
            | Scenario::SlowNetwork
            | Scenario::SlowDisk => {
                let faulty = levels.take(self.fault_levels);
                faulty
                    .flat_map(|level| [cell(level, Job::Steady), cell(level, Job::Fault)])
                    .collect()
            }
        }
    }

    /// True if an arm takes part in a cell.
    pub(super) fn has(&self, arm: &Arm, cell: &Cell) -> bool {
        cell.job != Job::Mixed || arm.admin.is_some()
    }

    pub(super) fn describe(&self, report: &mut Report) {
        let levels: Vec<String> = self.levels.iter().map(|l| format!("{l:?}")).collect();
        let seconds = |time: std::time::Duration| time.as_secs_f64().to_string();
        let settings = [
            ("records", self.users.records.to_string()),
            ("consistency", levels.join(", ")),
            ("rows of a scan, at most", self.scan_rows_max.to_string()),
            (
                "reads per second with one node at fault",
                self.rate_per_second.to_string(),
            ),
            (
                "seconds for which a node is frozen, stalls or compacts",
                seconds(self.freeze),
            ),
            ("seconds per cell", seconds(self.cell_time)),
            ("seconds of warm-up per cell", seconds(self.cell_warmup)),
            ("client's time-out in seconds", seconds(self.time_out)),
        ];
        let (endpoint, replication) = (&self.arms[0].endpoint, self.users.replication);
        describe(report, endpoint, replication, self.seed, settings);
        report.notes.push(
            "A driver opens its connections to each node, and so more of them to a cluster than to \
             one proxy."
                .into(),
        );
        report.notes.push(
            "In the compared percentiles a failed request counts with the client's time-out. A \
             direct arm's keys have its name as prefix; so do those of Helenus with an assignment \
             policy of its own."
                .into(),
        );
    }
}
