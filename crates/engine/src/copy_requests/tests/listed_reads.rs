//! Reads of one partition while the table itself is in sync, and when it comes or goes.

use helenus_layout::insync::TABLE as ITSELF;
use helenus_wire::QueryView;

use super::listed::{alone, beside};
use super::read::{BY_DAY, BY_STATUS, CELLS, COLUMNS, asked, asked_one, gets_the_row, give, page};
use super::*;
use crate::execution::layout_read::{identity, unwrap, wrap};
use crate::testing::bench::rows;

/// No copy gives its rows.
const ONLY_TABLE: &str = "SELECT DISTINCT customer FROM app.orders WHERE customer = ?";

fn ask_for(scene: &mut Scene, text: &str, state: Option<&[u8]>) {
    let values: &[&[u8]] = match text {
        BY_DAY => &[&[0, 0, 0, 0, 0, 0, 0, 7], &[1; 8]],
        BY_STATUS => &[&[0, 0, 0, 0, 0, 0, 0, 7], b"open"],
        _ => &[&[0, 0, 0, 0, 0, 0, 0, 7]],
    };
    let asking = Asking {
        values,
        page_size: Some(100),
        state,
        ..Asking::default()
    };
    scene.ask(text, &asking);
}

/// The only node that has been asked, for the client's own statement; its stream and the paging state.
fn of_table(scene: &mut Scene, text: &str) -> (usize, i16, Option<Vec<u8>>) {
    let (node, opcode, stream, body) = asked(scene);
    assert_eq!(opcode, Opcode::Query);
    let view = QueryView::parse(&body, scene.bench.versions.1).expect("a QUERY");
    assert_eq!(view.text, text);
    assert_eq!(view.options.consistency, Consistency::LOCAL_QUORUM);
    assert_eq!(view.options.page_size, Some(100));
    (node, stream, view.options.paging_state.map(<[u8]>::to_vec))
}

fn own_page(state: Option<&[u8]>) -> Vec<u8> {
    rows(TABLE, &COLUMNS, state, &CELLS)
}

fn gone(scene: &mut Scene) {
    scene.list = scene.list.evict(ITSELF).expect("copies are in sync");
    scene.read();
}

#[test]
fn the_table_in_sync_is_read_as_the_client_asks_whatever_it_asks() {
    for is_alone in [true, false] {
        let mut scene = Scene::new(Version::V4, Version::V5);
        match is_alone {
            true => alone(&mut scene),
            false => beside(&mut scene),
        }
        for text in [BY_DAY, BY_STATUS, ONLY_TABLE] {
            ask_for(&mut scene, text, None);
            let (node, stream, _) = of_table(&mut scene, text);
            scene.is_unanswered();
            give(&mut scene, node, stream, &own_page(None));
            gets_the_row(&mut scene);
            scene.is_done();
        }
        assert_eq!(scene.intents, 0);
    }
}

#[test]
fn serial_reads_stay_refused() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    let text = "SELECT day FROM app.orders WHERE customer = 1";
    scene.ask_text(text, Consistency::SERIAL);
    scene.is_refused(text, "QUORUM");
}

#[test]
fn what_the_table_answers_after_it_has_left_counts_for_the_rest_of_the_lease_before() {
    for (waited_ms, counts) in [(900, true), (1_000, false)] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        beside(&mut scene);
        ask_for(&mut scene, BY_DAY, None);
        let (node, stream, _) = of_table(&mut scene, BY_DAY);
        gone(&mut scene);
        scene.bench.now += Duration::from_millis(waited_ms / 2);
        scene.read();
        scene.bench.now += Duration::from_millis(waited_ms / 2);
        scene.read();
        give(&mut scene, node, stream, &own_page(None));
        if !counts {
            scene.is_unanswered();
            let (copy, stream) = asked_one(&mut scene, BY_DAY);
            assert_eq!(copy, 0, "the cheapest");
            give(&mut scene, copy, stream, &page(copy, None, &CELLS));
        }
        gets_the_row(&mut scene);
        scene.is_done();
    }
}

#[test]
fn without_a_lease_neither_is_asked_nor_does_an_answer_count() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    ask_for(&mut scene, BY_DAY, None);
    let (node, stream, _) = of_table(&mut scene, BY_DAY);
    scene.bench.now += Duration::from_secs(1);
    give(&mut scene, node, stream, &own_page(None));
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    ask_for(&mut scene, BY_DAY, None);
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.is_done();
}

#[test]
fn a_copy_that_leaves_while_it_is_read_leaves_its_read_to_the_table() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    ask_for(&mut scene, BY_DAY, None);
    let (copy, stream) = asked_one(&mut scene, BY_DAY);
    beside(&mut scene);
    let out = (0..COPIES).try_fold(scene.list, |list, copy| list.evict(copy));
    scene.list = out.expect("the table is in sync");
    scene.read();
    give(&mut scene, copy, stream, &page(copy, None, &CELLS));
    scene.is_unanswered();
    let (node, stream, _) = of_table(&mut scene, BY_DAY);
    give(&mut scene, node, stream, &own_page(None));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn copies_are_asked_where_the_table_fails_and_its_own_error_is_told_where_none_is_left() {
    for has_copies in [true, false] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        match has_copies {
            true => beside(&mut scene),
            false => alone(&mut scene),
        }
        ask_for(&mut scene, BY_DAY, None);
        let mut failed = 0;
        for _ in 0..COPIES {
            let nodes = 0..scene.bench.nodes();
            let nodes: Vec<_> = nodes.map(|node| (node, scene.bench.at(node))).collect();
            for (node, asked) in nodes {
                for (_, stream, body) in asked {
                    let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
                    if view.text != BY_DAY {
                        assert!(has_copies && failed > 0);
                        give(&mut scene, node, stream, &page(node, None, &CELLS));
                        continue;
                    }
                    failed += 1;
                    scene.error(node, stream, code::SERVER, "broken");
                }
            }
        }
        match has_copies {
            true => gets_the_row(&mut scene),
            false => assert_eq!(scene.bench.error().0, code::SERVER),
        }
        scene.is_done();
    }
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    ask_for(&mut scene, BY_DAY, None);
    let (node, stream, _) = of_table(&mut scene, BY_DAY);
    scene.error(node, stream, code::INVALID, "no such column");
    let (error, why) = scene.bench.error();
    assert_eq!((error, &*why), (code::INVALID, "no such column"));
    scene.is_done();
}

#[test]
fn a_page_of_the_table_goes_on_in_a_copy_with_its_order_and_back() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    ask_for(&mut scene, BY_DAY, None);
    let (node, stream, state) = of_table(&mut scene, BY_DAY);
    assert_eq!(state, None);
    give(&mut scene, node, stream, &own_page(Some(b"\x04one")));
    let own = own_page(Some(b"\x04one"));
    assert_eq!(scene.bench.answer(), (Opcode::Result, own));
    // It goes on there, and is the node's own.
    ask_for(&mut scene, BY_DAY, Some(b"\x04one"));
    let (node, stream, state) = of_table(&mut scene, BY_DAY);
    assert_eq!(state.as_deref(), Some(&b"\x04one"[..]));
    give(&mut scene, node, stream, &own_page(None));
    gets_the_row(&mut scene);
    gone(&mut scene);
    ask_for(&mut scene, BY_DAY, Some(b"\x04one"));
    let (copy, _, stream, body) = asked(&mut scene);
    let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
    assert_eq!(view.options.paging_state, Some(&b"\x04one"[..]));
    assert_eq!(copy, 0, "it has the table's order");
    give(
        &mut scene,
        copy,
        stream,
        &page(copy, Some(b"\x04two"), &CELLS),
    );
    let (_, body) = scene.bench.answer();
    let rows = helenus_wire::RowsView::parse(&body).expect("rows");
    let wrapped = rows.paging_state.expect("a state").to_vec();
    assert_eq!(
        unwrap(&wrapped),
        Some((identity(&table(), 0), &b"\x04two"[..]))
    );
    beside(&mut scene);
    ask_for(&mut scene, BY_DAY, Some(&wrapped));
    let (node, stream, state) = of_table(&mut scene, BY_DAY);
    assert_eq!(state.as_deref(), Some(&b"\x04two"[..]));
    give(&mut scene, node, stream, &own_page(None));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn a_page_that_nothing_in_sync_can_go_on_with_begins_anew() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    // Of a copy in another order, which goes on as long as it is in sync.
    let of_copy = wrap(identity(&table(), 1), b"\x04one");
    ask_for(&mut scene, BY_STATUS, Some(&of_copy));
    let (copy, stream) = asked_one(&mut scene, BY_STATUS);
    assert_eq!(copy, 1);
    give(&mut scene, copy, stream, &page(copy, None, &CELLS));
    gets_the_row(&mut scene);
    let out = (0..COPIES).try_fold(scene.list, |list, copy| list.evict(copy));
    scene.list = out.expect("the table is in sync");
    scene.read();
    ask_for(&mut scene, BY_STATUS, Some(&of_copy));
    let invalid = (
        code::PROTOCOL,
        "Invalid value for the paging state".to_owned(),
    );
    assert_eq!(scene.bench.error(), invalid);
    // Of the table, and no copy gives this.
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    scene.list = scene.list.evict(0).expect("others are in sync");
    gone(&mut scene);
    ask_for(&mut scene, BY_DAY, Some(b"\x04one"));
    assert_eq!(scene.bench.error(), invalid);
    scene.is_done();
}

#[test]
fn an_answer_of_the_table_counts_when_the_catalogue_forgets_its_copies() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    ask_for(&mut scene, BY_DAY, None);
    let (node, stream, _) = of_table(&mut scene, BY_DAY);
    scene.bench.adopt_none();
    scene.publish();
    give(&mut scene, node, stream, &own_page(None));
    gets_the_row(&mut scene);
    scene.is_done();
}
