//! The cells of the experiment.

use super::experiment::Layouts;
use super::queries::{KINDS, Kind};
use crate::experiments::arms::describe;
use crate::report::Report;
use scylla::statement::Consistency;

/// Writes in rounds.
pub(super) const WRITES: &str = "orders written one by one";
/// Size on disk.
pub const DISK: &str = "disk";
/// In that cell's further figures.
pub const DISK_BYTES: &str = "disk_bytes";
/// The arm of the synthetic tables.
pub(super) const SYNTHETIC: &str = "synthetic";

/// Reads of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reads {
    pub kind: Kind,
    pub level: Consistency,
    pub node_paused: bool,
}

impl Reads {
    pub(super) fn name(&self) -> String {
        let level = format!("{:?}", self.level).to_uppercase();
        let paused = if self.node_paused {
            ", a node paused"
        } else {
            ""
        };
        format!("{} at {level}{paused}", KINDS[self.kind as usize])
    }
}

impl Layouts {
    /// At each level, each query.
    pub(super) fn reads(&self, node_paused: bool) -> Vec<Reads> {
        let levels = self.levels.iter();
        let of = |&level: &Consistency| {
            Kind::ALL.map(|kind| Reads {
                kind,
                level,
                node_paused,
            })
        };
        levels.flat_map(of).collect()
    }

    pub(super) fn describe(&self, report: &mut Report) {
        let levels: Vec<String> = self.levels.iter().map(|l| format!("{l:?}")).collect();
        let branches = self.orders.branches;
        let settings = [
            ("orders", self.orders.rows.len().to_string()),
            ("partitions (branches)", branches.to_string()),
            (
                "instances of each query",
                self.instances.0.len().to_string(),
            ),
            ("consistency of reads", levels.join(", ")),
            ("reading clients", self.clients.to_string()),
            ("writing clients", self.writing_clients.to_string()),
            (
                "orders written one by one, per arm and round",
                self.measured_rows.to_string(),
            ),
            ("seconds per cell", self.cell_time.as_secs_f64().to_string()),
            (
                "client's time-out in seconds",
                self.time_out.as_secs_f64().to_string(),
            ),
        ];
        let endpoint = &self.arms[0].arm.endpoint;
        describe(report, endpoint, self.replication, self.seed, settings);
        for line in [
            "Every answer is compared with the one computed from the generated orders; a wrong one \
             ends the run.",
            "Orders are written at QUORUM. In the compared means a failed read counts with the \
             client's time-out.",
            "Ratios of reads are of means over both queries, as in the paper; keys that end in a \
             query's name are of that query.",
            "A view is updated after the write to its table has been acknowledged; the copies of the \
             other arms are written with it.",
        ] {
            report.notes.push(line.into());
        }
    }
}
