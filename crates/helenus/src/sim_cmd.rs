//! `helenus sim`: experiments in virtual time, around the proxy's own code.

mod chaos;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::spread::Spread;
use helenus_load::svg::{BarChart, Group, escape, number};
use helenus_sim::outcome::{Outcome, Times};
use helenus_sim::setup::{Arm, Setup};
use helenus_sim::world::run as simulate;

/// Try policies on simulated nodes: the same seed gives the same result.
#[derive(Args)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Point reads and ranges on first-come-first-served nodes: direct, the paper's variants, and the
    /// default.
    Scheduling(SchedulingArgs),
    /// Whole proxies between modelled clients, nodes and a network that fail in many ways, with checks of
    /// the invariants.
    Chaos(chaos::ChaosArgs),
}

#[derive(Clone, Copy, ValueEnum)]
enum Preset {
    /// 12 nodes, 2,000 queries.
    Paper,
    /// 100 nodes, 10 proxies that do not know each other, 20,000 queries.
    Large,
}

#[derive(Args)]
struct SchedulingArgs {
    /// Defaults for the other settings.
    #[arg(long, value_enum, default_value = "paper")]
    preset: Preset,
    /// Nodes [default: the preset's].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: Option<u32>,
    /// Proxies [default: the preset's].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    proxies: Option<u32>,
    /// Numbers of clients, one cell of the experiment for each.
    #[arg(long, value_delimiter = ',', default_value = "125,250,500,1000",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Ratios of points to ranges, adding up to ten, one cell of the experiment for each.
    #[arg(long, value_delimiter = ',', default_value = "9:1,5:5", value_parser = points_in_ten)]
    mix: Vec<u32>,
    /// Total queries per cell [default: the preset's].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queries: Option<u32>,
    /// Reads that a node runs in parallel at full speed.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=128))]
    read_threads: u32,
    /// Seed; the same seed repeats a result.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write all figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn points_in_ten(text: &str) -> Result<u32, String> {
    let parts = text.split_once(':');
    let parts = parts.and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
    match parts {
        Some((points, ranges)) if points <= 10 && ranges == 10 - points => Ok(points),
        _ => Err("two numbers that add up to ten, as in 9:1".to_owned()),
    }
}

/// All arms under the same load.
struct Cell {
    name: String,
    clients: u32,
    points_in_ten: u32,
    arms: Vec<(String, Outcome)>,
}

/// The quantity of an arm shown in a chart or a ratio, in microseconds.
type Figure = fn(&Outcome) -> f64;

pub(crate) fn run(args: SimArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Scheduling(args) => scheduling(&args),
        Action::Chaos(args) => chaos::chaos(&args),
    }
}

fn scheduling(args: &SchedulingArgs) -> anyhow::Result<()> {
    let preset = match args.preset {
        Preset::Paper => Setup::paper(),
        Preset::Large => Setup::large(),
    };
    let base = Setup {
        seed: args.seed,
        nodes: args.nodes.unwrap_or(preset.nodes),
        proxies: args.proxies.unwrap_or(preset.proxies),
        queries: args.queries.unwrap_or(preset.queries),
        read_threads: args.read_threads,
        ..preset
    };
    if args.clients.is_empty() || args.mix.is_empty() {
        bail!("--clients and --mix need at least one value");
    }
    let mut cells = Vec::new();
    for &points_in_ten in &args.mix {
        for &clients in &args.clients {
            let setup = Setup {
                clients,
                points_in_ten,
                ..base
            };
            let arms = Arm::all(&setup).into_iter();
            cells.push(Cell {
                name: format!("{points_in_ten}:{}, {clients} clients", 10 - points_in_ten),
                clients,
                points_in_ten,
                arms: arms
                    .map(|(name, arm)| (name, simulate(&setup, &arm)))
                    .collect(),
            });
        }
    }
    for cell in &cells {
        println!("{}\n{}\n", cell.name, table(cell));
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&json(&base, &cells))?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.html {
        std::fs::write(path, page(&base, &cells))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

const HEADER: [&str; 12] = [
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
    "refused",
];

/// Milliseconds, and ratios to direct, as text.
fn row(cell: &Cell, name: &str, outcome: &Outcome) -> Vec<String> {
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
        (outcome.points_refused + outcome.scans_refused).to_string(),
    ]
}

fn table(cell: &Cell) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table.set_header(HEADER);
    for (name, outcome) in &cell.arms {
        table.add_row(row(cell, name, outcome));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn json(setup: &Setup, cells: &[Cell]) -> serde_json::Value {
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
    let arm = |(name, outcome): &(String, Outcome)| {
        let value = serde_json::json!({
            "points": times(&outcome.points),
            "scans": times(&outcome.scans),
            "points_refused": outcome.points_refused,
            "scans_refused": outcome.scans_refused,
            "length_us": outcome.length_us,
            "utilisation": outcome.utilisation,
            "node_queue_most": outcome.node_queue_most,
        });
        (name.clone(), value)
    };
    let cells = cells.iter().map(|cell| {
        serde_json::json!({
            "clients": cell.clients,
            "points_in_ten": cell.points_in_ten,
            "arms": cell.arms.iter().map(arm).collect::<serde_json::Map<_, _>>(),
        })
    });
    serde_json::json!({
        "experiment": "scheduling",
        "simulated": true,
        "seed": setup.seed,
        "nodes": setup.nodes,
        "read_threads": setup.read_threads,
        "proxies": setup.proxies,
        "queries": setup.queries,
        "tables": setup.tables,
        "rows": setup.rows,
        "count_max": setup.count_max,
        "delay_us": setup.delay_us,
        "point_us": setup.costs.point_us,
        "range_us": setup.costs.range_us,
        "row_us": setup.costs.row_us,
        "cells": cells.collect::<Vec<_>>(),
    })
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:960px;margin:2em auto;\
padding:0 1em;color:#222;background:#fff}table{border-collapse:collapse;font-size:14px}\
td,th{padding:3px 8px;border-bottom:1px solid #ddd;text-align:right}td:first-child,\
th:first-child{text-align:left}svg{width:100%;height:auto;font:12px system-ui,sans-serif}\
svg .grid{stroke:#e3e3e3}svg .whisker{stroke:#222}svg .title{font-weight:600;font-size:14px}";

fn page(setup: &Setup, cells: &[Cell]) -> String {
    let title = "helenus sim scheduling";
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>Simulated: {} nodes, {} reads \
         at a time each, {} proxies, {} queries a cell, seed {}. Times in milliseconds.</p>\n",
        setup.nodes, setup.read_threads, setup.proxies, setup.queries, setup.seed
    );
    let charts: [(&str, Figure); 4] = [
        ("Points, mean", |o| o.points.mean_us()),
        ("Points, 99th percentile", |o| {
            o.points.quantile_us(0.99) as f64
        }),
        ("Ranges, mean", |o| o.scans.mean_us()),
        ("Ranges, 99th percentile", |o| {
            o.scans.quantile_us(0.99) as f64
        }),
    ];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_make_ten() {
        assert_eq!(points_in_ten("9:1"), Ok(9));
        assert_eq!(points_in_ten("0:10"), Ok(0));
        for wrong in ["", "9", "9:2", "11:-1", "11:4294967295", "a:b"] {
            assert!(points_in_ten(wrong).is_err(), "{wrong}");
        }
    }
}
