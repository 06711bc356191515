//! For how long what was deleted is remembered.

use anyhow::Result;
use helenus_rows::Table;

use super::super::catalogue::Partition;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::now_ms;
use crate::online::table;

/// Whether the others may have forgotten what was deleted since the filling began, as proxies judge it.
pub(super) fn is_too_old(begun: Option<i64>, table: &Table) -> bool {
    let grace_ms = i64::from(table.gc_grace_seconds.max(0)) * 900;
    begun.is_none_or(|begun| now_ms() >= begun.saturating_add(grace_ms))
}

/// The table with the time for which it and all its copies remember what was deleted, as proxies judge it.
pub(super) async fn with_least_grace(
    cluster: &Cluster,
    table: &Table,
    known: &Partition,
) -> Result<Table> {
    let mut least = table.clone();
    for entry in &known.entries {
        let copy = table::load(cluster, &entry.table(&table.name)).await?;
        least.gc_grace_seconds = least.gc_grace_seconds.min(copy.gc_grace_seconds);
    }
    Ok(least)
}
