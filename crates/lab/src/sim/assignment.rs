//! `helenus sim assignment`: policies of replica choice, and what goes wrong around them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use helenus_load::report::svg::number;
use helenus_sim::assignment;
use helenus_sim::queueing::{Cell, Demand, Outcome, Policy, Setup, run as simulate};

use super::parallel::in_parallel;

#[derive(Args)]
pub(super) struct AssignmentArgs {
    /// Seed; the same seed repeats a result.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Nodes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(3..=1000))]
    nodes: u16,
    /// Proxies; none knows what the others do.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    proxies: u16,
    /// Percentage of the nodes' time that is used while nothing goes wrong.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u8).range(1..=90))]
    utilisation: u8,
    /// Write all figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

type Results = Vec<(Cell, Vec<(Policy, Outcome)>)>;

pub(super) fn assignment(args: &AssignmentArgs) -> Result<()> {
    let results = simulate_all(args);
    for (cell, outcomes) in &results {
        println!("{}\n{}\n", cell.name(), table(outcomes));
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&json(args, &results))?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn simulate_all(args: &AssignmentArgs) -> Results {
    let setup = |cell, policy| Setup {
        policy,
        nodes: args.nodes,
        proxies: args.proxies.into(),
        demand: Demand::Utilisation(f64::from(args.utilisation) / 100.0),
        ..assignment::setup(cell, args.seed)
    };
    let runs: Vec<(Cell, Policy)> = Cell::ALL
        .into_iter()
        .flat_map(|cell| Policy::ALL.map(|policy| (cell, policy)))
        .collect();
    let run = |(cell, policy): &(Cell, Policy)| simulate(&setup(*cell, *policy));
    let mut outcomes = in_parallel(&runs, run).into_iter();
    let cells = Cell::ALL.into_iter().map(|cell| {
        let outcomes = Policy::ALL.into_iter().zip(outcomes.by_ref());
        (cell, outcomes.collect())
    });
    cells.collect()
}

fn table(outcomes: &[(Policy, Outcome)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "policy",
        "answers/s",
        "mean ms",
        "p50",
        "p99",
        "p99.9",
        "longest queue",
        "timed out",
    ]);
    for (policy, outcome) in outcomes {
        let quantile = |share| number(outcome.times.quantile_us(share) as f64 / 1000.0);
        table.add_row([
            policy.name().to_owned(),
            number(outcome.throughput()),
            number(outcome.times.mean_us() / 1000.0),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            outcome.present_max.to_string(),
            outcome.timed_out.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn json(args: &AssignmentArgs, results: &Results) -> serde_json::Value {
    let arm = |(policy, outcome): &(Policy, Outcome)| {
        let value = serde_json::json!({
            "answers_per_second": outcome.throughput(),
            "mean_us": outcome.times.mean_us(),
            "p50_us": outcome.times.quantile_us(0.5),
            "p99_us": outcome.times.quantile_us(0.99),
            "p999_us": outcome.times.quantile_us(0.999),
            "queue_max": outcome.present_max,
            "timed_out": outcome.timed_out,
        });
        (policy.name().to_owned(), value)
    };
    let cells = results.iter().map(|(cell, outcomes)| {
        let arms: serde_json::Map<_, _> = outcomes.iter().map(arm).collect();
        (cell.name().to_owned(), serde_json::Value::Object(arms))
    });
    serde_json::json!({
        "experiment": "assignment",
        "seed": args.seed,
        "nodes": args.nodes,
        "proxies": args.proxies,
        "utilisation_percent": args.utilisation,
        "cells": cells.collect::<serde_json::Map<_, _>>(),
    })
}
