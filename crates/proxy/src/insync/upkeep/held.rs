//! The rows of a range that are held at a time: their hashes, in the order of the ring, until there are too many. Two
//! copies are then compared as far as both were read, and the rest of the range is next.

use std::collections::HashMap;
use std::collections::HashSet;

use helenus_policy::token::{composite_key, murmur3_token};
use helenus_rows::{Range, Row};

/// Rows of one copy, by their keys.
#[derive(Clone, Debug)]
pub(super) struct Held {
    rows_max: usize,
    /// Of each row its token, and the hashes of its key and of all of it.
    rows: Vec<(i64, u128, u128)>,
    is_cut: bool,
}

/// How two copies differ.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// From the start of the range up to and with this token.
    UpTo {
        end: i64,
        /// Keys of rows that the second one lacks.
        lacking: HashSet<u128>,
        /// Keys of rows that differ, or are in one of both only.
        differing: HashSet<u128>,
    },
    /// The first token of the range alone has more rows than are held.
    TooMany,
}

impl Held {
    pub(super) fn new(rows_max: usize) -> Held {
        Held {
            rows_max,
            rows: Vec::new(),
            is_cut: false,
        }
    }

    /// False if no more are to be read.
    pub(super) fn add(&mut self, row: &Row) -> bool {
        if self.is_cut {
            return false;
        }
        self.rows.push((token_of(row), row.key_hash(), row.hash()));
        self.is_cut = self.rows.len() >= self.rows_max;
        !self.is_cut
    }

    /// Up to and with which token all rows of the range are here.
    fn end(&self, range: Range) -> i64 {
        match self.rows.last().filter(|_| self.is_cut) {
            // More of the last partition may come.
            Some((token, ..)) => token.saturating_sub(1).min(range.end),
            None => range.end,
        }
    }

    fn up_to(&self, end: i64) -> HashMap<u128, u128> {
        let rows = self.rows.iter().filter(|(token, ..)| *token <= end);
        rows.map(|(_, key, hash)| (*key, *hash)).collect()
    }
}

/// Of a range that both copies were asked for from its start on.
pub(super) fn compared(range: Range, [own, other]: &[Held; 2]) -> Compared {
    let end = own.end(range).min(other.end(range));
    if end <= range.after {
        return Compared::TooMany;
    }
    let (own, other) = (own.up_to(end), other.up_to(end));
    let keys = || own.keys().chain(other.keys());
    Compared::UpTo {
        end,
        lacking: own
            .keys()
            .filter(|key| !other.contains_key(*key))
            .copied()
            .collect(),
        differing: keys()
            .filter(|key| own.get(*key) != other.get(*key))
            .copied()
            .collect(),
    }
}

/// Keys that nodes do not take have none, and no node sends them.
fn token_of(row: &Row) -> i64 {
    let values = row.partition.iter();
    let values = values.map(|value| value.as_deref().unwrap_or_default());
    let mut key = Vec::new();
    composite_key(values, &mut key);
    murmur3_token(&key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const WHOLE: Range = Range {
        after: i64::MIN,
        end: i64::MAX,
    };

    fn row(partition: i32, clustering: i32) -> Row {
        let value = |value: i32| vec![Some(value.to_be_bytes().to_vec())];
        Row {
            partition: value(partition),
            clustering: Some(value(clustering)),
            cells: Vec::new(),
        }
    }

    /// Rows of so many partitions with so many rows each, as a node sends those of a range.
    fn sent(partitions: &BTreeMap<i32, i32>, range: Range) -> Vec<Row> {
        let rows = partitions.iter();
        let rows = rows.flat_map(|(partition, rows)| (0..*rows).map(|at| row(*partition, at)));
        let mut rows: Vec<Row> = rows.collect();
        rows.retain(|row| (range.after + 1..=range.end).contains(&token_of(row)));
        rows.sort_by_key(token_of);
        rows
    }

    fn held(rows: &[Row], rows_max: usize) -> Held {
        let mut held = Held::new(rows_max);
        let _ = rows.iter().all(|row| held.add(row));
        held
    }

    /// Keys of the rows that differ, as they are found a few rows at a time, and how often rows were read.
    fn walk(copies: [&BTreeMap<i32, i32>; 2], rows_max: usize) -> (HashSet<u128>, usize) {
        let (mut range, mut found, mut steps) = (WHOLE, HashSet::new(), 0);
        while range.after < range.end {
            let both = copies.map(|copy| held(&sent(copy, range), rows_max));
            steps += 1;
            match compared(range, &both) {
                Compared::UpTo { end, differing, .. } => {
                    assert!(end > range.after && end <= range.end);
                    found.extend(differing);
                    range.after = end;
                }
                Compared::TooMany => {
                    let alone = Range {
                        end: range.after + 1,
                        ..range
                    };
                    let both = copies.map(|copy| held(&sent(copy, alone), usize::MAX));
                    let Compared::UpTo { differing, .. } = compared(alone, &both) else {
                        panic!("all of it was read");
                    };
                    found.extend(differing);
                    range.after = alone.end;
                }
            }
        }
        (found, steps)
    }

    #[test]
    fn all_differences_are_found_however_few_rows_are_held() {
        let own: BTreeMap<i32, i32> = (0..200).map(|partition| (partition, 3)).collect();
        let mut other = own.clone();
        other.remove(&17);
        other.insert(40, 1);
        // In one of both only, and too large for one look.
        other.insert(500, 30);
        let expected = 3 + 2 + 30;
        for rows_max in [7, 20, 100, 10_000] {
            let (found, steps) = walk([&own, &other], rows_max);
            assert_eq!(found.len(), expected, "{rows_max}");
            let (back, _) = walk([&other, &own], rows_max);
            assert_eq!(found, back, "{rows_max}");
            // Not all rows again for each look.
            assert!(steps <= 600 / (rows_max - 3).min(600) * 2 + 6, "{steps}");
        }
        assert!(walk([&own, &own], 7).0.is_empty());
    }

    #[test]
    fn a_token_is_that_of_the_ring() {
        // By Cassandra's token() of the int 1.
        assert_eq!(token_of(&row(1, 0)), -4_069_959_284_402_364_209);
    }

    #[test]
    fn what_the_second_lacks_is_told_apart() {
        let own: BTreeMap<i32, i32> = [(1, 2), (2, 1)].into();
        let other: BTreeMap<i32, i32> = [(1, 1), (3, 1)].into();
        let both = [&own, &other].map(|copy| held(&sent(copy, WHOLE), 100));
        let Compared::UpTo {
            end,
            lacking,
            differing,
        } = compared(WHOLE, &both)
        else {
            panic!("few rows");
        };
        let keys = [row(1, 1), row(2, 0)].map(|row| row.key_hash());
        assert_eq!((end, lacking), (i64::MAX, keys.into()));
        assert_eq!(differing.len(), 3);
    }
}
