//! Reads of copies in sync: which copy is asked what, and what its answer becomes.

use helenus_wire::{Consistency, ExecuteView, QueryView, Reader, ValueRef, flags, write};

use super::*;
use crate::execution::layout_read::{identity, unwrap};
use crate::testing::bench::{BIGINT, Spec, VARCHAR, metadata_id, rows, rows_of};

const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V5),
    (Version::V4, Version::V4),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];
/// Two of the copies, on nodes 1 and 2, have the rows with one status side by side, sorted by day.
pub(super) const BY_STATUS: &str =
    "SELECT day, total FROM app.orders WHERE customer = ? AND status = ? ALLOW FILTERING";
/// The first copy, on node 0, has the table's own order.
pub(super) const BY_DAY: &str = "SELECT day, total FROM app.orders WHERE customer = ? AND day = ?";
/// No copy but the first has the rows in the table's order, and the others read less.
pub(super) const SORTED: &str =
    "SELECT total, status FROM app.orders WHERE customer = ? AND status > ? ALLOW FILTERING";
const MARKERS: [Spec; 2] = [("customer", BIGINT), ("status", VARCHAR)];
pub(super) const COLUMNS: [Spec; 2] = [("day", BIGINT), ("total", BIGINT)];
pub(super) const VALUES: [&[u8]; 2] = [&[0, 0, 0, 0, 0, 0, 0, 7], b"open"];
pub(super) const CELLS: [&[u8]; 2] = [&[1; 8], &[2; 8]];
const ONE_DAY: [&[u8]; 2] = [&[0, 0, 0, 0, 0, 0, 0, 7], &[1; 8]];

/// Asks for rows, at LOCAL_QUORUM.
pub(super) fn read(scene: &mut Scene, text: &str) {
    let values = if text == BY_DAY { &ONE_DAY } else { &VALUES };
    let asking = Asking {
        values,
        page_size: Some(100),
        ..Asking::default()
    };
    scene.ask(text, &asking);
}

/// Reads, and returns the only node that is asked for it.
pub(super) fn reads_one(scene: &mut Scene, text: &str) -> (usize, i16) {
    read(scene, text);
    asked_one(scene, text)
}

/// The only node that has been sent a request, and that: its text is the client's on this node's copy.
pub(super) fn asked_one(scene: &mut Scene, text: &str) -> (usize, i16) {
    let (node, opcode, stream, body) = asked(scene);
    assert_eq!(opcode, Opcode::Query);
    let view = QueryView::parse(&body, scene.bench.versions.1).expect("a QUERY");
    let qualified = format!("app__{node}.orders");
    assert_eq!(view.text, text.replace("app.orders", &qualified));
    assert_eq!(
        view.options.consistency,
        Consistency::ONE,
        "its only replica"
    );
    (node, stream)
}

/// The only request at any node.
pub(super) fn asked(scene: &mut Scene) -> (usize, Opcode, i16, Vec<u8>) {
    let nodes = (0..COPIES).map(|node| (node, scene.bench.at(node)));
    let asked: Vec<_> = nodes
        .flat_map(|(node, asked)| asked.into_iter().map(move |of| (node, of)))
        .collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let (node, (opcode, stream, body)) = asked.into_iter().next().expect("one");
    (node, opcode, stream, body)
}

/// What a node gives of its copy.
pub(super) fn page(node: usize, state: Option<&[u8]>, cells: &[&[u8]]) -> Vec<u8> {
    rows_of((&format!("app__{node}"), TABLE), &COLUMNS, state, cells)
}

/// A node gives rows of its copy, and the engine is told the time.
pub(super) fn give(scene: &mut Scene, node: usize, stream: i16, page: &[u8]) {
    scene.bench.say_as(node, Opcode::Result, stream, page);
    scene.carry_out();
}

/// The client gets this one row of its table.
pub(super) fn gets_the_row(scene: &mut Scene) {
    let own = rows(TABLE, &COLUMNS, None, &CELLS);
    assert_eq!(scene.bench.answer(), (Opcode::Result, own));
}

#[test]
fn the_cheapest_copy_is_asked_alone_and_its_answer_is_the_tables() {
    for versions in VERSIONS {
        let mut scene = Scene::new(versions.0, versions.1);
        for (text, nodes) in [(BY_STATUS, 1..3), (BY_DAY, 0..1)] {
            read(&mut scene, text);
            let (node, opcode, stream, body) = asked(&mut scene);
            assert!(nodes.contains(&node), "{text} at {node}");
            let view = QueryView::parse(&body, versions.1).expect("a QUERY");
            let qualified = format!("app__{node}.orders");
            assert_eq!(
                (opcode, view.text),
                (Opcode::Query, &*text.replace("app.orders", &qualified))
            );
            assert_eq!(
                view.options.consistency,
                Consistency::ONE,
                "its only replica"
            );
            assert_eq!(view.options.page_size, Some(100));
            let values: Vec<_> = view.options.values.iter().map(|(_, value)| value).collect();
            assert_eq!(values[0], ValueRef::Set(VALUES[0]));
            scene.is_unanswered();
            give(&mut scene, node, stream, &page(node, None, &CELLS));
            gets_the_row(&mut scene);
            scene.is_done();
        }
        assert_eq!(scene.intents, 0);
    }
}

#[test]
fn of_equal_copies_the_one_is_asked_whose_node_has_less_to_do() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let mut asked = Vec::new();
    for _ in 0..2 {
        read(&mut scene, BY_STATUS);
        asked.push(asked_one(&mut scene, BY_STATUS));
    }
    asked.sort_unstable();
    assert_eq!(
        asked.iter().map(|(node, _)| *node).collect::<Vec<_>>(),
        [1, 2]
    );
    for (node, stream) in asked {
        give(&mut scene, node, stream, &page(node, None, &CELLS));
        gets_the_row(&mut scene);
    }
    scene.is_done();
}

/// Executes the prepared read, and answers whatever nodes are asked; which requests these were.
fn execute(scene: &mut Scene) -> Vec<Opcode> {
    let asking = Asking {
        values: &VALUES,
        ..Asking::default()
    };
    let body = asking.execute(scene.bench.versions.0, b"own");
    scene.bench.ask(Opcode::Execute, 2, &body);
    let mut opcodes = Vec::new();
    for _ in 0..3 {
        for node in 0..COPIES {
            for (opcode, stream, body) in scene.bench.at(node) {
                opcodes.push(opcode);
                let answer = match opcode {
                    Opcode::Prepare => {
                        let text = Reader::new(&body).long_string().expect("a text");
                        let is_of = |copy: &usize| text.contains(&format!("app__{copy}"));
                        let copy = (0..COPIES).find(is_of).expect("a statement on a copy");
                        let (id, keyspace) = (format!("of {copy}"), format!("app__{copy}"));
                        let of = (&*keyspace, TABLE);
                        scene
                            .bench
                            .prepared_of(id.as_bytes(), of, &MARKERS, &COLUMNS)
                    }
                    Opcode::Execute => {
                        let view = ExecuteView::parse(&body, scene.bench.versions.1);
                        let view = view.expect("an EXECUTE");
                        assert_eq!(view.id, format!("of {node}").as_bytes());
                        assert_eq!(view.options.consistency, Consistency::ONE);
                        if scene.bench.versions.1 == Version::V5 {
                            assert_eq!(view.result_metadata_id, Some(&metadata_id(TABLE)[..]));
                        }
                        page(node, None, &CELLS)
                    }
                    _ => page(node, None, &CELLS),
                };
                give(scene, node, stream, &answer);
            }
        }
    }
    gets_the_row(scene);
    scene.is_done();
    opcodes
}

#[test]
fn a_prepared_read_is_executed_by_the_id_of_the_copys_statement_once_the_nodes_have_it() {
    for versions in VERSIONS {
        let mut scene = Scene::new(versions.0, versions.1);
        let of = ("app", TABLE);
        let prepared = scene.bench.prepared_of(b"own", of, &MARKERS, &COLUMNS);
        scene.bench.prepare_with_any(BY_STATUS, &prepared);
        let first = execute(&mut scene);
        assert!(first.contains(&Opcode::Query), "{first:?}");
        assert!(first.contains(&Opcode::Prepare), "{first:?}");
        assert_eq!(execute(&mut scene), [Opcode::Execute]);
    }
}

/// The client executes the read that the nodes have prepared; one of them does not know it any more.
fn execute_forgotten() -> (Scene, usize, i16) {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let prepared = scene
        .bench
        .prepared_of(b"own", ("app", TABLE), &MARKERS, &COLUMNS);
    scene.bench.prepare_with_any(BY_STATUS, &prepared);
    execute(&mut scene);
    let asking = Asking {
        values: &VALUES,
        ..Asking::default()
    };
    scene
        .bench
        .ask(Opcode::Execute, 2, &asking.execute(Version::V4, b"own"));
    let (node, opcode, stream, _) = asked(&mut scene);
    assert_eq!(opcode, Opcode::Execute);
    let mut id = Vec::new();
    write::short_bytes(&mut id, format!("of {node}").as_bytes());
    scene.bench.say_unprepared(node, stream, &id);
    scene.carry_out();
    let (opcode, stream, _) = scene.one_at(node);
    assert_eq!(opcode, Opcode::Prepare);
    (scene, node, stream)
}

#[test]
fn what_a_node_has_forgotten_is_prepared_again_there() {
    let (mut scene, node, stream) = execute_forgotten();
    let (id, keyspace) = (format!("of {node}"), format!("app__{node}"));
    let again = scene
        .bench
        .prepared_of(id.as_bytes(), (&keyspace, TABLE), &MARKERS, &COLUMNS);
    give(&mut scene, node, stream, &again);
    let (opcode, stream, _) = scene.one_at(node);
    assert_eq!(opcode, Opcode::Execute);
    give(&mut scene, node, stream, &page(node, None, &CELLS));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn where_it_cannot_be_prepared_any_more_another_copy_is_asked() {
    let (mut scene, node, stream) = execute_forgotten();
    scene.error(node, stream, code::INVALID, "unconfigured table orders");
    // By its text, while the nodes are asked to prepare that.
    let other = 3 - node;
    let mut sent = scene.bench.at(other);
    sent.retain(|(opcode, ..)| *opcode == Opcode::Query);
    let [(_, stream, body)] = &sent[..] else {
        panic!("{sent:?}");
    };
    let text = Reader::new(body).long_string().expect("a text");
    assert!(text.contains(&format!("app__{other}.orders")), "{text}");
    give(&mut scene, other, *stream, &page(other, None, &CELLS));
    gets_the_row(&mut scene);
}

#[test]
fn rows_in_another_order_are_sorted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, SORTED);
    let (node, _, stream, body) = asked(&mut scene);
    assert!(node > 0, "the table's own order reads more");
    let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
    let text = format!(
        "SELECT total, status, day FROM app__{node}.orders WHERE customer = ? AND status > ? LIMIT 5001 \
         ALLOW FILTERING"
    );
    assert_eq!(view.text, text);
    let columns: [Spec; 3] = [("total", BIGINT), ("status", VARCHAR), ("day", BIGINT)];
    let day = |day: i64| day.to_be_bytes();
    let (one, two) = (day(1), day(2));
    let cells: [&[u8]; 9] = [
        &[7; 8], b"p", &two, &[8; 8], b"q", &one, &[9; 8], b"r", &two,
    ];
    let keyspace = format!("app__{node}");
    let sent = rows_of((&keyspace, TABLE), &columns, None, &cells);
    give(&mut scene, node, stream, &sent);
    let sorted: [&[u8]; 6] = [&[8; 8], b"q", &[7; 8], b"p", &[9; 8], b"r"];
    let own = rows(TABLE, &columns[..2], None, &sorted);
    assert_eq!(scene.bench.answer(), (Opcode::Result, own));
    scene.is_done();
}

#[test]
fn what_is_too_much_to_be_sorted_is_asked_of_a_copy_with_the_tables_order() {
    let columns: [Spec; 3] = [("total", BIGINT), ("status", VARCHAR), ("day", BIGINT)];
    let cells: [&[u8]; 3] = [&[7; 8], b"p", &[1; 8]];
    // As many as fit the client's page.
    let many: Vec<&[u8]> = cells.iter().copied().cycle().take(300).collect();
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, SORTED);
    let (node, _, stream, _) = asked(&mut scene);
    let keyspace = format!("app__{node}");
    let more = rows_of((&keyspace, TABLE), &columns, Some(b"more"), &many);
    give(&mut scene, node, stream, &more);
    scene.is_unanswered();
    let (node, stream) = asked_one(&mut scene, SORTED);
    assert_eq!(node, 0);
    let whole = rows_of(("app__0", TABLE), &columns[..2], None, &cells[..2]);
    give(&mut scene, 0, stream, &whole);
    let own = rows(TABLE, &columns[..2], None, &cells[..2]);
    assert_eq!(scene.bench.answer(), (Opcode::Result, own));
    scene.is_done();
    // That is remembered, unless no other copy is left.
    let (node, stream) = reads_one(&mut scene, SORTED);
    assert_eq!(node, 0);
    give(&mut scene, 0, stream, &whole);
    scene.bench.answer();
    scene.list = scene.list.evict(0).expect("others are in sync");
    scene.read();
    read(&mut scene, SORTED);
    let (node, _, stream, _) = asked(&mut scene);
    let keyspace = format!("app__{node}");
    let more = rows_of((&keyspace, TABLE), &columns, Some(b"more"), &many);
    give(&mut scene, node, stream, &more);
    let (code, why, numbers) = scene.counted();
    assert_eq!((code, numbers), (code::UNAVAILABLE, (6, 1, 0)), "{why}");
    assert!(why.contains("too many to be sorted"), "{why}");
    scene.is_done();
}

/// The client asks for the page behind this state.
pub(super) fn continue_at(scene: &mut Scene, state: &[u8]) {
    let asking = Asking {
        values: &VALUES,
        page_size: Some(100),
        state: Some(state),
        ..Asking::default()
    };
    scene.ask(BY_STATUS, &asking);
}

/// The state of the page that the client has got.
pub(super) fn state_of(scene: &mut Scene) -> Vec<u8> {
    let (opcode, body) = scene.bench.answer();
    assert_eq!(opcode, Opcode::Result);
    let page = helenus_wire::RowsView::parse(&body).expect("rows");
    page.paging_state.expect("a state").to_vec()
}

#[test]
fn pages_go_on_at_the_same_copy_or_else_at_one_with_its_order() {
    for versions in VERSIONS {
        let mut scene = Scene::new(versions.0, versions.1);
        let (first, stream) = reads_one(&mut scene, BY_STATUS);
        give(
            &mut scene,
            first,
            stream,
            &page(first, Some(b"state"), &CELLS),
        );
        let state = state_of(&mut scene);
        let expected = (identity(&table(), first), &b"state"[..]);
        assert_eq!(unwrap(&state), Some(expected));
        continue_at(&mut scene, &state);
        let (opcode, stream, body) = scene.one_at(first);
        assert_eq!(opcode, Opcode::Query);
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        assert_eq!(view.options.paging_state, Some(&b"state"[..]));
        give(&mut scene, first, stream, &page(first, None, &CELLS));
        gets_the_row(&mut scene);
        // It is evicted between two pages; the other one has the same order.
        scene.list = scene.list.evict(first).expect("others are in sync");
        scene.read();
        continue_at(&mut scene, &state);
        let (other, stream) = asked_one(&mut scene, BY_STATUS);
        assert_eq!(other, 3 - first);
        give(&mut scene, other, stream, &page(other, None, &CELLS));
        gets_the_row(&mut scene);
        // Then only the copy with another order is left.
        scene.list = scene.list.evict(other).expect("another is in sync");
        scene.read();
        continue_at(&mut scene, &state);
        let (code, why, numbers) = scene.counted();
        assert_eq!((code, numbers), (code::UNAVAILABLE, (6, 1, 0)), "{why}");
        assert!(why.contains("begin anew"), "{why}");
        scene.is_done();
    }
}

#[test]
fn a_state_that_is_of_no_copy_is_none() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let of_another = crate::execution::layout_read::wrap(7, b"state");
    for state in [&b"\x04abcd"[..], &of_another] {
        continue_at(&mut scene, state);
        let (code, why) = scene.bench.error();
        assert_eq!(code, code::PROTOCOL, "{why}");
        scene.is_done();
    }
}

/// Asks for a read by text at this level.
fn read_at(scene: &mut Scene, level: Consistency) {
    let text = "SELECT total FROM app.orders WHERE customer = 7";
    scene.ask_text(text, level);
}

#[test]
fn all_asks_for_all_copies_in_sync_and_quorum_for_one() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.evict_others();
    scene.read();
    for level in [
        Consistency::ONE,
        Consistency::QUORUM,
        Consistency::EACH_QUORUM,
    ] {
        read_at(&mut scene, level);
        let (opcode, stream, _) = scene.one_at(0);
        assert_eq!(opcode, Opcode::Query);
        give(&mut scene, 0, stream, &page(0, None, &CELLS));
        gets_the_row(&mut scene);
    }
    for (level, needed) in [(Consistency(2), 2), (Consistency::ALL, 3)] {
        read_at(&mut scene, level);
        let (code, why, numbers) = scene.counted();
        assert_eq!(
            (code, numbers),
            (code::UNAVAILABLE, (level.0, needed, 1)),
            "{why}"
        );
    }
    // One that is joining is not in sync.
    scene.list = scene.list.join(1, 1).expect("it is out");
    scene.read();
    read_at(&mut scene, Consistency(2));
    assert_eq!(scene.counted().0, code::UNAVAILABLE);
    scene.is_done();
}

#[test]
fn levels_that_reads_of_copies_cannot_have_are_refused() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    for (level, way_out) in [
        (Consistency::SERIAL, "read at QUORUM"),
        (Consistency::LOCAL_SERIAL, "read at QUORUM"),
        (Consistency::ANY, "read at QUORUM"),
    ] {
        read_at(&mut scene, level);
        let (code, why) = scene.bench.error();
        assert_eq!(code, code::INVALID, "{why}");
        assert!(why.contains(way_out), "{why}");
        scene.is_done();
    }
}

#[test]
fn without_a_lease_nothing_is_read() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.wait(1_000);
    read(&mut scene, BY_DAY);
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("lists of copies"),
        "{why}"
    );
    // Of what others write, it is not told.
    let others = Proxies::new(Members::first(ME + 1), [0; PROXIES_MAX]);
    scene.read_with(others.evict(ME).expect("others are there"));
    read(&mut scene, BY_DAY);
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.is_done();
}

#[test]
fn a_payload_and_a_warning_pass_with_the_tables_name() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let mut body = Vec::new();
    write::u16(&mut body, 1);
    write::string(&mut body, "key");
    write::bytes(&mut body, Some(b"value"));
    let payload = body.clone();
    let asking = Asking {
        values: &ONE_DAY,
        ..Asking::default()
    };
    body.extend(asking.query(Version::V4, BY_DAY));
    scene
        .bench
        .ask_with_flags(flags::CUSTOM_PAYLOAD, Opcode::Query, 2, &body);
    scene.carry_out();
    let (opcode, stream, sent) = scene.one_at(0);
    assert_eq!(opcode, Opcode::Query);
    assert!(sent.starts_with(&payload), "{sent:?}");
    let mut answer = Vec::new();
    let warning = "a large partition of app__0.orders".to_owned();
    write::string_list(&mut answer, &[warning]);
    answer.extend(page(0, None, &CELLS));
    scene
        .bench
        .say_with_flags(0, (flags::WARNING, stream), &answer);
    scene.carry_out();
    let (_, body) = scene.bench.answer();
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(text.contains("a large partition of app.orders"), "{text}");
    assert!(!text.contains("app__"), "{text}");
    scene.is_done();
}
