//! Makes rows of a layout what they are in the table, by the times at which they were written.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use helenus_policy::token::{composite_key, murmur3_token};
use helenus_rows::{Row, Table, expires_untold, remove};

use super::super::compare::{Difference, Readers, Settled, settled};
use super::super::writer::Writer;
use crate::nodes::asked::Asked;

/// Rows that are repaired at the same time.
const ROWS: usize = 16;
/// CQL must tell when all of the row was written, and when it expires.
fn can_be_copied(table: &Table, row: &Row) -> bool {
    let is_timed = row.cells.iter().all(|cell| cell.timestamp.is_some());
    is_timed && !expires_untold(table, row)
}

/// Differences that remain after a repair.
#[derive(Clone, Debug, Default)]
pub(in crate::layouts) struct Left {
    /// Rows that differ still. They hold something newer than the table, or of which CQL does not tell when
    /// it was written, or what was not deleted.
    pub rows: u64,
    /// Rows with something that would have been deleted, had that been allowed.
    pub undeleted: u64,
    /// Tokens of their partitions.
    pub tokens: BTreeSet<i64>,
}

/// Repairs rows of the layout with this number. The writer writes to that. Without `may_delete`, nothing is deleted.
pub(in crate::layouts) async fn repair(
    writer: &Writer<'_>,
    table: &Table,
    readers: &Readers<'_>,
    at: usize,
    differences: &[Difference],
    may_delete: bool,
) -> Result<Left> {
    let Some(copy) = readers.copies.get(at) else {
        return Ok(Left::default());
    };
    let repairs = differences.iter().map(|difference| async move {
        let Some(row) = difference.own.as_ref().or(difference.copy.as_ref()) else {
            return Ok(Left::default());
        };
        // As the table is now: the comparison may have taken long. What the layout had then, and the table has not
        // now, is too much. In the other order, a row that a client writes in between would be deleted with its own
        // time.
        let asked = Asked::now();
        let own = readers.own.row_like(row).await?;
        if let Some(own) = &own
            && can_be_copied(table, own)
        {
            writer.copy(std::slice::from_ref(own), asked).await?;
        }
        let extra = difference.copy.as_ref();
        let removals = extra.map(|extra| remove(extra, own.as_ref()));
        let removals = removals.unwrap_or_default();
        let has_removals = !may_delete && !removals.is_empty();
        if may_delete {
            writer.send(removals).await?;
        }
        let settled = settled(row, &readers.own, copy).await?;
        let differs = !matches!(settled, Settled::Same);
        Ok::<Left, anyhow::Error>(Left {
            rows: u64::from(differs),
            undeleted: u64::from(differs && has_removals),
            tokens: differs.then(|| token_of(row)).into_iter().collect(),
        })
    });
    let mut left = Left::default();
    let mut repairs = stream::iter(repairs).buffer_unordered(ROWS);
    while let Some(one) = repairs.try_next().await? {
        left.rows += one.rows;
        left.undeleted += one.undeleted;
        left.tokens.extend(one.tokens);
    }
    Ok(left)
}

/// Where the row's partition is on the ring.
fn token_of(row: &Row) -> i64 {
    let values = row.partition.iter();
    let values = values.map(|value| value.as_deref().unwrap_or_default());
    let mut key = Vec::new();
    // Cassandra has taken it, so it is not too long.
    composite_key(values, &mut key);
    murmur3_token(&key)
}
