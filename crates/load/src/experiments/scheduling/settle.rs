//! Between turns: waits until the nodes have settled, so that one arm's backlog does not slow the
//! next.

use super::queries::Sessions;
use super::tables::Index;
use crate::experiments::prepare::settle;
use anyhow::{Context, Result};
use std::time::Duration;

/// Length of the intervals whose throughput is compared.
pub(super) const SPAN: Duration = Duration::from_secs(5);
const STEADY_WITHIN: f64 = 0.1;
/// The nodes have settled when point reads take no longer.
const QUICK: Duration = Duration::from_millis(20);

pub(super) fn is_steady(last: f64, now: f64) -> bool {
    last > 0.0 && (now / last - 1.0).abs() < STEADY_WITHIN
}

/// Probes the nodes until they respond quickly or `timeout` has passed; returns whether they do.
pub(super) async fn wait(direct: &Sessions, index: &Index, timeout: Duration) -> bool {
    let ask = async |number: usize| {
        let table = number % index.tables();
        let (_, key) = index.rows(table)[number * 7919 % index.rows(table).len()];
        direct.point(number, table, key).await.is_ok()
    };
    settle(timeout, QUICK, ask).await
}

/// Empties the page cache, so that nodes read from disk again.
pub(super) fn drop_caches() -> Result<()> {
    let path = "/proc/sys/vm/drop_caches";
    // Only clean pages can be dropped.
    rustix::fs::sync();
    std::fs::write(path, "1")
        .with_context(|| format!("cannot write {path}: --drop-caches needs root"))
}
