//! The lists of copies after a change of the ring.
//!
//! A list is about the copies of some ranges with their owners. Where ranges have other owners, lists are made from those
//! that the same ranges had before:
//!
//! - A copy is **in sync** in the new list if it was in sync in all lists that the ranges come from, with the same owner and
//!   the same start of its node. It then has all that was acknowledged by any of them.
//! - It is **joining** if it was in sync or joining in all of them in this way: what is compared is the whole new group.
//! - Any other one is **out**, as is one with another owner: what the node was sent by the one before is for the comparison
//!   to judge. When it left is the earliest of what is known: of one that was in sync, now.
//! - No list is made without a copy in sync. Then all lists stay as they are that have to do with it: they tell what the
//!   ranges had, and are in force again if the ring becomes what it was.
//!
//! **Versions.** All lists that are changed or made get the next version after all that the table has, and all of their
//! copies come into their states with it. A list that is forgotten had a lower one, and its ranges went to lists with
//! this one. So no list with the same owners, whenever it is made, has a version that one before has had.
//!
//! **Together.** What ranges leave and where they come to changes at once: a compare-and-set of all these lists, or none.
//! Who relies on one of the old lists does so for a lease at most; who relies on a new one does so a lease after it
//! knows of it.

use std::collections::BTreeMap;

use super::list::{COPIES_MAX, Copies, LISTED_MAX, State, TABLE};
use super::members::Members;
use super::ranges::Ranges;

/// Host ids, in the order of the copies.
pub type Owners = Vec<[u8; 16]>;

/// A list as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldGroup {
    pub owners: Owners,
    pub ranges: Ranges,
    pub list: Copies,
    /// When each copy was last in sync, in milliseconds since 1970; the end of time if nothing of before is on it.
    pub left_ms: Vec<Option<i64>>,
}

/// A list as it is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub owners: Owners,
    pub ranges: Ranges,
    /// The version that it must still have; None: there must be none with these owners.
    pub known: Option<u64>,
    pub list: Copies,
    /// When copies were last in sync that are not, if that is known.
    pub left_ms: Vec<(usize, i64)>,
}

/// Lists that change together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub groups: Vec<NewGroup>,
    /// Owners that have no ranges any more, with the version that the list must still have.
    pub forgotten: Vec<(Owners, u64)>,
}

/// Why lists cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Of some ranges of these owners there was no list.
    NoList(Owners),
    /// No copy kept its owner, and was in sync, in all lists that the ranges of these owners had.
    NoneInSync(Owners),
    /// Of some ranges that these owners had nobody is the owner.
    NoOwner(Owners),
    /// Two lists are about the same ranges.
    Twice(Owners, Owners),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regrouping {
    pub changes: Vec<Change>,
    pub stuck: Vec<Stuck>,
}

/// What is to be changed in the lists of a table, so that each is about the ranges that its owners have by now.
pub fn regroup(old: &[OldGroup], now: &BTreeMap<Owners, Ranges>, now_ms: i64) -> Regrouping {
    let mut regrouping = Regrouping::default();
    for (at, one) in old.iter().enumerate() {
        let mut others = old.iter().skip(at + 1);
        if let Some(other) = others.find(|other| other.ranges.meets(&one.ranges)) {
            let twice = Stuck::Twice(one.owners.clone(), other.owners.clone());
            regrouping.stuck.push(twice);
            return regrouping;
        }
    }
    let versions = old.iter().map(|group| group.list.version());
    let version = versions.max().unwrap_or_default().saturating_add(1);
    let is_as_it_was = |of: &&OldGroup| now.get(&of.owners) == Some(&of.ranges);
    let mut left: Vec<&OldGroup> = old.iter().filter(|of| !is_as_it_was(of)).collect();
    let known = |owners: &Owners| old.iter().find(|of| of.owners == *owners);
    let is_new = |(owners, ranges): &(&Owners, &Ranges)| {
        known(owners).is_none_or(|of| of.ranges != **ranges)
    };
    let mut wanted: Vec<(&Owners, &Ranges)> = now.iter().filter(is_new).collect();
    while let Some((sources, targets)) = next_part(&mut left, &mut wanted) {
        match change(&sources, &targets, (version, now_ms)) {
            Ok(change) => regrouping.changes.push(change),
            Err(stuck) => regrouping.stuck.extend(stuck),
        }
    }
    regrouping
}

type Part<'a> = (Vec<&'a OldGroup>, Vec<(&'a Owners, &'a Ranges)>);

/// Takes lists out that have ranges or owners in common with each other, and with no others.
fn next_part<'a>(
    left: &mut Vec<&'a OldGroup>,
    wanted: &mut Vec<(&'a Owners, &'a Ranges)>,
) -> Option<Part<'a>> {
    let mut part: Part<'a> = match (wanted.pop(), left.is_empty()) {
        (Some(first), _) => (Vec::new(), vec![first]),
        (None, false) => (vec![left.remove(0)], Vec::new()),
        (None, true) => return None,
    };
    loop {
        let is_of = |old: &OldGroup, new: &(&Owners, &Ranges)| {
            old.owners == *new.0 || old.ranges.meets(new.1)
        };
        let (targets, sources) = (&part.1, &part.0);
        let more = left
            .iter()
            .position(|old| targets.iter().any(|new| is_of(old, new)));
        let wider = wanted
            .iter()
            .position(|new| sources.iter().any(|old| is_of(old, new)));
        match (more, wider) {
            (Some(at), _) => part.0.push(left.remove(at)),
            (None, Some(at)) => part.1.push(wanted.remove(at)),
            (None, None) => return Some(part),
        }
    }
}

fn change(
    sources: &[&OldGroup],
    targets: &[(&Owners, &Ranges)],
    at: (u64, i64),
) -> Result<Change, Vec<Stuck>> {
    let mut change = Change::default();
    let mut stuck = Vec::new();
    for (owners, ranges) in targets {
        let of: Vec<&OldGroup> = sources
            .iter()
            .copied()
            .filter(|old| old.ranges.meets(ranges))
            .collect();
        let before = sources.iter().find(|old| old.owners == **owners);
        match list(owners, ranges, &of, at) {
            Ok((list, left_ms)) => change.groups.push(NewGroup {
                owners: (*owners).clone(),
                ranges: (*ranges).clone(),
                known: before.map(|old| old.list.version()),
                list,
                left_ms,
            }),
            Err(why) => stuck.push(why),
        }
    }
    let is_kept = |old: &&&OldGroup| targets.iter().all(|(owners, _)| **owners != old.owners);
    let forgotten = sources.iter().filter(is_kept);
    change.forgotten = forgotten
        .map(|old| (old.owners.clone(), old.list.version()))
        .collect();
    // A ring in which nobody owns them is not a whole one.
    let owned = targets
        .iter()
        .fold(Ranges::default(), |all, (_, ranges)| all.union(ranges));
    let is_lost = |old: &&&OldGroup| !owned.hold(&old.ranges);
    let lost = sources.iter().filter(is_lost);
    stuck.extend(lost.map(|old| Stuck::NoOwner(old.owners.clone())));
    match stuck.is_empty() {
        true => Ok(change),
        false => Err(stuck),
    }
}

/// The list of a group whose ranges had these lists, and when its copies left that are not in sync.
fn list(
    owners: &Owners,
    ranges: &Ranges,
    of: &[&OldGroup],
    (version, now_ms): (u64, i64),
) -> Result<(Copies, Vec<(usize, i64)>), Stuck> {
    let had = of
        .iter()
        .fold(Ranges::default(), |all, old| all.union(&old.ranges));
    if of.is_empty() || !had.hold(ranges) || owners.len() > COPIES_MAX {
        return Err(Stuck::NoList(owners.clone()));
    }
    let (mut in_sync, mut joining) = (Members::EMPTY, Members::EMPTY);
    let (mut since, mut boot) = ([0; LISTED_MAX], [0; LISTED_MAX]);
    let mut left = Vec::new();
    // The table itself has no owner that could be another one.
    let is_listed = of.iter().any(|old| old.list.since(TABLE) > 0);
    let members = (0..owners.len()).chain(is_listed.then_some(TABLE));
    for copy in members {
        since[copy] = version;
        let has_stayed =
            |old: &&&OldGroup| copy == TABLE || old.owners.get(copy) == owners.get(copy);
        let stayed = of.iter().filter(has_stayed);
        let mut boots = stayed.clone().map(|old| old.list.boot(copy));
        boot[copy] = boots.next().unwrap_or_default();
        let is_same = stayed.clone().count() == of.len() && boots.all(|one| one == boot[copy]);
        let are =
            |fits: fn(State) -> bool| is_same && of.iter().all(|old| fits(old.list.state(copy)));
        if are(|state| state == State::InSync) {
            in_sync = in_sync.with(copy);
            continue;
        }
        if are(|state| state != State::Out) {
            joining = joining.with(copy);
        }
        left.extend(left_ms(of, copy, now_ms).map(|left_ms| (copy, left_ms)));
    }
    match in_sync.is_empty() {
        true => Err(Stuck::NoneInSync(owners.clone())),
        false => Ok((
            Copies::from_parts(version, in_sync, joining, since, boot),
            left,
        )),
    }
}

/// When the copy of one of these lists was last in sync in all of them. None if that is not known of one.
fn left_ms(of: &[&OldGroup], copy: usize, now_ms: i64) -> Option<i64> {
    let left = of.iter().map(|old| match old.list.state(copy) {
        State::InSync => Some(now_ms),
        State::Joining | State::Out => {
            let left_ms = old.left_ms.get(copy).copied().flatten();
            left_ms.map(|left_ms| left_ms.min(now_ms))
        }
    });
    left.collect::<Option<Vec<i64>>>()?.into_iter().min()
}

#[cfg(test)]
mod tests;
