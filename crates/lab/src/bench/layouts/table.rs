//! The table of the cells.

use crate::bench::common::middle;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::experiments::layouts::{Contender, DISK, DISK_BYTES, latency};
use helenus_load::measure::{Latency, Phase};
use helenus_load::report::Report;
use std::collections::BTreeSet;

/// Medians over the rounds, but for failures, which are summed. Times are of reads, including failures.
pub(super) fn cells_table(report: &Report, arms: &[Contender]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
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
                let megabytes = |phase: &Phase| Some(phase.extra.get(DISK_BYTES)? / 1e6);
                row.push(format!("{} MB", middle(phases, megabytes)));
            } else {
                row.push(middle(phases, |phase| Some(phase.ops_per_second)));
                let figures: [fn(Latency) -> f64; 3] = [
                    |of| of.us_mean,
                    |of| of.us_p50 as f64,
                    |of| of.us_p99 as f64,
                ];
                let ms = |figure: fn(Latency) -> f64| {
                    middle(phases, |phase| Some(figure(latency(phase)?) / 1000.0))
                };
                row.extend(figures.map(ms));
                let failed: u64 = phases.iter().map(Phase::errors_total).sum();
                row.push(failed.to_string());
            }
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
