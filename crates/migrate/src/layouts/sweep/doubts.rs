//! Partitions in doubt as they are stored.

use std::collections::BTreeSet;

use anyhow::Result;
use helenus_catalogue::waits::lease;
use helenus_catalogue::{change, stored};
use helenus_rows::TableName;
use scylla::statement::unprepared::Statement;

use super::super::verdict::Verdict;
use crate::catalogue;
use crate::nodes::cluster::Cluster;

/// Partitions that are read at a time; the others follow once these are settled.
pub(in crate::layouts) const DOUBTS_MAX: usize = 10_000;
/// Partitions that one request writes.
const AT_ONCE: usize = 100;

/// The partitions of a table that are in doubt, with the times at which they were put in, in microseconds.
pub(in crate::layouts) async fn read(
    cluster: &Cluster,
    table: &TableName,
) -> Result<Vec<(i64, i64)>> {
    let tables = catalogue::tables_of_keyspace(cluster).await?;
    if !tables.contains("layout_doubts") {
        return Ok(Vec::new());
    }
    let mut select = Statement::new(stored::select_timed_doubts(
        &catalogue::key(table),
        DOUBTS_MAX,
    ));
    select.set_consistency(catalogue::level(cluster).await?);
    let rows: Vec<(i64, Option<i64>)> = cluster.rows(select).await?;
    let told = rows.into_iter();
    Ok(told
        .map(|(token, us)| (token, us.unwrap_or_default()))
        .collect())
}

/// These have been compared since they were put in at those times.
pub(super) async fn settle(
    cluster: &Cluster,
    table: &TableName,
    settled: &[(i64, i64)],
) -> Result<()> {
    let (key, level) = (catalogue::key(table), catalogue::level(cluster).await?);
    for settled in settled.chunks(AT_ONCE) {
        let batch = change::settle_doubts(&key, settled);
        cluster.run_at(&batch, level).await?;
    }
    Ok(())
}

/// What a comparison has left differing: proxies read these partitions from the table from now on.
pub(in crate::layouts) async fn leave(
    cluster: &Cluster,
    table: &TableName,
    verdicts: &[Verdict],
) -> Result<()> {
    let left: BTreeSet<i64> = verdicts.iter().flat_map(|of| of.tokens.clone()).collect();
    let left: Vec<i64> = left.into_iter().collect();
    add(cluster, table, &left).await
}

/// The same for layouts that are about to be read.
pub(in crate::layouts) async fn leave_before_reading(
    cluster: &Cluster,
    table: &TableName,
    verdicts: &[Verdict],
) -> Result<()> {
    leave(cluster, table, verdicts).await?;
    if verdicts.iter().any(|verdict| !verdict.tokens.is_empty()) {
        // Proxies read them as often as the catalogue, which must not be first.
        tokio::time::sleep(lease()).await;
    }
    Ok(())
}

/// These differ.
pub(super) async fn add(cluster: &Cluster, table: &TableName, tokens: &[i64]) -> Result<()> {
    let (key, level) = (catalogue::key(table), catalogue::level(cluster).await?);
    for tokens in tokens.chunks(AT_ONCE) {
        cluster.run_at(&change::doubt(&key, tokens), level).await?;
    }
    Ok(())
}
