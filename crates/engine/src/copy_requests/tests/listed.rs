//! Writes while the table itself is a member of its lists, beside its copies or alone.

use helenus_layout::insync::TABLE as ITSELF;
use helenus_wire::{BatchChild, BatchView, ExecuteView, QueryView, ValueRef};

use super::batches::{DELETE, LOGGED, ONE, Sent, TWO, UPDATE, batch, values_of};
use super::*;
use crate::testing::bench::{BIGINT, Spec, VARCHAR};

pub(super) const MARKERS: [Spec; 4] = [
    ("customer", BIGINT),
    ("day", BIGINT),
    ("status", VARCHAR),
    ("total", BIGINT),
];

/// What a node has been sent that is to be written to the table itself.
pub(super) struct Own {
    pub node: usize,
    pub stream: i16,
    pub opcode: Opcode,
    pub body: Vec<u8>,
}

/// The list with the table alone in sync.
pub(super) fn alone(scene: &mut Scene) {
    scene.list = Copies::new(Members::of(ITSELF), [1, 1, 1, 0, 0, 0]);
    scene.copies = Known::new(TIMING);
    scene.read();
}

/// The table joins its copies and is in sync.
pub(super) fn beside(scene: &mut Scene) {
    let joining = scene.list.join(ITSELF, 0).expect("it is out");
    scene.list = joining;
    scene.read();
    let since = joining.since(ITSELF);
    scene.list = joining.promote(ITSELF, since).expect("it has joined");
    scene.read();
}

fn evict_copies(scene: &mut Scene) {
    let out = (0..COPIES).try_fold(scene.list, |list, copy| list.evict(copy));
    scene.list = out.expect("the table is in sync");
    scene.read();
}

/// What nodes have been sent: of the table itself, and of copies, by node.
pub(super) fn sent(scene: &mut Scene) -> (Vec<Own>, Vec<(usize, i16)>) {
    let (mut own, mut copies) = (Vec::new(), Vec::new());
    for node in 0..scene.bench.nodes() {
        for (opcode, stream, body) in scene.bench.at(node) {
            let has = |part: &str| body.windows(part.len()).any(|of| of == part.as_bytes());
            match has("app__") || has("of ") {
                true => copies.push((node, stream)),
                false => own.push(Own {
                    node,
                    stream,
                    opcode,
                    body,
                }),
            }
        }
    }
    (own, copies)
}

pub(super) fn sent_to_table(scene: &mut Scene) -> Own {
    let (mut own, copies) = sent(scene);
    assert_eq!((own.len(), copies.len()), (1, 0));
    own.remove(0)
}

fn insert_at(scene: &mut Scene, level: Consistency) {
    let asking = Asking {
        values: &VALUES,
        timestamp: Some(12),
        ..Asking::default()
    };
    let mut body = asking.query(scene.bench.versions.0, INSERT);
    let level_at = 4 + INSERT.len();
    body[level_at..level_at + 2].copy_from_slice(&level.0.to_be_bytes());
    scene.bench.ask(Opcode::Query, 2, &body);
    scene.carry_out();
}

#[test]
fn a_table_alone_in_sync_is_written_as_the_client_has_it_at_quorum_at_least() {
    use Consistency as Of;
    let levels = [
        (Of::ANY, Of::QUORUM),
        (Of::ONE, Of::QUORUM),
        (Of::LOCAL_ONE, Of::QUORUM),
        (Consistency(2), Of::QUORUM),
        (Of::LOCAL_QUORUM, Of::LOCAL_QUORUM),
        (Of::QUORUM, Of::QUORUM),
        (Consistency(3), Consistency(3)),
        (Of::EACH_QUORUM, Of::EACH_QUORUM),
        (Of::ALL, Of::ALL),
    ];
    for versions in [(Version::V4, Version::V4), (Version::V4, Version::V5)] {
        let mut scene = Scene::new(versions.0, versions.1);
        alone(&mut scene);
        for (asked, wanted) in levels {
            insert_at(&mut scene, asked);
            let own = sent_to_table(&mut scene);
            let view = QueryView::parse(&own.body, versions.1).expect("a QUERY");
            let options = view.options;
            assert_eq!(
                (own.opcode, view.text, options.consistency),
                (Opcode::Query, INSERT, wanted)
            );
            assert_eq!(options.timestamp, Some(12));
            let has_now = options.now_in_seconds.is_some();
            assert_eq!(has_now, versions.1 == Version::V5);
            let values: Vec<_> = options.values.iter().map(|(_, value)| value).collect();
            assert_eq!(values, VALUES.map(ValueRef::Set));
            scene.is_unanswered();
            scene.void(own.node, own.stream);
            scene.is_acknowledged();
            scene.is_done();
        }
    }
}

#[test]
fn a_table_beside_its_copies_is_waited_for_like_them() {
    for joins in [false, true] {
        let mut scene = Scene::new(Version::V4, Version::V5);
        beside(&mut scene);
        if joins {
            let anew = scene.list.evict(ITSELF);
            let anew = anew.and_then(|list| list.join(ITSELF, 0));
            scene.list = anew.expect("it joins anew");
            scene.read();
        }
        scene.insert();
        let (own, copies) = sent(&mut scene);
        assert_eq!((own.len(), copies.len()), (1, COPIES));
        for (node, stream) in copies {
            scene.void(node, stream);
        }
        scene.is_unanswered();
        scene.void(own[0].node, own[0].stream);
        scene.is_acknowledged();
        scene.is_done();
    }
}

#[test]
fn what_the_client_has_prepared_is_executed_on_the_table_by_its_own_id() {
    let mut scene = Scene::new(Version::V4, Version::V5);
    scene.bench.prepare_of_any(INSERT, b"own", &MARKERS);
    alone(&mut scene);
    let asking = Asking {
        values: &VALUES,
        ..Asking::default()
    };
    let body = asking.execute(scene.bench.versions.0, b"own");
    scene.bench.ask(Opcode::Execute, 2, &body);
    scene.carry_out();
    let mut own = Vec::new();
    for node in 0..scene.bench.nodes() {
        let executed = scene.bench.at(node).into_iter();
        let executed = executed.filter(|(opcode, ..)| *opcode == Opcode::Execute);
        own.extend(executed.map(|(_, stream, body)| (node, stream, body)));
    }
    assert_eq!(own.len(), 1);
    let (node, stream, body) = own.remove(0);
    let view = ExecuteView::parse(&body, Version::V5).expect("an EXECUTE");
    assert_eq!(view.id, b"own");
    assert_eq!(view.options.consistency, Consistency::LOCAL_QUORUM);
    assert!(view.options.timestamp.is_some());
    scene.void(node, stream);
    scene.is_acknowledged();
}

#[test]
fn a_table_that_is_silent_is_never_evicted_and_its_write_goes_on() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    scene.insert();
    let (own, copies) = sent(&mut scene);
    for (node, stream) in copies {
        scene.void(node, stream);
    }
    scene.wait_and_read(1_800);
    assert_eq!(scene.evicted(), [0_usize; 0]);
    scene.is_unanswered();
    let mut answers = Vec::new();
    let mut last = own;
    for _ in 0..30 {
        scene.wait_and_read(200);
        answers.extend(scene.bench.answers());
        last.extend(sent(&mut scene).0);
        if !answers.is_empty() {
            break;
        }
    }
    assert_eq!(scene.evicted(), [0_usize; 0]);
    assert_eq!(answers.len(), 1, "it has timed out");
    assert_eq!(scene.bench.engine.copied.len(), 1, "it goes on");
    for own in last {
        scene.void(own.node, own.stream);
    }
    assert_eq!(scene.bench.engine.copied.len(), 0);
    assert_eq!(scene.resyncs, [0_usize; 0]);
}

#[test]
fn a_write_whose_coordinator_is_lost_is_sent_to_the_table_through_another() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    insert_at(&mut scene, Consistency::ONE);
    let first = sent_to_table(&mut scene);
    scene.bench.break_link_to(first.node);
    scene.carry_out();
    let mut again = sent(&mut scene).0;
    if again.is_empty() {
        scene.wait_and_read(200);
        again = sent(&mut scene).0;
    }
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].node, first.node);
    scene.is_unanswered();
    scene.void(again[0].node, again[0].stream);
    scene.is_acknowledged();
}

#[test]
fn replicas_that_are_missing_are_waited_for_and_told_at_the_clients_level() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    insert_at(&mut scene, Consistency::ONE);
    for pause_ms in [200, 200, 400] {
        let own = sent_to_table(&mut scene);
        let mut fields = Vec::new();
        write::u16(&mut fields, Consistency::QUORUM.0);
        write::i32(&mut fields, 1);
        write::i32(&mut fields, 2);
        write::string(&mut fields, "SIMPLE");
        let mut body = Vec::new();
        write::i32(&mut body, code::WRITE_TIMEOUT);
        write::string(&mut body, "Operation timed out");
        body.extend_from_slice(&fields);
        scene
            .bench
            .say_as(own.node, Opcode::Error, own.stream, &body);
        scene.carry_out();
        scene.is_unanswered();
        scene.wait_and_read(pause_ms);
    }
    let own = sent_to_table(&mut scene);
    scene.void(own.node, own.stream);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn a_statement_that_the_table_refuses_is_refused() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    scene.insert();
    let own = sent_to_table(&mut scene);
    scene.error(own.node, own.stream, code::INVALID, "Undefined column name");
    assert_eq!(
        scene.bench.error(),
        (code::INVALID, "Undefined column name".to_owned())
    );
    scene.is_done();
}

#[test]
fn a_table_that_has_just_left_is_waited_for_until_nobody_can_read_it() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    scene.list = scene.list.evict(ITSELF).expect("copies are in sync");
    scene.read();
    scene.insert();
    let (own, copies) = sent(&mut scene);
    assert_eq!((own.len(), copies.len()), (1, COPIES));
    for (node, stream) in copies {
        scene.void(node, stream);
    }
    scene.wait_and_read(800);
    scene.is_unanswered();
    scene.wait_and_read(200);
    scene.is_acknowledged();
    scene.insert();
    let (own, copies) = sent(&mut scene);
    assert_eq!((own.len(), copies.len()), (0, COPIES), "it is forgotten");
}

#[test]
fn a_table_that_joins_is_sent_what_is_under_way() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.insert_but_one();
    let (own, copies) = sent(&mut scene);
    assert_eq!((own.len(), copies.len()), (0, 1));
    scene.list = scene.list.join(ITSELF, 0).expect("it is out");
    scene.read();
    scene.void(copies[0].0, copies[0].1);
    scene.is_unanswered();
    let own = sent_to_table(&mut scene);
    scene.void(own.node, own.stream);
    scene.is_acknowledged();
    scene.is_done();
}

#[test]
fn copies_that_leave_together_leave_the_table() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    beside(&mut scene);
    scene.insert();
    let (own, copies) = sent(&mut scene);
    evict_copies(&mut scene);
    scene.void(own[0].node, own[0].stream);
    scene.void(copies[0].0, copies[0].1);
    scene.wait_and_read(800);
    scene.is_unanswered();
    scene.wait_and_read(400);
    scene.is_acknowledged();
    insert_at(&mut scene, Consistency::ALL);
    // The first write may still be sent to copies.
    let (own, _) = sent(&mut scene);
    assert_eq!(own.len(), 1);
    scene.void(own[0].node, own[0].stream);
    scene.is_acknowledged();
    assert_eq!(scene.evicted(), [0_usize; 0]);
}

#[test]
fn a_write_is_done_on_the_table_when_the_catalogue_forgets_its_copies() {
    for is_sent in [true, false] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        alone(&mut scene);
        scene.takes_intents = is_sent;
        scene.insert();
        let before = match is_sent {
            true => Some(sent_to_table(&mut scene)),
            false => None,
        };
        scene.nothing_sent();
        scene.bench.adopt_none();
        scene.publish();
        scene.is_unanswered();
        let own = before.unwrap_or_else(|| sent_to_table(&mut scene));
        scene.void(own.node, own.stream);
        scene.is_acknowledged();
        scene.is_done();
        assert_eq!(scene.resyncs, [0_usize; 0]);
    }
}

#[test]
fn a_write_whose_coordinator_stands_still_is_sent_to_the_table_through_another() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    insert_at(&mut scene, Consistency::ONE);
    let first = sent_to_table(&mut scene);
    let mut again = Vec::new();
    for _ in 0..8 {
        scene.wait_and_read(200);
        again.extend(sent(&mut scene).0);
        if !again.is_empty() {
            break;
        }
    }
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].node, first.node);
    scene.is_unanswered();
    scene.void(again[0].node, again[0].stream);
    scene.is_acknowledged();
    assert_eq!(scene.bench.engine.copied.len(), 0);
}

#[test]
fn what_a_lost_coordinator_may_have_written_is_not_said_to_be_refused() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    scene.insert();
    let first = sent_to_table(&mut scene);
    scene.bench.break_link_to(first.node);
    scene.carry_out();
    let mut answers = Vec::new();
    let mut refused = 0;
    for _ in 0..30 {
        for own in sent(&mut scene).0 {
            refused += 1;
            scene.error(own.node, own.stream, code::INVALID, "Undefined column name");
        }
        answers.extend(scene.bench.answers());
        if !answers.is_empty() {
            break;
        }
        scene.wait_and_read(200);
    }
    assert!(refused > 1, "it goes on until its time is up");
    let [(Opcode::Error, _, body)] = &answers[..] else {
        panic!("{answers:?}");
    };
    let error = helenus_wire::ErrorBody::parse(body).expect("an error");
    let is_unknown = error.message.contains("is not known");
    assert!(error.code == code::INVALID && is_unknown, "{error:?}");
    assert_eq!(scene.bench.engine.copied.len(), 0);
    assert_eq!(scene.resyncs.len(), 1);
}

#[test]
fn a_write_on_the_table_is_given_up_when_it_has_copies_again() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    scene.insert();
    let own = sent_to_table(&mut scene);
    scene.bench.adopt_none();
    scene.publish();
    scene.is_unanswered();
    assert_eq!(scene.bench.engine.copied.len(), 1);
    scene.adopt(table());
    scene.read();
    let (code, why, _) = scene.counted();
    assert!(
        code == code::WRITE_TIMEOUT && why.contains("copies are others"),
        "{why}"
    );
    assert_eq!(scene.bench.engine.copied.len(), 0);
    assert_eq!(scene.resyncs.len(), 1);
    scene.void(own.node, own.stream);
    scene.is_unanswered();
}

#[test]
fn a_write_on_the_table_that_nobody_waits_for_is_soon_given_up() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    alone(&mut scene);
    scene.insert();
    sent_to_table(&mut scene);
    scene.bench.adopt_none();
    scene.publish();
    scene.wait(4_000);
    assert_eq!(scene.bench.error().0, code::WRITE_TIMEOUT);
    assert_eq!(scene.bench.engine.copied.len(), 1);
    scene.wait(7_000);
    assert_eq!(scene.bench.engine.copied.len(), 0);
    assert_eq!(scene.resyncs.len(), 1);
}

#[test]
fn what_a_table_has_acknowledged_while_it_joined_tells_that_copies_are_late() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let joining = scene.list.join(ITSELF, 0).expect("it is out");
    scene.list = joining;
    scene.read();
    scene.insert();
    let (own, _) = sent(&mut scene);
    scene.void(own[0].node, own[0].stream);
    let promoted = joining.promote(ITSELF, joining.since(ITSELF));
    scene.list = promoted.expect("it has joined");
    scene.read();
    // It is asked again, and silent.
    scene.wait_and_read(1_000);
    assert!(!scene.evictions.is_empty());
}

#[test]
fn a_batch_is_sent_to_the_table_as_it_came() {
    for versions in [
        (Version::V3, Version::V4),
        (Version::V4, Version::V5),
        (Version::V5, Version::V5),
    ] {
        let mut scene = Scene::new(versions.0, versions.1);
        alone(&mut scene);
        let id = b"own".as_slice();
        scene.bench.prepare_of_any(INSERT, id, &MARKERS);
        let values: [&[u8]; 4] = [ONE, TWO, b"open", TWO];
        let children: [Sent<'_>; 3] = [
            (Ok(DELETE), &[]),
            (Err(id), &values),
            (Ok(UPDATE), &[TWO, ONE]),
        ];
        let body = batch(versions.0, LOGGED, &children, Some(12));
        scene.bench.ask(Opcode::Batch, 2, &body);
        scene.carry_out();
        // Beside it, what is on copies is prepared there.
        let (own, _) = sent(&mut scene);
        let [own] = own.as_slice() else {
            panic!("one request");
        };
        assert_eq!(own.opcode, Opcode::Batch);
        let view = BatchView::parse(&own.body, versions.1).expect("a BATCH");
        assert_eq!(view.statements, &body[..view.statements.len()]);
        assert_eq!(view.options.timestamp, Some(12));
        assert_eq!(view.options.consistency, Consistency::LOCAL_QUORUM);
        let has_now = view.options.now_in_seconds.is_some();
        assert_eq!(has_now, versions.1 == Version::V5);
        let BatchChild::Prepared(sent_id, sent_values) = &view.children[1] else {
            panic!("it was prepared");
        };
        assert_eq!(
            (*sent_id, values_of(sent_values)),
            (id, values.map(<[u8]>::to_vec).to_vec())
        );
        scene.is_unanswered();
        scene.void(own.node, own.stream);
        scene.is_acknowledged();
    }
}
