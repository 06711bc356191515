//! The table of the cells.

use crate::bench::common::middle;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::experiments::scheduling::{Arm, KINDS};
use helenus_load::measure::{Kind, Phase};
use helenus_load::report::Report;
use std::collections::BTreeSet;

/// Medians over the rounds, in milliseconds, including failures.
pub(super) fn cells_table(report: &Report, arms: &[Arm]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let mut header = vec!["cell".to_owned(), "arm".to_owned(), "queries/s".to_owned()];
    for kind in KINDS {
        let columns = ["mean ms", "p50", "p95", "p99", "p99.9", "failed"];
        header.extend(columns.map(|column| format!("{kind} {column}")));
    }
    header.extend(["nodes' CPU ms/query", "proxy's"].map(String::from));
    table.set_header(header);
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
            for kind in KINDS {
                row.extend(kind_columns(phases, kind));
            }
            row.push(middle(phases, |phase| {
                cpu_ms(phase, |name| !["client", "proxy"].contains(&name))
            }));
            row.push(middle(phases, |phase| {
                cpu_ms(phase, |name| name == "proxy")
            }));
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn kind_columns(phases: &[Phase], kind: &str) -> Vec<String> {
    let of = |phase: &Phase, value: fn(&Kind) -> Option<f64>| {
        let measured = phase.by_kind.get(kind)?;
        (measured.ops + measured.failed > 0)
            .then(|| value(measured))
            .flatten()
    };
    let columns: [fn(&Kind) -> Option<f64>; 6] = [
        |kind| Some(kind.with_failures?.us_mean / 1000.0),
        |kind| Some(kind.with_failures?.us_p50 as f64 / 1000.0),
        |kind| Some(kind.with_failures?.us_p95 as f64 / 1000.0),
        |kind| Some(kind.with_failures?.us_p99 as f64 / 1000.0),
        |kind| Some(kind.with_failures?.us_p999 as f64 / 1000.0),
        |kind| Some(kind.failed as f64),
    ];
    let column = |value| middle(phases, |phase| of(phase, value));
    columns.into_iter().map(column).collect()
}

/// CPU time per query of the watched processes with this name.
fn cpu_ms(phase: &Phase, named: fn(&str) -> bool) -> Option<f64> {
    let of_name = phase.processes.iter().filter(|(name, _)| named(name));
    let seconds: Vec<f64> = of_name.map(|(_, used)| used.cpu_seconds).collect();
    (!seconds.is_empty() && phase.ops > 0)
        .then(|| seconds.iter().sum::<f64>() * 1000.0 / phase.ops as f64)
}
