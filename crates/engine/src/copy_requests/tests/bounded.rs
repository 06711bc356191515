use super::*;
use crate::execution::copied_write::CopiedWrite;
use crate::memory::Held;

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

/// Writes whose clients have waited in vain, of so many bytes each; one every 100 ms, the last 2.7 s ago.
fn alone(scene: &mut Scene, sizes: &[usize]) {
    for bytes in sizes {
        let long = vec![7; *bytes];
        let asking = Asking {
            values: &[VALUES[0], VALUES[1], &long, VALUES[3]],
            ..Asking::default()
        };
        scene.ask(INSERT, &asking);
        scene.answered_by([0, 1]);
        scene.wait(100);
    }
    scene.wait_and_read(1_000);
    assert!(scene.resyncs.is_empty());
    scene.wait_and_read(1_600);
    assert_eq!(scene.bench.answers().len(), sizes.len());
}

/// When each write that is under way began, and its bytes.
fn under_way(scene: &Scene) -> Vec<(u64, usize)> {
    let copied = &scene.bench.engine.copied;
    let of = |key| copied.get(key).map(|of| (of.began_us(), of.bytes()));
    copied.keys().into_iter().filter_map(of).collect()
}

#[test]
fn writes_that_nobody_waits_for_do_not_keep_others_out() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.engine.copied.max = 12;
    alone(&mut scene, &[4; 8]);
    let now_us = scene.bench.common.copies.us(scene.bench.now);
    let left = under_way(&scene);
    assert_eq!((left.len(), scene.resyncs.len()), (3, 5), "a quarter stays");
    let is_late = |(began_us, _): &(u64, usize)| now_us - began_us <= 2_900_000;
    assert!(left.iter().all(is_late), "the oldest went: {left:?}");
    // Others are taken.
    scene.insert();
    assert_eq!(scene.bench.engine.copied.len(), 4);
    scene.is_unanswered();
}

#[test]
fn nor_do_they_hold_more_than_their_share_of_memory_if_others_need_it() {
    let (max, large) = (3 << 20, 100_000);
    let share = max / 4;
    let mut config = Config::default();
    config.limits.memory_max = Some(max);
    let mut scene = Scene::with(config, (Version::V4, Version::V4));
    let mut sizes = [large; 10];
    sizes[0] = 4;
    alone(&mut scene, &sizes);
    let memory = scene.bench.engine.cx.memory.clone();
    let bytes = |of: &[(u64, usize)]| of.iter().map(|(_, bytes)| bytes).sum::<usize>();
    let before = under_way(&scene);
    assert_eq!(before.len(), sizes.len(), "there is enough for others");
    assert!(bytes(&before) > share && memory.left() > share);
    // There is not.
    let others = Held::new(&memory, memory.left() - share + 1);
    scene.wait_and_read(200);
    let after = under_way(&scene);
    assert!(
        after.contains(&before[0]) || after[0].1 < large,
        "it holds little"
    );
    assert!(after.len() > 3 && bytes(&after) <= share, "{after:?}");
    assert_eq!(scene.resyncs.len(), before.len() - after.len());
    drop(others);
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
