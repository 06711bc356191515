mod sent_again;

use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_wire::{
    BatchChild, BatchView, Consistency, ErrorBody, ExecuteView, Opcode, ValueRef, Version, code,
    write,
};

use crate::config::Config;
use crate::testing::Envelope;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec};

const INSERT: &str = "INSERT INTO app.others (customer, total) VALUES (?, ?)";
const TIMED: &str = "INSERT INTO app.others (customer, total) VALUES (?, ?) USING TIMESTAMP ?";
const OWN_ID: &[u8] = &[7; 16];
const TIMED_ID: &[u8] = &[8; 16];
const MARKERS: [Spec; 2] = [("customer", BIGINT), ("total", BIGINT)];
const TIMED_MARKERS: [Spec; 3] = [
    ("customer", BIGINT),
    ("total", BIGINT),
    ("[timestamp]", BIGINT),
];
const VOID: [u8; 4] = 1_i32.to_be_bytes();
const VERSIONS: [Version; 2] = [Version::V4, Version::V5];

fn bench(version: Version) -> Bench {
    let mut config = Config::default();
    config.aggregation.merge_writes = vec!["app.others".to_owned()];
    let mut bench = Bench::with(config, (version, version));
    bench.prepare_of(("app", "others"), INSERT, OWN_ID, &MARKERS);
    bench
}

fn write_of(version: Version, customer: u8, timestamp: Option<i64>) -> Vec<u8> {
    let key = [customer; 8];
    let asking = Asking {
        values: &[&key, &[3; 8]],
        timestamp,
        ..Asking::default()
    };
    asking.execute(version, OWN_ID)
}

/// The client writes to these partitions before anything is sent; stream and timestamp are the customer's.
fn write_all(bench: &mut Bench, customers: impl IntoIterator<Item = u8>) {
    for customer in customers {
        let body = write_of(bench.versions.0, customer, Some(customer.into()));
        bench.ask(Opcode::Execute, customer.into(), &body);
    }
}

/// Makes the nodes know what a write is in a batch: the client writes to a partition.
fn know_timed(bench: &mut Bench) {
    write_all(bench, [100]);
    let answer = prepared_timed(bench);
    for (opcode, stream, body) in bench.at_node() {
        match opcode {
            Opcode::Prepare => {
                assert_eq!(text_of(&body), TIMED);
                bench.say(Opcode::Result, stream, &answer);
            }
            _ => bench.say(Opcode::Result, stream, &VOID),
        }
    }
    assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
}

fn prepared_timed(bench: &Bench) -> Vec<u8> {
    bench.prepared(TIMED_ID, "others", &TIMED_MARKERS, &[])
}

fn text_of(prepare: &[u8]) -> String {
    let mut reader = helenus_wire::Reader::new(prepare);
    reader.long_string().expect("a text").to_owned()
}

/// Ids and values of a batch.
fn children(version: Version, batch: &Envelope) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    let (opcode, _, body) = batch;
    assert_eq!(*opcode, Opcode::Batch);
    let view = BatchView::parse(body, version).expect("a BATCH");
    assert_eq!(view.batch_type, 1);
    assert_eq!(view.options.consistency, Consistency(6));
    assert_eq!(view.options.timestamp, None);
    let child = |child: &BatchChild<'_>| match child {
        BatchChild::Prepared(id, values) => {
            let bytes = |(_, value)| match value {
                ValueRef::Set(bytes) => bytes.to_vec(),
                ValueRef::Null | ValueRef::Unset => Vec::new(),
            };
            (id.to_vec(), values.iter().map(bytes).collect())
        }
        BatchChild::Text(..) => panic!("a text"),
    };
    view.children.iter().map(child).collect()
}

fn timed_child(customer: u8) -> (Vec<u8>, Vec<Vec<u8>>) {
    let timestamp = i64::from(customer).to_be_bytes().to_vec();
    let values = vec![vec![customer; 8], vec![3; 8], timestamp];
    (TIMED_ID.to_vec(), values)
}

/// Streams and opcodes of what the client was answered, by stream.
fn answered(bench: &mut Bench) -> Vec<(i16, Opcode)> {
    let answers = bench.answers().into_iter();
    let mut answered: Vec<_> = answers
        .map(|(opcode, stream, _)| (stream, opcode))
        .collect();
    answered.sort_unstable_by_key(|(stream, _)| *stream);
    answered
}

fn counted(bench: &Bench) -> [u64; 3] {
    let global = &bench.common.stats.global;
    [
        &global.write_batches,
        &global.writes_merged,
        &global.write_batches_parted,
    ]
    .map(|counter| counter.load(Ordering::Relaxed))
}

#[test]
fn writes_that_wait_together_leave_as_one_batch_each_with_its_timestamp() {
    for version in VERSIONS {
        let mut bench = bench(version);
        know_timed(&mut bench);
        write_all(&mut bench, 1..=3);
        let batch = bench.one_at_node();
        let expected = [1, 2, 3].map(timed_child);
        assert_eq!(children(version, &batch), expected);
        bench.say(Opcode::Result, batch.1, &VOID);
        let all = [1, 2, 3].map(|stream| (stream, Opcode::Result));
        assert_eq!(answered(&mut bench), all);
        assert_eq!(counted(&bench), [1, 3, 0]);
        bench.is_done();
    }
}

#[test]
fn a_write_that_finds_no_other_leaves_as_it_came() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, [1]);
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(
        (opcode, &body),
        (Opcode::Execute, &write_of(Version::V5, 1, Some(1)))
    );
    // It has left: the next one goes by itself.
    write_all(&mut bench, [2]);
    let (opcode, second, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Execute);
    bench.say(Opcode::Result, stream, &VOID);
    bench.say(Opcode::Result, second, &VOID);
    assert_eq!(answered(&mut bench).len(), 2);
    assert_eq!(counted(&bench), [0; 3]);
    bench.is_done();
}

#[test]
fn writes_without_timestamps_go_as_they_were_prepared_and_not_with_others() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    for (customer, timestamp) in [(1, None), (2, Some(2)), (3, None), (4, Some(4))] {
        let body = write_of(Version::V5, customer, timestamp);
        bench.ask(Opcode::Execute, customer.into(), &body);
    }
    let sent = bench.at_node();
    let own = |customer| (OWN_ID.to_vec(), vec![vec![customer; 8], vec![3; 8]]);
    assert_eq!(children(Version::V5, &sent[0]), [own(1), own(3)]);
    assert_eq!(
        children(Version::V5, &sent[1]),
        [timed_child(2), timed_child(4)]
    );
    for (_, stream, _) in sent {
        bench.say(Opcode::Result, stream, &VOID);
    }
    assert_eq!(answered(&mut bench).len(), 4);
    bench.is_done();
}

#[test]
fn a_batch_has_each_partition_once_and_ten_at_most() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, [1, 2]);
    let again = write_of(Version::V5, 1, Some(9));
    bench.ask(Opcode::Execute, 9, &again);
    let sent = bench.at_node();
    assert_eq!(children(Version::V5, &sent[0]), [1, 2].map(timed_child));
    assert_eq!((sent[1].0, &sent[1].2), (Opcode::Execute, &again));
    write_all(&mut bench, 11..=35);
    let more = bench.at_node();
    let sizes: Vec<usize> = more
        .iter()
        .map(|e| children(Version::V5, e).len())
        .collect();
    assert_eq!(sizes, [10, 10, 5]);
    for (_, stream, _) in sent.into_iter().chain(more) {
        bench.say(Opcode::Result, stream, &VOID);
    }
    assert_eq!(answered(&mut bench).len(), 28);
    bench.is_done();
}

#[test]
fn a_batch_stays_below_what_nodes_warn_of() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    let large = vec![4; 500];
    for customer in 1..=3 {
        let asking = Asking {
            values: &[&[customer; 8], &large],
            timestamp: Some(1),
            ..Asking::default()
        };
        let body = asking.execute(Version::V5, OWN_ID);
        bench.ask(Opcode::Execute, customer.into(), &body);
    }
    let sent = bench.at_node();
    assert_eq!(children(Version::V5, &sent[0]).len(), 2);
    assert_eq!(sent[1].0, Opcode::Execute);
}

#[test]
fn after_an_error_that_tells_nothing_of_most_each_goes_by_itself() {
    for version in VERSIONS {
        let mut bench = bench(version);
        know_timed(&mut bench);
        write_all(&mut bench, 1..=3);
        let (_, stream, _) = bench.one_at_node();
        bench.say_error(stream, code::INVALID, "one of them is wrong", &[]);
        assert_eq!(bench.answers(), [], "none hears of the others' error");
        let sent = bench.at_node();
        assert_eq!(sent.len(), 3);
        for (customer, (opcode, stream, body)) in (1..).zip(&sent) {
            let own = write_of(version, customer, Some(customer.into()));
            assert_eq!((*opcode, body), (Opcode::Execute, &own));
            match customer {
                2 => bench.say_error(*stream, code::INVALID, "this one is wrong", &[]),
                _ => bench.say(Opcode::Result, *stream, &VOID),
            }
        }
        let expected = [(1, Opcode::Result), (2, Opcode::Error), (3, Opcode::Result)];
        assert_eq!(answered(&mut bench), expected);
        assert_eq!(counted(&bench), [1, 3, 1]);
        // For a while others go by themselves, too.
        write_all(&mut bench, 4..=5);
        let sent = bench.at_node();
        assert!(sent.iter().all(|(opcode, ..)| *opcode == Opcode::Execute));
        for (_, stream, _) in sent {
            bench.say(Opcode::Result, stream, &VOID);
        }
        assert_eq!(answered(&mut bench).len(), 2);
        bench.is_done();
    }
}

#[test]
fn a_time_out_is_told_to_each_as_that_of_a_single_write() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, 1..=2);
    let (_, stream, _) = bench.one_at_node();
    let fields = |write_type: &str| {
        let mut fields = Vec::new();
        write::u16(&mut fields, 6);
        write::i32(&mut fields, 1);
        write::i32(&mut fields, 2);
        write::string(&mut fields, write_type);
        fields
    };
    bench.say_error(
        stream,
        code::WRITE_TIMEOUT,
        "too late",
        &fields("UNLOGGED_BATCH"),
    );
    let answers = bench.answers();
    assert_eq!(answers.len(), 2);
    for (opcode, _, body) in &answers {
        assert_eq!(*opcode, Opcode::Error);
        let error = ErrorBody::parse(body).expect("an error");
        assert_eq!(
            (error.code, error.message),
            (code::WRITE_TIMEOUT, "too late")
        );
        assert_eq!(error.fields, fields("SIMPLE"));
    }
    bench.is_done();
}

#[test]
fn a_batch_that_a_node_never_answers_times_out_for_all() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, 1..=2);
    bench.one_at_node();
    bench.wait(Duration::from_secs(20));
    let answers = bench.answers();
    let codes: Vec<i32> = answers
        .iter()
        .map(|(_, _, body)| ErrorBody::parse(body).expect("an error").code)
        .collect();
    assert_eq!(codes, [code::WRITE_TIMEOUT; 2]);
}

#[test]
fn what_was_given_up_before_it_was_sent_is_not_sent() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, 1..=2);
    bench.wait(Duration::from_secs(20));
    assert_eq!(answered(&mut bench).len(), 2);
    let sent = bench.at_node();
    assert_eq!(sent, []);
    // Its stream is free again.
    bench.is_done();
}

#[test]
fn a_node_that_has_forgotten_the_statement_is_taught_it_again() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, 1..=2);
    let batch = bench.one_at_node();
    let mut id = Vec::new();
    write::short_bytes(&mut id, TIMED_ID);
    bench.say_error(batch.1, code::UNPREPARED, "unknown", &id);
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!((opcode, &*text_of(&body)), (Opcode::Prepare, TIMED));
    // Others cannot join it any more.
    write_all(&mut bench, [3]);
    let answer = prepared_timed(&bench);
    bench.say(Opcode::Result, stream, &answer);
    let sent = bench.at_node();
    let again = sent.iter().find(|(opcode, ..)| *opcode == Opcode::Batch);
    assert_eq!(again.expect("the batch again").2, batch.2);
    for (_, stream, _) in &sent {
        bench.say(Opcode::Result, *stream, &VOID);
    }
    assert_eq!(answered(&mut bench).len(), 3);
    bench.is_done();
}

#[test]
fn what_is_more_than_a_plain_write_goes_by_itself() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    let plain = Asking {
        values: &[&[1; 8], &[3; 8]],
        timestamp: Some(1),
        ..Asking::default()
    };
    let others = [
        // A serial consistency level that the others do not have.
        Asking {
            serial: Some(8),
            ..plain
        },
        // Values by their names.
        Asking {
            names: &["customer", "total"],
            ..plain
        },
        // Too few, and too many.
        Asking {
            values: &[&[1; 8]],
            ..plain
        },
        Asking {
            values: &[&[1; 8], &[3; 8], &[3; 8]],
            ..plain
        },
    ];
    for (stream, other) in (20..).zip(&others) {
        write_all(&mut bench, [2]);
        bench.ask(Opcode::Execute, stream, &other.execute(Version::V5, OWN_ID));
        let sent = bench.at_node();
        assert_eq!(sent.len(), 2);
        for (opcode, stream, body) in &sent {
            assert_eq!(*opcode, Opcode::Execute);
            assert!(ExecuteView::parse(body, Version::V5).is_ok_and(|view| view.id == OWN_ID));
            bench.say(Opcode::Result, *stream, &VOID);
        }
        assert_eq!(answered(&mut bench).len(), 2);
    }
    bench.is_done();
}

#[test]
fn another_table_is_not_merged() {
    let mut config = Config::default();
    config.aggregation.merge_writes = vec!["app.orders".to_owned(), "other".to_owned()];
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    bench.prepare_of(("app", "others"), INSERT, OWN_ID, &MARKERS);
    write_all(&mut bench, 1..=2);
    let sent = bench.at_node();
    assert!(sent.iter().all(|(opcode, ..)| *opcode == Opcode::Execute));
    assert_eq!(sent.len(), 2);
}

#[test]
fn who_parts_from_a_batch_that_may_have_been_applied_is_not_told_that_it_was_not() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, 1..=2);
    let (_, stream, _) = bench.one_at_node();
    bench.say_error(stream, code::SERVER, "something broke", &[]);
    let sent = bench.at_node();
    assert_eq!(sent.len(), 2);
    let mut fields = Vec::new();
    write::u16(&mut fields, 6);
    write::i32(&mut fields, 1);
    write::i32(&mut fields, 0);
    for (_, stream, _) in &sent {
        bench.say_error(*stream, code::UNAVAILABLE, "not enough", &fields);
    }
    let answers = bench.answers();
    let codes: Vec<i32> = answers
        .iter()
        .map(|(_, _, body)| ErrorBody::parse(body).expect("an error").code)
        .collect();
    assert_eq!(codes, [code::WRITE_TIMEOUT; 2]);
    bench.is_done();
}

#[test]
fn without_timestamps_what_may_have_been_applied_is_not_sent_again() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    for customer in [1, 2] {
        let body = write_of(Version::V5, customer, None);
        bench.ask(Opcode::Execute, customer.into(), &body);
    }
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Batch);
    bench.say_error(stream, code::SERVER, "something broke", &[]);
    assert_eq!(
        answered(&mut bench),
        [(1, Opcode::Error), (2, Opcode::Error)]
    );
    bench.is_done();
}

#[test]
fn what_may_be_of_several_partitions_is_not_merged() {
    let mut bench = bench(Version::V5);
    let id = [9; 16];
    let text = "UPDATE app.others SET total = ? WHERE customer IN (?)";
    bench.prepare_of(("app", "others"), text, &id, &[MARKERS[1], MARKERS[0]]);
    for customer in [1, 2] {
        let asking = Asking {
            values: &[&[3; 8], &[customer; 8]],
            ..Asking::default()
        };
        bench.ask(
            Opcode::Execute,
            customer.into(),
            &asking.execute(Version::V5, &id),
        );
    }
    let sent = bench.at_node();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|(opcode, ..)| *opcode == Opcode::Execute));
}

#[test]
fn nobody_joins_a_write_that_has_waited_for_long() {
    let mut bench = bench(Version::V5);
    know_timed(&mut bench);
    write_all(&mut bench, [1]);
    bench.wait(Duration::from_millis(300));
    write_all(&mut bench, [2, 3]);
    let sent = bench.at_node();
    assert_eq!(sent[0].0, Opcode::Execute);
    assert_eq!(children(Version::V5, &sent[1]), [2, 3].map(timed_child));
}
