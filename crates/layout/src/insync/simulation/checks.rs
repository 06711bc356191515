//! What clients have seen, judged while it happens.
//!
//! The value of a key only grows: so a read must give no less than what was acknowledged before it began,
//! and no less than what reads gave that ended before it began. Both are one number per key.

use std::collections::BTreeMap;

use super::super::list::{LISTED_MAX, TABLE};
use super::{Cell, Guarantee, KEYS};

#[derive(Clone, Debug)]
pub(super) struct Checks {
    guarantee: Guarantee,
    acknowledged: [Cell; KEYS],
    returned: [Cell; KEYS],
    /// By key and copy, with the version since which the copy is in sync.
    returned_by: [[(u64, Cell); LISTED_MAX]; KEYS],
    written: BTreeMap<Cell, usize>,
    pub(super) counts: Counts,
}

/// What a run has reached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) acknowledged: u64,
    pub(super) read: u64,
    pub(super) merged: u64,
    pub(super) written_back: u64,
    pub(super) evicted: u64,
    pub(super) promoted: u64,
    pub(super) resynchronised: u64,
    pub(super) completed_by_newcomer: u64,
    /// Reads by the table, and how often it has left its lists, or its copies have.
    pub(super) read_by_table: u64,
    pub(super) table_left: u64,
    pub(super) copies_left: u64,
    pub(super) slowest_write_us: u64,
    pub(super) slowest_read_us: u64,
}

/// What a read must not go below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    acknowledged: Cell,
    returned: Cell,
    of_copies: [(u64, Cell); LISTED_MAX],
}

/// Who answered: the copy, and since which version it is in sync.
pub(super) type By = (usize, u64);

impl Checks {
    pub(super) fn new(guarantee: Guarantee) -> Checks {
        Checks {
            guarantee,
            acknowledged: [Cell::default(); KEYS],
            returned: [Cell::default(); KEYS],
            returned_by: [[(0, Cell::default()); LISTED_MAX]; KEYS],
            written: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn on_write(&mut self, key: usize, cell: Cell) {
        self.written.insert(cell, key);
    }

    pub(super) fn on_acknowledged(&mut self, key: usize, cell: Cell, took_us: u64) {
        self.acknowledged[key] = self.acknowledged[key].max(cell);
        self.counts.acknowledged += 1;
        self.counts.slowest_write_us = self.counts.slowest_write_us.max(took_us);
    }

    /// A read begins.
    pub(super) fn floor(&self, key: usize) -> Floor {
        Floor {
            acknowledged: self.acknowledged[key],
            returned: self.returned[key],
            of_copies: self.returned_by[key],
        }
    }

    pub(super) fn on_read(
        &mut self,
        key: usize,
        cell: Cell,
        by: By,
        floor: &Floor,
        took_us: u64,
    ) -> Result<(), String> {
        self.counts.read += 1;
        self.counts.read_by_table += u64::from(by.0 == TABLE);
        self.counts.slowest_read_us = self.counts.slowest_read_us.max(took_us);
        if cell != Cell::default() && self.written.get(&cell) != Some(&key) {
            return Err(format!("key {key}: {cell:?} was never written"));
        }
        if cell < floor.acknowledged {
            let missed = floor.acknowledged;
            return Err(format!(
                "key {key}: copy {} gives {cell:?}, and {missed:?} was acknowledged before",
                by.0
            ));
        }
        let returned = match self.guarantee {
            Guarantee::AllCopies => floor.returned,
            // Only while the copy stays in sync.
            Guarantee::EachCopy if floor.of_copies[by.0].0 == by.1 => floor.of_copies[by.0].1,
            Guarantee::EachCopy => Cell::default(),
        };
        if cell < returned {
            return Err(format!(
                "key {key}: copy {} gives {cell:?}, and {returned:?} was read before",
                by.0
            ));
        }
        self.returned[key] = self.returned[key].max(cell);
        let of_copy = &mut self.returned_by[key][by.0];
        *of_copy = (*of_copy).max((by.1, cell));
        Ok(())
    }

    /// Any read of the table gives at least this, and it is in sync.
    pub(super) fn of_table(&self, certain: &[Cell; KEYS]) -> Result<(), String> {
        let lacks = |key: &usize| certain[*key] < self.acknowledged[*key];
        match (0..KEYS).find(lacks) {
            Some(key) => {
                let (held, acknowledged) = (certain[key], self.acknowledged[key]);
                Err(format!(
                    "key {key}: the table has {held:?}, and {acknowledged:?} was acknowledged"
                ))
            }
            None => Ok(()),
        }
    }

    /// All is quiet: the copies hold the same, and all that was acknowledged.
    pub(super) fn at_the_end(&self, copies: &[&[Cell; KEYS]]) -> Result<(), String> {
        for key in 0..KEYS {
            let held: Vec<Cell> = copies.iter().map(|cells| cells[key]).collect();
            if held.iter().any(|cell| *cell != held[0]) {
                return Err(format!("key {key}: the copies differ: {held:?}"));
            }
            if held[0] < self.acknowledged[key] {
                let lost = self.acknowledged[key];
                return Err(format!("key {key}: {lost:?} was acknowledged, and is lost"));
            }
        }
        Ok(())
    }
}
