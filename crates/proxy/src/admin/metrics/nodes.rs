//! Counters of each node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helenus_engine::stats::{NodeStats, ScheduleCounters};
use helenus_policy::schedule::Class;

use super::shown::{Shown, shown, value};
use crate::admin::metrics::page::Page;

/// Counters of one node.
#[rustfmt::skip]
pub(super) const NODE: &[Shown] = &[
    shown("requests", "helenus_node_requests_total", &[], "Requests sent to the node."),
    shown("read_requests", "helenus_node_read_requests_total", &[], "Reads sent to the node."),
    shown("ejections", "helenus_node_ejections_total", &[], "Times that a worker has ejected the node as a replica, because it failed or was far slower than the others."),
    shown("errors", "helenus_node_errors_total", &[], "Error responses of the node, without UNPREPARED where the proxy has prepared the statement again."),
    shown("timeouts", "helenus_node_timeouts_total", &[], "Requests that the node did not answer in time."),
    shown("bytes_in", "helenus_node_received_bytes_total", &[], "Bytes received from the node."),
    shown("bytes_out", "helenus_node_sent_bytes_total", &[], "Bytes sent to the node."),
    shown("reads", "helenus_node_socket_reads_total", &[], "System calls that read from the node's upstream connections."),
    shown("writes", "helenus_node_socket_writes_total", &[], "System calls that wrote to the node's upstream connections."),
    shown("frames_out", "helenus_node_sent_frames_total", &[], "Frames sent to the node; one may hold requests of many clients."),
    shown("links_opened", "helenus_node_links_opened_total", &[], "Upstream connections opened to the node."),
    shown("links_failed", "helenus_node_links_failed_total", &[], "Upstream connections to the node that could not be opened."),
    shown("queued_total", "helenus_node_queued_total", &[], "Requests that had to wait for the node."),
];

type NodeGauge = fn(&NodeStats) -> &AtomicU64;
const NODE_GAUGES: [(&str, &str, NodeGauge); 6] = [
    (
        "helenus_node_links_up",
        "Upstream connections to the node that are up.",
        |n| &n.links_up,
    ),
    (
        "helenus_node_in_flight_requests",
        "Requests sent to the node and not answered yet.",
        |n| &n.in_flight,
    ),
    (
        "helenus_node_ejected",
        "Workers that have ejected the node as a replica.",
        |n| &n.ejected,
    ),
    (
        "helenus_node_window_requests",
        "Current window: requests in flight on the node that its schedule allows a worker.",
        |n| &n.window,
    ),
    (
        "helenus_node_scan_slots_taken",
        "Sub-pages in flight on the node that hold a scan slot, over all workers.",
        |n| &n.scan_slots_taken,
    ),
    (
        "helenus_node_scan_slots",
        "Current number of scan slots of the node, over all workers.",
        |n| &n.scan_slots,
    ),
];

/// Kept in parts of their units: how many of them make one.
const NODE_FRACTIONS: [(&str, &str, f64, NodeGauge); 4] = [
    (
        "helenus_node_score_seconds",
        "Predicted finish of a request of one millisecond of work, as replicas are chosen by.",
        1e6,
        |n| &n.score_us,
    ),
    (
        "helenus_node_outstanding_work_seconds",
        "Predicted work that waits for the node and is in flight there, a part of its score, of the worker that told last.",
        1e6,
        |n| &n.outstanding_us,
    ),
    (
        "helenus_node_slowdown_ratio",
        "How much longer the node's answers take than predicted, a part of its score.",
        1e3,
        |n| &n.slowdown_milli,
    ),
    (
        "helenus_node_failures_ratio",
        "Share of requests that the node fails, a part of its score.",
        1e3,
        |n| &n.failures_milli,
    ),
];

type ScheduleCounter = fn(&ScheduleCounters) -> &AtomicU64;
const SCHEDULE_COUNTERS: [(&str, &str, ScheduleCounter); 5] = [
    (
        "helenus_node_scheduled_total",
        "Requests (for scans: sub-pages) that the node's schedule has sent, by class.",
        |s| &s.dispatched,
    ),
    (
        "helenus_node_aged_total",
        "Of these, the ones sent before all others because they had waited for half of their bound.",
        |s| &s.aged,
    ),
    (
        "helenus_node_refused_total",
        "Requests refused at once because they would have waited beyond their bound.",
        |s| &s.refused,
    ),
    (
        "helenus_node_expired_total",
        "Requests refused after waiting for their whole bound.",
        |s| &s.expired,
    ),
    (
        "helenus_node_shed_total",
        "Requests refused by load shedding: in sustained overload, after waiting as long as clients do.",
        |s| &s.shed,
    ),
];

pub(super) fn render(page: &mut Page, nodes: &[Arc<NodeStats>]) {
    for (name, help, gauge) in NODE_GAUGES {
        page.family(name, "gauge", &["node"], help);
        for node in nodes {
            let value = gauge(node).load(Ordering::Relaxed);
            page.sample(name, &[("node", &node.name)], value);
        }
    }
    for (name, help, parts, gauge) in NODE_FRACTIONS {
        page.family(name, "gauge", &["node"], help);
        for node in nodes {
            let value = gauge(node).load(Ordering::Relaxed) as f64 / parts;
            page.sample(name, &[("node", &node.name)], value);
        }
    }
    for shown in NODE {
        page.family(shown.metric, "counter", &["node"], shown.help);
        for node in nodes {
            let value = value(&node.counters.list(), shown.field);
            page.sample(shown.metric, &[("node", &node.name)], value);
        }
    }
    schedule_metrics(page, nodes);
    let name = "helenus_node_queries_per_frame";
    let help = "Queries (or answers) that travelled in one frame, or in one write or read to nodes \
                without frames.";
    page.family(name, "histogram", &["node", "direction"], help);
    for node in nodes {
        for (direction, packed) in [("sent", &node.packed_out), ("received", &node.packed_in)] {
            page.packed(
                name,
                &[("node", &node.name), ("direction", direction)],
                packed,
            );
        }
    }
    let name = "helenus_node_request_duration_seconds";
    let help = "Time from sending a request to the node to its answer.";
    page.family(name, "histogram", &["node"], help);
    for node in nodes {
        page.histogram(name, &[("node", &node.name)], &node.latency);
    }
}

/// By node and class.
fn schedule_metrics(page: &mut Page, nodes: &[Arc<NodeStats>]) {
    let name = "helenus_node_queued_requests";
    let help = "Requests waiting for the node, by class.";
    page.family(name, "gauge", &["node", "class"], help);
    let each = || {
        let classes = |node| Class::ALL.map(|class| (node, class));
        nodes.iter().flat_map(move |node| classes(&**node))
    };
    for (node, class) in each() {
        let value = node.queued[class as usize].load(Ordering::Relaxed);
        page.sample(
            name,
            &[("node", &node.name), ("class", class.name())],
            value,
        );
    }
    for (name, help, counter) in SCHEDULE_COUNTERS {
        page.family(name, "counter", &["node", "class"], help);
        for (node, class) in each() {
            let value = counter(&node.schedule[class as usize]).load(Ordering::Relaxed);
            page.sample(
                name,
                &[("node", &node.name), ("class", class.name())],
                value,
            );
        }
    }
    let name = "helenus_node_wait_seconds";
    let help = "Time that requests waited for the node, of those that waited, by class.";
    page.family(name, "histogram", &["node", "class"], help);
    for (node, class) in each() {
        let waits = &node.waits[class as usize];
        if !waits.is_empty() {
            page.histogram(
                name,
                &[("node", &node.name), ("class", class.name())],
                waits,
            );
        }
    }
}
