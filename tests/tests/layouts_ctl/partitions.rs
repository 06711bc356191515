//! Random writes to partitions that have one client each, and what a read at QUORUM may find of them.
//!
//! Every write has a time of its own, so that the newest of those that reach a row decides, in whatever order they come.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Values of each clustering column, from 0 on.
pub(crate) const VALUES: i32 = 6;
/// Some writes are so many steps older than they should be, at most.
const BACKDATED_MAX: i64 = 30;
/// Values that expire while a test runs, and others that do not.
const SHORT_S: u32 = 3;
const LONG_S: u32 = 100_000;

/// Rows of a partition, by `a` and `b`.
pub(crate) type Found = BTreeMap<(i32, i32), i32>;

/// Part of a partition.
#[derive(Clone, Copy, Debug)]
enum Part {
    All,
    From(i32),
    Row(i32, i32),
}

impl Part {
    fn has(self, a: i32, b: i32) -> bool {
        match self {
            Part::All => true,
            Part::From(first) => a >= first,
            Part::Row(of, its) => (of, its) == (a, b),
        }
    }
}

/// The effect of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    of: Part,
    time: i64,
    /// None: deleted.
    value: Option<i32>,
    expires: bool,
}

/// A partition, as its client knows it.
pub(crate) struct Partition {
    pub(crate) k: i32,
    table: String,
    begin_us: i64,
    count: i64,
    /// The table has it, or may have it.
    changes: Vec<(Change, bool)>,
}

impl Partition {
    /// Without rows. `begin_us`: when its first write is made.
    pub(crate) fn new(table: &str, k: i32, begin_us: i64) -> Partition {
        Partition {
            k,
            table: table.to_owned(),
            begin_us,
            count: 0,
            changes: Vec::new(),
        }
    }

    /// The next write. Layouts cannot be told of deletions of several rows, so only few partitions have such.
    pub(crate) fn write(&mut self, rng: &mut ChaCha8Rng) -> (String, Change) {
        let time = self.next_time(rng);
        let (k, table) = (self.k, &self.table);
        let (a, b) = (rng.random_range(0..VALUES), rng.random_range(0..VALUES));
        let value = rng.random_range(0..1_000);
        let key = format!("k = {k} AND a = {a} AND b = {b}");
        let insert = |ttl: &str| {
            format!(
                "INSERT INTO {table} (k, a, b, v) VALUES ({k}, {a}, {b}, {value}) USING TIMESTAMP {time}{ttl}"
            )
        };
        let delete =
            |what: &str| format!("DELETE FROM {table} USING TIMESTAMP {time} WHERE {what}");
        let change = Change {
            of: Part::Row(a, b),
            time,
            value: Some(value),
            expires: false,
        };
        match rng.random_range(0..100) {
            0..45 => (insert(""), change),
            45..55 => (insert(&format!(" AND TTL {LONG_S}")), change),
            55..60 => {
                let expires = true;
                let text = insert(&format!(" AND TTL {SHORT_S}"));
                (text, Change { expires, ..change })
            }
            60..75 => {
                let text =
                    format!("UPDATE {table} USING TIMESTAMP {time} SET v = {value} WHERE {key}");
                (text, change)
            }
            other => {
                let (of, what) = match other {
                    92..96 if k % 4 == 0 => (Part::From(a), format!("k = {k} AND a >= {a}")),
                    96..100 => (Part::All, format!("k = {k}")),
                    _ => (Part::Row(a, b), key),
                };
                let value = None;
                (
                    delete(&what),
                    Change {
                        of,
                        value,
                        ..change
                    },
                )
            }
        }
    }

    /// No two are the same.
    fn next_time(&mut self, rng: &mut ChaCha8Rng) -> i64 {
        self.count += 1;
        let back = match rng.random_bool(0.2) {
            true => rng.random_range(1..=BACKDATED_MAX),
            false => 0,
        };
        self.begin_us + 1_000 * (self.count - back) + self.count % 1_000
    }

    /// The table has a change, or at least may have it.
    pub(crate) fn note(&mut self, change: Change, is_known: bool) {
        self.changes.push((change, is_known));
    }

    /// The first row that cannot be, of those that were read: of the whole partition, or of one `b`.
    pub(crate) fn wrong(&self, of: Option<i32>, found: &Found) -> Option<String> {
        let keys = (0..VALUES).flat_map(|a| (0..VALUES).map(move |b| (a, b)));
        let mut keys = keys.filter(|(_, b)| of.is_none_or(|of| of == *b));
        keys.find_map(|(a, b)| {
            let (value, may_be) = (found.get(&(a, b)).copied(), self.outcomes(a, b));
            let is_wrong = !may_be.contains(&value);
            is_wrong.then(|| {
                let row = format!("k = {} AND a = {a} AND b = {b} of {}", self.k, self.table);
                format!("{row} is {value:?}, and not one of {may_be:?}")
            })
        })
    }

    /// All that a row may be.
    fn outcomes(&self, a: i32, b: i32) -> Vec<Option<i32>> {
        let of_row = || {
            self.changes
                .iter()
                .filter(|(change, _)| change.of.has(a, b))
        };
        let known = of_row().filter(|(_, is_known)| *is_known);
        let newest = known.map(|(change, _)| change.time).max();
        let mut may_be: Vec<Option<i32>> = match newest {
            Some(_) => Vec::new(),
            None => vec![None],
        };
        for (change, _) in of_row().filter(|(change, _)| newest.is_none_or(|of| change.time >= of))
        {
            may_be.push(change.value);
            may_be.extend(change.expires.then_some(None));
        }
        may_be
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(of: Part, time: i64, value: Option<i32>) -> Change {
        Change {
            of,
            time,
            value,
            expires: false,
        }
    }

    #[test]
    fn the_newest_known_write_decides_unless_a_newer_one_may_be_there() {
        let mut partition = Partition::new("s.t", 1, 0);
        assert_eq!(partition.outcomes(1, 1), [None]);
        partition.note(change(Part::Row(1, 1), 5, Some(7)), true);
        partition.note(change(Part::All, 4, None), true);
        assert_eq!(partition.outcomes(1, 1), [Some(7)]);
        partition.note(change(Part::From(1), 6, None), false);
        assert_eq!(partition.outcomes(1, 1), [Some(7), None]);
        assert_eq!(partition.outcomes(0, 1), [None]);
        let expires = true;
        let short = change(Part::Row(0, 0), 9, Some(3));
        partition.note(Change { expires, ..short }, true);
        assert_eq!(partition.outcomes(0, 0), [Some(3), None]);
        let found = |rows: &[((i32, i32), i32)]| rows.iter().copied().collect::<Found>();
        assert_eq!(partition.wrong(None, &found(&[((1, 1), 7)])), None);
        assert_eq!(partition.wrong(Some(0), &found(&[])), None);
        let wrong = partition.wrong(None, &found(&[((1, 1), 8)]));
        assert!(wrong.is_some_and(|of| of.contains("is Some(8)")));
        let wrong = partition.wrong(Some(2), &found(&[((3, 2), 1)]));
        assert!(wrong.is_some_and(|of| of.contains("not one of [None, None]")));
    }
}
