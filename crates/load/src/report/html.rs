//! A report as one self-contained page.

use crate::measure::Phase;
use crate::report::spread::Spread;
use crate::report::svg::{BarChart, Group, escape, number};
use crate::report::{Report, write};
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:960px;margin:2em auto;\
padding:0 1em;color:#222;background:#fff}h1{margin-bottom:0}code{background:#f2f2f2;padding:1px 4px;\
overflow-wrap:anywhere}table{border-collapse:collapse;margin:.6em 0 1.4em;font-size:14px}\
td,th{padding:3px 10px;border-bottom:1px solid #ddd;text-align:right;font-variant-numeric:tabular-nums}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;font:12px system-ui,sans-serif;\
margin:.5em 0}svg .grid{stroke:#e3e3e3}svg .whisker{stroke:#222;stroke-width:1.2}\
svg .title{font-weight:600;font-size:14px}.bad{color:#b00020;font-weight:600}\
.wide{overflow-x:auto}";

impl Report {
    pub fn write_html(&self, path: &Path) -> Result<()> {
        write(path, &page(self))
    }
}

pub fn page(report: &Report) -> String {
    let title = match report.experiment.as_str() {
        command @ ("load" | "load ramp" | "demo") => format!("helenus {command}"),
        experiment => format!("helenus bench {experiment}"),
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n\
         <p><code>{1}</code></p>\n",
        escape(&title),
        escape(&report.command)
    );
    out += &ratios(report);
    if report.charts.is_empty() {
        for chart in charts(report) {
            out += &chart.svg();
        }
    }
    out.extend(report.charts.iter().map(String::as_str));
    out += &settings(report);
    out += &raw(report);
    out + "</body></html>\n"
}

fn ratios(report: &Report) -> String {
    if report.ratios.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<h2>Result</h2>\n<p>Medians over {} rounds, with the least and the greatest round.</p>\n\
         <table><tr><th>key<th>median<th>least<th>greatest</tr>\n",
        report.rounds
    );
    for (key, spread) in &report.ratios {
        out += &format!(
            "<tr><td>{}<td>{}<td>{}<td>{}</tr>\n",
            escape(key),
            number(spread.median),
            number(spread.min),
            number(spread.max)
        );
    }
    out += "</table>\n";
    if report.errors_total() > 0 {
        out += &format!(
            "<p class=\"bad\">{} operations failed; see the raw numbers.</p>\n",
            report.errors_total()
        );
    }
    out
}

/// One chart per quantity and kind of cell, so that no axis mixes the latency of one client with
/// that of hundreds.
fn charts(report: &Report) -> Vec<BarChart> {
    let cells: BTreeSet<&String> = report
        .arms
        .values()
        .flat_map(|cells| cells.keys())
        .collect();
    let is_low = |cell: &&String| cell.ends_with(", 1 clients") || cell.ends_with("/s");
    let low: Vec<&String> = cells.iter().copied().filter(is_low).collect();
    let full: Vec<&String> = cells.iter().copied().filter(|cell| !is_low(cell)).collect();
    let mut charts = Vec::new();
    let mut draw =
        |title: &str, axis: &str, cells: &[&String], value: fn(&Phase) -> Option<f64>| {
            let chart = chart(report, title, axis, cells, value);
            if chart
                .groups
                .iter()
                .any(|group| group.values.iter().any(Option::is_some))
            {
                charts.push(chart);
            }
        };
    draw(
        "Median latency at low load",
        "latency p50, µs",
        &low,
        |phase| Some(phase.latency.us_p50 as f64),
    );
    draw(
        "99th percentile at low load",
        "latency p99, µs",
        &low,
        |phase| Some(phase.latency.us_p99 as f64),
    );
    draw("Throughput at saturation", "queries/s", &full, |phase| {
        Some(phase.ops_per_second)
    });
    draw(
        "99th percentile at saturation",
        "latency p99, µs",
        &full,
        |phase| Some(phase.latency.us_p99 as f64),
    );
    draw(
        "CPU time of the proxy at saturation",
        "µs per query",
        &full,
        |phase| Some(phase.processes.get("proxy")?.cpu_us_per_op),
    );
    draw(
        "CPU time of the client at saturation",
        "µs per query",
        &full,
        |phase| Some(phase.processes.get("client")?.cpu_us_per_op),
    );
    charts
}

fn chart(
    report: &Report,
    title: &str,
    axis: &str,
    cells: &[&String],
    value: fn(&Phase) -> Option<f64>,
) -> BarChart {
    let arms: Vec<&String> = report.arms.keys().collect();
    BarChart {
        title: title.into(),
        axis: axis.into(),
        series: arms.iter().map(|arm| (*arm).clone()).collect(),
        colours: Vec::new(),
        groups: cells
            .iter()
            .map(|cell| Group {
                name: (*cell).clone(),
                values: arms
                    .iter()
                    .map(|arm| {
                        let phases = report.phases(arm, cell).iter();
                        Spread::of(&phases.filter_map(value).collect::<Vec<f64>>())
                    })
                    .collect(),
            })
            .collect(),
    }
}

fn settings(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = String::from("<h2>Conditions</h2>\n<table>\n");
    let mut row = |name: &str, value: &str| {
        out += &format!("<tr><td>{}<td>{}</tr>\n", escape(name), escape(value));
    };
    row(
        "cores",
        &format!("{} × {}", machine.cores, machine.processor),
    );
    row("memory", &format!("{} MiB", machine.memory_mib));
    match &machine.storage_profile {
        Some(storage) => {
            for (name, value) in storage.describe() {
                row(&name, &value);
            }
        }
        None => row("storage", &machine.storage),
    }
    row("kernel", &machine.kernel);
    for (name, version) in &machine.versions {
        row(name, version);
    }
    for (name, value) in &report.settings {
        row(name, value);
    }
    out += "</table>\n";
    for note in &report.notes {
        out += &format!("<p>{}</p>\n", escape(note));
    }
    out
}

fn raw(report: &Report) -> String {
    let mut out = String::from(
        "<h2>Raw numbers</h2>\n<div class=\"wide\"><table>\
         <tr><th>cell<th>arm<th>round<th>queries/s<th>mean µs<th>p50 µs<th>p95 µs<th>p99 µs\
         <th>p99.9 µs<th>max µs<th>errors<th>proxy CPU µs/query<th>client CPU µs/query</tr>\n",
    );
    let cells: BTreeSet<&String> = report
        .arms
        .values()
        .flat_map(|cells| cells.keys())
        .collect();
    for cell in cells {
        for arm in report.arms.keys() {
            for (round, phase) in report.phases(arm, cell).iter().enumerate() {
                let cpu = |name| {
                    let used = phase.processes.get(name);
                    used.map_or_else(|| "–".to_owned(), |used| number(used.cpu_us_per_op))
                };
                let latency = &phase.latency;
                out += &format!(
                    "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
                    escape(cell),
                    escape(arm),
                    round + 1,
                    number(phase.ops_per_second),
                    number(latency.us_mean),
                    number(latency.us_p50 as f64),
                    number(latency.us_p95 as f64),
                    number(latency.us_p99 as f64),
                    number(latency.us_p999 as f64),
                    number(latency.us_max as f64),
                    phase.errors_total(),
                    cpu("proxy"),
                    cpu("client"),
                );
            }
        }
    }
    out + "</table></div>\n" + &by_kind(report) + &further(report)
}

/// Point reads and scans separately, where failures are priced in.
fn by_kind(report: &Report) -> String {
    let mut rows = String::new();
    for (arm, cells) in &report.arms {
        for (cell, phases) in cells {
            for (round, phase) in phases.iter().enumerate() {
                for (kind, measured) in &phase.by_kind {
                    let is_used = measured.ops + measured.failed > 0;
                    let Some(latency) = measured.with_failures.filter(|_| is_used) else {
                        continue;
                    };
                    rows += &format!(
                        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
                        escape(cell),
                        escape(arm),
                        round + 1,
                        escape(kind),
                        measured.ops,
                        measured.failed,
                        number(latency.us_mean),
                        number(latency.us_p50 as f64),
                        number(latency.us_p95 as f64),
                        number(latency.us_p99 as f64),
                        number(latency.us_p999 as f64),
                    );
                }
            }
        }
    }
    match rows.is_empty() {
        true => rows,
        false => format!(
            "<h2>By kind of query</h2>\n<p>Failed queries count with the client's time-out.</p>\n\
             <div class=\"wide\"><table><tr><th>cell<th>arm<th>round<th>kind<th>succeeded<th>failed\
             <th>mean µs<th>p50 µs<th>p95 µs<th>p99 µs<th>p99.9 µs</tr>\n{rows}</table></div>\n"
        ),
    }
}

/// Figures that only some experiments have.
fn further(report: &Report) -> String {
    let mut rows = String::new();
    for (arm, cells) in &report.arms {
        for (cell, phases) in cells {
            for (round, phase) in phases.iter().enumerate() {
                let figures = phase.extra.iter();
                let figures: Vec<String> = figures
                    .map(|(name, value)| format!("{name} {}", number(*value)))
                    .collect();
                if !figures.is_empty() {
                    rows += &format!(
                        "<tr><td>{}<td>{}<td>{}<td>{}</tr>\n",
                        escape(cell),
                        escape(arm),
                        round + 1,
                        escape(&figures.join(", "))
                    );
                }
            }
        }
    }
    match rows.is_empty() {
        true => rows,
        false => format!(
            "<h2>Further figures</h2>\n<div class=\"wide\"><table>\
             <tr><th>cell<th>arm<th>round<th>figures</tr>\n{rows}</table></div>\n"
        ),
    }
}
