//! Makes rows of a layout what they are in the table, by the times at which they were written.

use std::time::Instant;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use helenus_rows::{Row, Table, Write, expires_untold, remove};

use super::catalogue::Entry;
use super::compare::{Difference, Readers, Settled, settled};
use super::work::Work;
use super::writer::Writer;
use crate::online::cluster::Cluster;

/// Rows that are repaired at the same time.
const ROWS: usize = 16;
/// Rows of which what is too much is deleted at a time: before that it is asked whether nodes were restarted.
const REMOVED_AT_A_TIME: usize = 256;

/// CQL must tell when all of the row was written, and when it expires.
fn can_be_copied(table: &Table, row: &Row) -> bool {
    let is_timed = row.cells.iter().all(|cell| cell.timestamp.is_some());
    is_timed && !expires_untold(table, row)
}

/// What is not right after all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    /// Rows that differ still. They hold something newer than the table, or of which CQL does not tell when
    /// it was written, or what was not deleted.
    pub rows: u64,
    /// Rows with something that would have been deleted, had all replicas been asked.
    pub undeleted: u64,
}

/// Repairs a layout's rows.
pub(super) async fn repair(
    cluster: &Cluster,
    table: &Table,
    readers: &Readers<'_>,
    (at, entry): (usize, &Entry),
    differences: &[Difference],
    work: &Work,
) -> Result<Left> {
    let writer = Writer::new(cluster, table, &[entry.table(&table.name)], work);
    let Some(copy) = readers.copies.get(at) else {
        return Ok(Left::default());
    };
    let mut left = Left::default();
    let at_a_time = match &work.started {
        Some(_) => REMOVED_AT_A_TIME,
        // The shorter the time between reading a row and deleting what is too much of it, the better.
        None => ROWS,
    };
    for differences in differences.chunks(at_a_time) {
        let copies = differences.iter().map(|difference| {
            let writer = &writer;
            async move {
                let row = difference.own.as_ref().or(difference.copy.as_ref());
                let Some(row) = row else { return Ok(None) };
                // As they are now: the comparison may have taken long. The layout first: what it had before
                // the table was read, and the table has not, is too much. In the other order, a row that a
                // client writes in between would be deleted with its own time.
                let extra = copy.row_like(row).await?;
                let asked = Instant::now();
                let own = readers.own.row_like(row).await?;
                if let Some(own) = &own
                    && can_be_copied(table, own)
                {
                    let own = std::slice::from_ref(own);
                    writer.copy(own, asked).await?;
                }
                let removals = extra.map(|extra| remove(&extra, own.as_ref()));
                Ok::<_, anyhow::Error>(Some((row, removals.unwrap_or_default())))
            }
        });
        let copies = stream::iter(copies).buffer_unordered(ROWS);
        let copied: Vec<Option<(&Row, Vec<Write>)>> = copies.try_collect().await?;
        let copied: Vec<(&Row, Vec<Write>)> = copied.into_iter().flatten().collect();
        // After the table was read: what a node has lost by then is not too much.
        if let Some(started) = &work.started
            && copied.iter().any(|(_, removals)| !removals.is_empty())
        {
            started.check(cluster).await?;
        }
        let removals = copied.into_iter().map(|(row, removals)| {
            let writer = &writer;
            async move {
                let is_deleted = work.may_delete();
                let has_removals = !is_deleted && !removals.is_empty();
                if is_deleted {
                    writer.send(removals).await?;
                }
                let settled = settled(row, &readers.own, copy).await?;
                let differs = !matches!(settled, Settled::Same);
                Ok::<Left, anyhow::Error>(Left {
                    rows: u64::from(differs),
                    undeleted: u64::from(differs && has_removals),
                })
            }
        });
        let mut removals = stream::iter(removals).buffer_unordered(ROWS);
        while let Some(one) = removals.try_next().await? {
            left.rows += one.rows;
            left.undeleted += one.undeleted;
        }
    }
    Ok(left)
}
