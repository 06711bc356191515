//! The output of `helenus load`: a summary, ratios of the arms, plots.

use helenus_load::measure::{Latency, Phase};
use helenus_load::report::Report;
use helenus_load::report::spread::Spread;
use helenus_load::report::svg::{BarChart, Group, Line, LineChart, number};

/// Each arm against the first.
pub(super) fn compare(report: &mut Report, arms: &[String], cell: &str) {
    let Some((first, others)) = arms.split_first() else {
        return;
    };
    type Quantity = (&'static str, fn(&Phase) -> f64);
    let quantities: [Quantity; 3] = [
        ("throughput", |phase| phase.ops_per_second),
        ("latency_p50", |phase| phase.latency.us_p50 as f64),
        ("latency_p99", |phase| phase.latency.us_p99 as f64),
    ];
    for arm in others {
        for (name, of) in quantities {
            let ratios = report.compare(arm, first, cell, |one, other| of(one) / of(other));
            report.set_ratio(format!("{arm}.{name}_vs_{first}"), &ratios);
        }
    }
}

pub(super) fn summary(report: &Report, arms: &[String], cell: &str) -> String {
    let mut out = String::new();
    for arm in arms {
        let phases = report.phases(arm, cell);
        for (round, phase) in phases.iter().enumerate() {
            out += &match phases.len() {
                1 => format!("{arm}, {cell}\n"),
                _ => format!("{arm}, {cell}, round {}\n", round + 1),
            };
            out += &of_phase(phase);
        }
    }
    for (key, Spread { median, min, max }) in &report.ratios {
        let [median, min, max] = [*median, *min, *max].map(number);
        out += &format!("{key}: {median} ({min} to {max})\n");
    }
    out
}

fn of_phase(phase: &Phase) -> String {
    let mut out = format!(
        "  {} queries in {:.1} s: {:.0}/s, {} failed\n",
        phase.ops,
        phase.seconds,
        phase.ops_per_second,
        phase.errors_total()
    );
    let mut line = |name: &str, ops: u64, latency: &Latency| {
        if ops > 0 {
            out += &format!(
                "  {name:<17} {ops:>8}  mean {:.0}  p50 {}  p95 {}  p99 {}  p99.9 {}  max {} µs\n",
                latency.us_mean,
                latency.us_p50,
                latency.us_p95,
                latency.us_p99,
                latency.us_p999,
                latency.us_max
            );
        }
    };
    let kinds = phase.by_kind.values().filter(|kind| kind.ops > 0).count();
    if kinds > 1 {
        line("all", phase.ops, &phase.latency);
    }
    for (name, kind) in &phase.by_kind {
        line(name, kind.ops, &kind.latency);
    }
    for (name, used) in &phase.processes {
        out += &format!(
            "  {name}: {:.1} µs CPU a query, {} MiB resident\n",
            used.cpu_us_per_op,
            used.resident_kib / 1024
        );
    }
    for (error, times) in &phase.errors {
        out += &format!("  failed: {error}: {times}\n");
    }
    out
}

pub(super) fn charts(report: &Report, arms: &[String], cell: &str) -> Vec<String> {
    let spread = |arm: &String, of: &dyn Fn(&Phase) -> f64| {
        Spread::of(
            &report
                .phases(arm, cell)
                .iter()
                .map(of)
                .collect::<Vec<f64>>(),
        )
    };
    let bars = |title: &str, axis: &str, groups: Vec<Group>| {
        BarChart {
            title: title.into(),
            axis: axis.into(),
            series: arms.to_vec(),
            colours: Vec::new(),
            groups,
        }
        .svg()
    };
    let group = |name: &str, of: &dyn Fn(&Phase) -> f64| Group {
        name: name.into(),
        values: arms.iter().map(|arm| spread(arm, of)).collect(),
    };
    let mut charts = vec![
        bars(
            "Throughput",
            "queries/s",
            vec![group(cell, &|phase| phase.ops_per_second)],
        ),
        bars(
            "Latency",
            "µs",
            vec![
                group("p50", &|phase| phase.latency.us_p50 as f64),
                group("p95", &|phase| phase.latency.us_p95 as f64),
                group("p99", &|phase| phase.latency.us_p99 as f64),
                group("p99.9", &|phase| phase.latency.us_p999 as f64),
            ],
        ),
    ];
    let over_time =
        |title: &str, axis: &str, of: &dyn Fn(&helenus_load::progress::IntervalStats) -> f64| {
            let line = |(colour, arm): (usize, &String)| Line {
                name: arm.clone(),
                colour,
                points: report
                    .timeline
                    .get(arm)
                    .map_or(&[][..], Vec::as_slice)
                    .iter()
                    .map(|stats| (stats.at_seconds, of(stats)))
                    .collect(),
            };
            LineChart {
                title: title.into(),
                axis: axis.into(),
                across: "seconds since the start, warm-up included".into(),
                names: Vec::new(),
                series: arms.iter().enumerate().map(line).collect(),
            }
            .svg()
        };
    charts.push(over_time("Throughput over time", "queries/s", &|stats| {
        stats.ops_per_second
    }));
    charts.push(over_time("Median latency over time", "µs", &|stats| {
        stats.latency_us_p50 as f64
    }));
    charts.push(over_time("99th percentile over time", "µs", &|stats| {
        stats.latency_us_p99 as f64
    }));
    charts
}
