use helenus_wire::{BatchChild, BatchView, ExecuteView, Options, QueryView, Reader, ValueRef};

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
pub(super) const ONE: &[u8] = &1_i64.to_be_bytes();
pub(super) const TWO: &[u8] = &2_i64.to_be_bytes();
pub(super) const DELETE: &str = "DELETE FROM app.orders WHERE customer = 1";
pub(super) const UPDATE: &str =
    "UPDATE app.orders SET total = ? WHERE customer = ? AND day = 2 AND status = 'a'";
pub(super) const LOGGED: u8 = 0;
const UNLOGGED: u8 = 1;
const OF_COUNTERS: u8 = 2;

/// A statement by its text or its id, and its values.
pub(super) type Sent<'a> = (Result<&'a str, &'a [u8]>, &'a [&'a [u8]]);

/// The body of a BATCH at LOCAL_QUORUM.
pub(super) fn batch(
    version: Version,
    kind: u8,
    children: &[Sent<'_>],
    timestamp: Option<i64>,
) -> Vec<u8> {
    let mut body = vec![kind];
    write::u16(&mut body, children.len() as u16);
    for (statement, values) in children {
        body.push(u8::from(statement.is_err()));
        match statement {
            Ok(text) => write::long_string(&mut body, text),
            Err(id) => write::short_bytes(&mut body, id),
        }
        write::u16(&mut body, values.len() as u16);
        for value in *values {
            write::bytes(&mut body, Some(value));
        }
    }
    write::u16(&mut body, Consistency::LOCAL_QUORUM.0);
    let flags = if timestamp.is_some() { 0x20 } else { 0 };
    match version {
        Version::V5 => write::u32(&mut body, flags),
        _ => body.push(flags as u8),
    }
    if let Some(timestamp) = timestamp {
        write::i64(&mut body, timestamp);
    }
    body
}

/// What a copy is sent: each statement, by its text or id, with its values.
pub(super) type Got = Vec<(String, Vec<Vec<u8>>)>;

pub(super) fn values_of(values: &helenus_wire::Values<'_>) -> Vec<Vec<u8>> {
    let bytes = |(_, value)| match value {
        ValueRef::Set(bytes) => bytes.to_vec(),
        ValueRef::Null | ValueRef::Unset => panic!("a value that is none"),
    };
    values.iter().map(bytes).collect()
}

pub(super) fn got(view: &BatchView<'_>) -> Got {
    let of = |child: &BatchChild<'_>| match child {
        BatchChild::Text(text, values) => ((*text).to_owned(), values_of(values)),
        BatchChild::Prepared(id, values) => {
            (String::from_utf8_lossy(id).into_owned(), values_of(values))
        }
    };
    view.children.iter().map(of).collect()
}

/// The times that a request carries, at the level of one copy.
fn times(options: &Options<'_>) -> (Option<i64>, Option<i32>) {
    assert_eq!(options.consistency, Consistency::ONE, "its only replica");
    (options.timestamp, options.now_in_seconds)
}

/// What a node answers to the PREPARE of a copy's statement: its id is the copy's name, and the statement's first word.
pub(super) fn prepared(scene: &Scene, body: &[u8]) -> Vec<u8> {
    let text = Reader::new(body).long_string().expect("a text");
    let is_of = |copy: &usize| text.contains(&format!("app__{copy}."));
    let copy = (0..COPIES).find(is_of).expect("a statement on a copy");
    let keyspace = format!("app__{copy}");
    let markers = match text.contains("UPDATE") {
        true => &[MARKERS[3], MARKERS[0]][..],
        false => &MARKERS[..],
    };
    let id = id_of(text, copy);
    scene
        .bench
        .prepared_of(id.as_bytes(), (&keyspace, TABLE), markers, &[])
}

pub(super) fn id_of(text: &str, copy: usize) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    format!("{first} {copy}")
}

/// Answers all PREPAREs, and acknowledges all else. Returns that, by copies.
pub(super) fn answer_all(scene: &mut Scene) -> Vec<(usize, Opcode, Vec<u8>)> {
    let mut written = Vec::new();
    for _ in 0..3 {
        for node in 0..COPIES {
            for (opcode, stream, body) in scene.bench.at(node) {
                if opcode == Opcode::Prepare {
                    let answer = prepared(scene, &body);
                    scene.bench.say_as(node, Opcode::Result, stream, &answer);
                    scene.carry_out();
                    continue;
                }
                scene.void(node, stream);
                written.push((node, opcode, body));
            }
        }
    }
    written
}

pub(super) fn ask(scene: &mut Scene, body: &[u8]) {
    scene.bench.ask(Opcode::Batch, 2, body);
    scene.carry_out();
}

/// The first day of two rows, inserted by what is prepared.
pub(super) fn prepare(scene: &mut Scene) {
    scene.bench.prepare_of_any(INSERT, b"own", &MARKERS);
    let update = [MARKERS[3], MARKERS[0]];
    scene.bench.prepare_of_any(UPDATE, b"other", &update);
}

pub(super) const ROW: [&[u8]; 4] = [ONE, TWO, b"open", TWO];
const OTHER_ROW: [&[u8]; 4] = [ONE, ONE, b"open", ONE];
const MIXED: [Sent<'_>; 5] = [
    (Err(b"own"), &ROW),
    (Err(b"own"), &OTHER_ROW),
    (Ok(DELETE), &[]),
    (Ok(UPDATE), &[TWO, ONE]),
    (Err(b"other"), &[ONE, ONE]),
];

/// The same for a copy: what is prepared by its id, if the nodes know that.
fn mixed_on(copy: usize, is_known: bool) -> Got {
    let of = |(statement, values): &Sent<'_>| {
        let statement = match statement {
            Ok(text) => on_copy(text, copy),
            Err(id) => {
                let text = if *id == b"own" { INSERT } else { UPDATE };
                match is_known {
                    true => id_of(text, copy),
                    false => on_copy(text, copy),
                }
            }
        };
        let values = values.iter().map(|value| value.to_vec()).collect();
        (statement, values)
    };
    MIXED.iter().map(of).collect()
}

#[test]
fn a_batch_of_one_partition_is_one_request_to_each_copy() {
    for versions in VERSIONS {
        for (kind, own) in [(LOGGED, Some(12)), (UNLOGGED, None)] {
            let mut scene = Scene::new(versions.0, versions.1);
            prepare(&mut scene);
            for is_known in [false, true] {
                ask(&mut scene, &batch(versions.0, kind, &MIXED, own));
                let sent = answer_all(&mut scene);
                scene.is_acknowledged();
                scene.is_done();
                let mut all = Vec::new();
                for (copy, (node, opcode, body)) in sent.iter().enumerate() {
                    assert_eq!((*node, *opcode), (copy, Opcode::Batch), "one each");
                    let view = BatchView::parse(body, versions.1).expect("a BATCH");
                    assert_eq!(view.batch_type, UNLOGGED);
                    assert_eq!(got(&view), mixed_on(copy, is_known));
                    all.push(times(&view.options));
                }
                assert_eq!(all.len(), COPIES);
                assert!(all.iter().all(|of| *of == all[0]), "{all:?}");
                let timestamp = all[0].0.expect("a timestamp");
                assert!(own.is_none_or(|own| own == timestamp));
                assert_eq!(all[0].1.is_some(), versions.1 == Version::V5);
                assert_eq!(scene.intents, 1);
            }
        }
    }
}

#[test]
fn a_batch_that_is_a_text_goes_to_each_copy_whole() {
    let text = "BEGIN BATCH USING TIMESTAMP 7 INSERT INTO app.orders (customer, day, status, total) VALUES (?, ?, ?, ?); \
                DELETE FROM app.orders WHERE customer = 1 APPLY BATCH";
    for versions in VERSIONS {
        let mut scene = Scene::new(versions.0, versions.1);
        let asking = Asking {
            values: &ROW,
            ..Asking::default()
        };
        scene.ask(text, &asking);
        let sent = answer_all(&mut scene);
        scene.is_acknowledged();
        assert_eq!(sent.len(), COPIES);
        for (copy, (node, opcode, body)) in sent.iter().enumerate() {
            assert_eq!((*node, *opcode), (copy, Opcode::Query));
            let view = QueryView::parse(body, versions.1).expect("a QUERY");
            let unlogged = text.replace("BEGIN BATCH", "BEGIN UNLOGGED BATCH");
            assert_eq!(view.text, on_copy(&unlogged, copy));
            assert_eq!(values_of(&view.options.values), ROW);
            times(&view.options);
        }
        // The same, prepared.
        scene.bench.prepare_of_any(text, b"own", &MARKERS);
        for is_known in [false, true] {
            let body = asking.execute(versions.0, b"own");
            scene.bench.ask(Opcode::Execute, 2, &body);
            scene.carry_out();
            let sent = answer_all(&mut scene);
            scene.is_acknowledged();
            scene.is_done();
            assert_eq!(sent.len(), COPIES);
            for (copy, (node, opcode, body)) in sent.iter().enumerate() {
                assert_eq!(*node, copy);
                let options = match opcode {
                    Opcode::Query => QueryView::parse(body, versions.1).map(|view| view.options),
                    _ => ExecuteView::parse(body, versions.1).map(|view| view.options),
                };
                assert_eq!(*opcode == Opcode::Execute, is_known);
                assert_eq!(values_of(&options.expect("a request").values), ROW);
            }
        }
    }
}

#[test]
fn a_keyspace_of_the_session_is_that_of_the_statements() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.be_in("app");
    let text = "DELETE FROM orders WHERE customer = 1";
    ask(
        &mut scene,
        &batch(Version::V4, UNLOGGED, &[(Ok(text), &[])], None),
    );
    for (copy, (_, _, body)) in answer_all(&mut scene).iter().enumerate() {
        let view = BatchView::parse(body, Version::V4).expect("a BATCH");
        let on_copy = text.replace("orders", &format!("app__{copy}.orders"));
        assert_eq!(got(&view), [(on_copy, Vec::new())]);
    }
    scene.is_acknowledged();
    let whole = "BEGIN UNLOGGED BATCH DELETE FROM orders WHERE customer = 1; APPLY BATCH";
    scene.ask(whole, &Asking::default());
    assert_eq!(answer_all(&mut scene).len(), COPIES);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn a_batch_is_refused_as_its_statements_are_with_the_number_of_the_first() {
    let range = "DELETE FROM app.orders WHERE customer = 1 AND day > 2";
    let conditional =
        "INSERT INTO app.orders (customer, day, status) VALUES (1, 2, 'a') IF NOT EXISTS";
    let uuid = "INSERT INTO app.orders (customer, day, status, total) VALUES (1, 2, uuid(), 4)";
    let several = "DELETE FROM app.orders WHERE customer IN (1, 2)";
    let partition = "DELETE FROM app.orders WHERE customer = 2";
    let other = "DELETE FROM app.others WHERE customer = 1";
    let copy = "DELETE FROM app__1.orders WHERE customer = 1";
    for (second, way_out) in [
        (range, "delete the partition"),
        (conditional, "write without IF"),
        (uuid, "let the client compute"),
        (several, "one partition at a time"),
        (partition, "a batch for each partition"),
        (other, "in a batch of their own"),
        (copy, "in a batch of their own"),
    ] {
        for kind in [LOGGED, UNLOGGED] {
            let mut scene = Scene::new(Version::V4, Version::V4);
            let children = [DELETE, second, DELETE].map(|text| (Ok(text), &[][..]));
            ask(&mut scene, &batch(Version::V4, kind, &children, None));
            scene.is_refused(second, way_out);
            assert_eq!(scene.intents, 0);
        }
        let mut scene = Scene::new(Version::V4, Version::V4);
        let text = format!("BEGIN BATCH {DELETE}; {second}; {DELETE}; APPLY BATCH");
        scene.ask_text(&text, Consistency::QUORUM);
        let (code, why) = scene.bench.error();
        assert_eq!(code, code::INVALID);
        assert!(
            why.contains("statement 2 of the batch: ") && why.contains(way_out),
            "{text}: {why}"
        );
        scene.is_done();
    }
}

#[test]
fn what_is_no_batch_of_rows_of_the_table_is_refused() {
    let other = "INSERT INTO app.others (customer) VALUES (1)";
    let copy = "DELETE FROM app__0.orders WHERE customer = 1";
    for (kind, children, why_not) in [
        (UNLOGGED, [other, DELETE], "in a batch of their own"),
        (UNLOGGED, [other, copy], "write to app.orders"),
        (UNLOGGED, [copy, DELETE], "write to app.orders"),
        (OF_COUNTERS, [DELETE, DELETE], "table of their own"),
        (
            LOGGED,
            [DELETE, "SELECT * FROM app.orders WHERE customer = 1"],
            "only UPDATE, INSERT and DELETE",
        ),
        (
            LOGGED,
            [
                DELETE,
                "INSERT WHATEVER INTO app.orders (customer) VALUES (1)",
            ],
            "write it another way",
        ),
    ] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        let children = children.map(|text| (Ok(text), &[][..]));
        ask(&mut scene, &batch(Version::V4, kind, &children, None));
        let (code, why) = scene.bench.error();
        assert_eq!(code, code::INVALID);
        assert!(why.contains(why_not), "{children:?}: {why}");
        scene.is_done();
    }
    let mut scene = Scene::new(Version::V4, Version::V4);
    let children: [Sent<'_>; 2] = [(Ok(DELETE), &[]), (Err(b"strange"), &[])];
    ask(&mut scene, &batch(Version::V4, LOGGED, &children, None));
    assert_eq!(scene.bench.error().0, code::UNPREPARED);
    scene.is_done();
}

#[test]
fn values_that_are_too_few_are_refused() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    prepare(&mut scene);
    let children: [Sent<'_>; 2] = [(Err(b"own"), &ROW), (Err(b"own"), &ROW[..3])];
    ask(&mut scene, &batch(Version::V4, LOGGED, &children, None));
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::INVALID);
    assert!(
        why.contains("statement 2") && why.contains("bind variables"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn batches_of_other_tables_go_as_they_came() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let text = "INSERT INTO app.others (customer) VALUES (1)";
    let body = batch(
        Version::V4,
        LOGGED,
        &[(Ok(text), &[]), (Ok(text), &[])],
        None,
    );
    scene.bench.ask(Opcode::Batch, 2, &body);
    let sent: Vec<_> = (0..COPIES).flat_map(|node| scene.bench.at(node)).collect();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, &sent[0].2), (Opcode::Batch, &body));
    assert_eq!(scene.intents, 0);
}

/// Asks for the batch of all kinds of statements when the nodes know what is prepared; what each was sent.
pub(super) fn sent_by_ids(scene: &mut Scene) -> Vec<Envelope> {
    prepare(scene);
    let body = batch(scene.bench.versions.0, UNLOGGED, &MIXED, None);
    ask(scene, &body);
    answer_all(scene);
    scene.is_acknowledged();
    ask(scene, &body);
    scene.one_each()
}

#[test]
fn what_a_node_has_forgotten_is_prepared_again_there() {
    for versions in VERSIONS {
        let mut scene = Scene::new(versions.0, versions.1);
        let sent = sent_by_ids(&mut scene);
        scene.void(0, sent[0].1);
        scene.void(2, sent[2].1);
        let mut id = Vec::new();
        write::short_bytes(&mut id, id_of(UPDATE, 1).as_bytes());
        scene.bench.say_unprepared(1, sent[1].1, &id);
        scene.carry_out();
        let (opcode, stream, body) = scene.one_at(1);
        assert_eq!(opcode, Opcode::Prepare);
        let answer = prepared(&scene, &body);
        scene.bench.say_as(1, Opcode::Result, stream, &answer);
        scene.carry_out();
        let (opcode, stream, again) = scene.one_at(1);
        assert_eq!((opcode, &again), (Opcode::Batch, &sent[1].2));
        scene.is_unanswered();
        scene.void(1, stream);
        scene.is_acknowledged();
        scene.is_done();
    }
}

#[test]
fn what_cannot_be_prepared_again_is_sent_as_texts() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let sent = sent_by_ids(&mut scene);
    scene.void(0, sent[0].1);
    scene.void(2, sent[2].1);
    let mut id = Vec::new();
    write::short_bytes(&mut id, b"strange");
    scene.bench.say_unprepared(1, sent[1].1, &id);
    scene.carry_out();
    scene.is_unanswered();
    scene.wait_and_read(400);
    let (opcode, stream, body) = scene.one_at(1);
    assert_eq!(opcode, Opcode::Batch);
    let view = BatchView::parse(&body, Version::V4).expect("a BATCH");
    assert_eq!(got(&view), mixed_on(1, false));
    let first = BatchView::parse(&sent[1].2, Version::V4).expect("a BATCH");
    assert_eq!(
        times(&view.options),
        times(&first.options),
        "it is the same write"
    );
    scene.void(1, stream);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn a_copy_that_does_not_have_a_batch_is_evicted() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let sent = sent_by_ids(&mut scene);
    scene.void(0, sent[0].1);
    scene.void(1, sent[1].1);
    scene.wait_and_read(800);
    assert_eq!(scene.evicted(), [2]);
    scene.is_unanswered();
    scene.list = scene.list.evict(2).expect("two are left");
    scene.read();
    scene.wait_and_read(1_400);
    scene.is_acknowledged();
}

#[test]
fn a_batch_that_times_out_goes_on_and_is_no_batch_to_its_client() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.list = scene
        .list
        .evict(1)
        .and_then(|list| list.evict(2))
        .expect("one stays");
    scene.wait_and_read(1_400);
    let body = batch(Version::V4, LOGGED, &[(Ok(DELETE), &[])], None);
    let mut at_one = body.clone();
    let level = at_one.len() - 3;
    at_one[level..level + 2].copy_from_slice(&Consistency::ONE.0.to_be_bytes());
    ask(&mut scene, &at_one);
    let (_, stream, _) = scene.one_at(0);
    scene.wait_and_read(3_000);
    // As of a write of one partition, which is what it is: SIMPLE.
    let (code, why, numbers) = scene.counted();
    assert_eq!(code, code::WRITE_TIMEOUT, "{why}");
    assert_eq!(numbers, (Consistency::ONE.0, 0, 1));
    assert_eq!(scene.bench.engine.copied.len(), 1);
    scene.void(0, stream);
    scene.wait_and_read(400);
    assert_eq!(scene.bench.engine.copied.len(), 0);
}

#[test]
fn a_batch_that_all_copies_refuse_is_refused_with_the_tables_name() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let sent = sent_by_ids(&mut scene);
    for (node, (_, stream, _)) in sent.iter().enumerate() {
        let why = format!("no such column in app__{node}.orders");
        scene.error(node, *stream, code::INVALID, &why);
    }
    let (code, why) = scene.bench.error();
    assert_eq!(
        (code, &*why),
        (code::INVALID, "no such column in app.orders")
    );
    scene.is_done();
}

#[test]
fn a_batch_that_there_is_no_memory_for_is_refused_and_one_that_ends_gives_all_back() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    prepare(&mut scene);
    let long = [7; 2_000];
    let row: [&[u8]; 4] = [ONE, TWO, &long, TWO];
    let text = format!(
        "DELETE FROM app.orders WHERE /* {} */ customer = 1",
        "x".repeat(2_000)
    );
    let prepared: [Sent<'_>; 2] = [(Err(b"own"), &row), (Err(b"own"), &row)];
    let texts: [Sent<'_>; 2] = [(Ok(&text), &[]), (Ok(&text), &[])];
    // A text is held once for each copy.
    for (children, held) in [(prepared, 2 * long.len()), (texts, COPIES * long.len())] {
        let memory = scene.bench.engine.cx.memory.clone();
        let body = batch(Version::V4, LOGGED, &children, None);
        memory.set_max(memory.held() + 8_000);
        ask(&mut scene, &body);
        let (code, why) = scene.bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("memory_max"),
            "{why}"
        );
        memory.set_max(1 << 20);
        ask(&mut scene, &body);
        let least = held + 2 * long.len() * COPIES;
        assert!(memory.held() >= least, "{} of {least}", memory.held());
        answer_all(&mut scene);
        scene.is_acknowledged();
        scene.is_done();
        assert_eq!(memory.held(), 0);
    }
}

#[test]
fn levels_are_counted_as_for_single_writes() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.evict_others();
    scene.read();
    ask(
        &mut scene,
        &batch(Version::V4, LOGGED, &[(Ok(DELETE), &[])], None),
    );
    let (code, why, numbers) = scene.counted();
    assert_eq!(code, code::UNAVAILABLE, "{why}");
    assert_eq!(numbers, (Consistency::LOCAL_QUORUM.0, 2, 1));
    scene.is_done();
}
