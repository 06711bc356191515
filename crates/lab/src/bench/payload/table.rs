//! The table of the cells.

use crate::bench::table::{aligned, middle, table};
use comfy_table::Table as TextTable;
use helenus_load::experiments::payload::{
    DATA_BYTES_FIGURE, Payload, VALUE_BYTES_FIGURE, reads_cell, size_cell, writes_cell,
};
use helenus_load::report::Report;
use helenus_load::report::figures::{Figure, NODE_CPU_US, P99_MS, PER_SECOND, PROXY_CPU_US};

const VALUES_KIB: Figure = Figure::Of(|phase| Some(phase.extra.get(VALUE_BYTES_FIGURE)? / 1024.0));
const DATA_KIB: Figure = Figure::Of(|phase| Some(phase.extra.get(DATA_BYTES_FIGURE)? / 1024.0));
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
    let mut table = table(HEADS);
    for collection in &payload.collections {
        let name = &*collection.name;
        for contender in &payload.arms {
            let arm = &*contender.arm.endpoint.name;
            let mut row = vec![name.to_owned(), arm.to_owned()];
            let sizes = report.phases(arm, &size_cell(name));
            row.extend([VALUES_KIB, DATA_KIB].map(|of| middle(sizes, of)));
            for cell in [writes_cell(name), reads_cell(name)] {
                let phases = report.phases(arm, &cell);
                let figures = [PER_SECOND, P99_MS, NODE_CPU_US, PROXY_CPU_US];
                row.extend(figures.map(|of| middle(phases, of)));
            }
            table.add_row(row);
        }
    }
    aligned(table, 2)
}
