use super::*;

/// Two copies have a write, the third is silent.
fn with_a_silent_copy() -> Scene {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    scene.one_at(2);
    scene
}

fn evict(scene: &mut Scene, copy: usize) {
    scene.list = scene.list.evict(copy).expect("others are in sync");
    scene.read();
}

#[test]
fn a_silent_copy_is_evicted_and_waited_for_until_nobody_can_read_it() {
    let mut scene = with_a_silent_copy();
    scene.wait(200);
    assert!(scene.evictions.is_empty());
    scene.wait(200);
    let owners: Box<[NodeIndex]> = (0..COPIES as u16).map(NodeIndex).collect();
    let eviction = Eviction {
        keyspace: "app".to_owned(),
        table: TABLE.to_owned(),
        owners,
        copy: 2,
        version: 1,
    };
    assert_eq!(scene.evictions, [eviction]);
    scene.wait_and_read(400);
    assert_eq!(scene.evictions.len(), 1, "asked for once a second");
    scene.is_unanswered();
    evict(&mut scene, 2);
    scene.wait_and_read(800);
    scene.is_unanswered();
    scene.wait_and_read(200);
    scene.is_acknowledged();
    assert_eq!(scene.bench.engine.copied.len(), 0);
}

#[test]
fn the_last_in_sync_is_asked_again_and_again_until_time_is_up() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    evict(&mut scene, 0);
    evict(&mut scene, 2);
    scene.wait_and_read(1_000);
    let delete = "DELETE FROM app.orders WHERE customer = 1";
    let mut body = Asking::default().query(Version::V4, delete);
    let level = body.len() - 3;
    body[level..level + 2].copy_from_slice(&1_u16.to_be_bytes());
    scene.bench.ask(Opcode::Query, 2, &body);
    scene.carry_out();
    let (_, stream, _) = scene.one_at(1);
    assert_eq!(scene.bench.at(0), []);
    // Whether it was written is not known.
    scene.error(1, stream, code::SERVER, "something");
    scene.nothing_sent();
    let mut sent = 0;
    for _ in 0..20 {
        scene.wait_and_read(200);
        for (_, stream, _) in scene.bench.at(1) {
            sent += 1;
            scene.error(1, stream, code::SERVER, "something");
        }
    }
    assert!((3..=6).contains(&sent), "{sent}: after ever longer pauses");
    assert_eq!(scene.bench.error(), (code::SERVER, "something".to_owned()));
    assert!(scene.evictions.is_empty(), "it is the last");
    assert_eq!(
        (scene.bench.engine.copied.len(), scene.resyncs.len()),
        (0, 1)
    );
}

#[test]
fn a_lease_that_is_lost_meanwhile_acknowledges_nothing() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let sent = scene.one_each();
    scene.void(0, sent[0].1);
    scene.void(1, sent[1].1);
    // The answer comes by a clock that was read before, and is judged by one that was read after.
    scene.bench.say_as(2, Opcode::Result, sent[2].1, &VOID);
    scene.bench.now += Duration::from_secs(1);
    scene.carry_out();
    scene.is_unanswered();
    scene.wait(300);
    scene.is_unanswered();
    assert!(scene.evictions.is_empty());
    scene.read();
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn nothing_is_sent_by_a_lease_that_has_run_out() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
        match node {
            0 => scene.error(node, stream, code::OVERLOADED, "too much"),
            _ => scene.void(node, stream),
        }
    }
    scene.is_unanswered();
    scene.bench.now += Duration::from_millis(990);
    scene.wait(500);
    scene.nothing_sent();
    scene.read();
    let (_, stream, _) = scene.one_at(0);
    scene.void(0, stream);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn a_write_that_a_node_had_before_it_was_restarted_is_sent_again() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let sent = scene.one_each();
    scene.void(0, sent[0].1);
    scene.void(1, sent[1].1);
    scene.bench.restart_first(2);
    scene.carry_out();
    // The list knows of the restart, and the copy is back, before the last copy answers.
    let back = scene.list.evict(0).and_then(|list| list.join(0, 2));
    let back = back.and_then(|list| list.promote(0, 3));
    scene.list = back.expect("it comes back");
    scene.read();
    let (_, stream, again) = scene.one_at(0);
    assert_eq!(again, sent[0].2);
    scene.void(2, sent[2].1);
    scene.is_unanswered();
    scene.void(0, stream);
    scene.is_acknowledged();
    scene.is_done();
    assert!(!scene.evicted().contains(&0), "{:?}", scene.evictions);
}

#[test]
fn a_node_that_says_yes_after_a_restart_is_evicted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.restart_first(2);
    scene.carry_out();
    scene.read();
    scene.insert();
    for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
        scene.void(node, stream);
    }
    // At once: what it had answered before may be lost.
    assert_eq!(scene.evicted(), [0]);
    scene.is_unanswered();
    scene.nothing_sent();
    evict(&mut scene, 0);
    scene.is_acknowledged();
}

#[test]
fn what_a_node_has_acknowledged_before_it_was_restarted_does_not_count_for_the_level() {
    let mut config = Config::default();
    config.limits.request_timeout_ms = Some(5_000);
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    scene.insert();
    let sent = scene.one_each();
    scene.void(0, sent[0].1);
    scene.void(2, sent[2].1);
    scene.bench.restart_first(2);
    scene.read();
    // Its new connection tells, before it has answered anything.
    assert!(scene.evicted().contains(&0), "{:?}", scene.evictions);
    let list = scene.list.evict(0).and_then(|list| list.evict(1));
    scene.list = list.expect("one stays");
    scene.wait_and_read(1_200);
    // One copy that has it is not enough for QUORUM.
    scene.is_unanswered();
    let (_, stream, again) = scene.bench.at(0).pop().expect("asked once more");
    assert_eq!(again, sent[0].2);
    scene.void(0, stream);
    scene.is_acknowledged();
    assert_eq!(scene.bench.engine.copied.len(), 0);
}

#[test]
fn what_a_client_has_written_before_it_left_is_completed() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let sent = scene.one_each();
    scene.void(0, sent[0].1);
    scene.bench.leave();
    scene.void(1, sent[1].1);
    scene.error(2, sent[2].1, code::WRITE_TIMEOUT, "late");
    scene.nothing_sent();
    scene.wait_and_read(200);
    let (_, stream, again) = scene.one_at(2);
    assert_eq!(again, sent[2].2, "with the same timestamp");
    assert!(!scene.bench.engine.is_drained());
    scene.void(2, stream);
    assert!(scene.bench.engine.is_drained());
    assert_eq!(scene.bench.engine.residue(), Vec::<String>::new());
}

#[test]
fn an_error_of_all_copies_is_the_clients() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
        scene.is_unanswered();
        let text = format!("User app has no MODIFY permission on <table app__{node}.orders>");
        scene.error(node, stream, code::UNAUTHORIZED, &text);
    }
    let (code, why) = scene.bench.error();
    assert!(
        code == code::UNAUTHORIZED && why.contains("<table app.orders>"),
        "{why}"
    );
    scene.is_done();
    let change = scene.member.intents().clear(0, u64::MAX);
    assert!(change.is_some(), "none is pending");
}

#[test]
fn a_copy_that_refuses_what_others_have_is_asked_again_and_then_evicted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let sent = scene.one_each();
    scene.error(2, sent[2].1, code::OVERLOADED, "too much");
    scene.void(0, sent[0].1);
    scene.void(1, sent[1].1);
    scene.is_unanswered();
    scene.nothing_sent();
    for _ in 0..4 {
        scene.wait_and_read(200);
        for (_, stream, _) in scene.bench.at(2) {
            scene.error(2, stream, code::OVERLOADED, "too much");
        }
    }
    assert_eq!(scene.evicted(), [2]);
    scene.wait_and_read(800);
    let (_, stream, _) = scene.bench.at(2).pop().expect("sent again");
    scene.void(2, stream);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn a_client_that_waits_for_too_long_hears_how_many_copies_have_the_write() {
    let mut scene = with_a_silent_copy();
    scene.wait_and_read(1_800);
    scene.is_unanswered();
    scene.wait_and_read(400);
    let (code, why, numbers) = scene.counted();
    assert_eq!((code, numbers), (code::WRITE_TIMEOUT, (6, 1, 2)), "{why}");
    assert!(why.contains("app.orders"), "{why}");
    assert_eq!(scene.bench.engine.copied.len(), 1, "it goes on");
    evict(&mut scene, 2);
    scene.wait_and_read(1_000);
    assert_eq!(scene.bench.engine.copied.len(), 0);
    scene.is_unanswered();
}

#[test]
fn a_write_whose_intent_is_not_recorded_in_time_is_not_made_later() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.takes_intents = false;
    scene.insert();
    scene.wait_and_read(1_800);
    scene.is_unanswered();
    scene.wait_and_read(400);
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("nothing was written"),
        "{why}"
    );
    assert_eq!((scene.intents, scene.evicted()), (1, vec![]));
    scene.is_done();
}

#[test]
fn a_proxy_that_is_evicted_leaves_its_writes_to_others() {
    let mut scene = with_a_silent_copy();
    let proxies = Proxies::new(Members::first(ME + 1), [0; PROXIES_MAX]);
    scene.read_with(proxies.evict(ME).expect("others are there"));
    let (code, why, numbers) = scene.counted();
    assert_eq!((code, numbers.2), (code::WRITE_TIMEOUT, 2), "{why}");
    assert_eq!(scene.bench.engine.copied.len(), 0);
    let change = scene.member.intents().clear(0, u64::MAX);
    assert_eq!(change, None, "its bucket stays marked");
    assert!(scene.resyncs.is_empty(), "that is for the others");
}

#[test]
fn a_proxy_that_has_joined_anew_does_not_go_on_with_what_it_has_begun_before() {
    let mut scene = with_a_silent_copy();
    scene.member = Arc::new(Member::new(ME));
    scene.publish();
    assert_eq!(scene.counted().0, code::WRITE_TIMEOUT);
    assert_eq!(scene.bench.engine.copied.len(), 0);
    scene.insert();
    for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
        scene.void(node, stream);
    }
    scene.is_acknowledged();
}

#[test]
fn a_ring_that_has_changed_since_the_analysis_says_who_owns_the_partition() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    // Each write is analysed by the ring before. In the second the slot of the first is none.
    for tokens in [100, 1] {
        scene.move_to(tokens, [0, 1, 2]);
        scene.insert();
        for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
            scene.void(node, stream);
        }
        scene.is_acknowledged();
    }
    scene.is_done();
}
