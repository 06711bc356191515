//! What the table itself is sent again: what its nodes have forgotten, and what it may have been emptied of.

use helenus_layout::insync::TABLE as ITSELF;
use helenus_wire::{BatchView, ExecuteView, QueryView};

use super::batches::{DELETE, LOGGED, Sent, batch};
use super::listed::{MARKERS, Own, alone, beside, sent, sent_to_table};
use super::*;

/// A row of the table in the keyspace in force.
const UNNAMED: &str = "INSERT INTO orders (customer, day, status, total) VALUES (?, ?, ?, ?)";

/// What the table has been sent beside what is prepared for its copies.
fn executed(scene: &mut Scene) -> Own {
    let (mut own, _) = sent(scene);
    assert_eq!(own.len(), 1);
    own.remove(0)
}

fn execute(scene: &mut Scene, id: &[u8]) {
    let asking = Asking {
        values: &VALUES,
        ..Asking::default()
    };
    let body = asking.execute(scene.bench.versions.0, id);
    scene.bench.ask(Opcode::Execute, 2, &body);
    scene.carry_out();
}

fn is_unprepared(scene: &mut Scene, own: &Own, id: &[u8]) {
    let mut fields = Vec::new();
    write::short_bytes(&mut fields, id);
    scene.bench.say_unprepared(own.node, own.stream, &fields);
    scene.carry_out();
}

#[test]
fn what_its_nodes_have_forgotten_is_written_where_it_was_prepared() {
    for (own_text, in_text) in [(UNNAMED, Some("app")), (INSERT, None)] {
        let mut scene = Scene::new(Version::V5, Version::V5);
        scene.bench.be_in("app");
        scene.bench.prepare_of_any(own_text, b"own", &MARKERS);
        alone(&mut scene);
        // That keyspace may have such a table, too.
        scene.bench.be_in("other");
        execute(&mut scene, b"own");
        let own = executed(&mut scene);
        let view = ExecuteView::parse(&own.body, Version::V5).expect("an EXECUTE");
        assert_eq!(view.id, b"own");
        is_unprepared(&mut scene, &own, b"strange");
        scene.wait_and_read(200);
        let own = executed(&mut scene);
        let view = QueryView::parse(&own.body, Version::V5).expect("a QUERY");
        assert_eq!((view.text, view.options.keyspace), (own_text, in_text));
        scene.void(own.node, own.stream);
        scene.is_acknowledged();
    }
}

#[test]
fn a_batch_whose_statement_nobody_knows_any_more_is_prepared_again_for_it() {
    let mut config = Config::default();
    config.limits.prepared_bytes_max = 1 << 14;
    let mut scene = Scene::with(config, (Version::V4, Version::V5));
    alone(&mut scene);
    scene.bench.prepare_of_any(INSERT, b"own", &MARKERS);
    let children: [Sent<'_>; 1] = [(Err(b"own"), &VALUES)];
    scene.bench.ask(
        Opcode::Batch,
        2,
        &batch(Version::V4, LOGGED, &children, None),
    );
    scene.carry_out();
    let own = executed(&mut scene);
    assert_eq!(own.opcode, Opcode::Batch);
    // Others take its place.
    for day in 0..20 {
        let other = format!("UPDATE app.orders SET total = ? WHERE customer = ? AND day = {day}");
        let id = format!("other {day}");
        let markers = [MARKERS[3], MARKERS[0]];
        scene.bench.prepare_of_any(&other, id.as_bytes(), &markers);
    }
    let engine = &mut scene.bench.engine;
    let known = engine.statements.prepared(&engine.cx.shared, b"own");
    assert!(known.is_none(), "it was forgotten");
    is_unprepared(&mut scene, &own, b"own");
    let again = executed(&mut scene);
    assert_eq!((again.node, again.opcode), (own.node, Opcode::Prepare));
    let answer = scene
        .bench
        .prepared_of(b"own", ("app", TABLE), &MARKERS, &[]);
    scene
        .bench
        .say_as(again.node, Opcode::Result, again.stream, &answer);
    scene.carry_out();
    let again = executed(&mut scene);
    assert_eq!((again.node, again.opcode), (own.node, Opcode::Batch));
    scene.void(again.node, again.stream);
    scene.is_acknowledged();
}

#[test]
fn what_it_was_sent_before_it_was_emptied_does_not_count_however_late_it_answers() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    scene.insert();
    let (before, copies) = sent(&mut scene);
    for (node, stream) in copies {
        scene.void(node, stream);
    }
    scene.is_unanswered();
    // It is emptied while it is out, which nobody here sees. Then no lease is held, so nothing is sent.
    scene.wait(900);
    let out = scene.list.evict(ITSELF);
    let back = out.and_then(|list| list.join(ITSELF, 0));
    let back = back.expect("it is back");
    let promoted = back.promote(ITSELF, back.since(ITSELF));
    scene.list = promoted.expect("it has joined");
    scene.wait(200);
    let now_us = scene.bench.common.copies.us(scene.bench.now);
    scene.copies.adopt(scene.list, now_us, now_us);
    scene.publish();
    scene.void(before[0].node, before[0].stream);
    scene.read();
    scene.is_unanswered();
    let (own, _) = sent(&mut scene);
    assert_eq!(own.len(), 1, "it is sent again");
    scene.void(own[0].node, own[0].stream);
    for (node, stream) in sent(&mut scene).1 {
        scene.void(node, stream);
    }
    scene.is_acknowledged();
}

#[test]
fn what_it_has_acknowledged_by_lists_that_are_gone_does_not_count_when_it_has_no_copies_any_more() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    scene.insert();
    let (own, _) = sent(&mut scene);
    scene.void(own[0].node, own[0].stream);
    scene.bench.adopt_none();
    scene.publish();
    scene.is_unanswered();
    scene.wait(200);
    let own = sent_to_table(&mut scene);
    scene.void(own.node, own.stream);
    scene.is_acknowledged();
}

#[test]
fn a_batch_that_names_its_keyspaces_needs_no_connection_with_one() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    scene.bench.be_in("app");
    for (text, is_named) in [
        (DELETE, true),
        ("DELETE FROM orders WHERE customer = 1", false),
    ] {
        let children: [Sent<'_>; 1] = [(Ok(text), &[])];
        let body = batch(Version::V4, LOGGED, &children, None);
        assert!(BatchView::parse(&body, Version::V4).is_ok());
        scene.bench.ask(Opcode::Batch, 2, &body);
        scene.carry_out();
        assert_eq!(scene.dialed.is_empty(), is_named, "{text}");
        if is_named {
            let own = sent_to_table(&mut scene);
            scene.void(own.node, own.stream);
            scene.is_acknowledged();
        }
    }
}
