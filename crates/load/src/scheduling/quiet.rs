//! Between the turns: that an arm does not meet what the one before it left in the nodes.

use super::queries::Sessions;
use super::tables::Index;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// Length of a span whose throughput is compared with the next.
pub(super) const SPAN: Duration = Duration::from_secs(5);
const STEADY_WITHIN: f64 = 0.1;
/// So many point reads one after another must each take no longer than this.
const QUICK_IN_A_ROW: usize = 20;
const QUICK: Duration = Duration::from_millis(20);

pub(super) fn is_steady(last: f64, now: f64) -> bool {
    last > 0.0 && (now / last - 1.0).abs() < STEADY_WITHIN
}

/// Asks the nodes until they are quick, or `patience` is over, and says whether they are. A client's
/// query may have ended by its time-out while the nodes still work for it.
pub(super) async fn wait(direct: &Sessions, index: &Index, patience: Duration) -> bool {
    let (began, mut quick, mut number) = (Instant::now(), 0, 0);
    while quick < QUICK_IN_A_ROW && began.elapsed() < patience {
        let asked = Instant::now();
        let table = number % index.tables();
        let (_, key) = index.rows(table)[number * 7919 % index.rows(table).len()];
        let left = patience.saturating_sub(began.elapsed());
        let answered = tokio::time::timeout(left, direct.point(number, table, key)).await;
        let is_quick = matches!(answered, Ok(Ok(()))) && asked.elapsed() <= QUICK;
        quick = if is_quick { quick + 1 } else { 0 };
        number += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    quick >= QUICK_IN_A_ROW
}

/// Empties the page cache, so that nodes read from the disk again.
pub(super) fn drop_caches() -> Result<()> {
    let path = "/proc/sys/vm/drop_caches";
    // Only clean pages can be dropped.
    rustix::fs::sync();
    std::fs::write(path, "1")
        .with_context(|| format!("cannot write {path}: --drop-caches needs root"))
}
