//! What bounds a batch on copies: its bytes as texts, its memory, the work for its values; and the one partition of it.

use helenus_wire::BatchView;

use super::batches::{
    DELETE, LOGGED, ONE, ROW, Sent, TWO, UPDATE, answer_all, ask, batch, got, id_of, prepare,
    prepared, sent_by_ids,
};
use super::listed::MARKERS;
use super::*;
use crate::execution::copied_write::CopiedWrite;
use crate::execution::sent_to_copies::Written;
use crate::statement::prepared::Statement;
use crate::testing::bench::BIGINT;

const V4: (Version, Version) = (Version::V4, Version::V4);

/// Requests may have so many bytes.
fn bounded(bytes_max: usize) -> Scene {
    let mut config = Config::default();
    config.limits.request_bytes_max = bytes_max;
    Scene::with(config, V4)
}

/// The only write under way.
fn write_of(scene: &Scene) -> &CopiedWrite {
    let copied = &scene.bench.engine.copied;
    let keys = copied.keys();
    assert_eq!(keys.len(), 1);
    copied.get(keys[0]).expect("it is under way")
}

fn forget(scene: &mut Scene, copy: usize, id: &[u8]) {
    let copied = &mut scene.bench.engine.copied;
    let key = copied.keys()[0];
    let write = copied.get_mut(key).expect("it is under way");
    write.sent.forget_prepared(copy, id);
}

/// Answers PREPAREs until each of so many copies has been sent a batch of at most so many bytes, by ids.
fn sent_once_prepared(scene: &mut Scene, copies: usize, bytes_max: usize) {
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.extend(answer_all(scene));
        scene.wait_and_read(200);
    }
    assert_eq!(sent.len(), copies);
    for (copy, opcode, body) in sent {
        assert_eq!(opcode, Opcode::Batch);
        assert!(body.len() <= bytes_max, "{} bytes", body.len());
        let view = BatchView::parse(&body, Version::V4).expect("a BATCH");
        let is_id = |(statement, _): &(String, _)| *statement == id_of(INSERT, copy);
        assert!(got(&view).iter().all(is_id));
    }
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn what_is_too_long_as_texts_waits_until_it_is_prepared() {
    let bytes_max = 8_000;
    let mut scene = bounded(bytes_max);
    prepare(&mut scene);
    let children: Vec<Sent<'_>> = vec![(Err(b"own"), &ROW); 100];
    let body = batch(Version::V4, LOGGED, &children, None);
    let as_texts = body.len() + children.len() * (INSERT.len() - 3);
    assert!(body.len() < bytes_max && as_texts > bytes_max);
    ask(&mut scene, &body);
    sent_once_prepared(&mut scene, COPIES, bytes_max);
    // A node that does not know it any more is not sent the texts either.
    ask(&mut scene, &body);
    let sent = scene.one_each();
    scene.void(0, sent[0].1);
    scene.void(2, sent[2].1);
    let mut id = Vec::new();
    write::short_bytes(&mut id, b"strange");
    scene.bench.say_unprepared(1, sent[1].1, &id);
    scene.carry_out();
    scene.is_unanswered();
    scene.wait_and_read(200);
    sent_once_prepared(&mut scene, 1, bytes_max);
}

#[test]
fn what_the_nodes_do_not_prepare_is_not_written() {
    let mut scene = bounded(8_000);
    prepare(&mut scene);
    let children: Vec<Sent<'_>> = vec![(Err(b"own"), &ROW); 100];
    ask(&mut scene, &batch(Version::V4, LOGGED, &children, None));
    for _ in 0..20 {
        for node in 0..COPIES {
            for (opcode, stream, _) in scene.bench.at(node) {
                assert_eq!(opcode, Opcode::Prepare);
                scene.error(node, stream, code::INVALID, "no");
            }
        }
        scene.wait_and_read(200);
    }
    let (code, why) = scene.bench.error();
    let tells = why.contains("do not prepare") && why.contains("request_bytes_max");
    assert!(code == code::INVALID && tells, "{why}");
    assert_eq!(scene.bench.engine.copied.len(), 0);
    assert_eq!(scene.resyncs, [0_usize; 0], "nothing was written");
}

#[test]
fn what_fits_with_the_texts_of_what_is_not_prepared_is_written_once_the_rest_is() {
    let mut scene = bounded(8_000);
    prepare(&mut scene);
    let mut children: Vec<Sent<'_>> = vec![(Err(b"own"), &ROW); 100];
    children.push((Err(b"other"), &[ONE, ONE]));
    ask(&mut scene, &batch(Version::V4, LOGGED, &children, None));
    let mut later = Vec::new();
    for node in 0..COPIES {
        for (opcode, stream, body) in scene.bench.at(node) {
            assert_eq!(opcode, Opcode::Prepare);
            match body.windows(6).any(|of| of == b"UPDATE") {
                true => scene.error(node, stream, code::INVALID, "no"),
                false => later.push((node, stream, prepared(&scene, &body))),
            }
        }
    }
    scene.wait_and_read(400);
    scene.is_unanswered();
    for (node, stream, answer) in later {
        scene.bench.say_as(node, Opcode::Result, stream, &answer);
        scene.carry_out();
    }
    scene.wait_and_read(200);
    let sent = answer_all(&mut scene);
    let sent = sent
        .iter()
        .filter(|(_, opcode, _)| *opcode == Opcode::Batch);
    assert_eq!(sent.count(), COPIES);
    scene.is_acknowledged();
}

#[test]
fn what_is_not_prepared_for_one_copy_is_told_and_given_up() {
    let mut scene = bounded(8_000);
    prepare(&mut scene);
    let children: Vec<Sent<'_>> = vec![(Err(b"own"), &ROW); 100];
    ask(&mut scene, &batch(Version::V4, LOGGED, &children, None));
    let mut answers = Vec::new();
    for _ in 0..30 {
        for node in 0..COPIES {
            for (opcode, stream, body) in scene.bench.at(node) {
                let is_of = |copy: usize| {
                    let name = format!("app__{copy}");
                    body.windows(name.len()).any(|of| of == name.as_bytes())
                };
                match opcode {
                    Opcode::Prepare if is_of(1) => scene.error(node, stream, code::INVALID, "no"),
                    Opcode::Prepare => {
                        let answer = prepared(&scene, &body);
                        scene.bench.say_as(node, Opcode::Result, stream, &answer);
                        scene.carry_out();
                    }
                    _ => scene.void(node, stream),
                }
            }
        }
        answers.extend(scene.bench.answers());
        scene.wait_and_read(200);
    }
    let [(Opcode::Error, _, body)] = &answers[..] else {
        panic!("{answers:?}");
    };
    let error = helenus_wire::ErrorBody::parse(body).expect("an error");
    let tells = ["do not prepare", "is not known"];
    let tells = tells.iter().all(|of| error.message.contains(of));
    assert!(error.code == code::INVALID && tells, "{error:?}");
    assert_eq!(scene.bench.engine.copied.len(), 0);
    assert_eq!(scene.evicted(), [0_usize; 0], "it is not its copy's fault");
    assert_eq!(scene.resyncs.len(), 1);
}

#[test]
fn texts_that_are_too_long_on_copies_are_refused() {
    let mut scene = bounded(5_000);
    let children: Vec<Sent<'_>> = vec![(Ok(DELETE), &[]); 100];
    let body = batch(Version::V4, LOGGED, &children, None);
    assert!(body.len() < 5_000);
    ask(&mut scene, &body);
    let (code, why) = scene.bench.error();
    assert_eq!(code, code::INVALID);
    assert!(why.contains("request_bytes_max"), "{why}");
    scene.is_done();
}

#[test]
fn markers_of_the_same_name_have_values_of_their_own() {
    let texts = "BEGIN BATCH INSERT INTO app.orders (customer, day, status) VALUES (:k, 1, 'a'); \
                 INSERT INTO app.orders (customer, day, status) VALUES (:k, 2, 'a'); APPLY BATCH";
    let mut scene = Scene::new(V4.0, V4.1);
    let k = [("k", BIGINT), ("k", BIGINT)];
    scene.bench.prepare_of_any(texts, b"texts", &k);
    let execute = |scene: &mut Scene, values: &[&[u8]]| {
        let asking = Asking {
            values,
            ..Asking::default()
        };
        let body = asking.execute(V4.0, b"texts");
        scene.bench.ask(Opcode::Execute, 2, &body);
        scene.carry_out();
    };
    execute(&mut scene, &[ONE, TWO]);
    scene.is_refused(texts, "of another partition");
    assert_eq!(scene.intents, 0);
    execute(&mut scene, &[TWO, TWO]);
    assert_eq!(answer_all(&mut scene).len(), COPIES);
    scene.is_acknowledged();
    // The same where the value is not the first of its name.
    let update =
        "UPDATE app.orders SET total = :x WHERE customer = :x AND day = 2 AND status = 'a'";
    let x = [("x", BIGINT), ("x", BIGINT)];
    scene.bench.prepare_of_any(update, b"update", &x);
    for (values, is_same) in [([TWO, ONE], true), ([ONE, TWO], false)] {
        let children: [Sent<'_>; 2] = [(Ok(DELETE), &[]), (Err(b"update"), &values)];
        ask(&mut scene, &batch(V4.0, LOGGED, &children, None));
        match is_same {
            true => {
                assert_eq!(answer_all(&mut scene).len(), COPIES);
                scene.is_acknowledged();
            }
            false => scene.is_refused(update, "of another partition"),
        }
    }
}

#[test]
fn the_last_of_many_values_tells_its_partition() {
    let row = "INSERT INTO app.orders (customer, day, status, total) VALUES (?, ?, ?, ?); ";
    let text = format!("BEGIN BATCH {}APPLY BATCH", row.repeat(4_000));
    let mut values: Vec<&[u8]> = ROW.repeat(4_000);
    for is_same in [true, false] {
        let mut scene = Scene::new(V4.0, V4.1);
        if !is_same {
            values[4 * 3_999] = TWO;
        }
        let asking = Asking {
            values: &values,
            ..Asking::default()
        };
        scene.ask(&text, &asking);
        if is_same {
            assert_eq!(answer_all(&mut scene).len(), COPIES);
            scene.is_acknowledged();
            continue;
        }
        let (_, why) = scene.bench.error();
        assert!(why.starts_with("statement 4000 of the batch"), "{why}");
    }
}

#[test]
fn texts_in_a_batch_are_not_read_on_copies() {
    let mut scene = Scene::new(V4.0, V4.1);
    let children: [Sent<'_>; 2] = [(Ok(DELETE), &[]), (Ok(UPDATE), &[TWO, ONE])];
    ask(&mut scene, &batch(V4.0, LOGGED, &children, None));
    for copy in 0..COPIES {
        forget(&mut scene, copy, b"strange");
    }
    let sent = &write_of(&scene).sent;
    let Written::Batch(written) = &sent.written else {
        panic!("a batch");
    };
    for plan in written.plans() {
        assert!(plan.copies().iter().all(|of| !of.is_statement()));
    }
    assert_eq!(written.plans().count(), 2);
    answer_all(&mut scene);
    scene.is_acknowledged();
}

#[test]
fn nor_is_the_text_of_a_batch_and_what_was_read_of_it_counts() {
    let text = format!(
        "BEGIN BATCH {}APPLY BATCH",
        format!("{DELETE}; ").repeat(200)
    );
    let read = Statement::new(&text).byte_len();
    assert!(read > 8 * text.len(), "it has many statements");
    let mut scene = Scene::new(V4.0, V4.1);
    let memory = scene.bench.engine.cx.memory.clone();
    scene.ask(&text, &Asking::default());
    for copy in 0..COPIES {
        forget(&mut scene, copy, b"strange");
    }
    let write = write_of(&scene);
    let Written::Statement { plan, .. } = &write.sent.written else {
        panic!("a text");
    };
    assert!(plan.copies().iter().all(|of| !of.is_statement()));
    assert!(write.bytes() > read && memory.held() > read);
    answer_all(&mut scene);
    scene.is_acknowledged();
    scene.is_done();
    // A proxy that may not hold as much refuses it.
    let mut config = Config::default();
    config.limits.memory_max = Some(read - 1);
    let mut scene = Scene::with(config, V4);
    scene.ask(&text, &Asking::default());
    let (code, why) = scene.bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("memory_max"),
        "{why}"
    );
    scene.is_done();
}

#[test]
fn what_is_prepared_is_counted_once_for_all_that_execute_it() {
    let mut scene = Scene::new(V4.0, V4.1);
    let long = INSERT.replace(" VALUES", &format!("{}VALUES", " ".repeat(10_000)));
    scene.bench.prepare_of_any(&long, b"long", &MARKERS);
    let memory = scene.bench.engine.cx.memory.clone();
    let mut held = Vec::new();
    let mut requests = Vec::new();
    for at in 0..10 {
        let children: [Sent<'_>; 2] = [(Err(b"long"), &ROW), (Err(b"long"), &ROW)];
        match at % 2 {
            0 => ask(&mut scene, &batch(V4.0, LOGGED, &children, None)),
            _ => {
                let asking = Asking {
                    values: &ROW,
                    ..Asking::default()
                };
                let body = asking.execute(V4.0, b"long");
                scene.bench.ask(Opcode::Execute, 2, &body);
                scene.carry_out();
            }
        }
        for node in 0..COPIES {
            for (opcode, stream, body) in scene.bench.at(node) {
                match opcode {
                    Opcode::Prepare => {
                        let answer = prepared(&scene, &body);
                        scene.bench.say_as(node, Opcode::Result, stream, &answer);
                        scene.carry_out();
                    }
                    _ => requests.push((node, stream)),
                }
            }
        }
        held.push(memory.held());
    }
    assert!(held[0] > 3 * long.len(), "{held:?}");
    let more: Vec<usize> = held[4..].windows(2).map(|of| of[1] - of[0]).collect();
    assert!(more.iter().all(|more| *more < long.len()), "{held:?}");
    let copied = &scene.bench.engine.copied;
    let of_writes = copied.keys().into_iter().filter_map(|key| copied.get(key));
    let of_writes: usize = of_writes.map(CopiedWrite::bytes).sum();
    assert!(of_writes > 3 * long.len(), "{of_writes}");
    for (node, stream) in requests {
        scene.void(node, stream);
    }
    assert_eq!(scene.bench.answers().len(), 10);
    scene.wait_and_read(200);
    scene.is_done();
    assert_eq!(memory.held(), 0, "all of it is let go");
}

#[test]
fn only_what_a_node_has_forgotten_is_forgotten() {
    let mut scene = Scene::new(V4.0, V4.1);
    let sent_to = sent_by_ids(&mut scene);
    let ids = [INSERT, UPDATE].map(|text| id_of(text, 1));
    let known = |scene: &Scene| {
        let sent = &write_of(scene).sent;
        ids.each_ref()
            .map(|id| sent.prepared(1, id.as_bytes()).is_some())
    };
    assert_eq!(known(&scene), [true, true]);
    forget(&mut scene, 1, ids[1].as_bytes());
    assert_eq!(known(&scene), [true, false]);
    let sent = &write_of(&scene).sent;
    assert!(sent.prepared(0, id_of(UPDATE, 0).as_bytes()).is_some());
    forget(&mut scene, 1, b"strange");
    assert_eq!(known(&scene), [false, false]);
    for (node, (_, stream, _)) in sent_to.iter().enumerate() {
        scene.void(node, *stream);
    }
    scene.is_acknowledged();
}

#[test]
fn a_kind_of_batch_that_there_is_not_is_refused() {
    for kind in [3, 255] {
        let mut scene = Scene::new(V4.0, V4.1);
        prepare(&mut scene);
        let children: [Sent<'_>; 1] = [(Err(b"own"), &ROW)];
        ask(&mut scene, &batch(V4.0, kind, &children, None));
        let (code, why) = scene.bench.error();
        assert_eq!(code, code::PROTOCOL);
        assert!(why.contains(&format!("type {kind}")), "{why}");
        scene.is_done();
    }
}
