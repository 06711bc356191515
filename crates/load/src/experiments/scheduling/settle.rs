//! Between turns: waits until the nodes have settled, so that one arm's backlog does not slow the
//! next.

use super::queries::Sessions;
use super::tables::Index;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// Length of the intervals whose throughput is compared.
pub(super) const SPAN: Duration = Duration::from_secs(5);
const STEADY_WITHIN: f64 = 0.1;
/// This many consecutive point reads must each take no longer than [`QUICK`].
const QUICK_IN_A_ROW: usize = 20;
const QUICK: Duration = Duration::from_millis(20);

pub(super) fn is_steady(last: f64, now: f64) -> bool {
    last > 0.0 && (now / last - 1.0).abs() < STEADY_WITHIN
}

/// Probes the nodes until they respond quickly or `timeout` has passed; returns whether they do. A
/// query that timed out at its client may still be running on the nodes.
pub(super) async fn wait(direct: &Sessions, index: &Index, timeout: Duration) -> bool {
    let (began, mut quick, mut number) = (Instant::now(), 0, 0);
    while quick < QUICK_IN_A_ROW && began.elapsed() < timeout {
        let sent = Instant::now();
        let table = number % index.tables();
        let (_, key) = index.rows(table)[number * 7919 % index.rows(table).len()];
        let left = timeout.saturating_sub(began.elapsed());
        let answered = tokio::time::timeout(left, direct.point(number, table, key)).await;
        let is_quick = matches!(answered, Ok(Ok(()))) && sent.elapsed() <= QUICK;
        quick = if is_quick { quick + 1 } else { 0 };
        number += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    quick >= QUICK_IN_A_ROW
}

/// Empties the page cache, so that nodes read from disk again.
pub(super) fn drop_caches() -> Result<()> {
    let path = "/proc/sys/vm/drop_caches";
    // Only clean pages can be dropped.
    rustix::fs::sync();
    std::fs::write(path, "1")
        .with_context(|| format!("cannot write {path}: --drop-caches needs root"))
}
