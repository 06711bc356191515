//! A calibration's findings as text and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_console::figures::number;
use helenus_layout::{COEFFICIENTS, Coefficients, Prediction};
use serde_json::{Value, json};

use super::found::Found;
use crate::layouts::coefficients::{Costs, Named};

/// Coefficients as they are called by people, in the order of [`Coefficients::values`].
const CALLED: [&str; COEFFICIENTS] = [
    "a request",
    "a slice",
    "a row",
    "a row summed or returned",
    "a block of 16 KiB",
    "a comparison",
];

pub(super) fn json(found: &Found) -> Value {
    let calibration = &found.calibration;
    let [low, high] = match &calibration.spread {
        Some(both) => both.map(|of| Some(of.values())),
        None => [None, None],
    };
    let spread = Coefficients::NAMES.iter().enumerate();
    let spread = spread.map(|(at, name)| {
        let ends = [low, high].map(|end| end.map(|values| values[at]));
        ((*name).to_owned(), json!(ends))
    });
    let queries = found.medians().map(|(probe, measured)| {
        json!({
            "query": probe.describe(),
            "held_out": probe.held_out,
            "slices": measured.work.slices,
            "rows": measured.work.rows,
            "blocks": measured.work.blocks,
            "comparisons": measured.work.comparisons,
            "measured_us": measured.time_us,
            "predicted_us": calibration.coefficients.cost_us(&measured.work),
        })
    });
    json!({
        "coefficients": Named::new(&calibration.coefficients, found.write_row_us),
        "spread": spread.collect::<serde_json::Map<_, _>>(),
        "condition": calibration.condition,
        "fitted": prediction(&calibration.fitted),
        "held_out": prediction(&calibration.held_out),
        "held_out_typical": prediction(&calibration.held_out_default),
        "rounds": found.measured.rounds,
        "seconds": found.time.as_secs_f64(),
        "rows_in_files": found.in_files,
        "cassandra": found.cassandra,
        "helenus": env!("CARGO_PKG_VERSION"),
        "queries": queries.collect::<Vec<_>>(),
    })
}

fn prediction(of: &Prediction) -> Value {
    json!({
        "queries": of.queries,
        "error_median": of.error_median,
        "rank_correlation": of.rank_correlation,
    })
}

pub(super) fn text(found: &Found, out: Option<&Path>) -> String {
    let mut text = String::new();
    // Writing to a string never fails.
    let _ = write_text(&mut text, found, out);
    text
}

fn write_text(text: &mut String, found: &Found, out: Option<&Path>) -> std::fmt::Result {
    let calibration = &found.calibration;
    writeln!(
        text,
        "Cassandra {}: {} queries in {} rounds, one at a time; {:.0} s in all\n",
        found.cassandra,
        found.measured.probes.len(),
        found.measured.rounds,
        found.time.as_secs_f64()
    )?;
    writeln!(text, "{}\n", coefficients(found))?;
    writeln!(
        text,
        "condition number {}: an error of 1 % in the times is one of {} % in a coefficient at most",
        number(calibration.condition),
        number(calibration.condition)
    )?;
    writeln!(
        text,
        "fitted to {} queries: {}",
        calibration.fitted.queries,
        judged(&calibration.fitted)
    )?;
    writeln!(
        text,
        "{} others:         {}",
        calibration.held_out.queries,
        judged(&calibration.held_out)
    )?;
    writeln!(
        text,
        "  typical node:    {}",
        judged(&calibration.held_out_default)
    )?;
    let error = |measured: &helenus_layout::Measurement| {
        calibration.coefficients.cost_us(&measured.work) / measured.time_us - 1.0
    };
    let worst = found.medians();
    let worst = worst.max_by(|a, b| error(&a.1).abs().total_cmp(&error(&b.1).abs()));
    if let Some((probe, measured)) = worst {
        writeln!(
            text,
            "predicted worst:   {}, {:+.0} %",
            probe.describe(),
            error(&measured) * 100.0
        )?;
    }
    if !found.in_files {
        writeln!(
            text,
            "it was not seen that the rows were in files (system_views.disk_usage): what a block costs may be \
             too little"
        )?;
    }
    match out {
        Some(path) => writeln!(
            text,
            "\nwritten to {0}: helenus layouts advise --coefficients {0}",
            path.display()
        ),
        None => writeln!(text, "\nto use them, give --out FILE"),
    }
}

fn judged(of: &Prediction) -> String {
    let ranks = of.rank_correlation;
    let ranks = ranks.map_or_else(|| "–".to_owned(), |ranks| format!("{ranks:.3}"));
    format!(
        "median error {:.0} %, rank correlation {ranks}",
        of.error_median * 100.0
    )
}

fn coefficients(found: &Found) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table.set_header(["µs for", "here", "in parts of the rounds", "typical node"]);
    let typical = Costs::default();
    let here = found.calibration.coefficients.values().into_iter();
    let rows = here.zip(typical.coefficients.values()).zip(CALLED);
    for (at, ((here, typical), called)) in rows.enumerate() {
        let spread = found.calibration.spread.as_ref();
        let ends = spread.map(|ends| ends.map(|end| number(end.values()[at])));
        let ends = ends.map_or_else(|| "–".to_owned(), |[low, high]| format!("{low} to {high}"));
        table.add_row([called.to_owned(), number(here), ends, number(typical)]);
    }
    table.add_row([
        "writing a row".to_owned(),
        number(found.write_row_us),
        "–".to_owned(),
        number(typical.write_row_us),
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
