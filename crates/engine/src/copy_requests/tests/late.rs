use super::*;

/// Asks the engine to tick after so many milliseconds, and not before.
fn tick_after(scene: &mut Scene, ms: u64) {
    scene.bench.now += Duration::from_millis(ms);
    let now = scene.bench.now;
    scene.bench.engine.on_deadline(now, Duration::ZERO);
    scene.carry_out();
}

#[test]
fn a_copy_is_late_when_two_ticks_find_so() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    let (_, stream, _) = scene.one_at(2);
    scene.wait(300);
    assert!(scene.evicted().is_empty(), "its answer may have come since");
    scene.void(2, stream);
    scene.is_acknowledged();
    scene.wait(200);
    scene.insert_but_one();
    scene.wait(400);
    assert_eq!(scene.evicted(), [2]);
}

#[test]
fn slow_turns_do_not_excuse_a_silent_copy() {
    // Each of these looks counts as 150 ms. A worker that is very late leaves the first one out.
    for (apart, looks) in [(160, 3), (390, 3), (600, 4)] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        scene.wait(100);
        scene.insert_but_one();
        for look in 1..=looks {
            assert!(scene.evicted().is_empty(), "{apart} ms, {look}");
            tick_after(&mut scene, apart);
            scene.read();
        }
        assert_eq!(scene.evicted(), [2], "{apart} ms");
    }
}

#[test]
fn a_worker_that_was_late_once_reads_answers_first() {
    for stall in [210, 390, 600] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        scene.insert_but_one();
        let (_, stream, _) = scene.one_at(2);
        // It is found late once, and then nothing is read for a while.
        scene.wait(300);
        tick_after(&mut scene, stall);
        scene.read();
        assert!(scene.evicted().is_empty(), "{stall} ms");
        scene.void(2, stream);
        scene.is_acknowledged();
        scene.wait(200);
        assert!(scene.evicted().is_empty(), "{stall} ms");
        scene.is_done();
    }
}

#[test]
fn a_worker_that_is_late_again_and_again_evicts_a_silent_copy() {
    for apart in [[100, 210], [100, 390]] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        scene.insert_but_one();
        let mut passed = 0;
        for ms in apart.iter().cycle().take(12) {
            tick_after(&mut scene, *ms);
            scene.read();
            passed += ms;
            if passed < 300 {
                assert!(scene.evicted().is_empty(), "{apart:?}: {passed} ms");
            }
        }
        assert!(scene.evicted().contains(&2), "{apart:?}");
    }
}

#[test]
fn time_in_the_queue_of_a_node_does_not_count_against_its_copy() {
    let mut config = Config::default();
    config.links.node_in_flight_max = 1;
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    scene.insert_but_one();
    let (_, first, _) = scene.one_at(2);
    scene.insert_but_one();
    assert_eq!(scene.bench.at(2), [], "the second one waits");
    scene.wait(200);
    scene.void(2, first);
    scene.is_acknowledged();
    let (_, second, _) = scene.one_at(2);
    scene.wait(300);
    assert!(
        scene.evicted().is_empty(),
        "after 500 ms, and 300 ms at its node"
    );
    scene.void(2, second);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn what_the_proxy_refuses_itself_is_tried_soon_again_and_nobody_is_evicted() {
    let mut config = Config::default();
    config.links.node_in_flight_max = 1;
    config.limits.node_queue_max = 0;
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    scene.insert_but_one();
    let (_, first, _) = scene.one_at(2);
    scene.insert_but_one();
    // The first is silent for as long as a copy may be.
    scene.wait(200);
    scene.void(2, first);
    scene.is_acknowledged();
    scene.wait(100);
    let (_, second, _) = scene.one_at(2);
    scene.wait(300);
    assert!(scene.evicted().is_empty());
    scene.void(2, second);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn a_copy_to_whose_node_a_connection_is_being_made_is_waited_for() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.break_link();
    scene.wait(100);
    scene.insert();
    scene.answered_by([1, 2]);
    scene.wait_and_read(1_000);
    assert!(scene.evicted().is_empty());
    scene.is_unanswered();
    let link = scene.dialed.pop().expect("a connection is wanted");
    scene.bench.connect_first(1, link);
    scene.wait(100);
    let (_, stream, _) = scene.one_at(0);
    scene.void(0, stream);
    scene.is_acknowledged();
}

#[test]
fn a_copy_whose_node_is_away_is_not_written_and_is_evicted_in_time() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.refuses = true;
    scene.bench.break_link();
    scene.wait(100);
    for evicted in [&[][..], &[0]] {
        scene.insert();
        let (code, why) = scene.bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("10.0.0.0:9042"),
            "{code}: {why}"
        );
        scene.nothing_sent();
        assert_eq!(scene.evicted(), evicted);
        scene.wait_and_read(600);
    }
    assert_eq!(scene.intents, 0);
    scene.list = scene.list.evict(0).expect("others are in sync");
    scene.read();
    // No other node is asked in its place.
    scene.insert();
    scene.answered_by([1, 2]);
    scene.is_unanswered();
    scene.wait_and_read(1_000);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn a_copy_whose_node_goes_away_meanwhile_is_evicted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.refuses = true;
    scene.insert();
    scene.answered_by([1, 2]);
    scene.bench.break_link();
    scene.carry_out();
    scene.wait(300);
    assert!(scene.evicted().is_empty());
    scene.wait(300);
    assert_eq!(scene.evicted(), [0]);
}

#[test]
fn a_copy_that_has_just_been_taken_back_has_its_time_though_its_node_was_away_for_long() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.refuses = true;
    scene.bench.break_link();
    scene.wait_and_read(5_000);
    let back = scene.list.evict(0).and_then(|list| list.join(0, 1));
    scene.list = back.expect("others are in sync");
    scene.read();
    for evicted in [&[][..], &[0]] {
        scene.insert();
        assert_eq!(scene.bench.error().0, code::OVERLOADED);
        assert_eq!(scene.evicted(), evicted);
        scene.wait_and_read(400);
    }
}

#[test]
fn so_has_it_for_a_write_that_is_under_way() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.list = scene.list.evict(0).expect("others are in sync");
    scene.wait_and_read(1_200);
    scene.refuses = true;
    scene.bench.break_link();
    scene.wait_and_read(5_000);
    scene.insert();
    let (_, stream, _) = scene.one_at(1);
    scene.void(1, stream);
    scene.one_at(2);
    scene.list = scene.list.join(0, 1).expect("it is out");
    scene.read();
    scene.wait(200);
    scene.read();
    assert!(!scene.evicted().contains(&0), "{:?}", scene.evictions);
    scene.wait_and_read(400);
    assert!(scene.evicted().contains(&0), "{:?}", scene.evictions);
}

#[test]
fn a_copy_whose_node_cannot_be_connected_to_for_lack_of_means_is_not_evicted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    (scene.refuses, scene.lacks_means) = (true, true);
    scene.insert();
    scene.answered_by([1, 2]);
    scene.bench.break_link();
    scene.wait_and_read(1_200);
    scene.insert();
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    assert!(scene.evicted().is_empty(), "{:?}", scene.evictions);
    // Now it is the node.
    scene.lacks_means = false;
    scene.wait_and_read(2_000);
    assert!(scene.evicted().contains(&0));
}

#[test]
fn a_node_that_is_away_is_tried_again_because_of_a_write() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.refuses = true;
    scene.bench.break_link();
    // The pauses before it is tried again are long by now.
    scene.wait_and_read(20_000);
    scene.refuses = false;
    assert!(scene.dialed.is_empty());
    scene.insert();
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    let link = scene.dialed.pop().expect("a connection is wanted");
    scene.bench.connect_first(1, link);
    scene.insert();
    scene.answered_by(0..COPIES);
    scene.is_acknowledged();
}

#[test]
fn a_connection_that_has_just_broken_is_waited_for() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.break_link();
    // No other one is being made yet.
    scene.insert();
    scene.answered_by([1, 2]);
    scene.is_unanswered();
    scene.wait(100);
    let link = scene.dialed.pop().expect("a connection is wanted");
    scene.bench.connect_first(1, link);
    scene.wait(100);
    let (_, stream, _) = scene.one_at(0);
    scene.void(0, stream);
    scene.is_acknowledged();
}

/// Only the first copy is in sync, and it alone is required.
fn with_the_last() -> Scene {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.evict_others();
    scene.wait_and_read(1_200);
    scene
}

const DELETE: &str = "DELETE FROM app.orders WHERE customer = 1";

#[test]
fn what_the_last_copy_acknowledges_in_vain_is_sent_again_after_ever_longer_pauses() {
    let mut scene = with_the_last();
    scene.ask_text(DELETE, Consistency::ONE);
    scene.one_at(0);
    scene.bench.restart_first(2);
    scene.read();
    let mut sent = 0;
    for _ in 0..60 {
        for (_, stream, _) in scene.bench.at(0) {
            sent += 1;
            scene.void(0, stream);
        }
        scene.wait(100);
        scene.read();
    }
    assert!((4..=9).contains(&sent), "{sent}");
    assert!(scene.evicted().is_empty(), "it is the last");
    assert_eq!(scene.counted().0, code::WRITE_TIMEOUT);
}

#[test]
fn nothing_is_written_to_the_last_copy_once_its_node_was_restarted() {
    let mut scene = with_the_last();
    scene.bench.restart_first(2);
    scene.carry_out();
    for _ in 0..2 {
        scene.read();
        scene.ask_text(DELETE, Consistency::ONE);
        let (code, why) = scene.bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("10.0.0.0:9042") && why.contains("restarted"),
            "{why}"
        );
        scene.is_done();
    }
    assert_eq!((scene.intents, scene.evicted()), (0, Vec::new()));
    // Others are in sync again: it is evicted.
    let others = scene.list.join(1, 1).and_then(|list| list.promote(1, 4));
    scene.list = others.expect("it was out");
    scene.read();
    scene.ask_text(DELETE, Consistency::ONE);
    assert!(scene.evicted().contains(&0), "{:?}", scene.evictions);
}

/// A connection more to a node fails, as that of a login may.
fn one_more_fails(scene: &mut Scene, node: u16) {
    let engine = &mut scene.bench.engine;
    engine
        .links
        .back_off(&mut engine.cx, NodeIndex(node), "timed out");
}

#[test]
fn a_node_that_answers_is_not_lost_because_one_more_connection_to_it_has_failed() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.refuses = true;
    one_more_fails(&mut scene, 0);
    for _ in 0..50 {
        // At each tick an answer is still awaited.
        scene.insert();
        let sent = scene.one_each();
        scene.wait(100);
        for (node, (_, stream, _)) in sent.into_iter().enumerate() {
            scene.void(node, stream);
        }
        scene.is_acknowledged();
        scene.wait_and_read(200);
    }
    assert!(scene.evicted().is_empty(), "{:?}", scene.evictions);
    // From when its last connection breaks it has as much time as others.
    scene.bench.break_link();
    for evicted in [&[][..], &[0]] {
        scene.insert();
        let (code, why) = scene.bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("left out if it stays away"),
            "{why}"
        );
        assert_eq!(scene.evicted(), evicted);
        scene.wait_and_read(1_000);
    }
}

#[test]
fn a_node_that_could_not_be_tried_since_it_was_lost_is_not_evicted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.break_link();
    scene.wait(100);
    // Once it is the node itself.
    let refused = scene.dialed.pop().expect("a connection is wanted");
    (scene.refuses, scene.lacks_means) = (true, true);
    let why = NotDialed::Lost("connection refused".to_owned());
    let now = scene.bench.now;
    scene.bench.engine.on_dialed(now, refused, Err(why));
    scene.wait(200);
    scene.read();
    for _ in 0..5 {
        scene.insert();
        let (code, why) = scene.bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("file descriptors"),
            "{why}"
        );
        scene.wait_and_read(400);
    }
    assert!(scene.evicted().is_empty(), "{:?}", scene.evictions);
}
