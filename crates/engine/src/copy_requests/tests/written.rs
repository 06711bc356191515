use helenus_wire::{Consistency, ExecuteView, Options, QueryView, Reader, ValueRef, write};

use super::*;
use crate::testing::bench::{BIGINT, Spec, VARCHAR};

const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V4),
    (Version::V4, Version::V4),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];
const MARKERS: [Spec; 4] = [
    ("customer", BIGINT),
    ("day", BIGINT),
    ("status", VARCHAR),
    ("total", BIGINT),
];

/// What stands behind the statement on each copy.
fn check_options(options: &Options<'_>) {
    assert_eq!(options.consistency, Consistency::ONE, "its only replica");
    let values: Vec<_> = options.values.iter().map(|(_, value)| value).collect();
    assert_eq!(values, VALUES.map(ValueRef::Set));
}

/// The text of a QUERY or PREPARE.
fn text_of(body: &[u8]) -> &str {
    Reader::new(body).long_string().expect("a text")
}

#[test]
fn a_write_goes_to_each_copy_on_its_node_and_is_acknowledged_when_all_have_it() {
    for versions in VERSIONS {
        for own in [Some(12), None] {
            let mut scene = Scene::new(versions.0, versions.1);
            let asking = Asking {
                values: &VALUES,
                timestamp: own,
                serial: Some(9),
                ..Asking::default()
            };
            scene.ask(INSERT, &asking);
            let mut times = Vec::new();
            for (node, (opcode, stream, body)) in scene.one_each().into_iter().enumerate() {
                assert_eq!(opcode, Opcode::Query);
                let view = QueryView::parse(&body, versions.1).expect("a QUERY");
                assert_eq!(view.text, on_copy(INSERT, node));
                check_options(&view.options);
                times.push((view.options.timestamp, view.options.now_in_seconds));
                scene.is_unanswered();
                scene.void(node, stream);
            }
            scene.is_acknowledged();
            assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
            let timestamp = times[0].0.expect("a timestamp");
            assert!(own.is_none_or(|own| own == timestamp));
            assert_eq!(times[0].1.is_some(), versions.1 == Version::V5);
            scene.is_done();
        }
    }
}

#[test]
fn timestamps_of_the_proxy_grow() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let mut times = Vec::new();
    for _ in 0..3 {
        let asking = Asking {
            values: &VALUES,
            ..Asking::default()
        };
        scene.ask(INSERT, &asking);
        for (node, (_, stream, body)) in scene.one_each().into_iter().enumerate() {
            let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
            times.push(view.options.timestamp);
            scene.void(node, stream);
        }
        scene.is_acknowledged();
    }
    times.dedup();
    assert_eq!(times.len(), 3, "at one instant");
    assert!(times.is_sorted());
}

#[test]
fn nothing_is_sent_before_the_intent_is_recorded() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let asking = Asking {
        values: &VALUES,
        ..Asking::default()
    };
    let body = asking.query(Version::V4, INSERT);
    scene.bench.ask(Opcode::Query, 2, &body);
    scene.nothing_sent();
    assert_eq!(scene.intents, 0);
    scene.carry_out();
    assert_eq!(scene.intents, 1);
    scene.insert();
    assert_eq!(scene.intents, 1, "the bucket's bit is set");
    for node in 0..COPIES {
        let asked = scene.bench.at(node);
        assert_eq!(asked.len(), 2);
        for (_, stream, _) in asked {
            scene.void(node, stream);
        }
    }
    assert_eq!(scene.bench.answers().len(), 2);
    let change = scene.member.intents().clear(0, u64::MAX);
    assert!(change.is_some_and(|change| !change.set), "none is pending");
    scene.is_done();
}

/// What a node answers to what it is sent of a prepared write; its id on a copy is the copy's name.
fn answer_of(scene: &Scene, (opcode, body): (Opcode, &[u8]), node: usize) -> Vec<u8> {
    match opcode {
        // What one node has prepared the others are told.
        Opcode::Prepare => {
            let is_of = |copy: &usize| text_of(body).contains(&format!("app__{copy}."));
            let copy = (0..COPIES).find(is_of).expect("a statement on a copy");
            let (id, keyspace) = (format!("of {copy}"), format!("app__{copy}"));
            let table = (&*keyspace, TABLE);
            scene.bench.prepared_of(id.as_bytes(), table, &MARKERS, &[])
        }
        Opcode::Query => {
            assert_eq!(text_of(body), on_copy(INSERT, node));
            VOID.to_vec()
        }
        _ => {
            let view = ExecuteView::parse(body, scene.bench.versions.1).expect("an EXECUTE");
            assert_eq!(view.id, format!("of {node}").as_bytes());
            check_options(&view.options);
            assert_eq!(view.options.timestamp, Some(12));
            VOID.to_vec()
        }
    }
}

/// Executes the prepared write; what the nodes were asked, in order.
fn execute(scene: &mut Scene) -> Vec<Opcode> {
    execute_unanswered(scene);
    let mut asked = Vec::new();
    for _ in 0..3 {
        for node in 0..COPIES {
            for (opcode, stream, body) in scene.bench.at(node) {
                let answer = answer_of(scene, (opcode, &body), node);
                asked.push(opcode);
                scene.bench.say_as(node, Opcode::Result, stream, &answer);
                scene.carry_out();
            }
        }
    }
    scene.is_acknowledged();
    scene.is_done();
    asked
}

fn execute_unanswered(scene: &mut Scene) {
    let asking = Asking {
        values: &VALUES,
        timestamp: Some(12),
        ..Asking::default()
    };
    let body = asking.execute(scene.bench.versions.0, b"own");
    scene.bench.ask(Opcode::Execute, 2, &body);
    scene.carry_out();
}

#[test]
fn a_prepared_write_is_executed_by_the_id_of_each_copys_statement() {
    for versions in VERSIONS {
        let mut scene = Scene::new(versions.0, versions.1);
        scene.bench.prepare_of_any(INSERT, b"own", &MARKERS);
        // Until the nodes have prepared what is written to a copy, its text is sent.
        let asked = execute(&mut scene);
        let number = |of: Opcode| asked.iter().filter(|opcode| **opcode == of).count();
        assert_eq!(number(Opcode::Query), COPIES, "{asked:?}");
        assert_eq!(number(Opcode::Prepare), COPIES * COPIES, "{asked:?}");
        assert_eq!(execute(&mut scene), [Opcode::Execute; COPIES]);
    }
}

#[test]
fn what_a_node_has_forgotten_of_its_copy_is_prepared_again_there() {
    for versions in VERSIONS {
        let mut scene = Scene::new(versions.0, versions.1);
        scene.bench.prepare_of_any(INSERT, b"own", &MARKERS);
        execute(&mut scene);
        execute_unanswered(&mut scene);
        let sent = scene.one_each();
        scene.void(0, sent[0].1);
        scene.void(2, sent[2].1);
        let mut id = Vec::new();
        write::short_bytes(&mut id, b"of 1");
        scene.bench.say_unprepared(1, sent[1].1, &id);
        scene.carry_out();
        let (opcode, stream, prepare) = scene.one_at(1);
        assert_eq!(opcode, Opcode::Prepare);
        let answer = answer_of(&scene, (opcode, &prepare), 1);
        scene.bench.say_as(1, Opcode::Result, stream, &answer);
        scene.carry_out();
        let (opcode, stream, again) = scene.one_at(1);
        assert_eq!((opcode, &again), (Opcode::Execute, &sent[1].2));
        scene.is_unanswered();
        scene.void(1, stream);
        scene.is_acknowledged();
        scene.is_done();
    }
}

#[test]
fn updates_and_deletions_go_to_each_copy_too() {
    for text in [
        "UPDATE app.orders USING TTL 5 SET total = 7 WHERE customer = 1 AND day = 2 AND status = 'a'",
        "DELETE FROM app.orders WHERE customer = 1",
        "DELETE total FROM app.orders WHERE customer = 1 AND day = 2 AND status = 'a'",
    ] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        scene.ask(text, &Asking::default());
        for (node, (_, stream, body)) in scene.one_each().into_iter().enumerate() {
            assert_eq!(text_of(&body), on_copy(text, node));
            scene.void(node, stream);
        }
        scene.is_acknowledged();
        scene.is_done();
    }
}

#[test]
fn a_keyspace_of_the_session_is_not_needed_at_the_nodes() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.be_in("app");
    let text = "DELETE FROM orders WHERE customer = 1";
    scene.ask(text, &Asking::default());
    for (node, (_, stream, body)) in scene.one_each().into_iter().enumerate() {
        let on_copy = text.replace("orders", &format!("app__{node}.orders"));
        assert_eq!(text_of(&body), on_copy);
        scene.void(node, stream);
    }
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn other_tables_go_as_they_came() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let text = "INSERT INTO app.others (customer) VALUES (1)";
    let body = Asking::default().query(Version::V4, text);
    scene.bench.ask(Opcode::Query, 2, &body);
    let mut sent = Vec::new();
    for node in 0..COPIES {
        sent.extend(scene.bench.at(node));
    }
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, &sent[0].2), (Opcode::Query, &body));
    assert_eq!(scene.intents, 0);
}
