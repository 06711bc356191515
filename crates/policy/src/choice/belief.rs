//! Decides whether what a node says of itself is believed.
//!
//! Formula: a node that reports less than [`IDLE`] of its CPU and of its disk in use, and is predicted to
//! finish a millisecond of work more than [`SLOWER`] times later than another, contradicts what is seen of
//! it. Its CPU use then counts as what would make a node so slow: 1 − (the other's finish ÷ its own).
//!
//! Evidence: `choice/tests.rs`; `helenus sim assignment`, cell with false reports.
//!
//! Limits: only nodes that were asked not long ago can be contradicted. One that is slow for a reason that no
//! report shows (the network, a lock) is contradicted as well, and rightly avoided.

use super::earliest_finish::Cluster;
use super::load::{Load, Report};

const IDLE: f32 = 0.5;
const SLOWER: f32 = 10.0;
const WORK_US: f32 = 1_000.0;

/// When the node would finish a millisecond of work, while enough is known of it.
pub(super) fn seen_us(load: &Load, cluster: &Cluster, now_us: u64) -> Option<f32> {
    load.is_known(now_us)
        .then(|| cluster.finish_us(load, now_us, WORK_US))
}

/// The node's report on itself, if that is recent enough, and whether it contradicts what is seen. `soonest_us`:
/// the lowest [`seen_us`] of the nodes that it is compared with.
pub(super) fn report(
    load: &Load,
    cluster: &Cluster,
    now_us: u64,
    soonest_us: f32,
) -> Option<(Report, bool)> {
    let report = load.recent_report(now_us)?;
    let says_idle = report.cpu < IDLE && report.disk < IDLE;
    let seen_us = seen_us(load, cluster, now_us).filter(|seen_us| *seen_us > SLOWER * soonest_us);
    Some(match seen_us.filter(|_| says_idle) {
        None => (report, false),
        Some(seen_us) => {
            let cpu = 1.0 - soonest_us / seen_us;
            (Report { cpu, ..report }, true)
        }
    })
}
