//! Arrangements as text.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_console::figures::number;

use crate::layouts::arrange::{Arranged, Arrangement, Kind, Source, commands};
use crate::layouts::report::Report;
use crate::layouts::times::time;

pub(super) fn write_text(out: &mut String, report: &Report) -> std::fmt::Result {
    let arranged = &report.arranged;
    writeln!(
        out,
        "\narrangements, in copies of the table and its layouts, a copy of a layout counted as one of the table:\n{}",
        table(arranged)
    )?;
    for (at, arrangement) in arranged.all.iter().enumerate() {
        if let Some(bound) = arrangement.lower_bound_us {
            let below = (1.0 - bound / arrangement.cost_us) * 100.0;
            match below > 1e-6 {
                false => writeln!(
                    out,
                    "  {at}: no derived layouts with as many copies cost less"
                )?,
                true => writeln!(
                    out,
                    "  {at}: not proven: derived layouts with as many copies cost at most {below:.2} % less"
                )?,
            }
        }
    }
    writeln!(out, "\nto make the layouts of")?;
    for (at, arrangement) in arranged.all.iter().enumerate() {
        for command in commands::of(arranged, arrangement, &report.target()) {
            writeln!(out, "  {at}: {command}")?;
        }
    }
    writeln!(
        out,
        "\nDerived layouts answer at ONE and LOCAL_ONE in their data centres, and are timed as if all were asked so; what \
         a data centre's do not answer, the table does. Not predicted: writes (each layout is one more, derived ones a \
         request of their own), how well another order compresses, and ways between data centres. Fewer replicas of the table are fewer of all tables in its keyspace: of two, QUORUM needs both; of \
         one, nothing is read while it is away."
    )?;
    if arranged.source == Source::Assumed {
        writeln!(
            out,
            "The table's replicas are assumed: --replication says where they are."
        )?;
    }
    Ok(())
}

fn table(arranged: &Arranged) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    let places = arranged.table.iter().map(|place| place.label().to_owned());
    let before = ["", "layouts", "copies"].map(str::to_owned).into_iter();
    let after = [
        "disk",
        "reads at",
        "clients in",
        "mean time",
        "as now if the table has",
    ];
    let header = before.chain(places).chain(after.map(str::to_owned));
    table.set_header(header);
    for (at, arrangement) in arranged.all.iter().enumerate() {
        let layouts = arrangement.layouts_at(&arranged.table);
        let places = arranged.table.iter().zip(layouts);
        let places = places.map(|(place, layouts)| match layouts {
            0 => place.replicas.to_string(),
            layouts => format!("{}+{layouts}", place.replicas),
        });
        let before = [
            at.to_string(),
            held(arranged, arrangement),
            arrangement.copies(&arranged.table).to_string(),
        ];
        let levels = match arrangement.kind {
            Kind::Alone | Kind::Beside => "every level",
            Kind::Derived => "ONE, LOCAL_ONE",
        };
        let after = [
            format!("{} ×", number(arranged.disk(arrangement))),
            levels.to_owned(),
            clients(arranged, arrangement),
            time(arrangement.cost_us),
            then(arranged, arrangement),
        ];
        table.add_row(before.into_iter().chain(places).chain(after));
    }
    for column in table
        .column_iter_mut()
        .skip(2)
        .take(arranged.table.len() + 2)
    {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The layouts, and where they are held.
fn held(arranged: &Arranged, arrangement: &Arrangement) -> String {
    let layouts = |of: &[&str]| of.join(", ");
    let names = arrangement.held.iter().map(|of| arranged.name(&of.layout));
    match arrangement.kind {
        Kind::Alone => "none".to_owned(),
        Kind::Beside => format!("{} beside the table", layouts(&names.collect::<Vec<_>>())),
        Kind::Derived if arranged.table.len() == 1 => {
            format!("{} derived", layouts(&names.collect::<Vec<_>>()))
        }
        Kind::Derived => {
            let each = arrangement.held.iter().zip(names);
            let each = each.map(|(of, name)| format!("{name} in {}", named(arranged, &of.places)));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

fn clients(arranged: &Arranged, arrangement: &Arrangement) -> String {
    let serves = arrangement.serves(arranged.table.len());
    match arrangement.kind == Kind::Alone || serves.iter().all(|serves| *serves) {
        true => "all".to_owned(),
        false => named(arranged, &serves),
    }
}

fn named(arranged: &Arranged, places: &[bool]) -> String {
    let named = arranged.table.iter().zip(places).filter(|(_, is)| **is);
    let named: Vec<&str> = named.map(|(place, _)| place.label()).collect();
    named.join(", ")
}

/// Replicas of the table with which there would be no more copies than now.
fn then(arranged: &Arranged, arrangement: &Arrangement) -> String {
    let Some(then) = arrangement.table_then(&arranged.table) else {
        return "–".to_owned();
    };
    let then = arranged.table.iter().zip(then);
    let then = then.map(|(place, replicas)| match &place.name {
        Some(name) => format!("{replicas} in {name}"),
        None => replicas.to_string(),
    });
    then.collect::<Vec<_>>().join(", ")
}
