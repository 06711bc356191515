//! The table of the cells.

use crate::bench::common::middle;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::experiments::payload::{
    DATA_BYTES_FIGURE, Payload, VALUE_BYTES_FIGURE, node_cpu_us, proxy_cpu_us, reads_cell,
    size_cell, writes_cell,
};
use helenus_load::measure::Phase;
use helenus_load::report::Report;

const HEADS: [&str; 12] = [
    "documents",
    "arm",
    "values KiB",
    "on disk KiB",
    "writes/s",
    "p99 ms",
    "nodes µs",
    "proxy µs",
    "reads/s",
    "p99 ms",
    "nodes µs",
    "proxy µs",
];

/// Medians over the rounds.
pub(super) fn cells_table(report: &Report, payload: &Payload) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(HEADS);
    for collection in &payload.collections {
        let name = &*collection.name;
        for contender in &payload.arms {
            let arm = &*contender.arm.endpoint.name;
            let mut row = vec![name.to_owned(), arm.to_owned()];
            let sizes = report.phases(arm, &size_cell(name));
            for figure in [VALUE_BYTES_FIGURE, DATA_BYTES_FIGURE] {
                let kib = |phase: &Phase| Some(phase.extra.get(figure)? / 1024.0);
                row.push(middle(sizes, kib));
            }
            for cell in [writes_cell(name), reads_cell(name)] {
                let phases = report.phases(arm, &cell);
                row.push(middle(phases, |phase| Some(phase.ops_per_second)));
                let p99 = |phase: &Phase| Some(phase.latency.us_p99 as f64 / 1000.0);
                row.push(middle(phases, p99));
                row.push(middle(phases, node_cpu_us));
                row.push(middle(phases, proxy_cpu_us));
            }
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
