//! Requests that wait for each node, by class, as JSON.

use std::sync::atomic::{AtomicU64, Ordering};

use helenus_engine::stats::{Histogram, bucket_bound_us};
use helenus_policy::schedule::Class;
use serde::Serialize;

use super::shown::node_name;
use crate::process::Process;
use helenus_policy::ring::NodeIndex;

/// One class of requests at one node; counts are since the proxy was started.
#[derive(Debug, Serialize)]
pub(in crate::admin) struct QueueView {
    node: String,
    class: &'static str,
    /// Waiting now, over all workers.
    queued: u64,
    /// Sent; of scans, pieces.
    dispatched: u64,
    /// Of these, those that had waited for half of their bound and went first.
    aged: u64,
    /// Answered with OVERLOADED: at once, after their bound, and because more comes than the node serves.
    refused: u64,
    expired: u64,
    shed: u64,
    /// How long those waited that did, in microseconds; null if none did.
    wait_us_p50: Option<u64>,
    wait_us_p99: Option<u64>,
}

/// The answer of `/api/queues`: classes that have been used.
pub(in crate::admin) fn view(shared: &Process) -> Vec<QueueView> {
    let (nodes, snapshot) = (shared.stats.nodes(), shared.snapshot.load());
    let mut queues = Vec::new();
    for (at, stats) in nodes.iter().enumerate() {
        let node = NodeIndex(at as u16);
        if snapshot.nodes().is_gone(node) {
            continue;
        }
        for class in Class::ALL {
            let counters = &stats.schedule[class as usize];
            let waits = &stats.waits[class as usize];
            let view = QueueView {
                node: node_name(&snapshot, node),
                class: class.name(),
                queued: load(&stats.queued[class as usize]),
                dispatched: load(&counters.dispatched),
                aged: load(&counters.aged),
                refused: load(&counters.refused),
                expired: load(&counters.expired),
                shed: load(&counters.shed),
                wait_us_p50: quantile_us(waits, 0.5),
                wait_us_p99: quantile_us(waits, 0.99),
            };
            if view.queued + view.dispatched + view.refused + view.expired + view.shed > 0 {
                queues.push(view);
            }
        }
    }
    queues
}

/// The upper bound of the bucket with this quantile; None if nothing was recorded.
fn quantile_us(histogram: &Histogram, share: f64) -> Option<u64> {
    let counts = histogram.counts();
    let all: u64 = counts.iter().sum();
    let wanted = (all as f64 * share).ceil() as u64;
    let mut below = 0;
    let at = counts.iter().position(|count| {
        below += count;
        all > 0 && below >= wanted.max(1)
    })?;
    Some(bucket_bound_us(at))
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_bounds_of_their_buckets() {
        let waits = Histogram::default();
        assert_eq!(quantile_us(&waits, 0.5), None);
        for us in 0..100 {
            waits.record(us * 10);
        }
        let p50 = quantile_us(&waits, 0.5).expect("some");
        let p99 = quantile_us(&waits, 0.99).expect("some");
        assert!(
            (490..600).contains(&p50) && (980..1_200).contains(&p99),
            "{p50} {p99}"
        );
    }
}
