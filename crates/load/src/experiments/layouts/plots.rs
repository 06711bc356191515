//! The plots of the experiment's page.

use super::cells::{DISK, DISK_BYTES, WRITES};
use super::compare::{DECLARED, latency};
use super::experiment::Layouts;
use crate::measure::Phase;
use crate::report::Report;
use crate::report::plot;

/// Arms, title and label of the axis, cells, and what is drawn.
type Chart<'a> = (
    &'a [&'a str],
    (&'a str, &'a str),
    &'a [String],
    plot::Quantity<'a>,
);

impl Layouts {
    pub(super) fn plots(&self, report: &Report) -> Vec<String> {
        let arms: Vec<&str> = self
            .arms
            .iter()
            .map(|arm| &*arm.arm.endpoint.name)
            .collect();
        // It is so slow that the others could not be told apart beside it; it comes last, so that all
        // keep their colours.
        let mut fast = arms.clone();
        fast.retain(|arm| *arm != DECLARED);
        let mut all = fast.clone();
        all.push(DECLARED);
        let names = |node_paused| -> Vec<String> {
            let cells = self.cells(node_paused);
            cells.iter().map(|cell| cell.name()).collect()
        };
        let mean = |phase: &Phase| Some(latency(phase)?.us_mean / 1000.0);
        let p99 = |phase: &Phase| Some(latency(phase)?.us_p99 as f64 / 1000.0);
        let written = |phase: &Phase| Some(phase.ops_per_second);
        let disk = |phase: &Phase| Some(phase.extra.get(DISK_BYTES)? / 1e6);
        let writes = [WRITES.to_owned()];
        let disks = [DISK.to_owned()];
        let reads = names(false);
        let declared = format!("Mean latency, with {DECLARED}");
        let charts: [Chart<'_>; 6] = [
            (&fast, ("Mean latency", "ms"), &reads, &mean),
            (&all, (&declared, "ms"), &reads, &mean),
            (&fast, ("99th percentile", "ms"), &reads, &p99),
            (
                &all,
                ("While a node is paused", "mean latency, ms"),
                &names(true),
                &mean,
            ),
            (&all, ("Writing", "orders/s"), &writes, &written),
            (&all, ("Size on disk", "MB on all nodes"), &disks, &disk),
        ];
        let charts = charts.into_iter();
        charts
            .filter_map(|(arms, heads, cells, of)| plot::bars(report, arms, heads, cells, of))
            .collect()
    }
}
