use std::collections::BTreeSet;

use super::super::list::Refused;
use super::super::stored::{Stored, check_order};
use super::*;

const A: [u8; 16] = [1; 16];
const B: [u8; 16] = [2; 16];
const C: [u8; 16] = [3; 16];
/// The node that joins or leaves.
const D: [u8; 16] = [4; 16];
const NOW_MS: i64 = 5_000;

fn group(owners: [[u8; 16]; 3], ranges: &[(i64, i64)], list: Copies) -> OldGroup {
    OldGroup {
        owners: owners.to_vec(),
        ranges: Ranges::new(ranges.iter().copied()),
        list,
        left_ms: vec![None; 3],
    }
}

/// Owners with their ranges.
type Owned<'a> = ([[u8; 16]; 3], &'a [(i64, i64)]);

fn now(groups: &[Owned<'_>]) -> BTreeMap<Owners, Ranges> {
    let of = |(owners, ranges): &Owned<'_>| (owners.to_vec(), Ranges::new(ranges.iter().copied()));
    groups.iter().map(of).collect()
}

/// All three in sync, each with this start.
fn all(boot: u32) -> Copies {
    Copies::new(Members::first(3), [boot, boot, boot, 0, 0, 0])
}

fn changed(change: impl Fn(Copies) -> Result<Copies, Refused>) -> Copies {
    change(all(7)).expect("it may change so")
}

/// The only change.
fn one(regrouping: &Regrouping) -> &Change {
    assert_eq!(regrouping.stuck, []);
    assert_eq!(regrouping.changes.len(), 1, "{regrouping:?}");
    &regrouping.changes[0]
}

fn states(group: &NewGroup) -> [State; 3] {
    [0, 1, 2].map(|copy| group.list.state(copy))
}

#[test]
fn nothing_changes_while_owners_have_what_they_had() {
    let old = [
        group([A, B, C], &[(0, 9)], all(7)),
        group([D, B, C], &[(9, 20)], all(7)),
    ];
    // The same tokens, in other pieces.
    let ring = now(&[([A, B, C], &[(0, 4), (4, 9)]), ([D, B, C], &[(9, 20)])]);
    assert_eq!(regroup(&old, &ring, NOW_MS), Regrouping::default());
}

#[test]
fn a_node_that_joins_takes_ranges_and_its_copy_is_out() {
    let old = [group([A, B, C], &[(0, 20)], all(7))];
    let ring = now(&[([A, B, C], &[(0, 9)]), ([D, B, C], &[(9, 20)])]);
    let regrouping = regroup(&old, &ring, NOW_MS);
    let change = one(&regrouping);
    assert_eq!(change.forgotten, []);
    let known: Vec<Option<u64>> = change.groups.iter().map(|group| group.known).collect();
    let (stayed, new) = match known[..] {
        [Some(1), None] => (&change.groups[0], &change.groups[1]),
        [None, Some(1)] => (&change.groups[1], &change.groups[0]),
        _ => panic!("{known:?}"),
    };
    assert_eq!(stayed.ranges, Ranges::new([(0, 9)]));
    assert_eq!(states(stayed), [State::InSync; 3]);
    assert_eq!(new.owners, [D, B, C]);
    assert_eq!(states(new), [State::Out, State::InSync, State::InSync]);
    // What it has is as recent as what the owner before had, which was in sync.
    assert_eq!(new.left_ms, [(0, NOW_MS)]);
    for group in [stayed, new] {
        assert_eq!(group.list.version(), 2);
        assert_eq!([0, 1, 2].map(|copy| group.list.since(copy)), [2; 3]);
        assert_eq!(group.list.boot(1), 7);
    }
}

#[test]
fn a_node_that_leaves_gives_its_ranges_to_a_list_that_is_there() {
    let old = [
        group([A, B, C], &[(0, 9)], all(7)),
        group([D, B, C], &[(9, 20)], changed(|list| list.evict(1))),
    ];
    let ring = now(&[([A, B, C], &[(0, 20)])]);
    let regrouping = regroup(&old, &ring, NOW_MS);
    let change = one(&regrouping);
    assert_eq!(change.forgotten, [(vec![D, B, C], 2)]);
    let group = &change.groups[0];
    assert_eq!((group.known, group.list.version()), (Some(1), 3));
    // It was in sync in its own ranges only, and the second copy in those only.
    assert_eq!(states(group), [State::Out, State::Out, State::InSync]);
    // Nobody knows when the second one left.
    assert_eq!(group.left_ms, [(0, NOW_MS)]);
}

#[test]
fn copies_that_were_out_or_joining_stay_so_with_the_time_when_they_left() {
    let mut first = group(
        [A, B, C],
        &[(0, 9)],
        changed(|list| list.evict(0)?.join(0, 7)),
    );
    first.left_ms = vec![Some(i64::MAX), None, None];
    let mut second = group(
        [D, B, C],
        &[(9, 20)],
        changed(|list| list.evict(1)?.join(1, 7)?.evict(0)),
    );
    second.left_ms = vec![Some(40), Some(30), None];
    let ring = now(&[([D, B, C], &[(0, 20)])]);
    let regrouping = regroup(&[first, second], &ring, NOW_MS);
    let group = &one(&regrouping).groups[0];
    assert_eq!(states(group), [State::Out, State::Joining, State::InSync]);
    // In sync with nothing of before on it in one of them.
    assert_eq!(group.left_ms, [(0, 40), (1, 30)]);
    assert_eq!(group.list.since(1), group.list.version(), "it joins anew");
}

#[test]
fn a_copy_of_which_lists_know_different_starts_is_out() {
    let old = [
        group([A, B, C], &[(0, 9)], all(7)),
        group([D, B, C], &[(9, 20)], all(8)),
    ];
    let ring = now(&[([A, B, C], &[(0, 20)])]);
    let regrouping = regroup(&old, &ring, NOW_MS);
    let in_two = Stuck::NoneInSync(vec![A, B, C]);
    assert_eq!(
        (regrouping.changes, regrouping.stuck),
        (vec![], vec![in_two])
    );
}

#[test]
fn without_a_copy_in_sync_nothing_changes_there_and_elsewhere_it_does() {
    let alone = changed(|list| list.evict(1)?.evict(2));
    let old = [
        group([A, B, C], &[(0, 9)], alone),
        group([A, B, D], &[(9, 20)], all(7)),
        group([A, D, C], &[(20, 30)], all(7)),
    ];
    // The last one in sync gives a part of its ranges away.
    let ring = now(&[
        ([A, B, C], &[(0, 4)]),
        ([D, B, C], &[(4, 9)]),
        ([A, B, D], &[(9, 15)]),
        ([A, C, D], &[(15, 20)]),
        ([A, D, C], &[(20, 30)]),
    ]);
    let regrouping = regroup(&old, &ring, NOW_MS);
    assert_eq!(regrouping.stuck, [Stuck::NoneInSync(vec![D, B, C])]);
    let owners: BTreeSet<Owners> = regrouping
        .changes
        .iter()
        .flat_map(|change| &change.groups)
        .map(|group| group.owners.clone())
        .collect();
    assert_eq!(owners, [vec![A, B, D], vec![A, C, D]].into());
}

#[test]
fn ranges_without_a_list_and_lists_without_an_owner_are_told_of() {
    let old = [group([A, B, C], &[(0, 9)], all(7))];
    let stuck = |ring: &BTreeMap<Owners, Ranges>| {
        let regrouping = regroup(&old, ring, NOW_MS);
        assert_eq!(regrouping.changes, []);
        regrouping.stuck
    };
    let wider = now(&[([A, B, C], &[(0, 12)])]);
    assert_eq!(stuck(&wider), [Stuck::NoList(vec![A, B, C])]);
    let gone = now(&[]);
    assert_eq!(stuck(&gone), [Stuck::NoOwner(vec![A, B, C])]);
    let narrower = now(&[([A, B, C], &[(0, 8)])]);
    assert_eq!(stuck(&narrower), [Stuck::NoOwner(vec![A, B, C])]);
    assert_eq!(
        regroup(&[], &wider, NOW_MS).stuck,
        [Stuck::NoList(vec![A, B, C])]
    );
    let twice = [old[0].clone(), group([D, B, C], &[(8, 20)], all(7))];
    let expected = Stuck::Twice(vec![A, B, C], vec![D, B, C]);
    assert_eq!(regroup(&twice, &wider, NOW_MS).stuck, [expected]);
}

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Parts of the ring, each with its owners.
const CELLS: usize = 10;

fn ring_of(cells: &[Owners]) -> BTreeMap<Owners, Ranges> {
    let mut ring: BTreeMap<Owners, Ranges> = BTreeMap::new();
    for (at, owners) in cells.iter().enumerate() {
        let cell = Ranges::new([(at as i64, at as i64 + 1)]);
        let ranges = ring.entry(owners.clone()).or_default();
        *ranges = ranges.union(&cell);
    }
    ring
}

/// A node of three in the data center of each copy.
fn owner(random: &mut Random, copy: usize) -> [u8; 16] {
    [(10 * copy + random.below(3)) as u8; 16]
}

/// Some change that proxies make of a list.
fn step(random: &mut Random, list: &Copies) -> Copies {
    let copy = random.below(3);
    let boot = 1 + random.below(2) as u32;
    let next = match random.below(4) {
        0 => list.evict(copy),
        1 => list.join(copy, boot),
        2 => list.promote(copy, list.since(copy)),
        _ => list.adopt_start(copy, boot),
    };
    next.unwrap_or(*list)
}

#[test]
fn no_copy_is_in_sync_that_was_not_in_all_lists_that_its_ranges_come_from() {
    let seed = u64::from(std::process::id());
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut made, mut stuck, mut kept) = (0, 0, 0);
    for case in 0..400 {
        let case = format!("seed {seed}, case {case}");
        let mut cells: Vec<Owners> = (0..CELLS)
            .map(|_| (0..3).map(|copy| owner(&mut random, copy)).collect())
            .collect();
        let lists = ring_of(&cells)
            .into_iter()
            .map(|(owners, ranges)| OldGroup {
                owners,
                ranges,
                list: all(1),
                left_ms: vec![None; 3],
            });
        let mut old: Vec<OldGroup> = lists.collect();
        // The versions that lists with these owners have had.
        let mut had: BTreeMap<Owners, u64> = BTreeMap::new();
        for _ in 0..6 {
            for group in &mut old {
                for _ in 0..random.below(4) {
                    group.list = step(&mut random, &group.list);
                }
                for copy in 0..3 {
                    group.left_ms[copy] =
                        [None, Some(1), Some(NOW_MS), Some(i64::MAX)][random.below(4)];
                }
                had.insert(group.owners.clone(), group.list.version());
            }
            for _ in 0..random.below(4) {
                let copy = random.below(3);
                cells[random.below(CELLS)][copy] = owner(&mut random, copy);
            }
            let ring = ring_of(&cells);
            let regrouping = regroup(&old, &ring, NOW_MS);
            check(&old, &ring, &regrouping, &case);
            (made, stuck) = (
                made + regrouping.changes.len(),
                stuck + regrouping.stuck.len(),
            );
            for change in regrouping.changes {
                for (owners, version) in &change.forgotten {
                    let before = old
                        .iter()
                        .position(|of| of.owners == *owners)
                        .expect("it was there");
                    assert_eq!(old.remove(before).list.version(), *version, "{case}");
                }
                for group in change.groups {
                    let last = had.insert(group.owners.clone(), group.list.version());
                    assert!(
                        last < Some(group.list.version()),
                        "{case}: {group:?} after {last:?}"
                    );
                    kept += usize::from(group.list.in_sync().len() < 3);
                    old.retain(|of| of.owners != group.owners);
                    old.push(OldGroup {
                        owners: group.owners,
                        ranges: group.ranges,
                        list: group.list,
                        left_ms: vec![None; 3],
                    });
                }
            }
            // Lists that are stuck wait, and what has changed is as the ring is.
            if regrouping.stuck.is_empty() {
                let is: BTreeMap<Owners, Ranges> = old
                    .iter()
                    .map(|of| (of.owners.clone(), of.ranges.clone()))
                    .collect();
                assert_eq!(is, ring, "{case}");
                assert_eq!(
                    regroup(&old, &ring, NOW_MS),
                    Regrouping::default(),
                    "{case}"
                );
            } else {
                // An operator undoes the change.
                for (at, cell) in cells.iter_mut().enumerate() {
                    let token = Ranges::new([(at as i64, at as i64 + 1)]);
                    let owned = old
                        .iter()
                        .find(|of| of.ranges.hold(&token))
                        .expect("a list");
                    cell.clone_from(&owned.owners);
                }
                assert_eq!(
                    regroup(&old, &ring_of(&cells), NOW_MS),
                    Regrouping::default(),
                    "{case}"
                );
            }
        }
    }
    assert!(
        made > 300 && stuck > 30 && kept > 300,
        "seed {seed}: {made} {stuck} {kept}"
    );
}

fn check(old: &[OldGroup], ring: &BTreeMap<Owners, Ranges>, regrouping: &Regrouping, case: &str) {
    let mut seen: BTreeSet<&Owners> = BTreeSet::new();
    for change in &regrouping.changes {
        for group in &change.groups {
            let case = format!("{case}: {group:?} of {old:?}");
            assert_eq!(ring.get(&group.owners), Some(&group.ranges), "{case}");
            assert!(seen.insert(&group.owners), "{case}");
            let of: Vec<&OldGroup> = old
                .iter()
                .filter(|of| of.ranges.meets(&group.ranges))
                .collect();
            for copy in 0..3 {
                let had = |of: &&OldGroup| {
                    of.owners[copy] == group.owners[copy]
                        && of.list.state(copy) == State::InSync
                        && of.list.boot(copy) == group.list.boot(copy)
                };
                let is_in_sync = group.list.state(copy) == State::InSync;
                assert_eq!(is_in_sync, of.iter().all(had), "{case}");
                let is_joining = group.list.state(copy) == State::Joining;
                assert!(
                    !is_joining || of.iter().all(|of| of.list.state(copy) != State::Out),
                    "{case}"
                );
                let left = group.left_ms.iter().find(|of| of.0 == copy);
                let is_known = |of: &&OldGroup| {
                    of.list.state(copy) == State::InSync || of.left_ms[copy].is_some()
                };
                assert_eq!(
                    left.is_some(),
                    !is_in_sync && of.iter().all(is_known),
                    "{case}"
                );
            }
            let before = old.iter().find(|of| of.owners == group.owners);
            assert_eq!(group.known, before.map(|of| of.list.version()), "{case}");
            assert!(
                old.iter()
                    .all(|of| of.list.version() < group.list.version()),
                "{case}"
            );
            assert_eq!(
                Stored::of(&group.list, 3).copies(3),
                Ok(group.list),
                "{case}"
            );
            if let Some(before) = before {
                assert_eq!(check_order(&before.list, &group.list), Ok(()), "{case}");
            }
        }
        for (owners, _) in &change.forgotten {
            assert!(!ring.contains_key(owners), "{case}: {owners:?}");
            assert!(seen.insert(owners), "{case}");
        }
    }
}

#[test]
fn the_table_itself_is_in_sync_where_it_was_in_all_lists() {
    let alone = Copies::new(Members::of(TABLE), [7, 7, 7, 0, 0, 0]);
    let listed = changed(|list| list.join(TABLE, 0));
    let in_sync = listed.promote(TABLE, 2).expect("it has joined");
    let out = in_sync.evict(TABLE).expect("copies are in sync");
    // A range of each goes to another owner of the first copy.
    let of = |one: Copies, other: Copies| {
        let mut old = [
            group([A, B, C], &[(0, 9)], one),
            group([B, C, A], &[(10, 19)], other),
        ];
        old[0].left_ms = vec![None, None, None, None, None, Some(1_000)];
        let ring = now(&[([D, B, C], &[(0, 9), (10, 19)])]);
        let regrouping = regroup(&old, &ring, NOW_MS);
        let made = |change: &Change| {
            let group = &change.groups[0];
            let list = Stored::of(&group.list, 3).copies(3).expect("it is good");
            let left = group.left_ms.iter().find(|(of, _)| *of == TABLE);
            (list.state(TABLE), left.map(|(_, left_ms)| *left_ms))
        };
        (regrouping.changes.first().map(made), regrouping.stuck.len())
    };
    assert_eq!(of(alone, in_sync), (Some((State::InSync, None)), 0));
    assert_eq!(of(alone, alone), (Some((State::InSync, None)), 0));
    // No copy has kept its owner.
    assert_eq!(of(listed, in_sync), (None, 1));
    assert_eq!(of(alone, out), (None, 1));
    let one_of = one;
    let kept = |one: Copies, other: Copies| {
        let mut old = [
            group([A, B, C], &[(0, 9)], one),
            group([D, B, C], &[(10, 19)], other),
        ];
        old[0].left_ms = vec![None, None, None, None, None, Some(1_000)];
        let ring = now(&[([A, B, C], &[(0, 9), (10, 19)])]);
        let regrouping = regroup(&old, &ring, NOW_MS);
        let group = &one_of(&regrouping).groups[0];
        let list = group.list;
        let left = group.left_ms.iter().find(|(of, _)| *of == TABLE);
        (
            list.state(TABLE),
            list.since(TABLE),
            left.map(|(_, left_ms)| *left_ms),
        )
    };
    assert_eq!(kept(listed, in_sync), (State::Joining, 4, Some(1_000)));
    assert_eq!(kept(out, in_sync), (State::Out, 5, Some(1_000)));
    assert_eq!(kept(all(7), all(7)), (State::Out, 0, None), "never listed");
}
