//! Copies the rows of a table to layouts that are already being written: range by range, several at a
//! time, with the times at which they were written. An interrupted filling goes on where it was. A table that has lost its
//! rows gets those of a layout in the same way.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use helenus_catalogue::Layout;
use helenus_rows::{Range, Row, Table, TableName, expires_untold};

use super::entry::table_of;
use super::ranges;
use super::work::Work;
use super::writer::Writer;
use crate::catalogue::claim::Claim;
use crate::nodes::asked::Asked;
use crate::nodes::cluster::Cluster;
use crate::nodes::progress::bar;
use crate::nodes::reading::{Reader, Throttle};
use crate::nodes::ring;

/// Copies the rows of the table in ranges that were not copied before. Returns how many these were.
pub(super) async fn fill(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
    work: &Work,
    claim: &Claim<'_>,
) -> Result<u64> {
    let (ranges, done) = plan(cluster, table, entries).await?;
    let into = entries.iter().map(|entry| table_of(entry, &table.name));
    let into: Vec<TableName> = into.collect();
    let writer = Writer::new(cluster, table, &into, work, claim);
    let bar = bar("copying rows", ranges.len() as u64);
    bar.inc(done.len() as u64);
    let count = ranges.len();
    let mut todo = ranges;
    todo.retain(|range| !done.contains(&range.end));
    let note = async |range, rows| {
        ranges::note_done(cluster, &table.name, entries, range, count).await?;
        bar.set_message(format!("{rows} rows"));
        bar.inc(1);
        Ok(())
    };
    let copied = copy(cluster, table, &table.name, &todo, &writer, work, note).await;
    bar.finish_and_clear();
    copied
}

/// Copies the rows of a layout to its table, from where the table has lost them. Returns how many these were.
pub(super) async fn restore(
    cluster: &Cluster,
    table: &Table,
    entry: &Layout,
    work: &Work,
    claim: &Claim<'_>,
) -> Result<u64> {
    let from = table_of(entry, &table.name);
    let ranges = helenus_rows::split(ring::suitable(cluster, &from).await);
    let into = [table.name.clone()];
    let writer = Writer::new(cluster, table, &into, work, claim);
    let bar = bar("copying rows", ranges.len() as u64);
    let tell = async |_, rows| {
        bar.set_message(format!("{rows} rows"));
        bar.inc(1);
        Ok(())
    };
    let copied = copy(cluster, table, &from, &ranges, &writer, work, tell).await;
    bar.finish_and_clear();
    copied
}

/// Copies the rows that `from`, the table or a layout of it, has in these ranges, several at a time. Says of each when it
/// is done, with how many rows have been copied by then. Returns how many these were.
async fn copy(
    cluster: &Cluster,
    table: &Table,
    from: &TableName,
    ranges: &[Range],
    writer: &Writer<'_>,
    work: &Work,
    done: impl AsyncFn(Range, u64) -> Result<()>,
) -> Result<u64> {
    let throttle = Throttle::new(work.rows_per_second);
    let reader = Reader::new(cluster, table, from, work.level()).await?;
    let copied = AtomicU64::new(0);
    let copies = ranges.iter().map(|range| {
        let (reader, throttle, copied, done) = (&reader, &throttle, &copied, &done);
        async move {
            let take = async |rows: Vec<Row>, asked: Asked| {
                refuse_untimed(table, &rows)?;
                writer.copy(&rows, asked).await?;
                let rows = rows.iter().filter(|row| !row.is_static()).count() as u64;
                copied.fetch_add(rows, Ordering::Relaxed);
                Ok(())
            };
            reader.each_page(*range, throttle, take).await?;
            done(*range, copied.load(Ordering::Relaxed)).await
        }
    });
    let all: Result<()> = stream::iter(copies)
        .buffer_unordered(work.parallel.into())
        .try_collect()
        .await;
    all?;
    Ok(copied.into_inner())
}

/// The ranges, and the ends of those that all layouts have already.
async fn plan(
    cluster: &Cluster,
    table: &Table,
    entries: &[Layout],
) -> Result<(Vec<Range>, BTreeSet<i64>)> {
    let mut before: Option<(BTreeSet<i64>, u64)> = None;
    for entry in entries {
        let (ends, count) = ranges::done(cluster, &table.name, entry).await?;
        before = match (before, count) {
            (None, Some(count)) => Some((ends, count)),
            (Some((others, n)), Some(count)) if n == count => Some((&others & &ends, n)),
            // One of them has nothing yet, or other ranges.
            _ => Some((BTreeSet::new(), 0)),
        };
    }
    match before {
        Some((done, count)) if count > 0 => Ok((helenus_rows::split(count), done)),
        _ => {
            let count = ring::suitable(cluster, &table.name).await;
            Ok((helenus_rows::split(count), BTreeSet::new()))
        }
    }
}

/// CQL tells neither when the keys of a row were written nor when they expire.
fn refuse_untimed(table: &Table, rows: &[Row]) -> Result<()> {
    if rows.iter().any(|row| expires_untold(table, row)) {
        bail!(
            "{} has rows without a value in any column besides the keys, and default_time_to_live: CQL does \
             not tell when they expire, so they cannot be copied. Give each of them a value, delete them, or wait until \
             they have expired; then run this again",
            table.name
        );
    }
    Ok(())
}
