//! How two tables differ whose rows come in whatever order: first by sums, then by the rows' hashes, and at last row
//! by row.

use std::collections::{HashMap, HashSet};

use crate::row::{Cell, Row};

/// A value with less time to live may be gone in one table and not yet in the other.
const EXPIRES_SOON_S: i32 = 10;

/// Rows of a range: how many, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub rows: u64,
    hash: u128,
}

impl Sum {
    pub fn add(&mut self, row: &Row) {
        self.rows += u64::from(!row.is_static());
        self.hash = self.hash.wrapping_add(row.hash());
    }
}

/// Hashes of a part of a range's rows, by those of their keys: so that not all of a huge range are held at a time.
#[derive(Clone, Debug)]
pub struct Hashes {
    pass: u128,
    passes: u128,
    hashes: HashMap<u128, u128>,
}

impl Hashes {
    /// The part number `pass` of `passes`.
    pub fn new(pass: u128, passes: u128) -> Hashes {
        let (passes, hashes) = (passes.max(1), HashMap::new());
        Hashes {
            pass,
            passes,
            hashes,
        }
    }

    pub fn add(&mut self, row: &Row) {
        let key = row.key_hash();
        if key % self.passes == self.pass {
            self.hashes.insert(key, row.hash());
        }
    }

    /// The keys of rows that are in one of both only, or differ.
    pub fn differing(&self, other: &Hashes) -> HashSet<u128> {
        let keys = self.hashes.keys().chain(other.hashes.keys());
        let differs = |key: &&u128| self.hashes.get(key) != other.hashes.get(key);
        keys.filter(differs).copied().collect()
    }
}

/// The part of a row that is in one of two tables only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A row without values is there or not.
    Key { is_own: bool },
    /// A value of this time; how long is left to it does not count, but that it expires.
    Cell { is_own: bool, cell: Cell },
}

/// How two rows differ, but for what is about to expire.
pub fn differing(own: Option<&Row>, copy: Option<&Row>) -> Vec<Part> {
    let is_bare = |row: Option<&Row>| row.is_some_and(|row| row.cells.is_empty());
    let mut parts = Vec::new();
    if own.is_none() != copy.is_none() && (is_bare(own) || is_bare(copy)) {
        parts.push(Part::Key {
            is_own: own.is_some(),
        });
    }
    let own = own.map(|row| row.cells.as_slice()).unwrap_or_default();
    let copy = copy.map(|row| row.cells.as_slice()).unwrap_or_default();
    for (is_own, cells, others) in [(true, own, copy), (false, copy, own)] {
        let is_in_both = |cell: &&Cell| match others.iter().find(|other| other.is_of(cell)) {
            Some(other) => {
                let is_same = (&other.value, other.timestamp) == (&cell.value, cell.timestamp);
                // One of both goes, and the other one stays.
                is_same && (other.ttl > 0) == (cell.ttl > 0)
            }
            None => cell.expires_soon(),
        };
        parts.extend(cells.iter().filter(|c| !is_in_both(c)).map(|cell| {
            let cell = Cell {
                ttl: i32::from(cell.ttl > 0),
                ..cell.clone()
            };
            Part::Cell { is_own, cell }
        }));
    }
    parts
}

impl Cell {
    /// True if it may be gone in one table and not yet in the other.
    fn expires_soon(&self) -> bool {
        (1..=EXPIRES_SOON_S).contains(&self.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(usize, i64, i32)]) -> Row {
        let cells = cells.iter().map(|&(column, timestamp, ttl)| Cell {
            column,
            element: None,
            value: timestamp.to_be_bytes().to_vec(),
            timestamp: Some(timestamp),
            ttl,
        });
        Row {
            partition: vec![Some(vec![1])],
            clustering: Some(vec![Some(vec![2])]),
            cells: cells.collect(),
        }
    }

    #[test]
    fn a_value_that_a_busy_row_misses_is_the_same_difference_at_each_look() {
        // Column 0 is written all the time, and caught in between; column 1 is missing.
        let first = differing(
            Some(&row(&[(0, 5, 0), (1, 1, 90)])),
            Some(&row(&[(0, 4, 0)])),
        );
        let second = differing(
            Some(&row(&[(0, 9, 0), (1, 1, 89)])),
            Some(&row(&[(0, 8, 0)])),
        );
        let both: Vec<&Part> = first.iter().filter(|part| second.contains(part)).collect();
        let missing = row(&[(1, 1, 1)]).cells.remove(0);
        let missing = Part::Cell {
            is_own: true,
            cell: missing,
        };
        assert_eq!(both, [&missing]);
    }

    #[test]
    fn rows_differ_but_for_what_is_about_to_expire() {
        let (bare, one, soon) = (row(&[]), row(&[(0, 5, 0)]), row(&[(0, 5, 3)]));
        let are_same = |own: Option<&Row>, copy: Option<&Row>| differing(own, copy).is_empty();
        for (own, copy) in [
            (None, None),
            (Some(&one), Some(&one)),
            (Some(&row(&[(0, 5, 90)])), Some(&soon)),
            (Some(&soon), None),
            (Some(&bare), Some(&soon)),
            (Some(&bare), Some(&bare)),
        ] {
            assert!(
                are_same(own, copy) && are_same(copy, own),
                "{own:?} {copy:?}"
            );
        }
        for (own, copy) in [
            (Some(&bare), None),
            (Some(&one), None),
            (Some(&bare), Some(&one)),
            (Some(&one), Some(&soon)),
            (Some(&one), Some(&row(&[(0, 5, 90)]))),
            (Some(&row(&[(0, 6, 3)])), Some(&one)),
        ] {
            assert!(
                !are_same(own, copy) && !are_same(copy, own),
                "{own:?} {copy:?}"
            );
        }
    }
}
