//! The output of `helenus sim capacity`.

use super::ramp::Measured;
use super::results::Results;
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use helenus_load::report::svg::number;
use helenus_sim::capacity::sweep::{Errors, knee};
use helenus_sim::queueing::{Outcome, Setup};
use serde_json::{Value, json};
use std::path::Path;

/// Throughput of the ramp that a single simulated node must repeat to be believed.
const ERROR_SHARE_MAX: f64 = 0.03;

pub(super) fn model(measured: &Measured, setup: &Setup, errors: &Errors) {
    let curve = &measured.curve;
    println!(
        "Measured: {} node(s), at most {} queries/s each; a query alone takes {} ms.",
        measured.nodes,
        number(curve.peak()),
        number(curve.alone_us() / 1000.0)
    );
    if let Some(us) = measured.node_cpu_us {
        let cores = measured.node_cores.map_or(String::new(), |cores| {
            format!(
                " Its {} cores bound it to {} queries/s.",
                number(cores),
                number(cores * 1e6 / us)
            )
        });
        println!("A query costs {} µs of a node's CPU.{cores}", number(us));
    }
    println!(
        "One simulated node repeats the ramp's throughput within {:.1} %, its p50 within {:.0} % and its p99 \
         within {:.0} %.",
        errors.ops_per_second * 100.0,
        errors.latency_us_p50 * 100.0,
        errors.latency_us_p99 * 100.0
    );
    if errors.ops_per_second > ERROR_SHARE_MAX {
        println!("Warning: that is too far off; the figures below are as unreliable.");
    }
    for doubt in measured.doubts() {
        println!("Warning: {doubt}");
    }
    if let Some(factor) = measured
        .replication
        .as_deref()
        .filter(|factor| *factor != "1")
    {
        println!(
            "Warning: the ramp was measured with replication factor {factor}, whose copies are in its curve \
             already: leave out --writes."
        );
    }
    println!(
        "Simulated: {} nodes, {} replicas, {} proxies, {:.0} % writes, keys {}; if all nodes were used alike, \
         {} queries/s.\n",
        setup.nodes,
        setup.replicas,
        setup.proxies,
        setup.write_share * 100.0,
        match setup.zipf {
            0.0 => "alike".to_owned(),
            zipf => format!("Zipf {zipf}"),
        },
        number(setup.bound())
    );
}

pub(super) fn results(setup: &Setup, results: &Results) {
    let name = results.policy.name();
    println!("{name}, by clients\n{}", closed(setup, results));
    if let Some((clients, outcome)) = knee(&results.closed) {
        println!(
            "Knee of {} nodes: {clients} clients, {} queries/s, {:.0} % of {} single nodes, p99 {} ms.\n",
            setup.nodes,
            number(outcome.throughput()),
            100.0 * outcome.throughput() / setup.bound(),
            setup.nodes,
            number(outcome.times.quantile_us(0.99) as f64 / 1000.0)
        );
    }
    println!("{name}, by offered load\n{}\n", open(setup, results));
}

fn closed(setup: &Setup, results: &Results) -> Table {
    let mut table = table("clients");
    for (clients, outcome) in &results.closed {
        let per_node = *clients as f64 / f64::from(setup.nodes);
        let alone = f64::from(setup.nodes) * setup.service.rate(per_node) / setup.copies();
        let share = outcome.throughput() / alone;
        table.add_row(row(clients.to_string(), share, outcome));
    }
    align(table)
}

fn open(setup: &Setup, results: &Results) -> Table {
    let mut table = table("offered/s");
    for (rate, outcome) in &results.open {
        let share = outcome.throughput() / setup.bound();
        table.add_row(row(number(*rate), share, outcome));
    }
    align(table)
}

fn table(first: &str) -> Table {
    let share = match first {
        "clients" => "of single nodes",
        _ => "of the bound",
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        first,
        "answers/s",
        share,
        "p50 ms",
        "p99 ms",
        "timed out",
        "busiest node",
        "herding",
        "most at a node",
    ]);
    table
}

fn row(first: String, share: f64, outcome: &Outcome) -> [String; 9] {
    let quantile = |share| number(outcome.times.quantile_us(share) as f64 / 1000.0);
    [
        first,
        number(outcome.throughput()),
        format!("{:.0} %", share * 100.0),
        quantile(0.5),
        quantile(0.99),
        format!("{:.2} %", outcome.timed_out_share() * 100.0),
        format!("{:.2} ×", outcome.busiest_vs_mean),
        format!("{:.2}", outcome.herding),
        outcome.present_max.to_string(),
    ]
}

fn align(mut table: Table) -> Table {
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

pub(super) fn write_json(
    path: &Path,
    measured: &Measured,
    setup: &Setup,
    errors: &Errors,
    all: &[Results],
) -> Result<()> {
    let text = serde_json::to_string_pretty(&value(measured, setup, errors, all))?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn value(measured: &Measured, setup: &Setup, errors: &Errors, all: &[Results]) -> Value {
    let curve = &measured.curve;
    let points = curve.points().iter();
    let points = points.map(|point| json!([point.clients, point.ops_per_second]));
    let policies = all.iter().map(|results| {
        let knee = knee(&results.closed).map(|(clients, outcome)| closed_value(*clients, outcome));
        let closed = results.closed.iter();
        let open = results.open.iter();
        let value = json!({
            "knee": knee,
            "by_clients": closed
                .map(|(clients, outcome)| closed_value(*clients, outcome))
                .collect::<Vec<Value>>(),
            "by_offered_load": open
                .map(|(rate, outcome)| with(json!({ "offered_per_second": rate }), outcome))
                .collect::<Vec<Value>>(),
        });
        (results.policy.name().to_owned(), value)
    });
    json!({
        "experiment": "sim capacity",
        "seed": setup.seed,
        "measured": {
            "nodes": measured.nodes,
            "clients_and_ops_per_second_of_a_node": points.collect::<Vec<Value>>(),
            "sigma": curve.sigma(),
            "node_cpu_us_per_query": measured.node_cpu_us,
            "node_cores": measured.node_cores,
            "doubts": measured.doubts(),
        },
        "one_node_error_share": {
            "ops_per_second": errors.ops_per_second,
            "latency_us_p50": errors.latency_us_p50,
            "latency_us_p99": errors.latency_us_p99,
        },
        "nodes": setup.nodes,
        "proxies": setup.proxies,
        "replicas": setup.replicas,
        "write_share": setup.write_share,
        "keys": setup.keys,
        "zipf": setup.zipf,
        "hop_us": setup.hop_us,
        "bound_ops_per_second": setup.bound(),
        "policies": policies.collect::<serde_json::Map<_, _>>(),
    })
}

fn closed_value(clients: usize, outcome: &Outcome) -> Value {
    with(json!({ "clients": clients }), outcome)
}

fn with(mut value: Value, outcome: &Outcome) -> Value {
    let figures = json!({
        "answers_per_second": outcome.throughput(),
        "mean_us": outcome.times.mean_us(),
        "p50_us": outcome.times.quantile_us(0.5),
        "p99_us": outcome.times.quantile_us(0.99),
        "timed_out_share": outcome.timed_out_share(),
        "busiest_node_vs_mean": outcome.busiest_vs_mean,
        "herding": outcome.herding,
        "most_at_a_node": outcome.present_max,
    });
    if let (Value::Object(value), Value::Object(figures)) = (&mut value, figures) {
        value.extend(figures);
    }
    value
}
