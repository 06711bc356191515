use super::*;
use crate::tick::TICK;

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
fn a_worker_that_has_stood_still_evicts_nobody() {
    // Longer than half of a copy's time.
    for still in [160, 390, 600] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        scene.insert_but_one();
        for _ in 0..5 {
            tick_after(&mut scene, still);
            scene.read();
        }
        assert!(scene.evicted().is_empty(), "{still} ms");
        for _ in 0..3 {
            scene.wait(100);
        }
        assert!(scene.evicted().is_empty(), "{still} ms");
        scene.read();
        scene.wait(300);
        assert_eq!(scene.evicted(), [2], "{still} ms");
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
    for node in [1, 2] {
        let (_, stream, _) = scene.one_at(node);
        scene.void(node, stream);
    }
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
    for node in [1, 2] {
        let (_, stream, _) = scene.one_at(node);
        scene.void(node, stream);
    }
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
    for node in [1, 2] {
        let (_, stream, _) = scene.one_at(node);
        scene.void(node, stream);
    }
    scene.bench.break_link();
    scene.carry_out();
    scene.wait(300);
    assert!(scene.evicted().is_empty());
    scene.wait(300);
    assert_eq!(scene.evicted(), [0]);
    assert!(TICK <= Duration::from_micros(TIMING.patience_us / 2));
}
