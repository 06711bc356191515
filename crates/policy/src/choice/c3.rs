//! Chooses the replica with the least response time, and shuns queues by their third power.
//!
//! Formula: the lowest score goes first, equal ones in turn:
//!
//! score = R − 1/μ + q³/μ, with q = 1 + outstanding · clients + queue
//!
//! R is the mean response time seen here, 1/μ the mean service time and `queue` the mean queue length
//! that the node reports. A node without a recent report has the request's predicted work as 1/μ and no
//! queue.
//!
//! Evidence: `choice/tests.rs`; `helenus sim assignment`.
//!
//! Limits: without reports, queues that others cause are seen in R only. Rate control, the source's
//! second half, is not here: the windows of `schedule` bound what is in flight. Nothing ages, so a node
//! that was slow once is tried again only when the others have become as bad.
//!
//! Source: L. Suresh, M. Canini, S. Schmid, A. Feldmann, "C3: Cutting Tail Latency in Cloud Data Stores
//! via Adaptive Replica Selection" (NSDI 2015), section 3.1.

use super::load::Load;
use super::ranking;
use super::request::Request;
use crate::ring::NodeIndex;

pub(super) fn order(loads: &[Load], clients: u16, request: &Request, nodes: &mut [NodeIndex]) {
    let work_us = request.work_us.max(1) as f32;
    ranking::by_score(nodes, request.rotation, |node| {
        let load = loads.get(node.as_usize());
        load.map_or(0.0, |load| score(load, request.now_us, clients, work_us))
    });
}

fn score(load: &Load, now_us: u64, clients: u16, work_us: f32) -> f32 {
    let report = load.recent_report(now_us);
    let reported = report.filter(|report| report.service_us > 0.0);
    let service_us = reported.map_or(work_us, |report| report.service_us);
    let queue = report.map_or(0.0, |report| report.queue);
    let q = 1.0 + load.in_flight() as f32 * f32::from(clients) + queue;
    load.response_us() - service_us + q * q * q * service_us
}
