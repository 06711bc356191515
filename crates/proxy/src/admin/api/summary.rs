//! Requests of nodes, tables and layouts in some of the last hour, as JSON (docs/api.md, "History").

use std::time::SystemTime;

use helenus_admin_api::summary as api;
use helenus_engine::snapshot::Node;
use helenus_policy::schedule::Class;

use super::shown::{rounded, since_1970_ms};
use crate::admin::http::parameters;
use crate::process::Process;
use crate::records::history::{CountedValues, Summary, TableSum, rate};
use crate::system::boot_time;

/// As long as anything is kept.
const SECONDS_MAX: u64 = 3_600;
const SECONDS: u64 = 300;
const POINTS_MAX: u64 = 360;

/// The answer of `/api/summary`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) fn view(
    shared: &Process,
    query: Option<&str>,
) -> Result<api::Summary, String> {
    parameters::only(query, &["seconds", "from_ms", "to_ms", "points"])?;
    let now = boot_time::now();
    let now_ms = shared.history.ms_at(now);
    let (from_ms, to_ms) = time_ms(query, now_ms)?;
    let points = parameters::number(query, "points", 0, 0..=POINTS_MAX)? as usize;
    let history = &shared.history;
    let sum = history.summary(now, from_ms, to_ms, points, &shared.stats);
    let wall = since_1970_ms(SystemTime::now());
    let (from_ms, to_ms) = sum.covered_ms();
    let classes = Class::ALL.iter().map(|class| {
        let latency = sum.counted().class(*class).latency();
        let view = api::Class {
            per_s: rounded(sum.per_s(latency.count())),
            latency: latency_view(latency),
        };
        (class.name().into(), view)
    });
    Ok(api::Summary {
        from_ms,
        to_ms,
        ms: sum.lasted_ms,
        zero_unix_ms: wall.saturating_sub(now_ms),
        classes: classes.collect(),
        nodes: nodes(shared, &sum, points > 0),
        tables: tables(shared, &sum),
        layouts: layouts(shared, &sum),
    })
}

/// The time that is asked for, by the clock of the history.
fn time_ms(query: Option<&str>, now_ms: u64) -> Result<(u64, u64), String> {
    let (from, to) = (
        parameters::has(query, "from_ms"),
        parameters::has(query, "to_ms"),
    );
    if parameters::has(query, "seconds") && (from || to) {
        return Err("name either seconds, or from_ms and to_ms".to_owned());
    }
    if from != to {
        return Err("from_ms and to_ms belong together".to_owned());
    }
    if !from {
        let seconds = parameters::number(query, "seconds", SECONDS, 1..=SECONDS_MAX)?;
        return Ok((now_ms.saturating_sub(seconds * 1_000), now_ms));
    }
    let from_ms = parameters::number(query, "from_ms", 0, 0..=u64::MAX)?;
    let to_ms = parameters::number(query, "to_ms", 0, 0..=u64::MAX)?;
    match from_ms < to_ms {
        true => Ok((from_ms, to_ms)),
        false => Err("from_ms must be less than to_ms".to_owned()),
    }
}

fn latency_view(of: CountedValues<'_>) -> api::Latency {
    let quantile = |share| of.quantile_us(share).map(f64::round);
    api::Latency {
        mean_us: of.mean_us().map(f64::round),
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
    }
}

/// All that are in the cluster, and those that have left it and were there in that time.
fn nodes(shared: &Process, sum: &Summary, shows_points: bool) -> Vec<api::Node> {
    let snapshot = shared.snapshot.load();
    let nodes = snapshot.nodes().all().iter().enumerate();
    let nodes = nodes.filter(|(at, node)| !node.is_gone() || sum.detail.knows_node(*at));
    nodes
        .map(|(at, node)| node_view(at, node, sum, shows_points))
        .collect()
}

fn node_view(number: usize, node: &Node, sum: &Summary, shows_points: bool) -> api::Node {
    let of = sum.detail.node(number);
    let per_s = |count| rounded(sum.per_s(count));
    let parts = of.points.iter().zip(&sum.parts_ms);
    let points = parts.map(|(count, ms)| (*ms > 0).then(|| rounded(rate(*count, *ms))));
    let points: Vec<_> = points.filter(|_| shows_points).collect();
    api::Node {
        address: node.address().to_string(),
        number,
        gone: node.is_gone(),
        requests_per_s: per_s(of.requests()),
        reads_per_s: per_s(of.reads()),
        errors_per_s: per_s(of.errors()),
        timeouts_per_s: per_s(of.timeouts()),
        bytes_in_per_s: per_s(of.bytes_in()),
        bytes_out_per_s: per_s(of.bytes_out()),
        requests_per_frame: (of.frames() > 0)
            .then(|| rounded(of.requests() as f64 / of.frames() as f64)),
        down_s: rounded(of.down_ms() as f64 / 1e3),
        ejected_s: rounded(of.ejected_ms() as f64 / 1e3),
        latency: latency_view(of.latency()),
        points: match points.is_empty() && shows_points {
            true => no_requests(sum),
            false => points,
        },
    }
}

fn no_requests(sum: &Summary) -> Vec<Option<f64>> {
    let parts = sum.parts_ms.iter();
    parts.map(|ms| (*ms > 0).then_some(0.0)).collect()
}

fn tables(shared: &Process, sum: &Summary) -> Vec<api::Table> {
    let tables = shared.stats.tables();
    let tables = tables.iter().enumerate();
    let used = tables.filter_map(|(at, table)| {
        let of: TableSum<'_> = sum.detail.table(at)?;
        let per_s = |count| rounded(sum.per_s(count));
        Some(api::Table {
            keyspace: table.keyspace.clone(),
            table: table.table.clone(),
            reads_per_s: per_s(of.reads()),
            writes_per_s: per_s(of.writes()),
            errors_per_s: per_s(of.errors()),
            latency: latency_view(of.latency()),
        })
    });
    used.collect()
}

fn layouts(shared: &Process, sum: &Summary) -> Vec<api::Layout> {
    let layouts = shared.stats.features.layouts.list();
    let layouts = layouts.iter().enumerate();
    let read = layouts.filter_map(|(at, layout)| {
        let reads = sum.detail.layout(at);
        (reads > 0).then(|| api::Layout {
            keyspace: layout.keyspace.clone(),
            physical: layout.physical.clone(),
            reads_per_s: rounded(sum.per_s(reads)),
        })
    });
    read.collect()
}
