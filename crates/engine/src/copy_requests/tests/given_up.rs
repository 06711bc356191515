use helenus_wire::{ErrorBody, write};

use super::*;

/// All copies that are asked say this, for so long.
fn all_say(scene: &mut Scene, ms: u64, error: &ErrorBody<'_>) {
    let mut body = Vec::new();
    error.write(&mut body);
    for _ in 0..ms / 200 {
        for node in 0..COPIES {
            for (_, stream, _) in scene.bench.at(node) {
                scene.bench.say_as(node, Opcode::Error, stream, &body);
                scene.carry_out();
            }
        }
        scene.wait_and_read(200);
    }
}

fn too_large() -> ErrorBody<'static> {
    ErrorBody {
        code: code::SERVER,
        message: "app__1.orders: larger than a mutation may be",
        fields: &[],
    }
}

/// A write was given up: its bucket stays marked until it is resynchronised.
fn is_given_up(scene: &mut Scene) {
    assert_eq!(scene.bench.engine.copied.len(), 0);
    let [bucket] = scene.resyncs[..] else {
        panic!("{:?}", scene.resyncs);
    };
    let mut intents = scene.member.intents();
    assert_eq!(intents.clear(0, u64::MAX), None, "it is pending");
    let given_up = intents.given_up(bucket).expect("one write");
    assert!(intents.on_resynchronised(given_up, 0));
    assert!(intents.clear(0, u64::MAX).is_some());
}

#[test]
fn a_write_that_fails_everywhere_ends_with_that_error_when_its_time_is_up() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    all_say(&mut scene, 1_800, &too_large());
    scene.is_unanswered();
    all_say(&mut scene, 400, &too_large());
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::SERVER);
    assert!(why.contains("app.orders: larger"), "{why}");
    assert!(scene.evictions.is_empty(), "it is the write's own fault");
    is_given_up(&mut scene);
    scene.wait_and_read(2_000);
    scene.nothing_sent();
}

#[test]
fn what_copies_have_failed_with_counts_copies() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let mut fields = Vec::new();
    write::u16(&mut fields, 1);
    write::i32(&mut fields, 0);
    write::i32(&mut fields, 1);
    write::i32(&mut fields, 1);
    write::string(&mut fields, "SIMPLE");
    let failed = ErrorBody {
        code: code::WRITE_FAILURE,
        message: "no",
        fields: &fields,
    };
    all_say(&mut scene, 2_400, &failed);
    let (code, _, numbers) = scene.counted();
    assert_eq!((code, numbers), (code::WRITE_FAILURE, (6, 0, 2)));
    is_given_up(&mut scene);
}

#[test]
fn a_write_that_one_copy_does_not_answer_ends_when_it_has() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let (_, stream, _) = scene.one_at(1);
    // The answer comes after the client was told, and before the node would be taken for dead.
    all_say(&mut scene, 2_000, &too_large());
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::WRITE_TIMEOUT, "{why}");
    assert_eq!(scene.bench.engine.copied.len(), 1, "it goes on");
    scene.error(1, stream, code::SERVER, "something");
    for (_, stream, _) in scene.bench.at(1) {
        scene.error(1, stream, code::SERVER, "something");
    }
    all_say(&mut scene, 2_000, &too_large());
    is_given_up(&mut scene);
    scene.is_unanswered();
}

#[test]
fn a_write_that_a_copy_has_acknowledged_does_not_end_so() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let (_, stream, _) = scene.one_at(1);
    scene.void(1, stream);
    all_say(&mut scene, 4_000, &too_large());
    assert_eq!(scene.counted().0, code::WRITE_TIMEOUT);
    assert_eq!(scene.bench.engine.copied.len(), 1);
    assert!(scene.resyncs.is_empty());
    assert!(scene.evicted().contains(&0) && scene.evicted().contains(&2));
}

/// One copy says this whenever it is asked, the others have the write.
fn one_says(scene: &mut Scene, ms: u64, code: i32) {
    scene.insert();
    scene.answered_by([0, 2]);
    for _ in 0..ms / 200 {
        for (_, stream, _) in scene.bench.at(1) {
            scene.error(1, stream, code, "no, on <table app__1.orders>");
        }
        scene.wait_and_read(200);
    }
}

#[test]
fn a_copy_that_refuses_a_statement_or_its_role_is_not_evicted() {
    use code::{CONFIG, INVALID, PROTOCOL, SYNTAX, UNAUTHORIZED};
    for code in [UNAUTHORIZED, INVALID, SYNTAX, CONFIG, PROTOCOL] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        one_says(&mut scene, 1_800, code);
        scene.is_unanswered();
        one_says_on(&mut scene, code);
        let (told, why) = scene.bench.error();
        assert_eq!(told, code, "{why}");
        assert!(
            why.contains("on <table app.orders>") && why.contains("not known"),
            "{why}"
        );
        assert!(scene.evicted().is_empty(), "{code}");
        is_given_up(&mut scene);
    }
}

/// The time of the client runs out.
fn one_says_on(scene: &mut Scene, code: i32) {
    for (_, stream, _) in scene.bench.at(1) {
        scene.error(1, stream, code, "no, on <table app__1.orders>");
    }
    scene.wait_and_read(400);
}

#[test]
fn a_write_that_timed_out_goes_on_while_its_nodes_have_too_much_to_do() {
    use code::{IS_BOOTSTRAPPING, OVERLOADED};
    for code in [OVERLOADED, IS_BOOTSTRAPPING] {
        let mut scene = with_time(1_000);
        scene.insert();
        scene.one_each();
        scene.wait_and_read(1_200);
        let (told, why, _) = scene.counted();
        assert_eq!(told, code::WRITE_TIMEOUT, "{why}");
        let late = ErrorBody {
            code,
            message: "too much",
            fields: &[],
        };
        all_say(&mut scene, 4_000, &late);
        assert_eq!(scene.bench.engine.copied.len(), 1, "it goes on");
        assert!(scene.resyncs.is_empty());
    }
}

/// A scene in which client and nodes have this much time.
fn with_time(ms: u64) -> Scene {
    let mut config = Config::default();
    config.limits.request_timeout_ms = Some(ms);
    Scene::with(config, (Version::V4, Version::V4))
}

#[test]
fn a_write_that_no_copy_has_answered_in_the_nodes_time_goes_on() {
    let mut scene = with_time(1_000);
    scene.insert();
    let sent = scene.one_each();
    scene.wait_and_read(1_200);
    let (code, why, numbers) = scene.counted();
    assert_eq!((code, numbers), (code::WRITE_TIMEOUT, (6, 0, 2)), "{why}");
    assert_eq!(scene.bench.engine.copied.len(), 1, "it goes on");
    for bucket in 0..crate::copies::BUCKETS {
        if scene.member.intents().is_pending(bucket) {
            assert_eq!(scene.member.intents().clear(0, u64::MAX), None);
        }
    }
    // It is sent again, and completed.
    scene.wait_and_read(200);
    for (node, (_, stream, again)) in scene.one_each().into_iter().enumerate() {
        assert_eq!(again, sent[node].2);
        scene.void(node, stream);
    }
    scene.is_done();
    assert!(scene.member.intents().clear(0, u64::MAX).is_some());
}

#[test]
fn a_write_whose_proxy_leaves_before_it_was_sent_leaves_nothing() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.takes_intents = false;
    scene.insert();
    let proxies = Proxies::new(Members::first(ME + 1), [0; PROXIES_MAX]);
    scene.read_with(proxies.evict(ME).expect("others are there"));
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("nothing was written"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn a_write_that_has_only_waited_for_a_connection_leaves_nothing() {
    let mut scene = with_time(1_000);
    for node in 0..COPIES {
        scene.bench.break_link_to(node);
    }
    scene.wait(100);
    scene.insert();
    scene.wait_and_read(1_400);
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("nothing was written"),
        "{code} {why}"
    );
    assert!(scene.resyncs.is_empty());
    assert_eq!(scene.bench.engine.copied.len(), 0);
}

#[test]
fn a_write_whose_partition_has_moved_is_not_acknowledged_by_the_list_of_other_owners() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    let (_, stream, _) = scene.one_at(2);
    scene.move_to(1, [0, 1, 0]);
    scene.void(2, stream);
    let (code, why, _) = scene.counted();
    assert_eq!(code, code::WRITE_TIMEOUT, "{why}");
    assert!(why.contains("other nodes own"), "{why}");
    is_given_up(&mut scene);
    scene.is_done();
}

#[test]
fn a_write_that_was_not_sent_before_its_partition_has_moved_leaves_nothing() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.takes_intents = false;
    scene.insert();
    scene.move_to(1, [0, 1, 0]);
    scene.wait(100);
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("nothing was written"),
        "{why}"
    );
    assert!(scene.resyncs.is_empty());
    assert!(!(0..crate::copies::BUCKETS).any(|bucket| scene.member.intents().is_pending(bucket)));
    scene.is_done();
}

#[test]
fn whether_copies_are_readable_makes_no_difference_and_other_ones_do() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert();
    let sent = scene.one_each();
    scene.void(0, sent[0].1);
    scene.void(1, sent[1].1);
    scene.error(2, sent[2].1, code::OVERLOADED, "too much");
    let mut other = table();
    other.copies[2].readable = false;
    scene.adopt(other.clone());
    scene.wait_and_read(200);
    scene.one_at(2);
    assert!(scene.resyncs.is_empty());
    other.copies[2].layout = Layout::new(&[0, 1]).expect("a permutation");
    scene.adopt(other);
    scene.wait(100);
    let (code, why, _) = scene.counted();
    assert!(
        code == code::WRITE_TIMEOUT && why.contains("copies are others"),
        "{why}"
    );
    is_given_up(&mut scene);
}

#[test]
fn a_write_whose_lists_are_gone_is_given_up_while_its_proxy_stays() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    scene.one_at(2);
    let lists = Lists {
        membership: Some(Membership {
            member: scene.member.clone(),
            proxies: scene.proxies.clone(),
        }),
        ..Lists::default()
    };
    scene.bench.common.copies.publish(lists);
    scene.tell();
    assert_eq!(scene.counted().0, code::WRITE_TIMEOUT);
    is_given_up(&mut scene);
}

#[test]
fn lists_of_another_ring_are_no_lists() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    scene.one_at(2);
    scene.publish_for(RingId::default());
    let (code, why, _) = scene.counted();
    assert!(
        code == code::WRITE_TIMEOUT && why.contains("other nodes own"),
        "{why}"
    );
    is_given_up(&mut scene);
    scene.insert();
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("lists are being made"),
        "{why}"
    );
    scene.ask_text(
        "SELECT day FROM app.orders WHERE customer = 1",
        Consistency::QUORUM,
    );
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.nothing_sent();
    // They are about this one again.
    scene.read();
    scene.insert();
    scene.answered_by([0, 1, 2]);
    scene.is_acknowledged();
}

#[test]
fn a_write_that_nobody_waits_for_any_more_ends_after_some_minutes() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    scene.bench.leave();
    scene.wait_and_read(299_800);
    assert_eq!(scene.bench.engine.copied.len(), 1);
    scene.wait_and_read(400);
    is_given_up(&mut scene);
}

#[test]
fn what_is_left_of_a_write_whose_role_has_ended_is_to_be_resynchronised() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    let links = &mut scene.bench.engine.links;
    let pool = links.anonymous_pool(&mut scene.bench.engine.cx);
    let identity = links.identity_of(pool).expect("its role");
    identity.end();
    scene.wait(100);
    is_given_up(&mut scene);
}
