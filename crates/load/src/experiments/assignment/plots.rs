//! The plots of the experiment's page.

use super::cells::{Cell, Job};
use super::compare::latency;
use super::experiment::{Assignment, Scenario};
use crate::measure::Phase;
use crate::report::Report;
use crate::report::plot;

impl Assignment {
    pub(super) fn plots(&self, report: &Report) -> Vec<String> {
        let arms: Vec<&str> = self.arms.iter().map(|arm| &*arm.endpoint.name).collect();
        let throughput = |phase: &Phase| Some(phase.ops_per_second);
        let p99 = |phase: &Phase| Some(latency(phase)?.us_p99 as f64 / 1000.0);
        let mut out = Vec::new();
        for scenario in [Scenario::Idle, Scenario::Stressed] {
            for (level, consistency) in self.levels.iter().enumerate() {
                let position = |&clients: &usize| {
                    let job = Job::Reads(clients);
                    let cell = Cell {
                        scenario,
                        level,
                        job,
                    };
                    (clients.to_string(), cell.name(self))
                };
                let positions: Vec<(String, String)> = self.clients.iter().map(position).collect();
                let title = format!("{scenario:?}: reads at {consistency:?}");
                let heads = (&*title, "reads/s", "clients");
                out.extend(plot::lines(report, &arms, heads, &positions, &throughput));
                let title = format!("{title}, 99th percentile");
                let heads = (&*title, "ms", "clients");
                out.extend(plot::lines(report, &arms, heads, &positions, &p99));
            }
        }
        let scans = [Scenario::Idle, Scenario::Stressed].map(|scenario| {
            let (level, job) = (0, Job::Scans(self.scan_clients));
            Cell {
                scenario,
                level,
                job,
            }
        });
        let names = |cells: &[Cell]| cells.iter().map(|cell| cell.name(self)).collect();
        let scans: Vec<String> = names(&scans);
        out.extend(plot::bars(
            report,
            &arms,
            ("Scans", "scans/s"),
            &scans,
            &throughput,
        ));
        for (scenario, title) in [
            (Scenario::Frozen, "A node stands still"),
            (Scenario::Stalling, "A node stands still again and again"),
            (Scenario::Compacting, "A node compacts"),
            (Scenario::SlowNetwork, "The network to a node is slow"),
            (Scenario::SlowDisk, "The disk of a node is slow"),
        ] {
            let cells: Vec<String> = names(&self.cells(scenario));
            let heads = (title, "99th percentile, ms");
            out.extend(plot::bars(report, &arms, heads, &cells, &p99));
        }
        out
    }
}
