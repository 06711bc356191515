//! The table and the four figures of the paper on query scheduling: mean times of its six variants by
//! number of clients, for each mix and kind of query.

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::report::spread::Spread;
use helenus_load::report::svg::{BarChart, Group, number};
use helenus_sim::scheduling::{Measured, Variant};

use super::tables::{Cell, Figure};

/// Single queries and ranges, as the paper calls them.
const KINDS: [(&str, Figure); 2] = [
    ("Single queries", |o| o.points.mean_us()),
    ("Range queries", |o| o.scans.mean_us()),
];

/// The paper's variants, in its order, as far as they were simulated.
fn variants(cells: &[Cell]) -> Vec<String> {
    let names = Variant::ALL.into_iter().filter(|v| v.is_preset());
    let names = names.map(|variant| variant.to_string());
    let simulated = |name: &String| cells.iter().any(|cell| outcome(cell, name).is_some());
    names.filter(simulated).collect()
}

fn outcome<'a>(cell: &'a Cell, arm: &str) -> Option<&'a Measured> {
    let mut arms = cell.arms.iter();
    arms.find(|(name, _)| name == arm)
        .map(|(_, outcome)| outcome)
}

/// `None` if fewer than two of the variants were simulated.
pub(super) fn table(cells: &[Cell]) -> Option<TextTable> {
    let variants = variants(cells);
    if variants.len() < 2 {
        return None;
    }
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let header = std::iter::once("cell".to_owned()).chain(variants.iter().cloned());
    table.set_header(header);
    for cell in cells {
        let mut row = vec![cell.name.clone()];
        row.extend(variants.iter().map(|variant| {
            let Some(outcome) = outcome(cell, variant) else {
                return "–".to_owned();
            };
            let means = KINDS.map(|(_, of)| number(of(outcome) / 1000.0));
            let [points, scans] = means;
            format!("{points} / {scans}")
        }));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Some(table)
}

/// The figures, 9:1 before 5:5 if the cells are in that order.
pub(super) fn figures(cells: &[Cell]) -> Vec<BarChart> {
    let variants = variants(cells);
    let mut mixes: Vec<u32> = cells.iter().map(|cell| cell.setup.points_in_ten).collect();
    mixes.dedup();
    let mut out = Vec::new();
    for points in mixes.into_iter().filter(|_| !variants.is_empty()) {
        for (kind, of) in KINDS {
            let of_mix = cells
                .iter()
                .filter(|cell| cell.setup.points_in_ten == points);
            let group = |cell: &Cell| Group {
                name: format!("{} clients", cell.setup.clients),
                values: variants
                    .iter()
                    .map(|name| Spread::of(&[of(outcome(cell, name)?) / 1000.0]))
                    .collect(),
            };
            out.push(BarChart {
                title: format!("{kind}, {points}:{}: the paper's variants", 10 - points),
                axis: "mean, ms".to_owned(),
                series: variants.clone(),
                colours: Vec::new(),
                groups: of_mix.map(group).collect(),
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_sim::scheduling::{Arm, Setup, run};
    use std::time::Instant;

    fn cell(points_in_ten: u32, arms: &[&str]) -> Cell {
        let setup = Setup {
            clients: 4,
            queries: 40,
            warmup: 0,
            points_in_ten,
            rows: 200,
            tables: 2,
            ..Setup::paper()
        };
        let all = Arm::all().into_iter();
        let chosen = all.filter(|(name, _)| arms.contains(&&**name));
        Cell {
            name: format!("{points_in_ten}, 4 clients"),
            setup,
            arms: chosen
                .map(|(name, arm)| (name, run(&setup, &arm, Instant::now())))
                .collect(),
        }
    }

    #[test]
    fn there_is_a_figure_for_each_mix_and_kind_with_the_variants_that_were_simulated() {
        let cells = [9, 5].map(|points| cell(points, &["direct", "O", "A", "default"]));
        let figures = figures(&cells);
        let titles: Vec<&str> = figures.iter().map(|figure| &*figure.title).collect();
        assert_eq!(
            titles,
            [
                "Single queries, 9:1: the paper's variants",
                "Range queries, 9:1: the paper's variants",
                "Single queries, 5:5: the paper's variants",
                "Range queries, 5:5: the paper's variants",
            ]
        );
        assert_eq!(figures[0].series, ["O", "A"]);
        assert!(figures[0].groups[0].values.iter().all(Option::is_some));
        let table = table(&cells).expect("a table").to_string();
        assert_eq!(table.lines().count(), 4, "{table}");
    }

    #[test]
    fn without_the_variants_there_is_neither() {
        let cells = [cell(5, &["direct", "default"])];
        assert!(figures(&cells).is_empty() && table(&cells).is_none());
    }
}
