//! The rows of a range that are held at a time: their hashes, in the order of the ring, until there are too many. Two
//! copies are then compared as far as both were read, and the rest of the range is next. Of a partition that has too many
//! rows by itself, and is the first of the range, no more than their sum is kept, so it need not be read again if it is
//! the same in both.

use std::collections::HashMap;
use std::collections::HashSet;

use helenus_policy::token::{composite_key, murmur3_token};
use helenus_rows::{Range, Row, Sum};

/// Rows of one copy, by their keys.
#[derive(Clone, Debug)]
pub(super) struct Held {
    rows_max: usize,
    /// Of each row its token, and the hashes of its key and of all of it; none once the first token alone has too many.
    rows: Vec<(i64, u128, u128)>,
    /// The first token, and the sum of its rows.
    first: Option<(i64, Sum)>,
    is_large: bool,
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
    /// What is in the range up to and with this token is of one token that has more rows than are held, and is not the same
    /// in both.
    TooMany(i64),
}

impl Compared {
    fn equal(end: i64) -> Compared {
        Compared::UpTo {
            end,
            lacking: HashSet::new(),
            differing: HashSet::new(),
        }
    }
}

impl Held {
    pub(super) fn new(rows_max: usize) -> Held {
        Held {
            rows_max,
            rows: Vec::new(),
            first: None,
            is_large: false,
            is_cut: false,
        }
    }

    /// False if no more are to be read.
    pub(super) fn add(&mut self, row: &Row) -> bool {
        if self.is_cut {
            return false;
        }
        let (token, hash) = (token_of(row), row.hash());
        let (first, sum) = self.first.get_or_insert((token, Sum::default()));
        let is_first = *first == token;
        if is_first {
            sum.add_hashed(row, hash);
        }
        if self.is_large {
            self.is_cut = !is_first;
            return is_first;
        }
        self.rows.push((token, row.key_hash(), hash));
        if self.rows.len() >= self.rows_max {
            (self.is_large, self.is_cut) = (is_first, !is_first);
        }
        if self.is_large {
            self.rows = Vec::new();
        }
        !self.is_cut
    }

    /// The token of a first partition that has too many rows, and their sum.
    fn large(&self) -> Option<(i64, Sum)> {
        self.first.filter(|_| self.is_large)
    }

    /// Up to and with which token all rows of the range are held.
    fn end(&self, range: Range) -> i64 {
        let last = match self.large() {
            Some((token, _)) => Some(token),
            // More of the last partition may come.
            None => self
                .rows
                .last()
                .map(|(token, ..)| *token)
                .filter(|_| self.is_cut),
        };
        last.map_or(range.end, |token| token.saturating_sub(1).min(range.end))
    }

    fn up_to(&self, end: i64) -> HashMap<u128, u128> {
        let rows = self.rows.iter().filter(|(token, ..)| *token <= end);
        rows.map(|(_, key, hash)| (*key, *hash)).collect()
    }
}

/// Of a range that both copies were asked for from its start on.
pub(super) fn compared(range: Range, [own, other]: &[Held; 2]) -> Compared {
    if let Some((token, sums)) = large_first([own, other]) {
        let end = match own.is_cut || other.is_cut {
            true => token.clamp(range.after.saturating_add(1), range.end),
            false => range.end,
        };
        return match sums {
            Some([own, other]) if own == other => Compared::equal(end),
            _ => Compared::TooMany(end),
        };
    }
    let end = own.end(range).min(other.end(range));
    if end <= range.after {
        return Compared::TooMany(range.after.saturating_add(1));
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

/// The first token of both, if it has more rows than are held in one of them; its sums, if it has in both.
fn large_first([own, other]: [&Held; 2]) -> Option<(i64, Option<[Sum; 2]>)> {
    let (own_large, other_large) = (own.large(), other.large());
    let token = own_large
        .into_iter()
        .chain(other_large)
        .map(|(token, _)| token)
        .min()?;
    let is_first = |held: &Held| held.first.is_none_or(|(first, _)| first >= token);
    if !is_first(own) || !is_first(other) {
        return None;
    }
    let of = |large: Option<(i64, Sum)>| large.filter(|(of, _)| *of == token).map(|(_, sum)| sum);
    let sums = of(own_large).zip(of(other_large));
    Some((token, sums.map(|(own, other)| [own, other])))
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
                Compared::TooMany(token) => {
                    let alone = Range {
                        end: token,
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
    fn a_large_partition_is_read_once_if_it_is_the_same() {
        let rows_max = 7;
        let read = |copies: [&BTreeMap<i32, i32>; 2]| {
            let (mut range, mut rows, mut too_many) = (WHOLE, 0, 0);
            while range.after < range.end {
                let both = copies.map(|copy| {
                    let mut held = Held::new(rows_max);
                    let mut sent = sent(copy, range).into_iter();
                    rows += sent.by_ref().take_while(|row| held.add(row)).count();
                    assert!(held.rows.len() <= rows_max);
                    held
                });
                range.after = match compared(range, &both) {
                    Compared::UpTo { end, .. } => end,
                    Compared::TooMany(end) => {
                        too_many += 1;
                        end
                    }
                };
            }
            (rows, too_many)
        };
        let own: BTreeMap<i32, i32> = [(1, 50), (2, 3), (3, 90), (4, 7)].into();
        // Those behind a few rows are met twice, with no more rows than are held.
        let (rows, too_many) = read([&own, &own]);
        assert!((300..=300 + 4 * rows_max).contains(&rows), "{rows}");
        assert_eq!(too_many, 0);
        for (partition, rows) in [(1, 49), (1, 3), (3, 91), (3, 0), (5, 40)] {
            let mut other = own.clone();
            other.insert(partition, rows);
            for copies in [[&own, &other], [&other, &own]] {
                assert_eq!(read(copies).1, 1, "{partition}: {rows}");
            }
        }
    }

    #[test]
    fn what_a_node_sends_of_another_range_holds_nothing_up() {
        let all: BTreeMap<i32, i32> = [(1, 30), (2, 3)].into();
        let tokens = [row(1, 0), row(2, 0)].map(|row| token_of(&row));
        for after in tokens {
            let range = Range {
                after,
                end: after + 5,
            };
            let both = [&all, &all].map(|copy| held(&sent(copy, WHOLE), 7));
            let (Compared::UpTo { end, .. } | Compared::TooMany(end)) = compared(range, &both);
            assert!(end > range.after && end <= range.end);
        }
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
