//! Medians and ratios, as a table and as JSON.

use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Plan;
use crate::compare::{Cell, Measured};

type Measure = (&'static str, fn(&Measured) -> f64);

const MEASURES: [Measure; 7] = [
    ("cpu_us_per_query", |m| {
        m.cpu_us.relay as f64 / m.slice.queries as f64
    }),
    ("syscalls_per_query", |m| {
        m.calls.total() as f64 / m.slice.queries as f64
    }),
    ("all_cpu_us_per_query", |m| {
        m.cpu_us.total() as f64 / m.slice.queries as f64
    }),
    ("queries_per_write_to_node", |m| {
        m.slice.queries as f64 / m.calls.link_writes as f64
    }),
    ("queries_per_second", |m| {
        m.slice.queries as f64 * 1e6 / m.slice.elapsed_us as f64
    }),
    ("latency_us_p50", |m| m.slice.latency_us_p50),
    ("latency_us_p99", |m| m.slice.latency_us_p99),
];

/// The median, and how far the rounds are apart.
#[derive(Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

pub fn print(plan: &Plan, cells: &[Cell]) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "load",
        "back end",
        "CPU µs a query",
        "system calls a query",
        "CPU µs of all",
        "queries a write to a node",
        "queries a second",
        "p50 µs",
        "p99 µs",
    ]);
    for cell in cells {
        let base = base_of(plan, cells, cell);
        let mut row = vec![cell.load.to_string(), cell.back_end.name()];
        for (at, (_, measure)) in MEASURES.iter().enumerate() {
            let digits = match at {
                0..3 => 2,
                3 => 1,
                _ => 0,
            };
            let value = spread(cell.slices.iter().map(measure)).median;
            row.push(match base {
                None => format!("{value:.digits$}"),
                Some(base) => {
                    let Spread { median, min, max } = ratio(cell, base, *measure);
                    format!("{value:.digits$} = {median:.2} ({min:.2} to {max:.2})")
                }
            });
        }
        table.add_row(row);
    }
    println!(
        "Linux {}, {} cores; {} slices of {} ms each; ratios to `{}` of the same round: median (least to greatest)\n{table}",
        kernel(),
        cores(),
        plan.slices,
        plan.slice_ms,
        plan.back_ends[0].name(),
    );
}

pub fn write_json(path: &Path, plan: &Plan, cells: &[Cell]) -> Result<()> {
    let ratios: Vec<Value> = cells
        .iter()
        .filter_map(|cell| {
            let base = base_of(plan, cells, cell)?;
            let mut ratios = json!({
                "load": cell.load,
                "back_end": cell.back_end,
                "base": base.back_end,
            });
            for (name, measure) in MEASURES {
                ratios[name] = json!(ratio(cell, base, measure));
            }
            Some(ratios)
        })
        .collect();
    let report = json!({
        "experiment": "io_uring",
        "machine": { "kernel": kernel(), "cores": cores() },
        "plan": plan,
        "ratios": ratios,
        "cells": cells,
    });
    let text = serde_json::to_string_pretty(&report)?;
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// The cell that another is compared with; none for itself.
fn base_of<'a>(plan: &Plan, cells: &'a [Cell], cell: &Cell) -> Option<&'a Cell> {
    let base = cells
        .iter()
        .find(|c| c.load == cell.load && c.back_end == plan.back_ends[0])?;
    (base.back_end != cell.back_end).then_some(base)
}

/// Slices of the same round are compared, since they were measured one soon after the other.
fn ratio(cell: &Cell, base: &Cell, measure: fn(&Measured) -> f64) -> Spread {
    spread(
        cell.slices
            .iter()
            .zip(&base.slices)
            .map(|(a, b)| measure(a) / measure(b)),
    )
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
    let len = values.len();
    Spread {
        median: (middle(len.saturating_sub(1) / 2) + middle(len / 2)) / 2.0,
        min: middle(0),
        max: middle(len.saturating_sub(1)),
    }
}

fn kernel() -> String {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    // What follows the numbers names somebody's build.
    release.split('-').next().unwrap_or_default().to_owned()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
