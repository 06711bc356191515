//! Makes a row the same in several copies that nothing compares but this: what some lack is written to all, with the
//! times at which it was written.
//!
//! CQL shows what a copy holds, and not what was deleted there. So a value that is in one copy and not in another has
//! either not arrived there, or is deleted there. To tell, it is written there with its own time: if it is still
//! missing afterwards it is deleted, and then it is deleted everywhere, with that time and none later. What clients
//! write meanwhile is never undone: everything that is written here was written before, and every deletion is as old
//! as what some copy hides already.
//!
//! 1. The values, without the row's marker: a marker that is written where values are hidden could leave a row without
//!    any.
//! 2. Values that are hidden in some copy are deleted in all.
//! 3. Copies that have lacked the row, or a value of it, get a marker ([`crate::writes`]), and no others do: they may
//!    have made the row by this value alone. It never expires where the copy may have one that does not.
//! 4. A row without values that is missing somewhere: its marker. If it is still missing, the row is deleted in all,
//!    with the time of the oldest value that it had, then with that of the newest. A marker of which nothing tells
//!    the time, and which is newer, stays: that row cannot be made equal.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::difference::{Part, differing};
use crate::row::{Cell, Row};
use crate::table::Table;
use crate::writes::{
    UNKNOWN_TIME, Write, delete_row, expires_untold, marker, marker_expires, marker_of, remove,
    values,
};

/// Steps until a row is given up: enough for all of the above, twice.
const STEPS_MAX: usize = 12;

/// What is next.
#[derive(Clone, Debug)]
pub enum Step {
    Equal,
    /// Write this to all copies, then read the row from all of them.
    Write(Vec<Write>),
    /// Write this to these copies only, then read the row from all of them.
    Mark(Write, Vec<usize>),
    /// It cannot be made equal by what CQL tells of it, or is written to all the time.
    GiveUp,
}

/// One row that is being made equal.
#[derive(Clone, Debug, Default)]
pub struct Equalizing {
    steps: usize,
    /// The values that were written to all copies by the last step.
    written: Option<Row>,
    /// Copies that have lacked the row, or only some of its values: they get a marker once the values are everywhere.
    lacked_row: BTreeSet<usize>,
    lacked_values: BTreeSet<usize>,
    /// Times of the oldest and of the newest value that it had.
    times: Option<(i64, i64)>,
    /// Attempts to make a row without values equal.
    bare: usize,
    /// How copies differed from the first one at the last look.
    before: Vec<(usize, Part)>,
}

impl Equalizing {
    /// The row as all copies have it now, read `age` ago.
    pub fn next(&mut self, table: &Table, rows: &[Option<Row>], age: Duration) -> Step {
        let Some(merged) = merged(rows) else {
            return Step::Equal;
        };
        let now = differences(rows);
        let before = std::mem::replace(&mut self.before, now);
        if self.before.iter().all(|part| is_under_way(part, &before)) {
            return self.mark(table, &merged, age);
        }
        self.steps += 1;
        let is_timed = merged.cells.iter().all(|cell| cell.timestamp.is_some());
        if self.steps > STEPS_MAX || !is_timed || expires_untold(table, &merged) {
            return Step::GiveUp;
        }
        if let Some(written) = self.written.take() {
            let hidden = hidden(&written, rows);
            if !hidden.is_empty() {
                return Step::Write(hidden);
            }
        }
        if merged.cells.is_empty() {
            return self.bare(&merged);
        }
        self.note_times(&merged);
        self.note_lacking(&merged, rows);
        let writes = values(table, &merged, age);
        self.written = Some(merged);
        Step::Write(writes)
    }

    /// The row is the same everywhere.
    fn mark(&mut self, table: &Table, merged: &Row, age: Duration) -> Step {
        let mut lacking = std::mem::take(&mut self.lacked_row);
        let partly = std::mem::take(&mut self.lacked_values);
        if !marker_expires(table, merged) {
            lacking.extend(partly);
        }
        // One without values has a marker where it is.
        let is_marked = lacking.is_empty() || merged.is_static() || merged.cells.is_empty();
        match marker(table, merged, age).filter(|_| !is_marked) {
            Some(marker) => Step::Mark(marker, lacking.into_iter().collect()),
            None => Step::Equal,
        }
    }

    fn note_lacking(&mut self, merged: &Row, rows: &[Option<Row>]) {
        for (at, row) in rows.iter().enumerate() {
            let Some(row) = row else {
                self.lacked_row.insert(at);
                continue;
            };
            let parts = differing(Some(merged), Some(row));
            let lacks = |part: &Part| matches!(part, Part::Cell { is_own: true, .. });
            if parts.iter().any(lacks) {
                self.lacked_values.insert(at);
            }
        }
    }

    /// A row without values that some copy lacks.
    fn bare(&mut self, row: &Row) -> Step {
        self.bare += 1;
        let (oldest, newest) = self.times.unwrap_or((UNKNOWN_TIME, UNKNOWN_TIME));
        Step::Write(vec![match self.bare {
            1 => marker_of(row, oldest, 0),
            2 => delete_row(row, oldest),
            3 if newest > oldest => delete_row(row, newest),
            _ => return Step::GiveUp,
        }])
    }

    fn note_times(&mut self, row: &Row) {
        for time in row.cells.iter().filter_map(|cell| cell.timestamp) {
            let (oldest, newest) = self.times.unwrap_or((time, time));
            self.times = Some((oldest.min(time), newest.max(time)));
        }
    }
}

/// How the other copies differ from the first one, but for what is about to expire.
fn differences(rows: &[Option<Row>]) -> Vec<(usize, Part)> {
    let Some((first, others)) = rows.split_first() else {
        return Vec::new();
    };
    let others = others.iter().enumerate();
    let parts = others.flat_map(|(at, other)| {
        let parts = differing(first.as_ref(), other.as_ref());
        parts.into_iter().map(move |part| (at, part))
    });
    parts.collect()
}

/// Whether a client has written that meanwhile, and whoever sends it for the client sends it to all. What a row misses
/// differs in the same way at each look.
fn is_under_way(part: &(usize, Part), before: &[(usize, Part)]) -> bool {
    !before.is_empty() && matches!(part.1, Part::Cell { .. }) && !before.contains(part)
}

/// What all copies have together: of each value the newest, and of those of one time the one that nodes prefer. None if
/// no copy has the row.
fn merged(rows: &[Option<Row>]) -> Option<Row> {
    let mut found = rows.iter().flatten();
    let mut merged = found.next()?.clone();
    for cell in found.flat_map(|row| &row.cells) {
        match merged.cells.iter_mut().find(|known| known.is_of(cell)) {
            None => merged.cells.push(cell.clone()),
            Some(known) if order(cell) > order(known) => *known = cell.clone(),
            Some(_) => {}
        }
    }
    merged.cells.sort_by_key(|cell| cell.column);
    Some(merged)
}

/// Of one time nodes prefer what expires, then what expires later, and of what does not expire the greater value.
fn order(cell: &Cell) -> (Option<i64>, i32, &[u8]) {
    (cell.timestamp, cell.ttl, &cell.value)
}

/// What deletes the values that were written to all copies, and are in some and not in others.
fn hidden(written: &Row, rows: &[Option<Row>]) -> Vec<Write> {
    let of = |row: &Option<Row>, cell: &Cell| {
        let cells = row.iter().flat_map(|row| &row.cells);
        cells.clone().find(|found| found.is_of(cell)).cloned()
    };
    let is_hidden = |cell: &&Cell| {
        let is_there = |row: &Option<Row>| {
            let found = of(row, cell);
            found.is_some_and(|found| found.timestamp == cell.timestamp && !found.expires_soon())
        };
        let is_missing = |row: &Option<Row>| of(row, cell).is_none();
        rows.iter().any(is_there) && rows.iter().any(is_missing)
    };
    let cells = written.cells.iter().filter(is_hidden).cloned().collect();
    let none = Row {
        cells: Vec::new(),
        ..written.clone()
    };
    let extra = Row {
        cells,
        ..written.clone()
    };
    remove(&extra, Some(&none))
}

#[cfg(test)]
mod tests;
