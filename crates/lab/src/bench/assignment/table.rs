//! The table of the cells.

use crate::bench::common::middle;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::experiments::arms::Arm;
use helenus_load::experiments::assignment::latency;
use helenus_load::measure::Phase;
use helenus_load::report::Report;
use std::collections::BTreeSet;

/// Medians over the rounds, in milliseconds, including failures, but for the failures themselves, which
/// are summed.
pub(super) fn cells_table(report: &Report, arms: &[Arm]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let columns = ["mean ms", "p50", "p95", "p99", "p99.9", "failed"];
    table.set_header(["cell", "arm", "requests/s"].into_iter().chain(columns));
    let cells: BTreeSet<&String> = report.arms.values().flat_map(|of| of.keys()).collect();
    for cell in cells {
        for arm in arms {
            let name = &arm.endpoint.name;
            let phases = report.phases(name, cell);
            if phases.is_empty() {
                continue;
            }
            let mut row = vec![cell.clone(), name.clone()];
            row.push(middle(phases, |phase| Some(phase.ops_per_second)));
            let figures: [fn(&Phase) -> Option<f64>; 5] = [
                |phase| Some(latency(phase)?.us_mean / 1000.0),
                |phase| Some(latency(phase)?.us_p50 as f64 / 1000.0),
                |phase| Some(latency(phase)?.us_p95 as f64 / 1000.0),
                |phase| Some(latency(phase)?.us_p99 as f64 / 1000.0),
                |phase| Some(latency(phase)?.us_p999 as f64 / 1000.0),
            ];
            row.extend(figures.map(|figure| middle(phases, figure)));
            let failed: u64 = phases.iter().map(Phase::errors_total).sum();
            row.push(failed.to_string());
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
