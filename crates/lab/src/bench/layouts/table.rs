//! The table of the cells.

use crate::bench::table::{aligned, middle, table};
use comfy_table::Table as TextTable;
use helenus_load::experiments::layouts::{Contender, DISK, DISK_BYTES};
use helenus_load::measure::Phase;
use helenus_load::report::Report;
use helenus_load::report::figures::{Figure, PER_SECOND, at_cost};
use std::collections::BTreeSet;

/// Medians over the rounds, but for failures, which are summed. Times are of reads, including failures.
pub(super) fn cells_table(report: &Report, arms: &[Contender]) -> TextTable {
    let mut table = table([
        "cell",
        "arm",
        "per second",
        "mean ms",
        "p50",
        "p99",
        "failed",
    ]);
    let names: Vec<&String> = arms.iter().map(|arm| &arm.arm.endpoint.name).collect();
    let of_arms = report.arms.iter().filter(|(name, _)| names.contains(name));
    let cells: BTreeSet<&String> = of_arms.flat_map(|(_, cells)| cells.keys()).collect();
    for cell in cells {
        for name in &names {
            let phases = report.phases(name, cell);
            if phases.is_empty() {
                continue;
            }
            let mut row = vec![cell.clone(), (*name).clone()];
            if cell == DISK {
                let megabytes = Figure::Of(|phase| Some(phase.extra.get(DISK_BYTES)? / 1e6));
                row.push(format!("{} MB", middle(phases, megabytes)));
            } else {
                let figures = [
                    PER_SECOND,
                    at_cost::MEAN_MS,
                    at_cost::P50_MS,
                    at_cost::P99_MS,
                ];
                row.extend(figures.map(|of| middle(phases, of)));
                let failed: u64 = phases.iter().map(Phase::errors_total).sum();
                row.push(failed.to_string());
            }
            table.add_row(row);
        }
    }
    aligned(table, 2)
}
