//! Makes a row the same in several copies that nothing compares but this: what some lack is written to all, with the
//! times at which it was written.
//!
//! CQL shows what a copy holds, and not what was deleted there. So a value that is in one copy and not in another has
//! either not arrived there, or is deleted there. To tell, it is written there with its own time: if it is still
//! missing afterwards it is deleted, and then it is deleted everywhere, with that time and none later. What clients
//! write meanwhile is never undone: everything that is written here was written before, and every deletion is as old
//! as what some copy hides already.
//!
//! 0. What differs is looked at twice before anything is written: most of it is only on its way.
//! 1. The values, without the row's marker: a marker that is written where values are hidden could leave a row without
//!    any.
//! 2. Values that are hidden in some copy are deleted in all.
//! 3. Copies that have lacked the row, or a value of it, get a marker ([`crate::writes`]), and no others do: they may
//!    have made the row by this value alone. Where all values expire, so does the marker, and only copies that have
//!    lacked the row get it.
//! 4. A row without values that is missing somewhere: its marker. If it is still missing, the row is deleted in all,
//!    with the time of the oldest value that it had, then with that of the newest. If that is not enough, nothing tells
//!    the times of what is hidden and of what hides it, and the source is right, which has all that was acknowledged:
//!    the row is made, or deleted, with a time of some while ago. This alone is later than what some copy hides.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::difference::{Part, differing};
use crate::row::{Cell, Row};
use crate::table::Table;
use crate::writes::{
    BARE_TIME, Write, delete_row, marker, marker_expires, marker_of, remove, values,
};

/// Steps until a row is given up: enough for all of the above, twice.
const STEPS_MAX: usize = 16;

/// What one look at a row is like.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Which of the copies is in sync: it has all that was acknowledged.
    pub source: usize,
    /// How long ago the row was read.
    pub age: Duration,
    /// Microseconds since 1970, some while before this look: what was written until then has arrived, or never will.
    pub past_us: i64,
}

/// What is next.
#[derive(Clone, Debug)]
pub enum Step {
    Equal,
    /// Read the row from all of them again after a while.
    Again,
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
    /// Whether copies have differed at an earlier look, and something was written since.
    has_differed: bool,
    has_written: bool,
    /// How copies differed from the first one at the last look.
    before: Vec<(usize, Part)>,
}

impl Equalizing {
    /// The row as all copies have it now.
    pub fn next(&mut self, table: &Table, rows: &[Option<Row>], look: Look) -> Step {
        let Some(merged) = merged(rows) else {
            return Step::Equal;
        };
        let now = differences(rows);
        let before = std::mem::replace(&mut self.before, now);
        if self.before.iter().all(|part| is_under_way(part, &before)) {
            return self.mark(table, &merged, look.age);
        }
        self.steps += 1;
        let is_timed = merged.cells.iter().all(|cell| cell.timestamp.is_some());
        if self.steps > STEPS_MAX || !is_timed {
            return Step::GiveUp;
        }
        let has_differed = std::mem::replace(&mut self.has_differed, true);
        let is_lasting = has_differed && self.before.iter().any(|part| before.contains(part));
        if !self.has_written && !is_lasting {
            return Step::Again;
        }
        self.has_written = true;
        if let Some(written) = self.written.take() {
            let hidden = hidden(&written, rows);
            if !hidden.is_empty() {
                return Step::Write(hidden);
            }
        }
        if merged.cells.is_empty() {
            let is_right = rows.get(look.source).is_some_and(Option::is_some);
            return self.bare(table, &merged, (is_right, look.past_us));
        }
        self.note_times(&merged);
        self.note_lacking(&merged, rows);
        let writes = values(table, &merged, look.age);
        self.written = Some(merged);
        Step::Write(writes)
    }

    /// The row is the same everywhere.
    fn mark(&mut self, table: &Table, merged: &Row, age: Duration) -> Step {
        let mut lacking = std::mem::take(&mut self.lacked_row);
        let partly = std::mem::take(&mut self.lacked_values);
        if !marker_expires(merged) {
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

    /// A row without values that some copy lacks. Whether the source has it, and a time of some while ago.
    fn bare(&mut self, table: &Table, row: &Row, (is_right, past_us): (bool, i64)) -> Step {
        self.bare += 1;
        if self.bare == 2 && is_right && self.times.is_none() {
            // What is hidden may be as old as the marker that was written here earlier.
            self.bare = 4;
        }
        let (oldest, newest) = self.times.unwrap_or((BARE_TIME, BARE_TIME));
        // Where rows expire by default, this one may; nothing tells when.
        let life = table.default_ttl;
        Step::Write(vec![match self.bare {
            1 => marker_of(row, oldest, life),
            2 => delete_row(row, oldest),
            3 => delete_row(row, newest),
            4 if is_right => marker_of(row, past_us, life),
            4 => delete_row(row, past_us),
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
