//! Answers of copies in sync that come after something else has happened.

use std::sync::atomic::Ordering;

use super::read::{
    BY_DAY, BY_STATUS, CELLS, asked_one, continue_at, gets_the_row, give, page, read, reads_one,
    state_of,
};
use super::*;

#[test]
fn an_answer_after_the_lease_on_the_catalogue_is_none() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (node, stream) = reads_one(&mut scene, BY_DAY);
    scene.bench.now += Duration::from_secs(11);
    // The lists were read meanwhile, and the catalogue was not.
    let now_us = scene.bench.common.copies.us(scene.bench.now);
    scene.copies.adopt(scene.list, now_us, now_us);
    let proxies = Proxies::new(Members::of(ME), [0; PROXIES_MAX]);
    scene.proxies.adopt(proxies, now_us, now_us);
    scene.publish();
    give(&mut scene, node, stream, &page(node, None, &CELLS));
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.is_done();
}

#[test]
fn what_comes_in_one_turn_is_judged_together() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    let (_, written, _) = scene.one_at(2);
    let mut asked = Vec::new();
    for _ in 0..2 {
        read(&mut scene, BY_STATUS);
        asked.push(asked_one(&mut scene, BY_STATUS));
    }
    for (node, stream) in asked {
        let rows = page(node, None, &CELLS);
        scene.bench.say_as(node, Opcode::Result, stream, &rows);
    }
    scene.bench.say_as(2, Opcode::Result, written, &VOID);
    scene.is_unanswered();
    scene.carry_out();
    let answers = scene.bench.answers();
    let acknowledged = answers.iter().filter(|(_, _, body)| *body == VOID);
    assert_eq!((answers.len(), acknowledged.count()), (3, 1));
    scene.is_done();
}

#[test]
fn a_read_ends_when_its_table_has_no_copies_any_more() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (node, stream) = reads_one(&mut scene, BY_DAY);
    scene.bench.adopt_none();
    give(&mut scene, node, stream, &page(node, None, &CELLS));
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("have changed"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn an_answer_whose_client_has_left_is_nobodys_and_was_not_cancelled() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (node, stream) = reads_one(&mut scene, BY_DAY);
    scene.bench.leave();
    scene.wait(100);
    let stats = &scene.bench.common.stats.global;
    assert_eq!(stats.requests_cancelled.load(Ordering::Relaxed), 0);
    give(&mut scene, node, stream, &page(node, None, &CELLS));
    assert_eq!(scene.bench.engine.residue(), Vec::<String>::new());
    assert_eq!(scene.bench.engine.bytes_held(), 0);
}

#[test]
fn a_page_of_a_copy_that_is_evicted_meanwhile_comes_from_its_sibling() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = reads_one(&mut scene, BY_STATUS);
    let rows = page(first, Some(b"state"), &CELLS);
    give(&mut scene, first, stream, &rows);
    let state = state_of(&mut scene);
    continue_at(&mut scene, &state);
    let (_, stream, second) = scene.one_at(first);
    scene.list = scene.list.evict(first).expect("others are in sync");
    scene.read();
    give(
        &mut scene,
        first,
        stream,
        &page(first, None, &[&[8; 8], &[9; 8]]),
    );
    scene.is_unanswered();
    // From the same place on.
    let (other, stream) = asked_one(&mut scene, BY_STATUS);
    assert_eq!(other, 3 - first);
    let has_state = |body: &[u8]| body.windows(5).any(|of| of == b"state");
    assert!(has_state(&second));
    give(&mut scene, other, stream, &page(other, None, &CELLS));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn a_slow_copy_is_not_left_for_one_that_cannot_be_reached() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.list = scene.list.evict(0).expect("others are in sync");
    scene.read();
    let (first, stream) = reads_one(&mut scene, BY_STATUS);
    scene.refuses = true;
    scene.bench.break_link_to(3 - first);
    scene.wait_and_read(1_400);
    give(&mut scene, first, stream, &page(first, None, &CELLS));
    gets_the_row(&mut scene);
}

#[test]
fn a_write_whose_connection_breaks_is_sent_again_over_the_next_one() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let sent = scene.one_each();
    scene.void(1, sent[1].1);
    scene.void(2, sent[2].1);
    // Nothing is known of it when the next tick looks.
    scene.bench.break_link();
    scene.wait_and_read(200);
    scene.is_unanswered();
    let link = scene.dialed.pop().expect("a connection is wanted");
    scene.bench.connect_first(1, link);
    scene.wait(100);
    let (_, stream, again) = scene.one_at(0);
    assert_eq!(again, sent[0].2);
    scene.void(0, stream);
    scene.is_acknowledged();
    assert!(scene.evicted().is_empty());
    scene.is_done();
}
