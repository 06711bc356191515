use super::*;
use crate::execution::copied_write::CopiedWrite;

#[test]
fn so_many_writes_are_under_way_at_most() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.engine.copied.max = 2;
    scene.insert();
    scene.insert();
    scene.is_unanswered();
    scene.insert();
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("under way"),
        "{why}"
    );
    let sent = scene.bench.at(0).len();
    assert_eq!(sent, 2);
}

#[test]
fn a_write_counts_with_all_that_it_holds() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let memory = scene.bench.engine.cx.memory.clone();
    scene.insert_but_one();
    scene.one_at(2);
    assert!(memory.held() >= size_of::<CopiedWrite>());
}

#[test]
fn so_does_what_a_copy_has_said_of_it() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let memory = scene.bench.engine.cx.memory.clone();
    scene.insert_but_one();
    let (_, stream, _) = scene.one_at(2);
    let before = memory.held();
    scene.error(2, stream, code::SERVER, &"long".repeat(1_000));
    // Its request is over, which was smaller.
    assert!(memory.held() > before + 3_000, "{}", memory.held());
    scene.wait_and_read(200);
    let (_, stream, _) = scene.one_at(2);
    scene.void(2, stream);
    scene.is_acknowledged();
    scene.is_done();
}

/// So many writes whose clients have waited in vain, of so many bytes each.
fn alone(scene: &mut Scene, writes: usize, bytes: usize) {
    let long = vec![7; bytes];
    let asking = Asking {
        values: &[VALUES[0], VALUES[1], &long, VALUES[3]],
        ..Asking::default()
    };
    for _ in 0..writes {
        scene.ask(INSERT, &asking);
        for node in [0, 1] {
            let (_, stream, _) = scene.one_at(node);
            scene.void(node, stream);
        }
        scene.wait(1);
    }
    scene.wait_and_read(1_000);
    assert!(scene.resyncs.is_empty());
    scene.wait_and_read(1_600);
    assert_eq!(scene.bench.answers().len(), writes);
}

#[test]
fn writes_that_nobody_waits_for_do_not_keep_others_out() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.engine.copied.max = 12;
    alone(&mut scene, 8, 4);
    let left = scene.bench.engine.copied.len();
    assert_eq!((left, scene.resyncs.len()), (3, 5), "a quarter stays");
}

#[test]
fn nor_do_they_hold_more_than_their_share_of_memory() {
    let mut config = Config::default();
    config.limits.memory_max = Some(3 << 20);
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    alone(&mut scene, 8, 100_000);
    let left = scene.bench.engine.copied.len();
    assert!((3..=7).contains(&left), "{left}");
    assert_eq!(scene.resyncs.len(), 8 - left);
}

#[test]
fn a_write_is_as_large_as_its_client_has_sent_it() {
    let mut config = Config::default();
    config.limits.request_bytes_max = 4_000;
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    let long = [7; 2_000];
    let asking = Asking {
        values: &[VALUES[0], VALUES[1], &long, VALUES[3]],
        ..Asking::default()
    };
    scene.ask(INSERT, &asking);
    for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
        scene.void(node, stream);
    }
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn only_writes_that_wait_for_what_was_published_are_looked_at() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    scene.takes_intents = false;
    let delete = "DELETE FROM app.orders WHERE customer = 3";
    scene.ask(delete, &Asking::default());
    scene.tell();
    let looked = |scene: &mut Scene| {
        let lists = scene.bench.common.copies.lists();
        scene.bench.engine.copied.published(&lists).len()
    };
    assert_eq!(scene.bench.engine.copied.len(), 2);
    assert_eq!(looked(&mut scene), 1, "an intent may be recorded");
    let lists = Lists::default();
    scene.bench.common.copies.publish(lists);
    assert_eq!(looked(&mut scene), 2, "the lists are others");
    assert_eq!(looked(&mut scene), 1);
}
