//! Reads of copies in sync whose first copy does not answer, or whose answer does not count.

use super::read::{
    BY_DAY, BY_STATUS, CELLS, asked, asked_one, gets_the_row, give, page, read, reads_one,
};
use super::*;
use crate::testing::{bytes_of, dial_all, error, take_sent};

/// Of the two copies that are the cheapest by status, one is asked; it, and its stream.
fn asked_first(scene: &mut Scene) -> (usize, i16) {
    let (node, stream) = reads_one(scene, BY_STATUS);
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
    let (node, stream) = reads_one(&mut scene, BY_DAY);
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
    let (node, stream) = reads_one(&mut scene, BY_DAY);
    assert_eq!(node, 0);
    give(&mut scene, 0, stream, &page(0, None, &CELLS));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn another_copy_is_asked_for_one_whose_node_fails() {
    for code in [
        code::SERVER,
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

/// The node says that it has too much to do.
fn is_overloaded(scene: &mut Scene, node: usize, stream: i16) {
    let why = format!("too much for app__{node}.orders");
    scene.error(node, stream, code::OVERLOADED, &why);
}

#[test]
fn one_more_copy_is_asked_if_a_node_has_too_much_to_do() {
    // All but the first one take the cheapest copy again and again.
    for policy in ["earliest-finish", "first", "c3"] {
        let mut config = Config::default();
        config.assignment.policy = policy.to_owned();
        let mut scene = Scene::with(config, (Version::V4, Version::V4));
        let (first, stream) = asked_first(&mut scene);
        is_overloaded(&mut scene, first, stream);
        the_other_answers(&mut scene, first);
    }
}

#[test]
fn nodes_that_have_too_much_to_do_are_not_asked_one_after_the_other() {
    for second in [code::OVERLOADED, code::SERVER] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        let (first, stream) = asked_first(&mut scene);
        is_overloaded(&mut scene, first, stream);
        let (other, stream) = asked_one(&mut scene, BY_STATUS);
        scene.error(other, stream, second, "too much for app__1.orders");
        let (code, why) = scene.bench.error();
        assert_eq!((code, &*why), (second, "too much for app.orders"));
        scene.is_done();
    }
}

#[test]
fn nor_is_one_at_whose_node_others_wait() {
    let mut config = Config::default();
    config.links.node_in_flight_max = 1;
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    let (first, stream) = asked_first(&mut scene);
    // One of these waits everywhere.
    scene.insert();
    scene.insert();
    is_overloaded(&mut scene, first, stream);
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
}

#[test]
fn a_read_that_the_proxy_itself_has_no_room_for_is_not_queued_for_another_node() {
    let mut config = Config::default();
    config.links.node_in_flight_max = 1;
    config.limits.node_queue_max = 0;
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    let mut asked = Vec::new();
    for _ in 0..2 {
        asked.push(asked_first(&mut scene));
    }
    // The third copy's node has nothing to do, and the copy reads more than these two together.
    read(&mut scene, BY_STATUS);
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::OVERLOADED, "{why}");
    scene.nothing_sent();
    for (node, stream) in asked {
        give(&mut scene, node, stream, &page(node, None, &CELLS));
        gets_the_row(&mut scene);
    }
    scene.is_done();
}

/// This alone answers it: the copy in the table's own order, which is the first.
const COUNTED: &str = "SELECT count(*) FROM app.orders WHERE customer = ? AND day > ? GROUP BY day";

#[test]
fn the_id_of_a_copys_statement_is_never_told() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, COUNTED);
    let (_, stream, _) = scene.one_at(0);
    scene.list = scene.list.evict(0).expect("others are in sync");
    scene.read();
    let mut id = Vec::new();
    write::short_bytes(&mut id, b"of the proxy's own");
    scene.bench.say_unprepared(0, stream, &id);
    scene.carry_out();
    let (code, why, numbers) = scene.counted();
    assert_eq!((code, numbers), (code::UNAVAILABLE, (6, 1, 0)), "{why}");
    assert!(why.contains("no answer that counts"), "{why}");
    scene.is_done();
}

#[test]
fn the_only_copy_is_asked_once_more_if_it_was_out_in_between() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, COUNTED);
    for is_last in [false, true] {
        let (_, stream, _) = scene.one_at(0);
        let since = scene.list.version() + 2;
        let back = scene.list.evict(0).and_then(|list| list.join(0, 1));
        let back = back.and_then(|list| list.promote(0, since));
        scene.list = back.expect("it comes back");
        scene.read();
        give(&mut scene, 0, stream, &page(0, None, &CELLS));
        if !is_last {
            scene.is_unanswered();
        }
    }
    let (code, why, _) = scene.counted();
    assert!(
        code == code::UNAVAILABLE && why.contains("each time that it was read"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn what_another_copy_has_failed_with_is_told_rather_than_that_the_lists_have_changed() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    scene.error(first, stream, code::SERVER, "something");
    for _ in 0..2 * (COPIES - 1) {
        let (node, _, stream, _) = asked(&mut scene);
        let since = scene.list.version() + 2;
        let back = scene.list.evict(node).and_then(|list| list.join(node, 1));
        let back = back.and_then(|list| list.promote(node, since));
        scene.list = back.expect("it comes back");
        scene.read();
        give(&mut scene, node, stream, &page(node, None, &CELLS));
    }
    assert_eq!(scene.bench.error(), (code::SERVER, "something".to_owned()));
    scene.is_done();
}

#[test]
fn the_only_copy_is_asked_once_more_if_the_list_has_heard_of_its_restart_first() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    read(&mut scene, COUNTED);
    let (_, stream, _) = scene.one_at(0);
    let back = scene.list.evict(0).and_then(|list| list.join(0, 2));
    let back = back.and_then(|list| list.promote(0, 3));
    scene.list = back.expect("it comes back");
    scene.read();
    give(&mut scene, 0, stream, &page(0, None, &CELLS));
    scene.is_unanswered();
    scene.one_at(0);
    assert!(scene.evicted().is_empty());
}

#[test]
fn that_a_copy_has_become_readable_meanwhile_makes_no_difference() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (first, stream) = asked_first(&mut scene);
    let mut others = table();
    others.copies[first].readable = false;
    scene.adopt(others);
    give(&mut scene, first, stream, &page(first, None, &CELLS));
    gets_the_row(&mut scene);
    scene.is_done();
}

#[test]
fn why_a_node_is_not_believed_is_told() {
    for (boot, expected) in [(2, "was restarted"), (0, "gossip_generation")] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        scene.bench.restart_first(boot);
        scene.read();
        read(&mut scene, COUNTED);
        let (_, stream, _) = scene.one_at(0);
        give(&mut scene, 0, stream, &page(0, None, &CELLS));
        let (code, why, numbers) = scene.counted();
        assert_eq!((code, numbers), (code::UNAVAILABLE, (6, 1, 0)), "{why}");
        assert!(
            why.contains("10.0.0.0:9042") && why.contains(expected),
            "{why}"
        );
        scene.is_done();
    }
}

#[test]
fn a_holder_that_cannot_tell_its_start_is_connected_to_again() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.break_link();
    scene.bench.wait(Duration::from_secs(1));
    let (now, engine) = (scene.bench.now, &mut scene.bench.engine);
    let (_, link) = dial_all(engine, now)[0];
    take_sent(engine, link);
    let mut say = |stream, opcode, body: &[u8]| {
        let bytes = bytes_of((Version::V4, false), stream, opcode, body);
        engine.on_link_bytes(now, link, &bytes);
    };
    say(1, Opcode::Ready, &[]);
    say(2, Opcode::Error, &error(code::OVERLOADED, "not now"));
    assert!(
        !scene.bench.engine.is_link_open(link),
        "what it answers would not count"
    );
    assert_eq!(scene.bench.engine.contradictions(), Vec::<String>::new());
}

#[test]
fn what_a_copy_has_answered_counts_until_it_is_judged() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let memory = scene.bench.engine.cx.memory.clone();
    let (first, stream) = asked_first(&mut scene);
    let before = memory.held();
    let large = page(first, None, &[&[1; 10_000], &[2; 8]]);
    scene.bench.say_as(first, Opcode::Result, stream, &large);
    assert!(memory.held() >= before + 9_000, "{}", memory.held());
    scene.carry_out();
    assert_eq!(scene.bench.answer().0, Opcode::Result);
    scene.is_done();
}

#[test]
fn what_a_node_says_of_the_clients_own_statement_is_the_clients() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let (node, stream) = reads_one(&mut scene, BY_DAY);
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
    let (node, _) = reads_one(&mut scene, BY_DAY);
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
    let (node, _) = reads_one(&mut scene, BY_DAY);
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
    let (node, stream) = asked_one(&mut scene, &format!("{BY_DAY} ALLOW FILTERING"));
    assert!(node > 0, "no other connection was made");
    give(&mut scene, node, stream, &page(node, None, &CELLS));
    gets_the_row(&mut scene);
    scene.wait(100);
    let link = scene.dialed.pop().expect("a connection is wanted");
    scene.bench.connect_first(1, link);
    let (node, stream) = reads_one(&mut scene, BY_DAY);
    assert_eq!(node, 0);
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
