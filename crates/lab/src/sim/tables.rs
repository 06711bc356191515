//! Output of `helenus sim scheduling`: tables, JSON, and a page with plots.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::report::spread::Spread;
use helenus_load::report::svg::{BarChart, Group, escape, number};
use helenus_sim::scheduling::{Measured, Setup, Times};

/// All arms under the same load.
pub(super) struct Cell {
    pub name: String,
    pub setup: Setup,
    pub arms: Vec<(String, Measured)>,
}

/// The quantity of an arm shown in a chart or a ratio, in microseconds.
pub(super) type Figure = fn(&Measured) -> f64;

const HEADER: [&str; 14] = [
    "arm",
    "point mean",
    "p50",
    "p95",
    "p99",
    "× direct",
    "p99 ×",
    "scan mean",
    "p99",
    "× direct",
    "p99 ×",
    "failed",
    "nodes' CPU",
    "proxies'",
];

/// Milliseconds, and ratios to direct, as text; CPU time for each query.
fn row(cell: &Cell, name: &str, outcome: &Measured) -> Vec<String> {
    let direct = &cell.arms[0].1;
    let ms = |us: f64| number(us / 1000.0);
    let (points, scans) = (&outcome.points, &outcome.scans);
    let quantile = |times: &Times, share| ms(times.quantile_us(share) as f64);
    let ratio = |of: Figure| {
        let (own, base) = (of(outcome), of(direct));
        match base > 0.0 && own > 0.0 {
            true => format!("{:.3}", own / base),
            false => "–".to_owned(),
        }
    };
    vec![
        name.to_owned(),
        ms(points.mean_us()),
        quantile(points, 0.5),
        quantile(points, 0.95),
        quantile(points, 0.99),
        ratio(|o| o.points.mean_us()),
        ratio(|o| o.points.quantile_us(0.99) as f64),
        ms(scans.mean_us()),
        quantile(scans, 0.99),
        ratio(|o| o.scans.mean_us()),
        ratio(|o| o.scans.quantile_us(0.99) as f64),
        (outcome.points_failed + outcome.scans_failed).to_string(),
        ms(outcome.nodes_us_per_query),
        ms(outcome.proxies_us_per_query),
    ]
}

pub(super) fn table(cell: &Cell) -> TextTable {
    let rows = cell.arms.iter();
    let rows = rows.map(|(name, outcome)| row(cell, name, outcome));
    table_of(HEADER, rows)
}

const OFFERED_HEADER: [&str; 7] = [
    "arm",
    "points",
    "answered",
    "writes",
    "answered",
    "write mean",
    "p99",
];

/// How much of what came at a rate was answered while its clients waited.
pub(super) fn offered(cell: &Cell) -> TextTable {
    let rows = cell.arms.iter().map(|(name, outcome)| {
        let (points, writes) = (outcome.points.count(), outcome.writes.count());
        vec![
            name.clone(),
            points.to_string(),
            (points - outcome.points_failed as usize).to_string(),
            writes.to_string(),
            (writes - outcome.writes_failed as usize).to_string(),
            number(outcome.writes.mean_us() / 1000.0),
            number(outcome.writes.quantile_us(0.99) as f64 / 1000.0),
        ]
    });
    table_of(OFFERED_HEADER, rows)
}

fn table_of<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl Iterator<Item = Vec<String>>,
) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

pub(super) fn json(setup: &Setup, cells: &[Cell]) -> serde_json::Value {
    let times = |times: &Times| {
        serde_json::json!({
            "count": times.count(),
            "mean_us": times.mean_us(),
            "p50_us": times.quantile_us(0.5),
            "p95_us": times.quantile_us(0.95),
            "p99_us": times.quantile_us(0.99),
            "max_us": times.quantile_us(1.0),
        })
    };
    let arm = |(name, outcome): &(String, Measured)| {
        let value = serde_json::json!({
            "points": times(&outcome.points),
            "scans": times(&outcome.scans),
            "writes": times(&outcome.writes),
            "points_failed": outcome.points_failed,
            "scans_failed": outcome.scans_failed,
            "writes_failed": outcome.writes_failed,
            "length_us": outcome.length_us,
            "nodes_us_per_query": outcome.nodes_us_per_query,
            "proxies_us_per_query": outcome.proxies_us_per_query,
            "clients_us_per_query": outcome.clients_us_per_query,
            "node_queue_most": outcome.node_queue_most,
            "prediction_rank_correlation": outcome.predicted.and_then(|of| of.rank_correlation),
            "prediction_bias": outcome.predicted.and_then(|of| of.bias),
        });
        (name.clone(), value)
    };
    let cells = cells.iter().map(|cell| {
        serde_json::json!({
            "clients": cell.setup.clients,
            "points_in_ten": cell.setup.points_in_ten,
            "queries": cell.setup.queries,
            "arms": cell.arms.iter().map(arm).collect::<serde_json::Map<_, _>>(),
        })
    });
    let costs = setup.costs.figures().into_iter();
    let costs: serde_json::Map<String, serde_json::Value> = costs
        .map(|(name, _, value)| (name.to_owned(), value.into()))
        .collect();
    serde_json::json!({
        "experiment": "scheduling",
        "simulated": true,
        "seed": setup.seed,
        "nodes": setup.nodes,
        "vnodes": setup.vnodes,
        "cores": setup.cores,
        "one_machine": setup.one_machine,
        "read_threads": setup.read_threads,
        "proxies": setup.proxies,
        "workers": setup.workers,
        "tables": setup.tables,
        "rows": setup.rows,
        "row_bytes": setup.row_bytes,
        "scan_rows_max": setup.scan_rows_max,
        "time_out_us": setup.time_out_us,
        "shrink": setup.shrink,
        "calibration": costs,
        "cells": cells.collect::<Vec<_>>(),
    })
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:960px;margin:2em auto;\
padding:0 1em;color:#222;background:#fff}table{border-collapse:collapse;font-size:14px}\
td,th{padding:3px 8px;border-bottom:1px solid #ddd;text-align:right}td:first-child,\
th:first-child{text-align:left}svg{width:100%;height:auto;font:12px system-ui,sans-serif}\
svg .grid{stroke:#e3e3e3}svg .whisker{stroke:#222}svg .title{font-weight:600;font-size:14px}";

pub(super) fn page(setup: &Setup, cells: &[Cell], figures: &[BarChart]) -> String {
    let title = "helenus sim scheduling";
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>Simulated: {} nodes, {} cores{}, \
         {} proxies, seed {}. Times in milliseconds; what failed counts with the client's \
         time-out.</p>\n",
        setup.nodes,
        setup.cores,
        if setup.one_machine {
            " for all"
        } else {
            " each"
        },
        setup.proxies,
        setup.seed
    );
    let charts: [(&str, Figure); 4] = [
        ("Points, mean", |o| o.points.mean_us()),
        ("Points, 99th percentile", |o| {
            o.points.quantile_us(0.99) as f64
        }),
        ("Scans, mean", |o| o.scans.mean_us()),
        ("Scans, 99th percentile", |o| {
            o.scans.quantile_us(0.99) as f64
        }),
    ];
    for figure in figures {
        out += &figure.svg();
    }
    for (title, value) in charts {
        out += &chart(title, cells, value).svg();
    }
    for cell in cells {
        let header = HEADER.map(|name| format!("<th>{}", escape(name))).concat();
        let _ = write!(
            out,
            "<h2>{}</h2>\n<table><tr>{header}</tr>\n",
            escape(&cell.name)
        );
        for (name, outcome) in &cell.arms {
            let fields = row(cell, name, outcome).into_iter();
            let fields: String = fields.map(|f| format!("<td>{}", escape(&f))).collect();
            let _ = writeln!(out, "<tr>{fields}</tr>");
        }
        out += "</table>\n";
    }
    out + "</body></html>\n"
}

fn chart(title: &str, cells: &[Cell], value: Figure) -> BarChart {
    let arms = cells.first().map_or(&[][..], |cell| &cell.arms);
    BarChart {
        title: title.to_owned(),
        axis: "ms".to_owned(),
        series: arms.iter().map(|(name, _)| name.clone()).collect(),
        colours: Vec::new(),
        groups: cells
            .iter()
            .map(|cell| Group {
                name: cell.name.clone(),
                values: cell
                    .arms
                    .iter()
                    .map(|(_, outcome)| Spread::of(&[value(outcome) / 1000.0]))
                    .collect(),
            })
            .collect(),
    }
}
