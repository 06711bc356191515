//! What goes wrong with parts of reads of several partitions.

use helenus_wire::PageStart;

use super::parts::*;
use super::*;
use crate::execution::copy_parts::state::{At, State};
use crate::execution::layout_read::identity;

/// The values and page size of a read by these keys.
fn by_keys(scene: &mut Scene, keys: &[i64], size: Option<i32>, state: Option<&[u8]>) {
    let list = list_of(keys);
    scene.ask(BY_KEYS, &asks(&[&list], size, state));
}

#[test]
fn a_part_that_fails_is_asked_of_another_copy_where_one_can_answer() {
    let mut scene = scene();
    by_keys(&mut scene, &[1, 2], Some(100), None);
    let first = part(&mut scene);
    scene.error(first.node, first.stream, code::SERVER, "no");
    let second = part(&mut scene);
    assert_ne!(first.node, second.node);
    assert_eq!(second.values, first.values);
    give(&mut scene, &second, &page(&second, None, &[1]));
    let next = part(&mut scene);
    assert_eq!(next.values, [2_i64.to_be_bytes()]);
    give(&mut scene, &next, &page(&next, None, &[2]));
    gets(&mut scene, &[1, 2]);
    // Stretches are read from copies with the table's order only.
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let first = part(&mut scene);
    give(&mut scene, &first, &page(&first, None, &[1]));
    let second = part(&mut scene);
    scene.error(second.node, second.stream, code::SERVER, "app__0.orders");
    let (code, why) = scene.bench.error();
    assert_eq!((code, &*why), (code::SERVER, "app.orders"));
    scene.is_done();
}

#[test]
fn parts_need_as_many_copies_in_sync_as_the_level_asks_for_each_in_its_turn() {
    let mut scene = scene();
    scene.ask_text(SCAN, Consistency::ALL);
    let first = part(&mut scene);
    scene.list = scene.list.evict(2).expect("others are there");
    scene.read();
    give(&mut scene, &first, &page(&first, None, &[1]));
    let (code, why, numbers) = scene.counted();
    assert_eq!(code, code::UNAVAILABLE, "{why}");
    assert_eq!(numbers, (Consistency::ALL.0, 3, 2));
    // Without the copy that has the order, there is no scan, but there are keys.
    scene.list = scene.list.evict(0).expect("others are there");
    scene.read();
    scene.ask_text(SCAN, Consistency::ONE);
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::UNAVAILABLE, "{why}");
    by_keys(&mut scene, &[4], Some(100), None);
    let asked = part(&mut scene);
    assert_eq!(asked.node % COPIES, 1, "the only one in sync");
    give(&mut scene, &asked, &page(&asked, None, &[4]));
    gets(&mut scene, &[4]);
}

#[test]
fn without_a_lease_the_next_part_is_not_asked_for() {
    let mut scene = scene();
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let first = part(&mut scene);
    give(&mut scene, &first, &page(&first, None, &[1]));
    let second = part(&mut scene);
    scene.wait(1_100);
    give(&mut scene, &second, &page(&second, None, &[2]));
    let (code, why) = scene.bench.error();
    assert!(
        code == code::UNAVAILABLE || code == code::OVERLOADED,
        "{why}"
    );
    scene.is_done();
}

#[test]
fn what_was_asked_before_the_ring_changed_does_not_count_and_pages_go_on_on_the_new_one() {
    let mut scene = scene();
    scene.ask(SCAN, &asks(&[], Some(1), None));
    let first = part(&mut scene);
    give(&mut scene, &first, &page(&first, None, &[1]));
    let state = gets(&mut scene, &[1]).expect("more");
    scene.ask(SCAN, &asks(&[], Some(1), Some(&state)));
    let second = part(&mut scene);
    assert_eq!(tokens(&second), (0, 1));
    // The first three nodes own everything from now on.
    scene.move_to(1, [0, 1, 2]);
    give(&mut scene, &second, &page(&second, None, &[2]));
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.ask(SCAN, &asks(&[], Some(1), Some(&state)));
    assert_eq!(
        scene.bench.error().0,
        code::OVERLOADED,
        "no list is about this ring"
    );
    scene.publish();
    scene.ask(SCAN, &asks(&[], Some(1), Some(&state)));
    let again = part(&mut scene);
    assert_eq!((again.node, tokens(&again)), (0, (0, i64::MAX)));
    let key = key_in(0, UPPER);
    let inner = behind_row(key);
    give(&mut scene, &again, &page(&again, Some(&inner), &[2]));
    let state = gets(&mut scene, &[2]).expect("more");
    // A scan that one copy has begun alone goes on in parts.
    scene.ask(SCAN, &asks(&[], Some(1), None));
    let whole = part(&mut scene);
    assert_eq!(whole.text, on_copy(SCAN, 0));
    give(&mut scene, &whole, &page(&whole, Some(&inner), &[1]));
    let of_one = gets(&mut scene, &[1]).expect("more");
    let mut other = self::scene();
    for state in [state, of_one] {
        other.ask(SCAN, &asks(&[], Some(1), Some(&state)));
        let asked = part(&mut other);
        let token = helenus_policy::token::murmur3_token(&key.to_be_bytes());
        assert_eq!((asked.node, tokens(&asked)), (3, (token - 1, UPPER)));
        assert_eq!(asked.state.as_ref(), Some(&inner));
        give(&mut other, &asked, &page(&asked, None, &[3]));
        gets(&mut other, &[3]);
    }
    // So do keys.
    let inner = behind_row(5);
    by_keys(&mut scene, &[1, 5, 7], Some(1), None);
    let whole = part(&mut scene);
    assert_eq!(whole.text, on_copy(BY_KEYS, 0));
    give(&mut scene, &whole, &page(&whole, Some(&inner), &[1]));
    let of_one = gets(&mut scene, &[1]).expect("more");
    by_keys(&mut other, &[1, 5, 7], Some(1), Some(&of_one));
    let asked = part(&mut other);
    assert_eq!(asked.values, [5_i64.to_be_bytes()]);
    assert_eq!(asked.state.as_ref(), Some(&inner));
    give(&mut other, &asked, &page(&asked, None, &[2]));
    assert!(gets(&mut other, &[2]).is_some(), "7 is left");
    by_keys(&mut other, &[1, 7], Some(1), Some(&of_one));
    assert_eq!(other.bench.error().0, code::PROTOCOL, "of other keys");
}

#[test]
fn states_that_are_none_of_this_statement_are_refused() {
    let mut scene = scene();
    let identity = identity(&table(), 0);
    let written = |identity, left, at| State { identity, left, at }.write();
    let key = 1_i64.to_be_bytes();
    let strange = 9_i64.to_be_bytes();
    let inner = behind_row(key_in(2, UPPER));
    let before = behind_row(key_in(i64::MIN, 0));
    let no_key = PageStart::behind_partition(b"", 3).write();
    let of_scan = [
        written(identity ^ 1, None, At::Behind(5)),
        written(identity, Some(3), At::Behind(5)),
        written(identity, None, At::Behind(i64::MAX)),
        written(identity, None, At::Key(&key)),
        written(identity, None, At::InStretch(b"nonsense")),
        written(identity, None, At::InStretch(&no_key)),
        vec![0xff, 2],
        vec![0xff, 3, 1, 2, 3],
        inner.clone(),
    ];
    for state in of_scan {
        scene.ask(SCAN, &asks(&[], Some(2), Some(&state)));
        assert_eq!(scene.bench.error().0, code::PROTOCOL, "{state:?}");
        scene.is_done();
    }
    let of_bounded = [
        written(identity, None, At::Behind(-1)),
        written(identity, None, At::InStretch(&inner)),
        // Before its lower bound.
        written(identity, None, At::InStretch(&before)),
    ];
    let text =
        "SELECT day, total FROM app.orders WHERE token(customer) > 0 AND token(customer) <= 2";
    for state in of_bounded {
        scene.ask(text, &asks(&[], Some(2), Some(&state)));
        assert_eq!(scene.bench.error().0, code::PROTOCOL, "{state:?}");
    }
    let of_keys = [
        written(identity, None, At::Key(&strange)),
        written(identity, None, At::Behind(5)),
        written(identity, Some(7), At::Key(&key)),
        inner.clone(),
    ];
    for state in of_keys {
        by_keys(&mut scene, &[1, 2], Some(2), Some(&state));
        assert_eq!(scene.bench.error().0, code::PROTOCOL, "{state:?}");
    }
    scene.ask(
        COUNT,
        &asks(&[], Some(2), Some(&written(identity, None, At::Behind(5)))),
    );
    assert_eq!(
        scene.bench.error().0,
        code::PROTOCOL,
        "an aggregate has no pages"
    );
    // What a node says of its own state is heard.
    by_keys(
        &mut scene,
        &[1, 2],
        Some(2),
        Some(&written(identity, None, At::InKey(&key, b"x"))),
    );
    let asked = part(&mut scene);
    scene.error(
        asked.node,
        asked.stream,
        code::PROTOCOL,
        "Invalid value for the paging state",
    );
    assert_eq!(scene.bench.error().0, code::PROTOCOL);
    scene.is_done();
}

#[test]
fn keys_whose_rows_are_to_be_sorted_come_whole_or_on_the_next_page() {
    let mut scene = scene();
    // The copies in sync have another order.
    scene.list = scene.list.evict(0).expect("others are there");
    scene.read();
    by_keys(&mut scene, &[1, 2], Some(3), None);
    let sorted_page = |part: &Part, numbers: &[i64]| {
        let columns = [
            COLUMNS[0],
            COLUMNS[1],
            ("status", crate::testing::bench::VARCHAR),
        ];
        let cells: Vec<Vec<u8>> = numbers
            .iter()
            .flat_map(|n| {
                [
                    n.to_be_bytes().to_vec(),
                    n.to_be_bytes().to_vec(),
                    b"open".to_vec(),
                ]
            })
            .collect();
        let cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
        let keyspace = format!("app__{}", part.node % COPIES);
        crate::testing::bench::rows_of((&keyspace, TABLE), &columns, None, &cells)
    };
    let first = part(&mut scene);
    assert!(first.text.contains("LIMIT 5001"), "{}", first.text);
    give(&mut scene, &first, &sorted_page(&first, &[7, 5]));
    let second = part(&mut scene);
    assert_eq!(
        second.page_size,
        Some(3),
        "all of its rows must come at once"
    );
    give(&mut scene, &second, &sorted_page(&second, &[9, 8]));
    let state = gets(&mut scene, &[5, 7]).expect("the second key comes next");
    by_keys(&mut scene, &[1, 2], Some(3), Some(&state));
    let again = part(&mut scene);
    assert_eq!(again.values, [2_i64.to_be_bytes()]);
    give(&mut scene, &again, &sorted_page(&again, &[9, 8]));
    assert_eq!(gets(&mut scene, &[8, 9]), None);
}

#[test]
fn a_page_that_takes_long_ends_with_what_has_come() {
    let mut scene = scene();
    scene.ask(SCAN, &asks(&[], Some(100), None));
    let first = part(&mut scene);
    scene.wait_and_read(3_000);
    give(&mut scene, &first, &page(&first, None, &[1]));
    let second = part(&mut scene);
    scene.wait_and_read(3_000);
    give(&mut scene, &second, &page(&second, None, &[2]));
    assert!(gets(&mut scene, &[1, 2]).is_some());
    // Without pages, all must come.
    scene.ask(SCAN, &asks(&[], None, None));
    for at in 0..ENDS.len() {
        let asked = part(&mut scene);
        scene.wait_and_read(1_000);
        give(&mut scene, &asked, &page(&asked, None, &[at as i64]));
    }
    gets(&mut scene, &[0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn what_has_no_pages_has_one_time_limit_over_all_parts() {
    let mut config = Config::default();
    config.limits.page_timeout_ms = 20_000;
    // Nodes are slow, and not suspected of being gone.
    config.links.silence_ms = 600_000;
    let mut scene = scene_with(config, (Version::V4, Version::V5));
    let began = scene.bench.now;
    scene.ask(COUNT, &asks(&[], Some(100), None));
    // Each comes in time.
    for _ in 0..5 {
        let asked = part(&mut scene);
        scene.wait_and_read(4_000);
        give(&mut scene, &asked, &counted(&asked, 1));
    }
    let late = part(&mut scene);
    scene.is_unanswered();
    scene.wait_and_read(1_000);
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::READ_TIMEOUT, "{why}");
    assert!(why.contains("page_timeout_ms"), "{why}");
    assert!(scene.bench.now - began < std::time::Duration::from_secs(22));
    give(&mut scene, &late, &counted(&late, 1));
    scene.is_done();
}

#[test]
fn without_a_lease_on_the_catalogue_no_part_is_asked_for_although_the_lists_are_read() {
    let mut scene = scene();
    for _ in 0..50 {
        scene.wait(200);
        scene.read_lists();
    }
    for text in [SCAN, COUNT] {
        scene.ask(text, &asks(&[], Some(100), None));
        let (code, why) = scene.bench.error();
        assert_eq!(code, code::OVERLOADED, "{why}");
        scene.nothing_sent();
        scene.is_done();
    }
    scene.read();
    scene.ask(SCAN, &asks(&[], Some(100), None));
    assert_eq!(part(&mut scene).node, 0);
}

#[test]
fn what_there_is_no_memory_for_is_given_up_and_all_is_let_go() {
    let mut scene = scene();
    let memory = scene.bench.engine.cx.memory.clone();
    scene.ask(SCAN, &asks(&[], None, None));
    let first = part(&mut scene);
    memory.set_max(memory.held() + 100);
    let many: Vec<i64> = (0..1_000).collect();
    give(&mut scene, &first, &page(&first, None, &many));
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("memory_max"),
        "{why}"
    );
    scene.is_done();
    memory.set_max(1 << 20);
    // The client leaves in the middle.
    by_keys(&mut scene, &[1, 2, 3], None, None);
    let first = part(&mut scene);
    give(&mut scene, &first, &page(&first, None, &[1]));
    let second = part(&mut scene);
    scene.bench.leave();
    give(&mut scene, &second, &page(&second, None, &[2]));
    scene.wait(500);
    assert_eq!(scene.bench.engine.requests_in_flight(), 0);
    assert_eq!(scene.bench.engine.bytes_held(), 0);
}

/// The first column of its key is of this type from now on.
fn set_key_type(scene: &mut Scene, cql_type: &str) {
    let known = scene.bench.common.snapshot.load();
    let mut snapshot = Snapshot::clone(&known);
    snapshot.epoch += 1;
    let column = crate::snapshot::KeyColumn {
        name: "customer".into(),
        cql_type: cql_type.into(),
    };
    let tables = snapshot.tables.entry("app".into()).or_default();
    tables.insert(TABLE.into(), Arc::new([column]));
    scene.bench.common.store(snapshot);
    scene.read();
}

#[test]
fn keys_that_no_node_takes_or_too_many_are_refused_before_anything_is_asked() {
    let mut scene = scene();
    set_key_type(&mut scene, "text");
    let list_of_texts = |keys: &[&[u8]]| {
        let mut list = Vec::new();
        write::i32(&mut list, keys.len() as i32);
        keys.iter()
            .for_each(|key| write::bytes(&mut list, Some(key)));
        list
    };
    let long = vec![b'b'; 70_000];
    for strange in [&long[..], b""] {
        let list = list_of_texts(&[b"a", strange, b"c"]);
        scene.ask(BY_KEYS, &asks(&[&list], Some(1), None));
        let (code, why) = scene.bench.error();
        assert_eq!(code, code::INVALID, "{why}");
        assert!(why.contains("65,535"), "{why}");
        scene.is_done();
    }
    let list = list_of_texts(&[b"a", b"b", b"c"]);
    scene.ask(BY_KEYS, &asks(&[&list], Some(1), None));
    let first = part(&mut scene);
    give(&mut scene, &first, &page(&first, None, &[1]));
    assert!(gets(&mut scene, &[1]).is_some());
    let many = vec![&b"a"[..]; 10_001];
    let list = list_of_texts(&many);
    scene.ask(BY_KEYS, &asks(&[&list], Some(1), None));
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::INVALID, "{why}");
    assert!(
        why.contains("10001") && why.contains("10000 at most"),
        "{why}"
    );
    scene.is_done();
}
