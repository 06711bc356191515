//! Reads of several partitions while the table itself is in sync, and when it comes or goes.

use helenus_layout::insync::TABLE as ITSELF;
use helenus_wire::{PageStart, QueryView};

use super::listed::{alone, beside};
use super::parts::{
    BY_KEYS, COLUMNS, COUNT, ENDS, SCAN, UPPER, asks, behind_row, gets, give, key_in, list_of,
    page, part, scene, scene_with, tokens,
};
use super::*;
use crate::testing::bench::rows_of;

/// No copy gives its rows.
const GROUPED: &str = "SELECT status, max(day) FROM app.orders GROUP BY customer, day LIMIT 3";

/// The only node that has been asked, for the client's own statement.
struct Whole {
    node: usize,
    stream: i16,
    state: Option<Vec<u8>>,
}

fn whole(scene: &mut Scene, text: &str) -> Whole {
    let nodes = 0..scene.bench.nodes();
    let nodes = nodes.map(|node| (node, scene.bench.at(node)));
    let asked: Vec<_> = nodes
        .flat_map(|(node, asked)| asked.into_iter().map(move |of| (node, of)))
        .collect();
    let [(node, (opcode, stream, body))] = asked.as_slice() else {
        panic!("{asked:?}, answered {:?}", scene.bench.answers());
    };
    assert_eq!(*opcode, Opcode::Query);
    let view = QueryView::parse(body, scene.bench.versions.1).expect("a QUERY");
    assert_eq!(view.text, text);
    assert_eq!(view.options.consistency, Consistency::LOCAL_QUORUM);
    Whole {
        node: *node,
        stream: *stream,
        state: view.options.paging_state.map(<[u8]>::to_vec),
    }
}

fn give_whole(scene: &mut Scene, whole: &Whole, state: Option<&[u8]>, numbers: &[i64]) {
    let cells: Vec<[u8; 8]> = numbers
        .iter()
        .flat_map(|n| [*n, *n])
        .map(i64::to_be_bytes)
        .collect();
    let cells: Vec<&[u8]> = cells.iter().map(|cell| &cell[..]).collect();
    let page = rows_of(("app", TABLE), &COLUMNS, state, &cells);
    scene
        .bench
        .say_as(whole.node, Opcode::Result, whole.stream, &page);
    scene.carry_out();
}

fn gone(scene: &mut Scene) {
    scene.list = scene.list.evict(ITSELF).expect("copies are in sync");
    scene.read();
}

fn copies_gone(scene: &mut Scene) {
    let out = (0..COPIES).try_fold(scene.list, |list, copy| list.evict(copy));
    scene.list = out.expect("the table is in sync");
    scene.read();
}

#[test]
fn the_table_in_sync_is_asked_for_all_at_once_whatever_is_asked() {
    let keys = list_of(&[key_in(0, 1 << 60), key_in(i64::MIN, 0)]);
    for is_alone in [true, false] {
        let mut scene = scene();
        match is_alone {
            true => alone(&mut scene),
            false => beside(&mut scene),
        }
        let none: [&[u8]; 0] = [];
        for (text, values) in [
            (SCAN, &none[..]),
            (COUNT, &none),
            (GROUPED, &none),
            (BY_KEYS, &[&keys]),
        ] {
            scene.ask(text, &asks(values, Some(100), None));
            let asked = whole(&mut scene, text);
            scene.is_unanswered();
            give_whole(&mut scene, &asked, None, &[1, 2]);
            assert_eq!(gets(&mut scene, &[1, 2]), None);
        }
    }
}

#[test]
fn where_the_table_is_not_in_sync_everywhere_parts_are_asked_of_copies() {
    let mut scene = scene();
    beside(&mut scene);
    let mut without = scene.copies.clone();
    let list = scene.list.evict(ITSELF).expect("copies are in sync");
    let now_us = scene.bench.common.copies.us(scene.bench.now);
    without.adopt(list, now_us, now_us);
    let known = scene.bench.common.copies.lists();
    let of_keyspace = known.tables.get("app").expect("it is listed");
    let of_table = of_keyspace.get(TABLE).expect("it is listed");
    let mut groups = of_table.groups.clone();
    let one = groups.values_mut().next().expect("a group");
    *one = without;
    let of_table = OfTable {
        ring: of_table.ring,
        groups,
    };
    let of_keyspace = [(TABLE.to_owned(), of_table)].into_iter().collect();
    scene.bench.common.copies.publish(Lists {
        membership: Some(Membership {
            member: scene.member.clone(),
            proxies: scene.proxies.clone(),
        }),
        tables: [("app".to_owned(), of_keyspace)].into_iter().collect(),
    });
    scene.tell();
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let asked = part(&mut scene);
    assert_eq!(tokens(&asked), (i64::MIN, 0));
    // Nor where a group of ranges has no list.
    scene.read();
    scene.groups.pop();
    scene.publish();
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let asked = part(&mut scene);
    assert_eq!(tokens(&asked), (i64::MIN, 0));
}

#[test]
fn a_table_that_leaves_while_it_is_scanned_is_believed_for_the_rest_of_the_lease() {
    for (waited_ms, counts) in [(900, true), (1_000, false)] {
        let mut scene = scene();
        beside(&mut scene);
        scene.ask(SCAN, &asks(&[], Some(100), None));
        let asked = whole(&mut scene, SCAN);
        gone(&mut scene);
        for _ in 0..2 {
            scene.bench.now += Duration::from_millis(waited_ms / 2);
            scene.read();
        }
        give_whole(&mut scene, &asked, None, &[1]);
        match counts {
            true => assert_eq!(gets(&mut scene, &[1]), None),
            false => {
                scene.is_unanswered();
                let numbers: Vec<i64> = (1..=ENDS.len() as i64).collect();
                for number in &numbers {
                    let asked = part(&mut scene);
                    give(&mut scene, &asked, &page(&asked, None, &[*number]));
                }
                assert_eq!(gets(&mut scene, &numbers), None);
            }
        }
        scene.is_done();
    }
}

#[test]
fn a_page_that_goes_on_in_a_table_that_has_left_is_asked_for_again_by_the_client() {
    let state = behind_row(key_in(2, UPPER));
    let mut scene = scene();
    beside(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(100), Some(&state)));
    let asked = whole(&mut scene, SCAN);
    gone(&mut scene);
    for _ in 0..2 {
        scene.bench.now += Duration::from_millis(500);
        scene.read();
    }
    give_whole(&mut scene, &asked, None, &[1]);
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("read again"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn pages_of_several_keys_go_on_in_the_table_by_their_key() {
    let keys = list_of(&[1, 5, 7]);
    // A node leaves out the key of a partition that it reads alone.
    let inner = PageStart::behind_partition(b"", 90);
    let written = inner.write();
    let mut scene = scene();
    scene.ask(BY_KEYS, &asks(&[&keys], Some(1), None));
    let asked = part(&mut scene);
    give(&mut scene, &asked, &page(&asked, Some(&written), &[1]));
    let state = gets(&mut scene, &[1]).expect("more");
    beside(&mut scene);
    scene.ask(BY_KEYS, &asks(&[&keys], Some(1), Some(&state)));
    let whole = whole(&mut scene, BY_KEYS);
    let wanted = inner.with_key(&asked.values[0]).write();
    assert_eq!(whole.state, Some(wanted));
}

#[test]
fn pages_with_a_limit_go_on_in_the_table_with_what_is_left_of_it() {
    let text = "SELECT day, total FROM app.orders LIMIT 5";
    let inner = behind_row(key_in(i64::MIN, 0));
    let mut scene = scene();
    scene.ask(text, &asks(&[], Some(2), None));
    let asked = part(&mut scene);
    give(&mut scene, &asked, &page(&asked, Some(&inner), &[1, 2]));
    let state = gets(&mut scene, &[1, 2]).expect("more");
    beside(&mut scene);
    scene.ask(text, &asks(&[], Some(2), Some(&state)));
    let whole = whole(&mut scene, text);
    let start = PageStart::parse(&inner).expect("a state");
    assert_eq!(whole.state, Some(start.with_remaining(3).write()));
}

#[test]
fn a_table_that_was_out_in_between_is_asked_again() {
    let mut scene = scene();
    beside(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let asked = whole(&mut scene, SCAN);
    gone(&mut scene);
    beside(&mut scene);
    give_whole(&mut scene, &asked, None, &[1]);
    scene.is_unanswered();
    let asked = whole(&mut scene, SCAN);
    give_whole(&mut scene, &asked, None, &[2]);
    assert_eq!(gets(&mut scene, &[2]), None);
}

#[test]
fn all_that_it_is_asked_has_the_time_of_one_request() {
    let mut config = Config::default();
    config.limits.request_timeout_ms = Some(1_600);
    let mut scene = scene_with(config, (Version::V4, Version::V5));
    beside(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let asked = whole(&mut scene, SCAN);
    scene.wait_and_read(1_000);
    gone(&mut scene);
    beside(&mut scene);
    give_whole(&mut scene, &asked, None, &[1]);
    whole(&mut scene, SCAN);
    scene.wait_and_read(400);
    scene.is_unanswered();
    scene.wait_and_read(600);
    assert_eq!(scene.bench.error().0, code::READ_TIMEOUT);
}

#[test]
fn a_page_of_the_only_key_goes_on_in_its_copy() {
    let keys = list_of(&[5]);
    // A node reads one partition alone, and leaves out its key.
    let inner = PageStart::behind_partition(b"", 90).write();
    let mut scene = scene();
    beside(&mut scene);
    scene.ask(BY_KEYS, &asks(&[&keys], Some(1), None));
    let asked = whole(&mut scene, BY_KEYS);
    give_whole(&mut scene, &asked, Some(&inner), &[1]);
    let state = gets(&mut scene, &[1]).expect("more");
    gone(&mut scene);
    scene.ask(BY_KEYS, &asks(&[&keys], Some(1), Some(&state)));
    let asked = part(&mut scene);
    assert_eq!(asked.state.as_ref(), Some(&inner));
    assert_eq!(asked.values, [5_i64.to_be_bytes()]);
    // Of several, one is named.
    let keys = list_of(&[5, 7]);
    give(&mut scene, &asked, &page(&asked, None, &[2]));
    gets(&mut scene, &[2]);
    scene.ask(BY_KEYS, &asks(&[&keys], Some(1), Some(&state)));
    assert_eq!(scene.bench.error().0, code::PROTOCOL);
}

#[test]
fn an_answer_after_the_lease_is_none() {
    let mut scene = scene();
    alone(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let asked = whole(&mut scene, SCAN);
    scene.bench.now += Duration::from_secs(1);
    give_whole(&mut scene, &asked, None, &[1]);
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.is_done();
}

#[test]
fn copies_that_leave_while_their_parts_are_read_leave_them_to_the_table() {
    let mut scene = scene();
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let asked = part(&mut scene);
    give(&mut scene, &asked, &page(&asked, None, &[1]));
    let asked = part(&mut scene);
    beside(&mut scene);
    copies_gone(&mut scene);
    give(&mut scene, &asked, &page(&asked, None, &[2]));
    scene.is_unanswered();
    let asked = whole(&mut scene, SCAN);
    give_whole(&mut scene, &asked, None, &[1, 2, 3]);
    assert_eq!(gets(&mut scene, &[1, 2, 3]), None);
}

#[test]
fn pages_of_a_scan_go_on_over_a_switch_where_states_tell_where() {
    let key = key_in(2, UPPER);
    let inner = behind_row(key);
    // From the table to the copies.
    let mut scene = scene();
    beside(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(1), None));
    let asked = whole(&mut scene, SCAN);
    give_whole(&mut scene, &asked, Some(&inner), &[1]);
    let state = gets(&mut scene, &[1]).expect("more");
    assert_eq!(state, inner, "it is the node's own");
    gone(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(1), Some(&state)));
    let asked = part(&mut scene);
    assert_eq!((asked.node, asked.state.as_ref()), (3, Some(&inner)));
    // And back: the copy has the table's order.
    give(&mut scene, &asked, &page(&asked, Some(&inner), &[2]));
    let within = gets(&mut scene, &[2]).expect("more");
    scene.ask(SCAN, &asks(&[], Some(1), Some(&within)));
    let asked = part(&mut scene);
    give(&mut scene, &asked, &page(&asked, None, &[3]));
    let behind = gets(&mut scene, &[3]).expect("more");
    beside(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(1), Some(&within)));
    let asked = whole(&mut scene, SCAN);
    assert_eq!(asked.state.as_ref(), Some(&inner));
    give_whole(&mut scene, &asked, None, &[4]);
    assert_eq!(gets(&mut scene, &[4]), None);
    // A token alone is nothing that nodes go on from, so copies do as long as they are in sync.
    scene.ask(SCAN, &asks(&[], Some(1), Some(&behind)));
    let asked = part(&mut scene);
    assert_eq!(asked.state, None);
    give(&mut scene, &asked, &page(&asked, None, &[5]));
    gets(&mut scene, &[5]);
    copies_gone(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(1), Some(&behind)));
    let invalid = (
        code::PROTOCOL,
        "Invalid value for the paging state".to_owned(),
    );
    assert_eq!(scene.bench.error(), invalid);
}

#[test]
fn a_scan_of_the_table_counts_when_the_catalogue_forgets_its_copies() {
    let mut scene = scene();
    alone(&mut scene);
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let asked = whole(&mut scene, SCAN);
    scene.bench.adopt_none();
    scene.publish();
    give_whole(&mut scene, &asked, None, &[1]);
    assert_eq!(gets(&mut scene, &[1]), None);
}
