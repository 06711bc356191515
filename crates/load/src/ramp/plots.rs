//! The charts and tables of a ramp's page.

use super::capacity::{Capacity, Step, Unit};
use super::saturation::describe;
use crate::report::svg::{Line, LineChart, escape, number};

/// Parts of the page, as HTML.
pub(super) fn parts(capacity: &Capacity) -> Vec<String> {
    let mut parts = vec![lines(capacity), throughput(capacity), latency(capacity)];
    parts.push(steps(capacity));
    parts.push(evidence(capacity));
    parts
}

fn across(unit: Unit) -> &'static str {
    match unit {
        Unit::Clients => "clients",
        Unit::OpsPerSecond => "operations/s offered",
    }
}

fn lines(capacity: &Capacity) -> String {
    let items = capacity.sentences();
    let items = items.iter().map(|line| format!("<li>{}", escape(line)));
    format!(
        "<h2>Capacity</h2>\n<ul>{}</ul>\n",
        items.collect::<String>()
    )
}

/// The curve goes through evenly spaced points, so that its bend shows.
fn throughput(capacity: &Capacity) -> String {
    let measured = capacity.steps.iter();
    let mut series = vec![Line {
        name: "measured, medians".into(),
        colour: 0,
        points: measured
            .map(|step| (step.load as f64, step.ops_per_second.median))
            .collect(),
    }];
    if let (Some(usl), Some(last)) = (&capacity.usl, capacity.steps.last()) {
        let last = last.load as f64;
        let points = (0..=60).map(|at| 1.0 + (last - 1.0) * f64::from(at) / 60.0);
        series.push(Line {
            name: match usl.is_poor {
                true => "Universal Scalability Law (poor fit)".into(),
                false => "Universal Scalability Law".into(),
            },
            colour: 1,
            points: points.map(|clients| (clients, usl.at(clients))).collect(),
        });
    }
    if let Some(knee) = &capacity.knee {
        series.push(Line {
            name: "knee".into(),
            colour: 2,
            points: vec![(knee.load as f64, knee.ops_per_second.median)],
        });
    }
    chart("Throughput", "operations/s", capacity.unit, series)
}

fn latency(capacity: &Capacity) -> String {
    let line = |name: &str, colour, of: fn(&Step) -> f64| Line {
        name: name.into(),
        colour,
        points: capacity
            .steps
            .iter()
            .map(|step| (step.load as f64, of(step) / 1000.0))
            .collect(),
    };
    let series = vec![
        line("p50", 0, |step| step.latency_us_p50),
        line("p99", 1, |step| step.latency_us_p99),
    ];
    chart("Latency", "ms", capacity.unit, series)
}

fn chart(title: &str, axis: &str, unit: Unit, series: Vec<Line>) -> String {
    let chart = LineChart {
        title: title.into(),
        axis: axis.into(),
        across: across(unit).into(),
        names: Vec::new(),
        series,
    };
    chart.svg()
}

fn steps(capacity: &Capacity) -> String {
    let mut out = format!(
        "<h2>Steps</h2>\n<div class=\"wide\"><table><tr><th>{}<th>windows<th>operations/s<th>least\
         <th>greatest<th>p50 ms<th>p99 ms<th>failed<th></tr>\n",
        across(capacity.unit)
    );
    for step in &capacity.steps {
        let ops = &step.ops_per_second;
        out += &format!(
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.2} %<td>{}</tr>\n",
            step.load,
            step.windows,
            number(ops.median),
            number(ops.min),
            number(ops.max),
            number(step.latency_us_p50 / 1000.0),
            number(step.latency_us_p99 / 1000.0),
            step.error_share * 100.0,
            escape(&capacity.remark(step))
        );
    }
    out + "</table></div>\n"
}

fn evidence(capacity: &Capacity) -> String {
    let saturation = &capacity.saturation;
    let row = |each| {
        let full = if saturation.saturated.contains(each) {
            " class=\"bad\""
        } else {
            ""
        };
        format!("<tr><td{full}>{}</tr>\n", escape(&describe(each)))
    };
    let rows: String = saturation.evidence.iter().map(row).collect();
    format!("<h2>In use at the peak</h2>\n<table>{rows}</table>\n")
}
