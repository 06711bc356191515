//! Reports of nodes on themselves, as metrics and for the dashboard.

use std::sync::atomic::Ordering;
use std::time::Instant;

use helenus_admin_api as api;
use helenus_engine::upstream::node_reports::{NodeReport, NodeReports, Rejected, Resources};

use super::metrics::page::Page;
use crate::process::Process;
use crate::reports;

/// One node's reports for the dashboard.
pub(super) fn view(reports: &NodeReports, now: Instant) -> api::Report {
    let latest = reports.latest();
    api::Report {
        connected: reports.is_connected.load(Ordering::Relaxed),
        received: reports.received.load(Ordering::Relaxed),
        rejected: Rejected::ALL.iter().map(|why| reports.rejected(*why)).sum(),
        contradicted: reports.contradicted.load(Ordering::Relaxed),
        age_ms: latest
            .as_ref()
            .map(|r| age_s(r, now))
            .map(|s| (s * 1e3) as u64),
        memory: latest.as_ref().and_then(|r| r.resources.memory()),
        resources: latest.map(|r| reports::shown(&r.resources)),
    }
}

fn age_s(report: &NodeReport, now: Instant) -> f64 {
    now.saturating_duration_since(report.sampled).as_secs_f64()
}

/// An older report says nothing any more of what the node uses now.
const AGE_MAX_S: f64 = 5.0;

type Gauge = fn(&Resources) -> Option<f64>;
const GAUGES: [(&str, &str, Gauge); 8] = [
    (
        "helenus_node_report_cpu_ratio",
        "Share of the CPU time that the node may use that is in use, as its agent reports.",
        |r| r.cpu.map(f64::from),
    ),
    (
        "helenus_node_report_memory_ratio",
        "Share of the node's heap that is in use, as its agent reports.",
        |r| r.memory().map(f64::from),
    ),
    (
        "helenus_node_report_disk_ratio",
        "Share of time in which the node's busiest disk had something to do, as its agent reports.",
        |r| r.disk.map(f64::from),
    ),
    (
        "helenus_node_report_disk_queue_requests",
        "Mean number of requests at that disk, as the node's agent reports.",
        |r| Some(r.disk_queue.into()),
    ),
    (
        "helenus_node_report_collecting_ratio",
        "Share of time in which garbage collection stopped the node, as its agent reports.",
        |r| r.collecting.map(f64::from),
    ),
    (
        "helenus_node_report_reads_pending",
        "Reads that wait in the node's READ stage, as its agent reports.",
        |r| Some(r.read_pending.into()),
    ),
    (
        "helenus_node_report_mutations_pending",
        "Writes that wait in the node's MUTATION stage, as its agent reports.",
        |r| Some(r.mutation_pending.into()),
    ),
    (
        "helenus_node_report_compactions_pending",
        "Compactions that the node has before it, as its agent reports.",
        |r| Some(r.compactions_pending.into()),
    ),
];

pub(super) fn render(page: &mut Page, shared: &Process) {
    if !shared.settings.load().assignment.reports {
        return;
    }
    let snapshot = shared.snapshot.load();
    let nodes = snapshot.nodes().by_index();
    let here = nodes.filter(|(_, node)| !node.is_gone());
    let nodes: Vec<_> = here
        .map(|(at, node)| (node.address().to_string(), shared.reports.of(at)))
        .collect();
    let name = "helenus_node_reporter_up";
    page.family(
        name,
        "gauge",
        &["node"],
        "1 while the reporter of the node's agent is connected, else 0.",
    );
    for (node, reports) in &nodes {
        let is_up = reports.is_connected.load(Ordering::Relaxed);
        page.sample(name, &[("node", node)], u8::from(is_up));
    }
    let now = Instant::now();
    let name = "helenus_node_report_age_seconds";
    page.family(
        name,
        "gauge",
        &["node"],
        "Time since the node's last report was measured.",
    );
    for (node, reports) in &nodes {
        if let Some(latest) = reports.latest() {
            page.sample(name, &[("node", node)], age_s(&latest, now));
        }
    }
    for (name, help, gauge) in GAUGES {
        page.family(name, "gauge", &["node"], help);
        for (node, reports) in &nodes {
            let latest = reports.latest().filter(|r| age_s(r, now) <= AGE_MAX_S);
            if let Some(value) = latest.and_then(|r| gauge(&r.resources)) {
                page.sample(name, &[("node", node)], value);
            }
        }
    }
    let name = "helenus_node_report_contradicted";
    let help = "Workers to whom the node's last report contradicts what they see of it.";
    page.family(name, "gauge", &["node"], help);
    for (node, reports) in &nodes {
        let workers = reports.contradicted.load(Ordering::Relaxed);
        page.sample(name, &[("node", node)], workers);
    }
    let name = "helenus_node_reports_total";
    page.family(
        name,
        "counter",
        &["node"],
        "Reports taken from the node's agent.",
    );
    for (node, reports) in &nodes {
        let received = reports.received.load(Ordering::Relaxed);
        page.sample(name, &[("node", node)], received);
    }
    let name = "helenus_node_reports_rejected_total";
    page.family(
        name,
        "counter",
        &["node", "reason"],
        "Reports of the node's agent that were not taken, by reason.",
    );
    for (node, reports) in &nodes {
        for why in Rejected::ALL {
            let labels = [("node", &**node), ("reason", why.name())];
            page.sample(name, &labels, reports.rejected(why));
        }
    }
}
