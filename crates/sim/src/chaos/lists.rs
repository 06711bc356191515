//! Lists: how clients change them, and what they have been.
//!
//! Whatever a change of a list is executed twice for leaves it otherwise than once: what is added comes twice, and so
//! does what replaces a list, as its elements are cells with names of their own (CASSANDRA-11368). As with conditional
//! writes, nodes execute each as a whole.

use std::collections::BTreeMap;

use helenus_wire::{ValueRef, Values};

use super::checks::Span;
use super::cql::{self, BIGINT, LIST};

/// Lists that there are, at most.
pub(super) const KEYS: i64 = 4;

const APPEND: &str = "UPDATE ks.q SET l = l + ? WHERE k = ?";
const PREPEND: &str = "UPDATE ks.q SET l = ? + l WHERE k = ?";
const SET_FIRST: &str = "UPDATE ks.q SET l[?] = ? WHERE k = ?";
const REPLACE: &str = "UPDATE ks.q SET l = ? WHERE k = ?";
pub(super) const READ: &str = "SELECT l FROM ks.q WHERE k = ?";
pub(super) const TEXTS: [&str; 5] = [APPEND, PREPEND, SET_FIRST, REPLACE, READ];

/// What becomes of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Append,
    Prepend,
    /// Its first element is another one.
    SetFirst,
    Replace,
}

/// A change of a list, by an element that no other change has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub key: i64,
    pub how: How,
    pub id: i64,
}

impl Change {
    pub(super) fn text(self) -> &'static str {
        match self.how {
            How::Append => APPEND,
            How::Prepend => PREPEND,
            How::SetFirst => SET_FIRST,
            How::Replace => REPLACE,
        }
    }

    pub(super) fn values(self) -> Vec<Vec<u8>> {
        let bytes = |value: i64| value.to_be_bytes().to_vec();
        match self.how {
            How::SetFirst => vec![bytes(0), bytes(self.id), bytes(self.key)],
            _ => vec![cql::list(&[self.id]), bytes(self.key)],
        }
    }
}

/// What a text about lists asks for.
pub(super) fn read(text: &str, given: &Values<'_>) -> Option<cql::Asked> {
    let values: Vec<&[u8]> = given
        .iter()
        .filter_map(|(_, value)| match value {
            ValueRef::Set(bytes) => Some(bytes),
            _ => None,
        })
        .collect();
    let int = |bytes: &[u8]| Some(i64::from_be_bytes(bytes.try_into().ok()?));
    let how = match text {
        READ => return Some(cql::Asked::ReadList(int(values.first()?)?)),
        APPEND => How::Append,
        PREPEND => How::Prepend,
        SET_FIRST => How::SetFirst,
        REPLACE => How::Replace,
        _ => return None,
    };
    let (id, key) = match (how, values.as_slice()) {
        (How::SetFirst, [at, id, key]) if int(at) == Some(0) => (int(id)?, key),
        (_, [list, key]) => (*cql::elements(list)?.first()?, key),
        _ => return None,
    };
    let key = int(key)?;
    Some(cql::Asked::List(Change { key, how, id }))
}

/// Name and type of each marker of a text about lists, and which of them is the key.
pub(super) fn markers(text: &str) -> Option<(&'static [(&'static str, u16)], u16)> {
    match text {
        APPEND | PREPEND | REPLACE => Some((&[("l", LIST), ("k", BIGINT)], 1)),
        SET_FIRST => Some((&[("idx", BIGINT), ("value", BIGINT), ("k", BIGINT)], 2)),
        READ => Some((&[("k", BIGINT)], 0)),
        _ => None,
    }
}

/// All that lists have been, each with since when.
#[derive(Debug)]
pub(super) struct Lists {
    versions: BTreeMap<i64, Vec<(u64, Vec<i64>)>>,
}

impl Lists {
    pub(super) fn new() -> Lists {
        // What was there before anybody wrote: an element that nobody writes.
        let first = |key: i64| (key, vec![(0, vec![key])]);
        Lists {
            versions: (0..KEYS).map(first).collect(),
        }
    }

    pub(super) fn now(&self, key: i64) -> &[i64] {
        let last = self.versions.get(&key).and_then(|all| all.last());
        last.map_or(&[], |(_, list)| list)
    }

    pub(super) fn execute(&mut self, change: Change, now_us: u64) {
        let mut list = self.now(change.key).to_vec();
        match change.how {
            How::Append => list.push(change.id),
            How::Prepend => list.insert(0, change.id),
            How::SetFirst => list[0] = change.id,
            How::Replace => {
                // What it has deleted is what was there before its time.
                list.retain(|element| *element == change.id);
                list.push(change.id);
            }
        }
        let versions = self.versions.entry(change.key).or_default();
        versions.push((now_us, list));
    }

    /// How many versions of a list there have been.
    pub(super) fn versions(&self, key: i64) -> usize {
        self.versions.get(&key).map_or(0, Vec::len)
    }

    /// Judges what a read has found that began at one time and ended at another.
    pub(super) fn judge(&self, key: i64, found: &[i64], span: Span) -> Result<(), String> {
        let mut sorted = found.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("list {key} has {} twice", twice[0]));
        }
        let all = self.versions.get(&key).map_or(&[][..], |all| all);
        let ends = all.iter().skip(1).map(|(since_us, _)| *since_us);
        let mut spans = all.iter().zip(ends.chain([u64::MAX]));
        let was = spans.any(|((since_us, list), end_us)| {
            list == found && *since_us <= span.ended_us && end_us >= span.begun_us
        });
        match was {
            true => Ok(()),
            false => Err(format!("list {key} has {found:?}, which it was not")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(changes: &[(How, i64)]) -> Lists {
        let mut lists = Lists::new();
        for (at_us, (how, id)) in (10..).step_by(10).zip(changes) {
            let (how, id) = (*how, *id);
            lists.execute(Change { key: 1, how, id }, at_us);
        }
        lists
    }

    #[test]
    fn what_is_executed_twice_leaves_an_element_twice() {
        for how in [How::Append, How::Prepend, How::Replace] {
            let once = after(&[(how, 7)]);
            assert_eq!(
                once.judge(1, once.now(1), Span::of(10, 20)),
                Ok(()),
                "{how:?}"
            );
            let twice = after(&[(how, 7), (how, 7)]);
            let verdict = twice.judge(1, twice.now(1), Span::of(20, 30));
            assert_eq!(verdict, Err("list 1 has 7 twice".to_owned()), "{how:?}");
        }
    }

    #[test]
    fn a_read_finds_what_was_there_while_it_was_under_way() {
        let lists = after(&[(How::Append, 7), (How::SetFirst, 8), (How::Prepend, 9)]);
        assert_eq!(lists.now(1), [9, 8, 7]);
        assert_eq!(lists.judge(1, &[8, 7], Span::of(25, 28)), Ok(()));
        assert_eq!(lists.judge(1, &[8, 7], Span::of(25, 90)), Ok(()));
        assert!(
            lists.judge(1, &[8, 7], Span::of(31, 90)).is_err(),
            "too old"
        );
        assert!(
            lists.judge(1, &[8, 7], Span::of(5, 19)).is_err(),
            "of the future"
        );
        assert!(
            lists.judge(1, &[7, 8], Span::of(5, 90)).is_err(),
            "of nobody"
        );
    }
}
