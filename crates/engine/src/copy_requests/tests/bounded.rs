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
