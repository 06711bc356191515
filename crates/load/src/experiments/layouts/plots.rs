//! The plots of the experiment's page.

use super::cells::{DISK, DISK_BYTES, WRITES};
use super::compare::DECLARED;
use super::experiment::Layouts;
use crate::report::Report;
use crate::report::chart::Chart;
use crate::report::figures::{Figure, PER_SECOND, at_cost};

const DISK_MB: Figure = Figure::Of(|phase| Some(phase.extra.get(DISK_BYTES)? / 1e6));

impl Layouts {
    pub(super) fn plots(&self, report: &Report) -> Vec<String> {
        let arms = self.arms.iter();
        let mut fast: Vec<&str> = arms.map(|arm| arm.arm.name()).collect();
        // It is so slow that the others could not be told apart beside it; it comes last, so that all
        // keep their colours.
        fast.retain(|arm| *arm != DECLARED);
        let all = [&*fast, &[DECLARED]].concat();
        let names = |node_paused| -> Vec<String> {
            let cells = self.cells(node_paused);
            cells.iter().map(|cell| cell.name()).collect()
        };
        let (reads, paused) = (names(false), names(true));
        let (writes, disks) = ([WRITES.to_owned()], [DISK.to_owned()]);
        let declared = format!("Mean latency, with {DECLARED}");
        let paused_axis = "mean latency, ms";
        let charts = [
            Chart::bars("Mean latency", "ms", &reads, at_cost::MEAN_MS).of_arms(&fast),
            Chart::bars(&declared, "ms", &reads, at_cost::MEAN_MS),
            Chart::bars("99th percentile", "ms", &reads, at_cost::P99_MS).of_arms(&fast),
            Chart::bars(
                "While a node is paused",
                paused_axis,
                &paused,
                at_cost::MEAN_MS,
            ),
            Chart::bars("Writing", "orders/s", &writes, PER_SECOND),
            Chart::bars("Size on disk", "MB on all nodes", &disks, DISK_MB),
        ];
        let charts = charts.iter();
        charts.filter_map(|chart| chart.svg(report, &all)).collect()
    }
}
