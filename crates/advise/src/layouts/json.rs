//! A design as JSON.

use helenus_layout::{Advice, Certificate, Layout};
use serde_json::{Value, json};

use super::arrange::{Arrangement, Kind, Source, commands};
use super::coefficients;
use super::drift::Drift;
use super::report::Report;
use super::show::above_cheapest;

pub(super) fn json(report: &Report) -> Value {
    let (design, schema) = (&report.design, &report.workload.schema);
    let clustering = |layout: &Layout| -> Vec<&str> {
        layout
            .columns()
            .filter_map(|c| schema.clustering.get(c))
            .map(|name| name.as_str())
            .collect()
    };
    let finite = |number: f64| number.is_finite().then_some(number);
    let layouts = design.layouts.iter().enumerate().map(|(at, layout)| {
        json!({
            "name": report.name(at),
            "clustering": clustering(layout),
            "cost_us_without": design.cost_without_us.get(at).copied().and_then(finite),
        })
    });
    let lines = report.workload.statements.iter().zip(&report.statements);
    let statements = lines.map(|(line, statement)| {
        let reads = statement
            .reads
            .iter()
            .enumerate()
            .filter(|(_, share)| **share > 0.0);
        let own = design.layouts.len();
        let reads = reads.map(|(at, share)| {
            (
                if at == own {
                    "table".to_owned()
                } else {
                    report.name(at).to_owned()
                },
                json!(share),
            )
        });
        json!({
            "line": line.number,
            "statement": line.text,
            "data_center": line.data_center,
            "share": statement.share,
            "rows_now": finite(statement.rows_now),
            "rows_then": finite(statement.rows_then),
            "time_us_now": finite(statement.time_now_us),
            "time_us_then": finite(statement.time_then_us),
            "reads": reads.collect::<serde_json::Map<_, _>>(),
        })
    });
    let (optimal, lower_bound_us) = match design.certificate {
        Certificate::Optimal => (above_cheapest(design).is_none(), design.least_cost_us),
        Certificate::AtLeast { lower_bound } => (false, lower_bound),
    };
    json!({
        "table": schema.full_name,
        "rows_read": report.rows_read,
        "rows_sampled": report.rows_sampled,
        "rows_total": report.rows_total,
        "sampled": report.sampled.map(|sampled| json!({
            "rows": sampled.rows,
            "ranges_read": sampled.ranges_read,
            "ranges": sampled.ranges,
            "rows_total_estimated": sampled.rows_total().round(),
            "partitions_cut": sampled.is_cut,
        })),
        "learned": report.learned.as_ref().map(|learned| json!({
            "asked": learned.asked,
            "counted_s": learned.counted_s,
            "left_out": learned.left_out.iter().map(|out| json!({
                "statement": out.text,
                "asked": out.asked,
                "reason": out.why,
            })).collect::<Vec<_>>(),
        })),
        "redesign": report.drift.as_ref().map(|drift| redesign(report, drift)),
        "coefficients": match report.costs.source {
            coefficients::Source::Typical => "typical",
            coefficients::Source::Calibrated => "calibrated",
        },
        "queries": report.queries,
        "permuted": report.permuted,
        "layouts": layouts.collect::<Vec<_>>(),
        "statements": statements.collect::<Vec<_>>(),
        "replication": replication(report),
        "arrangements": report.arranged.all.iter().map(|of| arrangement(report, of)).collect::<Vec<_>>(),
        "cost_us": design.cost_us,
        "least_cost_us": design.least_cost_us,
        "cost_us_now": finite(design.own_cost_us),
        "single": { "clustering": clustering(&design.single.0), "cost_us": design.single.1 },
        "annealed": design.annealed.as_ref().map(|annealed| json!({
            "cost_us": annealed.cost_us,
            "layouts": annealed.layouts.iter().map(clustering).collect::<Vec<_>>(),
        })),
        "certificate": {
            "optimal": optimal,
            "lower_bound_us": lower_bound_us,
            "loss_proven": design.loss_proven,
        },
    })
}

/// How the table is replicated.
fn replication(report: &Report) -> Value {
    let table = report.arranged.table.iter();
    json!({
        "from": match report.arranged.source {
            Source::Nodes => "nodes",
            Source::Option => "option",
            Source::Assumed => "assumed",
        },
        "replicas": by_place(report, table.map(|place| json!(place.replicas))),
    })
}

/// Where layouts may be held, and what that costs in copies.
fn arrangement(report: &Report, of: &Arrangement) -> Value {
    let arranged = &report.arranged;
    let table = &arranged.table;
    let named = |places: &[bool]| {
        let held = table.iter().zip(places).filter(|(_, is)| **is);
        held.map(|(place, _)| place.label()).collect::<Vec<_>>()
    };
    let layouts = of.held.iter().map(|held| {
        let columns = held.layout.columns();
        let columns = columns.filter_map(|c| report.workload.schema.clustering.get(c));
        json!({
            "name": arranged.name(&held.layout),
            "clustering": columns.map(|name| name.as_str()).collect::<Vec<_>>(),
            "data_centers": named(&held.places),
        })
    });
    let then = of.table_then(table);
    let of_layouts = of.layouts_at(table).into_iter().map(|copies| json!(copies));
    json!({
        "kind": match of.kind {
            Kind::Alone => "table",
            Kind::Beside => "beside",
            Kind::Derived => "derived",
        },
        "layouts": layouts.collect::<Vec<_>>(),
        "copies": of.copies(table),
        "copies_of_layouts": by_place(report, of_layouts),
        "disk_of_table_now": arranged.disk(of),
        "reads_at": match of.kind {
            Kind::Alone | Kind::Beside => None,
            Kind::Derived => Some(["ONE", "LOCAL_ONE"]),
        },
        "clients_in": match of.kind {
            Kind::Alone => named(&vec![true; table.len()]),
            Kind::Beside | Kind::Derived => named(&of.serves(table.len())),
        },
        "cost_us": of.cost_us,
        "cost_us_in": by_place(report, of.cost_by_place_us.iter().map(|cost| json!(cost))),
        "lower_bound_us": of.lower_bound_us,
        "copies_as_now_with": then.map(|then| by_place(report, then.iter().map(|r| json!(r)))),
        "commands": commands::of(arranged, of, &report.target()),
    })
}

/// By the names of data centres.
fn by_place(report: &Report, values: impl Iterator<Item = Value>) -> Value {
    let names = report.arranged.table.iter();
    let names = names.map(|place| place.label().to_owned());
    names.zip(values).collect::<serde_json::Map<_, _>>().into()
}

/// The design against the layouts in use.
fn redesign(report: &Report, drift: &Drift) -> Value {
    let now = &drift.comparison;
    let in_use = drift.in_use.iter().map(|layout| {
        json!({
            "name": layout.entry.name,
            "clustering": layout.entry.clustering,
            "state": if layout.entry.ready { "ready" } else { "writing" },
            "saves_us": layout.saves_us,
            "stays": layout.is.is_some(),
        })
    });
    json!({
        "in_use": in_use.collect::<Vec<_>>(),
        "build": drift.build.iter().map(|at| report.name(*at)).collect::<Vec<_>>(),
        "cost_us_in_use": now.cost_us,
        "cost_us_redesigned": now.best_cost_us,
        "queries_per_s": now.queries_per_s,
        "saved_s_per_hour": now.saved_per_s() * 3_600.0,
        "build_s": now.build_s,
        "pays_after_s": drift.pays_after_s(),
        "horizon_s": drift.rules.horizon_s,
        "in_favour_in_a_row": drift.standing.in_a_row,
        "needed_in_a_row": drift.rules.evaluations,
        "recommendation": match drift.advice {
            Advice::Keep => "keep",
            Advice::Redesign { .. } => "change",
        },
    })
}
