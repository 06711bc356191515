//! What workers are told, and what they want.

use std::sync::Arc;

use helenus_engine::copies;
use helenus_engine::copy_rings::RingId;
use helenus_policy::ring::NodeIndex;

use super::*;
use crate::boot_time;
use crate::config::Config;
use crate::insync::asked::GroupChange;
use crate::insync::rings::{Owned, OwnedOfTables};
use crate::testing::process;
use crate::two_clocks::Behind;

const FIRST: [[u8; 16]; 2] = [[11; 16], [12; 16]];
const SECOND_GROUP: [[u8; 16]; 2] = [[13; 16], [12; 16]];

fn table() -> TableName {
    ("shop".to_owned(), "orders".to_owned())
}

fn name(owners: [[u8; 16]; 2], copy: usize) -> CopyName {
    CopyName {
        table: table(),
        owners: owners.to_vec(),
        copy,
    }
}

/// A list of two copies of which both are in sync, or of which the first one is out since this version.
fn stored(out_since: Option<i64>) -> Stored {
    Stored {
        version: out_since.unwrap_or(1),
        in_sync: if out_since.is_some() {
            vec![1]
        } else {
            vec![0, 1]
        },
        joining: Vec::new(),
        since: vec![out_since.unwrap_or(1), 1],
        boot: vec![7, 8],
    }
}

impl Scene {
    /// In sync, beside another one, with two groups of ranges of one table.
    fn with_copies() -> Scene {
        let mut scene = Scene::with_other("in sync");
        scene.settle();
        scene.pass(3 * SECOND, &[ME, OTHER]);
        scene.member.set_tables(&[table()].into(), &BTreeSet::new());
        scene.copies_are(None, None);
        scene
    }

    /// The lists of copies are read.
    fn copies_are(&mut self, first: Option<i64>, second: Option<i64>) {
        let rows = [
            of_ranges(FIRST.to_vec(), 0, stored(first)),
            of_ranges(SECOND_GROUP.to_vec(), 10, stored(second)),
        ];
        let now_us = self.now_us;
        self.member.on_copies(&table(), &rows, now_us, now_us);
    }

    fn change(&mut self) -> Option<Vec<GroupChange>> {
        match self.member.next(self.now_us) {
            Some(Action::ChangeCopies(change)) => Some(change.groups),
            Some(action) => panic!("not expected: {action:?}"),
            None => None,
        }
    }
}

#[test]
fn copies_are_evicted_in_one_change_and_only_once() {
    let mut scene = Scene::with_copies();
    scene.member.on_eviction(name(FIRST, 0), 1);
    for _ in 0..3 {
        scene.member.on_eviction(name(SECOND_GROUP, 0), 1);
    }
    // Of a group that nobody knows, and of a copy that there is not.
    scene.member.on_eviction(name([[11; 16], [14; 16]], 0), 1);
    scene.member.on_eviction(name(FIRST, 4), 1);
    let groups = scene.change().expect("a change");
    let expected = |owners: [[u8; 16]; 2]| GroupChange {
        owners: owners.to_vec(),
        known: 1,
        list: stored(Some(2)),
        left: vec![0],
        was_empty: None,
    };
    assert_eq!(groups, [expected(FIRST), expected(SECOND_GROUP)]);
    // Nobody knows what became of it: it is read first.
    scene.member.on_attempted(ListName::Copies(table()));
    let read = Action::Read(ListName::Copies(table()));
    assert_eq!(scene.member.next(scene.now_us), Some(read));
    scene.copies_are(Some(2), None);
    let groups = scene.change().expect("the other one is left");
    assert_eq!(groups, [expected(SECOND_GROUP)]);
    scene.copies_are(Some(2), Some(2));
    assert_eq!(scene.change(), None);
}

#[test]
fn the_last_in_sync_and_who_has_come_back_stay() {
    let mut scene = Scene::with_copies();
    scene.copies_are(Some(2), None);
    scene.member.on_eviction(name(FIRST, 1), 2);
    assert_eq!(scene.change(), None, "it is the last one");
    let mut back = stored(None);
    (back.version, back.since) = (4, vec![1, 4]);
    let rows = [of_ranges(SECOND_GROUP.to_vec(), 10, back)];
    let now_us = scene.now_us;
    scene.member.on_copies(&table(), &rows, now_us, now_us);
    scene.member.on_eviction(name(SECOND_GROUP, 1), 3);
    assert_eq!(scene.change(), None, "that was about before");
    scene.member.on_eviction(name(SECOND_GROUP, 1), 4);
    assert_eq!(scene.change().map(|groups| groups.len()), Some(1));
}

#[test]
fn only_who_is_in_sync_evicts() {
    let mut scene = Scene::with_copies();
    scene.member.on_eviction(name(FIRST, 0), 1);
    // No lease.
    scene.now_us += 2 * SECOND;
    assert_eq!(scene.change(), None);
    scene.beat(&[ME, OTHER]);
    scene.renew();
    assert_eq!(scene.change(), None, "it is to be asked for again");
    scene.member.on_eviction(name(FIRST, 0), 1);
    scene.member.leave();
    assert!(matches!(
        scene.member.next(scene.now_us),
        Some(Action::Change(_))
    ));
}

#[test]
fn an_eviction_that_fails_is_tried_again_and_holds_up_nothing() {
    let mut scene = Scene::with_copies();
    let (mut attempts, mut changes) = (0, Vec::new());
    // The other proxy gives no sign of life any more.
    for _ in 0..12 {
        scene.now_us += RENEWAL_US;
        scene.beat(&[ME]);
        scene.renew();
        scene.member.on_eviction(name(FIRST, 0), 1);
        while let Some(action) = scene.member.next(scene.now_us) {
            match &action {
                Action::ChangeCopies(change) => {
                    attempts += 1;
                    let list = ListName::Copies(change.table.clone());
                    scene.member.on_attempted(list);
                    scene.member.on_failed(&action, scene.now_us);
                }
                Action::Read(ListName::Copies(_)) => scene.copies_are(None, None),
                Action::Change(change) => {
                    changes.push(format!("{} {}", change.number, change.state.name()));
                    assert!(scene.answer(&action));
                }
                _ => assert!(scene.answer(&action)),
            }
        }
    }
    assert_eq!(changes, ["0 out"]);
    assert!(
        (3..=5).contains(&attempts),
        "{attempts}: less and less often"
    );
}

#[test]
fn workers_are_told_the_lists_by_their_clock_and_by_the_nodes_of_the_ring() {
    let process = process(Config::default());
    let mut scene = Scene::with_copies();
    // Later than this machine's clock, so that the test may take its time.
    const LATER: u64 = 1_000 * SECOND;
    scene.now_us = boot_time::now_us() + LATER;
    scene.beat(&[ME, OTHER]);
    scene.renew();
    scene.copies_are(Some(2), None);
    let behind = Behind::read(&process.copies);
    let index_of = |host: &[u8; 16]| match host[0] {
        11 => Some(NodeIndex(4)),
        12 => Some(NodeIndex(2)),
        _ => None,
    };
    let groups = [(FIRST, 0), (SECOND_GROUP, 10)];
    let groups =
        groups.map(|(owners, after)| (owners.to_vec(), Ranges::new([(after, after + 10)])));
    let owned = Owned {
        ring: RingId::default(),
        groups: groups.into(),
    };
    let rings = [(table(), owned)].into();
    let settled_us = scene.now_us + 2 * SECOND;
    let of = |me| {
        scene
            .member
            .in_force(me, (&rings, index_of), (settled_us, behind))
    };
    assert!(of(None).membership.is_none());
    let number = scene.member.published().me.expect("it has a number");
    let me = Arc::new(copies::Member::new(number));
    let lists = of(Some(&me));
    let membership = lists.membership.as_ref().expect("it is a member");
    assert!(Arc::ptr_eq(&membership.member, &me));
    let own_us = process.copies.us(std::time::Instant::now());
    let until_us = membership.proxies.lease_until_us();
    assert!(
        (LATER..own_us + LATER + SECOND).contains(&until_us),
        "{until_us}"
    );
    let groups = &lists.tables["shop"]["orders"].groups;
    assert_eq!(groups.len(), 1, "a node of the other one is unknown");
    let known = &groups[&[NodeIndex(4), NodeIndex(2)][..]];
    let list = known.last_read().expect("it was read");
    assert_eq!((list.version(), list.state(0)), (2, State::Out));
    assert!(known.lease_left_us(own_us) > 0);
}

#[test]
fn a_list_is_in_force_for_the_ranges_that_its_owners_have_and_a_lease_after_it_was_made_for_them() {
    let process = process(Config::default());
    let behind = Behind::read(&process.copies);
    let mut scene = Scene::with_copies();
    let rings = |first: (i64, i64)| -> OwnedOfTables {
        let groups = [(FIRST.to_vec(), Ranges::new([first]))];
        let owned = Owned {
            ring: RingId::default(),
            groups: groups.into(),
        };
        [(table(), owned)].into()
    };
    let is_in_force = |scene: &Scene, rings: &OwnedOfTables| {
        let index_of = |host: &[u8; 16]| Some(NodeIndex(u16::from(host[0])));
        let lists = scene
            .member
            .in_force(None, (rings, index_of), (scene.now_us, behind));
        !lists.tables["shop"]["orders"].groups.is_empty()
    };
    let read = |scene: &mut Scene, ranges: (i64, i64), list: Stored| {
        let row = GroupRow {
            owners: FIRST.to_vec(),
            ranges: Some(Ranges::new([ranges])),
            list,
        };
        let now_us = scene.now_us;
        scene.member.on_copies(&table(), &[row], now_us, now_us);
    };
    let (before, after) = (rings((0, 10)), rings((0, 6)));
    assert!(
        !is_in_force(&scene, &before),
        "it was just read for the first time"
    );
    scene.now_us += TIMING.outlast_us();
    assert!(is_in_force(&scene, &before) && !is_in_force(&scene, &after));
    // A change that proxies make.
    read(&mut scene, (0, 10), stored(Some(2)));
    assert!(is_in_force(&scene, &before));
    // It is about other ranges.
    let with_all_since = |version: i64| Stored {
        version,
        since: vec![version; 2],
        ..stored(None)
    };
    read(&mut scene, (0, 6), with_all_since(5));
    assert!(!is_in_force(&scene, &before) && !is_in_force(&scene, &after));
    scene.now_us += TIMING.outlast_us() - 1;
    assert!(!is_in_force(&scene, &after));
    scene.now_us += 1;
    assert!(is_in_force(&scene, &after) && !is_in_force(&scene, &before));
    // It was about others meanwhile, which this proxy has not read.
    read(&mut scene, (0, 6), with_all_since(7));
    assert!(!is_in_force(&scene, &after));
    scene.now_us += TIMING.outlast_us();
    assert!(is_in_force(&scene, &after));
    // The table itself is in sync, and all copies leave at once: nobody else has had these ranges.
    let with_table = |version: i64, copies: &[i32], since: [i64; 2]| Stored {
        version,
        in_sync: copies.iter().copied().chain([5]).collect(),
        since: vec![since[0], since[0], 0, 0, 0, since[1]],
        boot: vec![7, 8, 0, 0, 0, 0],
        joining: Vec::new(),
    };
    read(&mut scene, (0, 6), with_table(8, &[0, 1], [7, 8]));
    read(&mut scene, (0, 6), with_table(10, &[], [10, 8]));
    assert!(is_in_force(&scene, &after));
    // Of which ranges it is cannot be read.
    let row = GroupRow {
        owners: FIRST.to_vec(),
        ranges: None,
        list: with_table(12, &[], [12, 8]),
    };
    let now_us = scene.now_us;
    scene.member.on_copies(&table(), &[row], now_us, now_us);
    scene.now_us += 2 * TIMING.outlast_us();
    assert!(!is_in_force(&scene, &after));
}
