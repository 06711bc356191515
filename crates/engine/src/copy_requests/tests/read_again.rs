//! Reads of copies in sync whose first copy does not answer, or whose answer does not count.

use super::read::{BY_DAY, BY_STATUS, CELLS, asked, asked_one, gets_the_row, give, page, read};
use super::*;

/// Of the two copies that are the cheapest by status, one is asked; it, and its stream.
fn asked_first(scene: &mut Scene) -> (usize, i16) {
    read(scene, BY_STATUS);
    let (node, stream) = asked_one(scene, BY_STATUS);
    assert!(node > 0, "the cheapest");
    (node, stream)
}

/// The other of the two answers.
fn the_other_answers(scene: &mut Scene, first: usize) {
    scene.is_unanswered();
    let (other, stream) = asked_one(scene, BY_STATUS);
    assert_eq!(other, 3 - first, "the next cheapest");
    give(scene, other, stream, &page(other, None, &CELLS));
    gets_the_row(scene);
    scene.is_done();
}

#[test]
fn an_answer_of_a_copy_that_was_evicted_meanwhile_does_not_count() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    scene.list = scene.list.evict(first).expect("others are in sync");
    scene.read();
    scene.is_unanswered();
    give(
        &mut scene,
        first,
        stream,
        &page(first, None, &[&[8; 8], &[9; 8]]),
    );
    the_other_answers(&mut scene, first);
}

#[test]
fn nor_does_that_of_one_that_was_out_in_between() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    let out = scene.list.evict(first).and_then(|list| list.join(first, 1));
    scene.list = out
        .and_then(|list| list.promote(first, 3))
        .expect("it comes back");
    scene.read();
    give(
        &mut scene,
        first,
        stream,
        &page(first, None, &[&[8; 8], &[9; 8]]),
    );
    the_other_answers(&mut scene, first);
}

#[test]
fn an_eviction_that_is_known_when_the_answer_is_judged_is_known_in_time() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    scene
        .bench
        .say_as(first, Opcode::Result, stream, &page(first, None, &CELLS));
    scene.is_unanswered();
    // The list changes after the socket was read, and before the clock was.
    scene.list = scene.list.evict(first).expect("others are in sync");
    scene.read();
    the_other_answers(&mut scene, first);
}

#[test]
fn an_answer_after_the_lease_is_none() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    scene
        .bench
        .say_as(first, Opcode::Result, stream, &page(first, None, &CELLS));
    // It came in time by the clock that was read before it, and not by the one read after it.
    scene.bench.now += Duration::from_secs(1);
    scene.carry_out();
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("lists of copies"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn an_answer_after_a_renewed_lease_counts() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    scene.bench.now += Duration::from_millis(1_500);
    scene.read();
    give(&mut scene, first, stream, &page(first, None, &CELLS));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn the_answer_of_a_proxy_that_was_evicted_is_none() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    let others = Proxies::new(Members::first(ME + 1), [0; PROXIES_MAX]);
    scene.read_with(others.evict(ME).expect("others are there"));
    give(&mut scene, first, stream, &page(first, None, &CELLS));
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.is_done();
}

#[test]
fn a_node_that_was_restarted_is_not_believed_and_its_copy_is_to_be_evicted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.restart_first(2);
    scene.read();
    read(&mut scene, BY_DAY);
    let (node, stream) = asked_one(&mut scene, BY_DAY);
    assert_eq!(node, 0);
    give(&mut scene, 0, stream, &page(0, None, &[&[8; 8], &[9; 8]]));
    scene.is_unanswered();
    let evicted: Vec<usize> = scene.evictions.iter().map(|of| of.copy).collect();
    assert_eq!(evicted, [0]);
    // Another copy has to filter.
    let (node, stream) = asked_one(&mut scene, &format!("{BY_DAY} ALLOW FILTERING"));
    give(&mut scene, node, stream, &page(node, None, &CELLS));
    gets_the_row(&mut scene);
    // Once the list knows of the restart, it is read again.
    let back = scene.list.evict(0).and_then(|list| list.join(0, 2));
    scene.list = back
        .and_then(|list| list.promote(0, 3))
        .expect("it comes back");
    scene.read();
    read(&mut scene, BY_DAY);
    let (node, stream) = asked_one(&mut scene, BY_DAY);
    assert_eq!(node, 0);
    give(&mut scene, 0, stream, &page(0, None, &CELLS));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn another_copy_is_asked_for_one_whose_node_fails() {
    for code in [
        code::SERVER,
        code::OVERLOADED,
        code::IS_BOOTSTRAPPING,
        code::READ_FAILURE,
        code::READ_TIMEOUT,
        code::UNAVAILABLE,
        // The text is the proxy's.
        code::INVALID,
    ] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        let (first, stream) = asked_first(&mut scene);
        let mut body = Vec::new();
        let fields: &[u8] = match code {
            code::READ_TIMEOUT => &[0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0],
            code::READ_FAILURE => &[0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0],
            code::UNAVAILABLE => &[0, 1, 0, 0, 0, 1, 0, 0, 0, 0],
            _ => &[],
        };
        let error = helenus_wire::ErrorBody {
            code,
            message: "something",
            fields,
        };
        error.write(&mut body);
        scene.bench.say_as(first, Opcode::Error, stream, &body);
        scene.carry_out();
        the_other_answers(&mut scene, first);
    }
}

#[test]
fn what_a_node_says_of_the_clients_own_statement_is_the_clients() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, BY_DAY);
    let (node, stream) = asked_one(&mut scene, BY_DAY);
    assert_eq!(node, 0);
    let text = "Invalid value for day of app__0.orders in app__0";
    scene.error(0, stream, code::INVALID, text);
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::INVALID);
    assert_eq!(why, "Invalid value for day of app.orders in app");
    scene.is_done();
}

#[test]
fn the_last_error_is_the_clients_at_its_own_level() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, BY_STATUS);
    let mut nodes = Vec::new();
    for _ in 0..COPIES {
        let (node, _, stream, _) = asked(&mut scene);
        nodes.push(node);
        let mut body = Vec::new();
        let error = helenus_wire::ErrorBody {
            code: code::READ_TIMEOUT,
            message: "timed out",
            fields: &[0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        };
        error.write(&mut body);
        scene.bench.say_as(node, Opcode::Error, stream, &body);
        scene.carry_out();
    }
    nodes.sort_unstable();
    assert_eq!(nodes, [0, 1, 2], "each once");
    let (code, why, numbers) = scene.counted();
    assert_eq!((code, numbers), (code::READ_TIMEOUT, (6, 0, 1)), "{why}");
    scene.is_done();
}

#[test]
fn a_silent_copy_is_left_for_another_one() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    scene.wait_and_read(1_400);
    let (other, again) = asked_one(&mut scene, BY_STATUS);
    assert_eq!(other, 3 - first);
    give(&mut scene, other, again, &page(other, None, &CELLS));
    gets_the_row(&mut scene);
    // Its answer comes late, and is nobody's.
    give(
        &mut scene,
        first,
        stream,
        &page(first, None, &[&[8; 8], &[9; 8]]),
    );
    scene.is_unanswered();
    scene.is_done();
}

#[test]
fn the_only_copy_in_sync_is_waited_for_until_time_is_up() {
    let mut config = Config::default();
    config.limits.request_timeout_ms = Some(1_600);
    config.layouts.enabled = true;
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.adopt_config(config);
    scene.evict_others();
    scene.read();
    read(&mut scene, BY_DAY);
    let (node, _) = asked_one(&mut scene, BY_DAY);
    assert_eq!(node, 0);
    scene.wait_and_read(1_400);
    scene.is_unanswered();
    scene.wait_and_read(600);
    let (code, why, numbers) = scene.counted();
    assert_eq!((code, numbers), (code::READ_TIMEOUT, (6, 0, 1)), "{why}");
    scene.nothing_sent();
}

#[test]
fn a_copy_whose_node_has_no_connection_is_asked_last_and_a_broken_one_costs_nothing() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, BY_DAY);
    let (node, _) = asked_one(&mut scene, BY_DAY);
    assert_eq!(node, 0);
    scene.bench.break_link();
    scene.carry_out();
    for _ in 0..2 {
        // The first read goes on elsewhere, the second one goes there at once.
        let (node, stream) = asked_one(&mut scene, &format!("{BY_DAY} ALLOW FILTERING"));
        give(&mut scene, node, stream, &page(node, None, &CELLS));
        gets_the_row(&mut scene);
        read(&mut scene, BY_DAY);
    }
    let (node, _, stream, _) = asked(&mut scene);
    give(&mut scene, node, stream, &page(node, None, &CELLS));
    gets_the_row(&mut scene);
}

#[test]
fn an_answer_about_a_partition_that_has_moved_does_not_count() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    scene.move_to(1, [1, 2, 0]);
    give(&mut scene, first, stream, &page(first, None, &CELLS));
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("have changed"),
        "{why}"
    );
    scene.is_done();
}
