//! Puts the rows of one partition that a layout gives in its own order into the table's.
//!
//! That is the table's answer only if the layout's has come whole: on one page, which the node does not
//! continue. So whatever is too large, in rows or in bytes, is thrown away, and the table is read. What a
//! statement's answers were too large for is remembered ([`Room`]).

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use helenus_layout::plan::{ROWS_MAX, Restore};
use helenus_wire::{Malformed, RowsView, TableName};

use crate::statement::order::Order;

/// Bytes of rows that are sorted at most.
const BYTES_MAX: usize = 1 << 20;

/// How the answers to a statement become the table's.
#[derive(Debug)]
pub(crate) struct RestoredOrder {
    keys: Vec<Key>,
    /// Columns at the end that the client has not asked for.
    appended: usize,
    limit: usize,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Key {
    column: usize,
    order: Order,
    descending: bool,
}

impl Key {
    /// Of cells that [`Order::compare`] knows.
    fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        let ascending = self.order.compare(one, other).unwrap_or(Ordering::Equal);
        match self.descending {
            true => ascending.reverse(),
            false => ascending,
        }
    }
}

impl RestoredOrder {
    /// A node could not read all that is to be sorted.
    pub(crate) fn note_failed(&self) {
        self.room.note_too_small(ROWS_MAX as u32);
    }

    /// `None` if the order of a type is not known here.
    pub(crate) fn of(restore: &Restore, room: Arc<Room>) -> Option<RestoredOrder> {
        let keys = restore.keys.iter().map(|key| {
            Some(Key {
                column: key.column,
                order: Order::of_clustering(&key.cql_type)?,
                descending: key.descending,
            })
        });
        Some(RestoredOrder {
            keys: keys.collect::<Option<_>>()?,
            appended: restore.appended,
            limit: restore.limit.unwrap_or(usize::MAX),
            room,
        })
    }

    pub(crate) fn appended(&self) -> usize {
        self.appended
    }

    /// Appends the table's answer, with `names` as [`RowsView::write_for_table`] takes them; false if this page
    /// cannot be made that.
    ///
    /// # Errors
    /// The page is not what it says.
    pub(crate) fn write(
        &self,
        page: &RowsView<'_>,
        from: TableName<'_>,
        to: TableName<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        let columns = page.column_count.checked_sub(self.appended);
        let columns = columns.ok_or(Malformed("fewer columns than were asked for"))?;
        let is_whole = page.paging_state.is_none() && page.row_count <= ROWS_MAX;
        let rows = match is_whole && page.byte_len() <= BYTES_MAX {
            true => self.sorted(page, columns)?,
            false => None,
        };
        match rows {
            Some(rows) => {
                self.room.note_fitted(page.row_count as u32);
                page.write_rows_for_table(from, to, columns, &rows, out);
                Ok(true)
            }
            None => {
                // Rows of these bytes, or with such keys, do not fit a larger page either.
                let rows = if is_whole { ROWS_MAX } else { page.row_count };
                self.room
                    .note_too_small(u32::try_from(rows).unwrap_or(u32::MAX));
                Ok(false)
            }
        }
    }

    /// The first columns of the rows, in the table's order. `None` if that is not known of some key, such as an
    /// empty one.
    fn sorted<'a>(
        &self,
        page: &RowsView<'a>,
        columns: usize,
    ) -> Result<Option<Vec<&'a [u8]>>, Malformed> {
        let mut rows = Vec::with_capacity(page.row_count);
        let mut keys = Vec::with_capacity(page.row_count * self.keys.len());
        page.for_each_row(columns, |row, cells| {
            rows.push(row);
            let cell = |key: &Key| cells.get(key.column).copied().flatten();
            let known =
                |key: &Key| cell(key).filter(|cell| key.order.compare(cell, cell).is_some());
            keys.extend(self.keys.iter().map_while(known));
        })?;
        if rows.len() > 1 && keys.len() != rows.len() * self.keys.len() {
            return Ok(None);
        }
        let of_row = |at: usize| keys.chunks_exact(self.keys.len().max(1)).nth(at);
        let compare = |one: usize, other: usize| {
            let cells = of_row(one).into_iter().flatten();
            let pairs = cells.zip(of_row(other).into_iter().flatten());
            let mut orders = self.keys.iter().zip(pairs);
            let order = orders.find_map(|(key, (one, other))| {
                Some(key.compare(one, other)).filter(|order| order.is_ne())
            });
            order.unwrap_or(Ordering::Equal)
        };
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by(|one, other| compare(*one, *other));
        // No two rows of a partition have the same key.
        if order
            .windows(2)
            .any(|pair| compare(pair[0], pair[1]).is_eq())
        {
            return Ok(None);
        }
        order.truncate(self.limit);
        Ok(Some(order.into_iter().map(|at| rows[at]).collect()))
    }
}

/// For which pages a statement's answers were too large. After each that was, this many reads with such a page
/// go to the table at once, twice as many after each further one in a row; then one is tried again, because
/// other partitions are of other sizes. So at most one read in 16 is made in vain, where none fits one in
/// about 1,000; more of them where others read small partitions by the same statement.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Pages of so many rows, and smaller ones, were too small; 0: none were.
    too_small: AtomicU32,
    /// Reads with such pages that still go to the table.
    left: AtomicU32,
    /// How often in a row.
    in_a_row: AtomicU32,
}

const LEFT_FIRST: u32 = 16;
const DOUBLED_MAX: u32 = 6;

impl Room {
    /// True if an answer is expected to fit a client's page. `None`: it takes all rows at once.
    pub(crate) fn is_tried(&self, page_size: Option<i32>) -> bool {
        let page_size = page_size.and_then(|size| u32::try_from(size).ok());
        let page_size = page_size.filter(|size| *size > 0);
        let too_small = self.too_small.load(Relaxed);
        if page_size.unwrap_or(u32::MAX).min(ROWS_MAX as u32) > too_small {
            return true;
        }
        let left = self.left.load(Relaxed);
        // Workers that meet here count once: it is an estimate. Others wait until this one's answer tells.
        let next = left.checked_sub(1).unwrap_or_else(|| self.pause());
        self.left.store(next, Relaxed);
        left == 0
    }

    fn pause(&self) -> u32 {
        LEFT_FIRST << self.in_a_row.load(Relaxed).min(DOUBLED_MAX)
    }

    fn note_too_small(&self, rows: u32) {
        let in_a_row = self.in_a_row.load(Relaxed).min(DOUBLED_MAX);
        self.in_a_row.store(in_a_row + 1, Relaxed);
        self.too_small.fetch_max(rows, Relaxed);
        self.left.store(LEFT_FIRST << in_a_row, Relaxed);
    }

    /// An answer of so many rows has come whole. What needed a larger page tells nothing of the smaller ones.
    fn note_fitted(&self, rows: u32) {
        let too_small = self.too_small.load(Relaxed);
        if too_small > 0 && rows <= too_small {
            self.too_small.store(0, Relaxed);
            self.in_a_row.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
