//! Which ranges of the ring have been copied to a layout.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use helenus_catalogue::Layout;
use helenus_rows::{Range, TableName};

use super::entry::PROGRESS;
use crate::catalogue::noted::Task;
use crate::nodes::cluster::Cluster;

fn task<'a>(table: &'a TableName, entry: &'a Layout) -> Task<'a> {
    Task {
        notes: PROGRESS,
        table,
        item: &entry.name,
        created: entry.created,
    }
}

/// The ranges of a layout that an interrupted filling has copied, and how many there are in all.
pub(super) async fn done(
    cluster: &Cluster,
    table: &TableName,
    entry: &Layout,
) -> Result<(BTreeSet<i64>, Option<u64>)> {
    task(table, entry).done(cluster).await
}

/// A range has been copied to these layouts.
pub(super) async fn note_done(
    cluster: &Cluster,
    table: &TableName,
    entries: &[Layout],
    range: Range,
    count: usize,
) -> Result<()> {
    let notes = entries
        .iter()
        .map(|entry| async move { task(table, entry).note(cluster, range, count).await });
    stream::iter(notes).buffer_unordered(4).try_collect().await
}

/// Notes the ranges that an earlier filling of a layout has copied for this one; returns how many.
pub(super) async fn take_over(
    cluster: &Cluster,
    table: &TableName,
    before: &Layout,
    entry: &Layout,
) -> Result<usize> {
    let before = task(table, before);
    task(table, entry).take_over(cluster, &before).await
}

/// Nobody will go on with it.
pub(super) async fn forget(cluster: &Cluster, table: &TableName, layout: &str) -> Result<()> {
    PROGRESS.forget(cluster, table, layout).await
}
