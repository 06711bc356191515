//! The table of the cells.

use crate::bench::table::{aligned, middle, table};
use comfy_table::Table as TextTable;
use helenus_load::experiments::layouts::{
    Contender, DISK, DISK_BYTES, FILLING_SECONDS, LOST_BYTES, REBUILD, RECOVERY, REPAIR,
};
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

/// A line for each restoration; the last columns are of a layout only.
pub(super) fn recovery_table(report: &Report) -> TextTable {
    let mut table = table([
        "",
        "round",
        "seconds",
        "rows",
        "MB lost",
        "copied and compared, s",
    ]);
    for by in [REBUILD, REPAIR] {
        for (round, phase) in report.phases(by, RECOVERY).iter().enumerate() {
            let extra = |name: &str, unit: f64| match phase.extra.get(name) {
                Some(value) => format!("{:.1}", value / unit),
                None => "–".to_owned(),
            };
            table.add_row([
                by.to_owned(),
                (round + 1).to_string(),
                format!("{:.1}", phase.seconds),
                phase.ops.to_string(),
                extra(LOST_BYTES, 1e6),
                extra(FILLING_SECONDS, 1.0),
            ]);
        }
    }
    aligned(table, 1)
}
