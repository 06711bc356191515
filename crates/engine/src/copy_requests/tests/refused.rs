use helenus_layout::plan::Column;
use helenus_wire::Consistency;

use super::*;

const DELETE: &str = "DELETE FROM app.orders WHERE customer = 1";

/// Asks for a deletion at this level.
fn delete_at(scene: &mut Scene, level: Consistency) {
    scene.ask_text(DELETE, level);
}

#[test]
fn what_copies_cannot_follow_is_refused_with_a_way_out() {
    for (text, way_out) in [
        (
            "INSERT INTO app.orders (customer, day, status) VALUES (1, 2, 'a') IF NOT EXISTS",
            "write without IF",
        ),
        (
            "INSERT INTO app.orders (customer, day, status, total) VALUES (1, 2, uuid(), 4)",
            "let the client compute",
        ),
        (
            "DELETE FROM app.orders WHERE customer = 1 AND day > 2",
            "delete the partition",
        ),
        (
            "DELETE FROM app.orders WHERE customer = 1 AND day = 2",
            "delete the partition",
        ),
        (
            "DELETE FROM app.orders WHERE customer IN (1, 2)",
            "one partition at a time",
        ),
        (
            "BEGIN BATCH DELETE FROM app.others WHERE customer = 1; DELETE FROM app__1.orders WHERE \
             customer = 1 APPLY BATCH",
            "write to app.orders",
        ),
        ("TRUNCATE app.orders", "delete its partitions"),
        ("ALTER TABLE app.orders ADD other int", "while it has them"),
        ("DROP TABLE app.orders", "while it has them"),
        ("DROP KEYSPACE app", "while it has them"),
        ("DROP KEYSPACE app__2", "while it has them"),
        (
            "ALTER KEYSPACE app__0 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
            "while it has them",
        ),
        (
            "GRANT MODIFY ON app.orders TO somebody",
            "on app__0.orders, app__1.orders, app__2.orders",
        ),
        (
            "DELETE FROM app__2.orders WHERE customer = 1",
            "write to app.orders",
        ),
        ("DROP TABLE app__1.orders", "write to app.orders"),
        (
            "INSERT WHATEVER INTO app.orders (customer) VALUES (1)",
            "write it another way",
        ),
    ] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        scene.ask(text, &Asking::default());
        scene.is_refused(text, way_out);
        assert_eq!(scene.intents, 0);
    }
}

#[test]
fn counters_are_refused() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let mut counted = table();
    counted.columns = vec![Column {
        name: "total".to_owned(),
        cql_type: "counter".to_owned(),
        is_static: false,
    }];
    scene.adopt(counted);
    let text =
        "UPDATE app.orders SET total = total + 1 WHERE customer = 1 AND day = 2 AND status = 'a'";
    scene.ask(text, &Asking::default());
    let (code, why) = scene.bench.error();
    assert!(
        code == code::INVALID && why.contains("a table of their own"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn what_nobody_here_has_prepared_may_write_copies() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let body = Asking::default().execute(Version::V4, b"strange");
    scene.bench.ask(Opcode::Execute, 2, &body);
    assert_eq!(scene.bench.error().0, code::UNPREPARED);
}

#[test]
fn without_a_lease_nothing_is_written() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.wait(1_000);
    scene.insert();
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("lists of copies"),
        "{why}"
    );
    // Whom others do not wait for writes nothing either.
    let others = Proxies::new(Members::first(ME + 1), [0; PROXIES_MAX]);
    scene.read_with(others.evict(ME).expect("others are there"));
    scene.insert();
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.bench.common.copies.publish(Lists::default());
    scene.insert();
    assert_eq!(scene.bench.error().0, code::OVERLOADED);
    scene.is_done();
}

#[test]
fn a_level_that_asks_for_more_copies_than_are_listed_is_unavailable() {
    for (level, expected) in [
        (Consistency::ALL, Some((3, 1))),
        (Consistency::QUORUM, Some((2, 1))),
        (Consistency::LOCAL_QUORUM, Some((2, 1))),
        (Consistency::ONE, None),
        (Consistency::ANY, None),
    ] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        let list = scene.list.evict(0).and_then(|list| list.evict(2));
        scene.list = list.expect("one stays");
        scene.read();
        delete_at(&mut scene, level);
        let Some((required, alive)) = expected else {
            // Those that were just evicted are still waited for.
            for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
                scene.is_unanswered();
                scene.void(node, stream);
            }
            scene.is_acknowledged();
            continue;
        };
        let (code, why, numbers) = scene.counted();
        assert_eq!(code, code::UNAVAILABLE, "{why}");
        assert_eq!(numbers, (level.0, required, alive));
        scene.is_done();
    }
}

#[test]
fn levels_that_are_none_for_a_write_and_keyspaces_with_more_replicas_are_refused() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    delete_at(&mut scene, Consistency(99));
    let (code, why) = scene.bench.error();
    assert!(code == code::INVALID && why.contains("QUORUM"), "{why}");
    let mut wide = table();
    wide.copies[1].keyspace = "app".to_owned();
    wide.copies[1].physical = "others".to_owned();
    scene.adopt(wide);
    scene.insert();
    let (code, why) = scene.bench.error();
    assert!(
        code == code::INVALID && why.contains("keyspace app has 3 replicas"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn a_write_that_there_is_no_memory_for_is_refused_and_one_that_ends_gives_all_back() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let long = [7; 2_000];
    let asking = Asking {
        values: &[VALUES[0], VALUES[1], &long, VALUES[3]],
        ..Asking::default()
    };
    let memory = scene.bench.engine.cx.memory.clone();
    memory.set_max(memory.held() + 4_000);
    scene.ask(INSERT, &asking);
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("memory_max"),
        "{why}"
    );
    memory.set_max(1 << 20);
    scene.ask(INSERT, &asking);
    assert!(memory.held() >= 4 * long.len(), "{}", memory.held());
    for (node, (_, stream, _)) in scene.one_each().into_iter().enumerate() {
        scene.void(node, stream);
    }
    scene.is_acknowledged();
    scene.is_done();
}
