//! Tables of what was measured.

use comfy_table::{CellAlignment, Row, Table, presets};
use helenus_load::experiments::arms::Arm;
use helenus_load::measure::Phase;
use helenus_load::report::Report;
use helenus_load::report::figures::Figure;
use helenus_load::report::spread::Spread;
use helenus_load::report::svg::number;
use std::collections::BTreeSet;

/// What a column shows of a cell's rounds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown {
    Median(Figure),
    /// In whole numbers.
    Sum(Figure),
}

impl Shown {
    fn of(self, phases: &[Phase]) -> String {
        match self {
            Self::Median(of) => middle(phases, of),
            Self::Sum(of) => {
                let sum: f64 = phases.iter().filter_map(|phase| of.of(phase)).sum();
                format!("{:.0}", sum.abs())
            }
        }
    }
}

/// A line for each cell and arm that was measured in it.
pub(super) fn cells_table<'a>(
    report: &Report,
    arms: &[Arm],
    columns: impl IntoIterator<Item = (&'a str, Shown)>,
) -> Table {
    let (heads, shown): (Vec<&str>, Vec<Shown>) = columns.into_iter().unzip();
    let mut table = table(["cell", "arm"].into_iter().chain(heads));
    let cells: BTreeSet<&String> = report.arms.values().flat_map(|of| of.keys()).collect();
    for cell in cells {
        for name in arms.iter().map(Arm::name) {
            let phases = report.phases(name, cell);
            if !phases.is_empty() {
                let shown = shown.iter().map(|shown| shown.of(phases));
                let names = [cell.clone(), name.to_owned()].into_iter();
                table.add_row(names.chain(shown));
            }
        }
    }
    aligned(table, 2)
}

pub(super) fn table(heads: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(heads);
    table
}

/// With numbers at the right, from this column on.
pub(super) fn aligned(mut table: Table, from: usize) -> Table {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The median of what the rounds have; a dash if none has it.
pub(super) fn middle(phases: &[Phase], of: Figure) -> String {
    let values: Vec<f64> = phases.iter().filter_map(|phase| of.of(phase)).collect();
    Spread::of(&values).map_or_else(|| "–".to_owned(), |spread| number(spread.median))
}
