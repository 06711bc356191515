//! Lists of ranges that have other owners than when they were made.

use std::collections::{BTreeMap, BTreeSet};

use helenus_engine::copy_rings::RingId;
use helenus_layout::insync::{self, LISTED_MAX, OldGroup, Stuck};
use helenus_wire::Consistency;

use super::catalogue;
use super::group::whole;
use super::returning::table;
use super::trouble::Trouble;
use crate::insync::asked::{GroupRow, Owners, TableName};
use crate::insync::rings::{self, Owned, OwnedOfTables};
use crate::insync::rows;
use crate::lists::{CopiesOf, Lists};
use crate::process::Process;
use crate::rows::Rows;
use crate::uuid;
use crate::wall_clock::now_ms;

/// The ring is to have stayed as it is for so long: nodes that join or leave together make one change.
const STEADY_US: u64 = 1_000_000;

/// Tables whose lists are not about the ranges that their owners have.
#[derive(Debug, Default)]
pub(super) struct Regrouping {
    /// Each with its ring, and since when that is so.
    others: BTreeMap<TableName, (RingId, u64)>,
    /// Those of which it is not known who owns what.
    unknown: BTreeSet<TableName>,
}

impl Regrouping {
    /// Tables for which lists are to be made now, by the ring as this proxy knows it. Not all nodes have to tell it alike:
    /// one that joins may hang for ever, and a copy with another owner is only compared once they do.
    pub(super) fn due(
        &mut self,
        lists: &Lists,
        rings: &OwnedOfTables,
        now_us: u64,
    ) -> Vec<(TableName, RingId)> {
        let with_lists = lists.copies.iter();
        let with_lists = with_lists.map(|of| (of.keyspace.clone(), of.table.clone()));
        self.unknown = with_lists
            .filter(|name| !rings.contains_key(name))
            .collect();
        let others = rings
            .iter()
            .filter(|(name, owned)| is_other(lists, name, owned));
        let since = |name: &TableName, ring: RingId| {
            let known = self.others.get(name).filter(|(known, _)| *known == ring);
            known.map_or(now_us, |(_, since_us)| *since_us)
        };
        let now = others.map(|(name, owned)| {
            let ring = owned.ring;
            (name.clone(), (ring, since(name, ring)))
        });
        self.others = now.collect();
        let steady = self
            .others
            .iter()
            .filter(|(_, (_, since_us))| now_us.saturating_sub(*since_us) >= STEADY_US);
        steady
            .map(|(name, (ring, _))| (name.clone(), *ring))
            .collect()
    }

    /// Of which tables lists are missing, but for those of which it is told why they cannot be made.
    pub(super) fn missing(&self, is_told: impl Fn(&TableName, RingId) -> bool) -> Vec<String> {
        let others = self.others.iter();
        let others = others.filter(|(name, (ring, _))| !is_told(name, *ring));
        let others = others.map(|((keyspace, table), _)| {
            format!(
                "parts of the ring of {keyspace}.{table} have other owners: clients cannot use them until their lists of \
                 copies are made, which is once the ring has not changed for a second"
            )
        });
        let unknown = self.unknown.iter().map(|(keyspace, table)| {
            format!(
                "which nodes own the copies of {keyspace}.{table} is not known: each of their keyspaces is to have one \
                 replica, in a data center that has nodes, and the partitioner is to be Murmur3Partitioner"
            )
        });
        others.chain(unknown).collect()
    }
}

/// Whether a list is about the ranges that its owners have.
pub(super) fn is_of_ring(of: &CopiesOf, rings: &OwnedOfTables) -> bool {
    let owned = rings.get(&(of.keyspace.clone(), of.table.clone()));
    let ranges = owned.and_then(|owned| owned.groups.get(&of.owners));
    ranges.is_some() && ranges == of.ranges.as_ref()
}

/// Whether there are lists, and they are about other ranges.
fn is_other(lists: &Lists, (keyspace, table): &TableName, owned: &Owned) -> bool {
    let of_table = |of: &&CopiesOf| (&of.keyspace, &of.table) == (keyspace, table);
    let known = lists.copies.iter().filter(of_table);
    let count = known.clone().count();
    let is_same = |of: &CopiesOf| {
        let ranges = owned.groups.get(&of.owners);
        ranges.is_some() && ranges == of.ranges.as_ref()
    };
    count > 0 && (count != owned.groups.len() || !known.clone().all(is_same))
}

/// Makes the lists of a table that are missing, and forgets those of owners that have no ranges any more. Only by the
/// ring that was found to be steady.
pub(super) async fn regroup(
    common: &Process,
    (name, steady): (&TableName, RingId),
) -> Result<(), Trouble> {
    let table = table(common, name)?;
    let snapshot = common.snapshot.load_full();
    if snapshot.copy_rings.of(&name.0, &name.1) != steady {
        return Err(Trouble::Changed);
    }
    let now = rings::owned(&snapshot, &table);
    let now = now.map_err(Trouble::Unfit)?.into_iter();
    let now = now
        .map(|(owners, ranges)| (owners, whole(&ranges)))
        .collect();
    let mut reader = catalogue::connect(common).await?;
    let select = rows::select_all_of_lists(name);
    let found = reader.rows(&select, Consistency::SERIAL).await;
    let old = old(name, &found.map_err(Trouble::Catalogue)?)?;
    // They are taken away while clients wait for a command.
    if old.is_empty() {
        return Ok(());
    }
    let regrouping = insync::regroup(&old, &now, now_ms());
    for change in &regrouping.changes {
        let text = rows::regroup(name, change, now_ms());
        let answer = reader.rows(&text, Consistency::QUORUM).await;
        if !rows::is_applied(&answer.map_err(Trouble::Catalogue)?) {
            return Err(Trouble::Changed);
        }
        tracing::warn!(
            table = format!("{}.{}", name.0, name.1),
            made = change.groups.len(),
            forgotten = change.forgotten.len(),
            "parts of the ring have other owners: their lists of copies are made from those that were there, and copies \
             with other owners are out until they are compared"
        );
    }
    match &regrouping.stuck[..] {
        [] => Ok(()),
        [first, rest @ ..] => Err(Trouble::Unfit(told(first, rest.len()))),
    }
}

fn old(name: &TableName, found: &Rows) -> Result<Vec<OldGroup>, Trouble> {
    let group = |row: &Vec<Option<Vec<u8>>>| {
        let read = rows::group(found, row)?;
        Some(old_group(name, read, |of| rows::left_ms(found, row, of)))
    };
    found.rows.iter().filter_map(group).collect()
}

fn old_group(
    (keyspace, table): &TableName,
    row: GroupRow,
    left_ms: impl Fn((usize, u64)) -> Option<i64>,
) -> Result<OldGroup, Trouble> {
    let bad = |why: &str| {
        Trouble::Unfit(format!(
            "the list of the copies of {keyspace}.{table} on {} {why}",
            named(&row.owners)
        ))
    };
    let list = row.list.copies(row.owners.len());
    let list = list.map_err(|why| bad(&format!("cannot be as it is: {why}")))?;
    let ranges = row.ranges.clone().ok_or_else(|| {
        bad("does not tell of which ranges it is (column ranges of helenus.copies): it was made by hand or by an earlier version")
    })?;
    let all = 0..LISTED_MAX;
    Ok(OldGroup {
        ranges,
        list,
        left_ms: all.map(|copy| left_ms((copy, list.since(copy)))).collect(),
        owners: row.owners,
    })
}

fn named(owners: &Owners) -> String {
    let owners: Vec<String> = owners.iter().map(|owner| uuid::text(*owner)).collect();
    owners.join(", ")
}

/// Why lists are not made, of so many groups of ranges more than this one.
fn told(stuck: &Stuck, more: usize) -> String {
    let why = match stuck {
        Stuck::NoneInSync(owners) => format!(
            "the ranges that {} own by now: no copy that is in sync has stayed on its node. Nothing is acknowledged there, \
             and nothing read, until the ring is again what it was: undo its change, and make it once more when all \
             copies are in sync",
            named(owners)
        ),
        Stuck::NoList(owners) => format!(
            "the ranges that {} own by now: some of them had no list before",
            named(owners)
        ),
        Stuck::NoOwner(owners) => format!(
            "the ranges that {} owned: nobody owns some of them by now",
            named(owners)
        ),
        Stuck::Twice(one, other) => format!(
            "any ranges: those of {} and of {} overlap",
            named(one),
            named(other)
        ),
    };
    let more = match more {
        0 => String::new(),
        more => format!(" ({more} more like this)"),
    };
    format!("there can be no list of copies for {why}{more}")
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Copies, Known, LISTED_MAX, Members, Ranges};

    use super::*;
    use crate::insync::member::TIMING;

    fn table() -> TableName {
        ("shop".to_owned(), "orders".to_owned())
    }

    fn of(owner: u8, ranges: &[(i64, i64)]) -> CopiesOf {
        let (keyspace, table) = table();
        let mut known = Known::new(TIMING);
        known.adopt(Copies::new(Members::first(2), [1; LISTED_MAX]), 0, 0);
        CopiesOf {
            keyspace,
            table,
            owners: vec![[owner; 16], [9; 16]],
            ranges: Some(Ranges::new(ranges.iter().copied())),
            known,
            joins: Vec::new(),
        }
    }

    fn ring(owned: &[(u8, &[(i64, i64)])]) -> OwnedOfTables {
        let groups = owned.iter().map(|(owner, ranges)| {
            let of = of(*owner, ranges);
            (of.owners, of.ranges.expect("ranges"))
        });
        let owned = Owned {
            ring: RingId::default(),
            groups: groups.collect(),
        };
        [(table(), owned)].into()
    }

    #[test]
    fn lists_are_made_when_a_ring_is_another_one_for_a_while() {
        let mut regrouping = Regrouping::default();
        let mut lists = Lists::default();
        let before = ring(&[(1, &[(0, 10)])]);
        let after = ring(&[(1, &[(0, 5)]), (2, &[(5, 10)])]);
        let mut due = |lists: &Lists, rings: &OwnedOfTables, now_us| {
            let due = regrouping.due(lists, rings, now_us).len();
            (due, regrouping.missing(|_, _| false).len())
        };
        assert_eq!(due(&lists, &before, 0), (0, 0), "no list is there");
        lists.copies = vec![of(1, &[(0, 10)])];
        assert_eq!(due(&lists, &before, 0), (0, 0));
        assert_eq!(due(&lists, &after, 10), (0, 1), "for how long?");
        assert_eq!(due(&lists, &after, STEADY_US), (0, 1));
        assert_eq!(due(&lists, &after, STEADY_US + 10), (1, 1));
        // It becomes what it was, and then another one again.
        assert_eq!(due(&lists, &before, STEADY_US + 20), (0, 0));
        assert_eq!(due(&lists, &after, STEADY_US + 30), (0, 1));
        assert_eq!(due(&lists, &OwnedOfTables::new(), 2 * STEADY_US), (0, 1));
        // Somebody has made them.
        let made = Lists {
            copies: vec![of(1, &[(0, 5)]), of(2, &[(5, 10)])],
            ..Lists::default()
        };
        for now_us in [10 * STEADY_US, 12 * STEADY_US] {
            assert_eq!(due(&made, &after, now_us), (0, 0));
        }
        assert!(is_of_ring(&made.copies[1], &after));
        assert!(!is_of_ring(&lists.copies[0], &after));
        // Of one it is not known.
        lists.copies[0].ranges = None;
        assert!(!is_of_ring(&lists.copies[0], &before));
    }
}
