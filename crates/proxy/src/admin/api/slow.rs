//! Slow requests, as JSON.

use helenus_engine::features::records::{Report, SlowRequest, Wanted};
use helenus_engine::snapshot::Snapshot;
use helenus_wire::code;
use serde::Serialize;

use super::shown::{AskedView, node_name, unix_ms};
use crate::admin::http::parameters;
use crate::process::Process;

const ROWS: u64 = 100;
const ROWS_MAX: u64 = 1_000;

#[derive(Debug, Serialize)]
pub(in crate::admin) struct SlowView {
    /// From when on requests are slow, in milliseconds (`admin.slow_ms`, `admin.slow_scan_ms`); 0: never.
    slow_ms: u64,
    slow_scan_ms: u64,
    /// Slow requests that were not described, because there were too many at a time.
    left_out: u64,
    silent_workers: usize,
    /// The latest first.
    slow: Vec<SlowRequestView>,
}

/// A request, and where its time went. Node requests that ran at the same time are added up.
#[derive(Debug, Serialize)]
struct SlowRequestView {
    at_unix_ms: u64,
    #[serde(flatten)]
    asked: AskedView,
    class: &'static str,
    consistency: &'static str,
    /// How it was carried out.
    execution: &'static str,
    took_us: u64,
    /// In the proxy's queues of nodes.
    queued_us: u32,
    at_nodes_us: u32,
    /// The rest: in turns, joined to another, waiting for a link, or in the proxy itself. Null if node requests
    /// ran at the same time.
    elsewhere_us: Option<u64>,
    /// Of the time at nodes, the longest in one piece, and where.
    slowest_us: u32,
    slowest_node: Option<String>,
    /// Nodes that had a part in it; of large clusters not all.
    nodes: Vec<String>,
    node_requests: u16,
    /// Nodes tried.
    attempts: u16,
    /// A second replica was asked as well.
    hedged: bool,
    /// It had joined another's read.
    shared: bool,
    bytes: usize,
    /// If that was the answer.
    error: Option<&'static str>,
}

/// The answer of `/api/slow`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) async fn view(
    shared: &Process,
    query: Option<&str>,
) -> Result<SlowView, String> {
    parameters::only(query, &["limit"])?;
    let max = parameters::number(query, "limit", ROWS, 1..=ROWS_MAX)? as usize;
    let (reports, silent) = shared.ask_for_records(Wanted::Slow { max }).await;
    let (mut slow, mut left_out) = (Vec::new(), 0);
    for report in reports {
        if let Report::Slow(of_worker, too_many) = report {
            slow.extend(of_worker);
            left_out += too_many;
        }
    }
    slow.sort_by_key(|slow| std::cmp::Reverse(slow.at));
    slow.truncate(max);
    let (settings, snapshot) = (shared.settings.load(), shared.snapshot.load());
    Ok(SlowView {
        slow_ms: settings.admin.slow_ms,
        slow_scan_ms: settings.admin.slow_scan_ms,
        left_out,
        silent_workers: silent,
        slow: slow
            .into_iter()
            .map(|slow| slow_view(slow, &snapshot))
            .collect(),
    })
}

fn slow_view(slow: SlowRequest, snapshot: &Snapshot) -> SlowRequestView {
    let in_turn = slow.node_requests <= 1 && !slow.is_hedged;
    let known_us = u64::from(slow.queued_us) + u64::from(slow.at_nodes_us);
    SlowRequestView {
        at_unix_ms: unix_ms(slow.at),
        asked: slow.asked.into(),
        class: slow.class.name(),
        consistency: slow.consistency.name(),
        execution: slow.execution,
        took_us: slow.took_us,
        queued_us: slow.queued_us,
        at_nodes_us: slow.at_nodes_us,
        elsewhere_us: in_turn.then(|| slow.took_us.saturating_sub(known_us)),
        slowest_us: slow.slowest_us,
        slowest_node: slow.slowest.map(|node| node_name(snapshot, node)),
        nodes: slow
            .nodes
            .iter()
            .map(|node| node_name(snapshot, *node))
            .collect(),
        node_requests: slow.node_requests,
        attempts: slow.attempts,
        hedged: slow.is_hedged,
        shared: slow.is_shared,
        bytes: slow.bytes,
        error: slow.error.map(code::name),
    }
}
