//! Copies the rows of a table to layouts that are already being written: range by range, several at a
//! time, with the times at which they were written. An interrupted filling goes on where it was.

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
    (work, claim): (&Work, &Claim<'_>),
) -> Result<u64> {
    let (ranges, done) = plan(cluster, table, entries).await?;
    let throttle = Throttle::new(work.rows_per_second);
    let reader = Reader::new(cluster, table, &table.name, work.level()).await?;
    let into = entries.iter().map(|entry| table_of(entry, &table.name));
    let into: Vec<TableName> = into.collect();
    let writer = Writer::new(cluster, table, &into, work, claim);
    let copied = AtomicU64::new(0);
    let bar = bar("copying rows", ranges.len() as u64);
    bar.inc(done.len() as u64);
    let todo = ranges.iter().filter(|range| !done.contains(&range.end));
    let fills = todo.map(|range| {
        let (reader, writer, throttle) = (&reader, &writer, &throttle);
        let (bar, copied, count) = (&bar, &copied, ranges.len());
        async move {
            let take = async |rows: Vec<Row>, asked: Asked| {
                refuse_untimed(table, &rows)?;
                writer.copy(&rows, asked).await?;
                let rows = rows.iter().filter(|row| !row.is_static()).count() as u64;
                let all = copied.fetch_add(rows, Ordering::Relaxed) + rows;
                bar.set_message(format!("{all} rows"));
                Ok(())
            };
            reader.each_page(*range, throttle, take).await?;
            ranges::note_done(cluster, &table.name, entries, *range, count).await?;
            bar.inc(1);
            Ok::<(), anyhow::Error>(())
        }
    });
    let filled: Result<()> = stream::iter(fills)
        .buffer_unordered(work.parallel.into())
        .try_collect()
        .await;
    bar.finish_and_clear();
    filled?;
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
