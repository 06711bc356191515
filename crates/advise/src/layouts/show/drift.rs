//! The design against the layouts in use, as text.

use std::fmt::Write as _;

use helenus_console::figures::number;
use helenus_layout::Advice;

use crate::layouts::drift::Drift;
use crate::layouts::report::Report;
use crate::layouts::times::{duration, time};

pub(super) fn write_text(out: &mut String, report: &Report, drift: &Drift) -> std::fmt::Result {
    writeln!(out, "\nlayouts in use:")?;
    for layout in &drift.in_use {
        let entry = &layout.entry;
        let state = if entry.ready {
            ""
        } else {
            ", still being filled"
        };
        let then = match layout.is {
            Some(_) => "in this design too",
            None => "not in this design",
        };
        writeln!(
            out,
            "  {} ({}){state}: saves {} a query, {then}",
            entry.name,
            entry.clustering.join(", "),
            time(layout.saves_us),
        )?;
    }
    if drift.in_use.is_empty() {
        writeln!(out, "  none")?;
    }
    let now = &drift.comparison;
    writeln!(
        out,
        "  a query takes {} with them, {} with this design, and {} come in a second",
        time(now.cost_us),
        time(now.best_cost_us),
        number(now.queries_per_s),
    )?;
    let saved = now.saved_per_s() * 3_600.0;
    writeln!(
        out,
        "  the design would save {} of the nodes' time in an hour; building {} takes {} of it",
        time(saved * 1e6),
        built(report, drift),
        time(now.build_s * 1e6),
    )?;
    writeln!(out, "recommendation: {}", recommendation(report, drift))
}

fn built(report: &Report, drift: &Drift) -> String {
    match &drift.build[..] {
        [] => "nothing".to_owned(),
        some => some
            .iter()
            .map(|at| report.name(*at))
            .collect::<Vec<_>>()
            .join(" and "),
    }
}

fn recommendation(report: &Report, drift: &Drift) -> String {
    let horizon = duration(drift.rules.horizon_s);
    match drift.advice {
        Advice::Redesign { pays_after_s } => {
            let gone = drift.in_use.iter().filter(|layout| layout.is.is_none());
            let gone: Vec<&str> = gone.map(|layout| &*layout.entry.name).collect();
            let gone = match &gone[..] {
                [] => String::new(),
                some => format!(", then drop {}", some.join(" and ")),
            };
            format!(
                "change: build {}{gone}; it pays after {}",
                built(report, drift),
                duration(pays_after_s)
            )
        }
        Advice::Keep if drift.is_remembered && drift.standing.in_a_row > 0 => format!(
            "keep for now: a change pays within {horizon}, but this was seen {} of {} times in a row",
            drift.standing.in_a_row, drift.rules.evaluations
        ),
        Advice::Keep => match drift.pays_after_s() {
            Some(pays_after_s) => format!(
                "keep: a change would pay after {}, which is not clearly less than {horizon}",
                duration(pays_after_s)
            ),
            None => "keep: a change would save nothing".to_owned(),
        },
    }
}
