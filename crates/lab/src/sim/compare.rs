//! A simulation beside a measurement, a report of `helenus bench scheduling`.

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::experiments::scheduling::{HELENUS, KINDS, TOKEN_AWARE};
use helenus_load::report::spread::Spread;
use helenus_load::report::svg::number;
use helenus_sim::scheduling::{Measured, Times};
use serde_json::Value;

use super::tables::Cell;

const DIRECT: &str = "direct";
const DEFAULT: &str = "default";

/// A figure of a kind of query, in microseconds: in a report, and in an outcome.
struct Figure {
    kind: usize,
    field: &'static str,
    of: fn(&Times) -> f64,
}

const FIGURES: [Figure; 4] = [
    Figure::mean(0),
    Figure::p99(0),
    Figure::mean(1),
    Figure::p99(1),
];

impl Figure {
    const fn mean(kind: usize) -> Figure {
        Figure {
            kind,
            field: "latency_us_mean",
            of: |times| times.mean_us(),
        }
    }

    const fn p99(kind: usize) -> Figure {
        Figure {
            kind,
            field: "latency_us_p99",
            of: |times| times.quantile_us(0.99) as f64,
        }
    }

    fn simulated(&self, outcome: &Measured) -> f64 {
        (self.of)([&outcome.points, &outcome.scans][self.kind])
    }

    /// Each round's, with failures at the cost of the client's time-out.
    fn measured(&self, report: &Value, arm: &str, cell: &str) -> Vec<f64> {
        let rounds = report["arms"][arm][cell].as_array();
        let of_round = |round: &Value| {
            let kind = &round["by_kind"][KINDS[self.kind]];
            let pooled = kind["with_failures"][self.field].as_f64();
            pooled.or_else(|| kind[self.field].as_f64())
        };
        let rounds = rounds.map_or(&[][..], Vec::as_slice);
        rounds.iter().filter_map(of_round).collect()
    }
}

/// Of `direct` milliseconds, of all others what they take of its time; measured, then simulated.
pub(super) fn table(report: &Value, cells: &[Cell]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["cell".to_owned(), "arm".to_owned()];
    for figure in ["point mean", "p99", "scan mean", "p99"] {
        header.extend([figure.to_owned(), "simulated".to_owned()]);
    }
    table.set_header(header);
    for cell in cells {
        for (name, outcome) in &cell.arms {
            let mut row = vec![cell.name.clone(), name.clone()];
            for figure in &FIGURES {
                let direct = figure.measured(report, TOKEN_AWARE, &cell.name);
                let simulated = figure.simulated(outcome);
                let (measured, simulated) = match &**name {
                    DIRECT => (
                        direct.iter().map(|us| us / 1_000.0).collect(),
                        simulated / 1_000.0,
                    ),
                    name => {
                        let arm = figure.measured(report, &name_in_report(name), &cell.name);
                        let ratios = arm.iter().zip(&direct).map(|(arm, direct)| arm / direct);
                        let base = figure.simulated(&cell.arms[0].1);
                        (ratios.collect::<Vec<f64>>(), simulated / base)
                    }
                };
                let median = Spread::of(&measured).map(|spread| spread.median);
                row.push(median.map_or("–".to_owned(), number));
                row.push(number(simulated));
            }
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn name_in_report(arm: &str) -> String {
    match arm {
        DEFAULT => HELENUS.to_owned(),
        arm => format!("{HELENUS}-{arm}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_where_the_report_has_them() {
        let report = serde_json::json!({"arms": {TOKEN_AWARE: {"5:5, 8 clients": [
            {"by_kind": {"point": {"latency_us_mean": 5.0, "with_failures": {"latency_us_mean": 7.0}}}},
            {"by_kind": {"point": {"latency_us_mean": 6.0}}},
        ]}}});
        let mean = &FIGURES[0];
        assert_eq!(
            mean.measured(&report, TOKEN_AWARE, "5:5, 8 clients"),
            [7.0, 6.0]
        );
        assert!(
            mean.measured(&report, TOKEN_AWARE, "9:1, 8 clients")
                .is_empty()
        );
        assert!(
            mean.measured(&report, "helenus", "5:5, 8 clients")
                .is_empty()
        );
    }
}
