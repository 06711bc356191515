use std::time::Duration;

use helenus_capture::{
    Answer, Bound, Chunk, Request, Start, Statement, Value, kinds, marks, push_value,
};
use helenus_wire::{ColumnType, Opcode, write};

use super::answers::{Compared, Got, read};
use super::outcome::Gathered;
use super::play::{Sample, begin};
use super::statements::{Marker, Prepared, Sizes};
use super::traffic::Traffic;
use super::values::Made;

fn statement(text: &str, kinds: u8) -> Statement {
    Statement {
        text: text.to_owned(),
        kinds: kinds | kinds::WHOLE,
        ..Statement::default()
    }
}

/// A capture of requests, each of a statement with one value, as it is read for being played.
fn traffic(requests: &[(Statement, Request, u64)], writes: bool) -> Traffic {
    let mut chunk = Chunk::new(0);
    let mut value = Vec::new();
    push_value(&mut value, Some(b"12345678"), false, false);
    for (statement, request, took_us) in requests {
        let number = chunk.define(statement);
        let answer = Answer {
            took_us: *took_us,
            ..Answer::default()
        };
        let bound = Bound {
            statement: number,
            count: 1,
            values: &value,
            with_bytes: false,
        };
        chunk.record(request, Some(&answer), [bound].into_iter());
    }
    let mut bytes = Start::default().to_bytes();
    bytes.extend(chunk.into_bytes());
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    Traffic::read(file.path(), writes).expect("readable")
}

fn at(arrived_us: u64, connection: u64) -> Request {
    Request {
        connection,
        arrived_us,
        opcode: Opcode::Execute as u8,
        key: Some(1),
        ..Request::default()
    }
}

#[test]
fn what_is_not_played_is_counted_with_its_reason() {
    let read = statement("SELECT v FROM t WHERE k = ?", kinds::READ);
    let write = statement("UPDATE t SET v = ? WHERE k = 1", kinds::WRITE);
    let named = Request {
        marks: marks::NAMED,
        ..at(3, 1)
    };
    let prepare = Request {
        opcode: Opcode::Prepare as u8,
        ..at(4, 1)
    };
    let requests = [
        (read.clone(), at(1, 1), 5),
        (write.clone(), at(2, 1), 5),
        (read.clone(), named, 5),
        (read.clone(), prepare, 5),
        (
            statement("SELECT * FROM system.local", kinds::READ | kinds::LOCAL),
            at(5, 1),
            5,
        ),
        (statement("TRUNCATE t", 0), at(6, 1), 5),
    ];
    let played = traffic(&requests, false);
    assert_eq!(played.steps.len(), 1);
    assert_eq!(played.left_out.values().sum::<u64>(), 5);
    let reasons = played.reasons();
    for why in [
        "--writes",
        "names",
        "system tables",
        "prepared once",
        "neither",
    ] {
        assert!(reasons.contains(why), "{why}: {reasons}");
    }
    let with_writes = traffic(&requests, true);
    assert_eq!(with_writes.steps.len(), 2);
    assert!(!with_writes.steps[1].is_read);
}

#[test]
fn what_a_file_says_of_a_statement_is_not_believed() {
    let lies = |text: &str, sent: &str| Statement {
        sent: Some(sent.to_owned()),
        ..statement(text, kinds::READ)
    };
    let read = "SELECT v FROM t WHERE k = ?";
    let query = || Request {
        opcode: Opcode::Query as u8,
        ..at(1, 1)
    };
    let found = traffic(
        &[
            (lies(read, "DROP KEYSPACE shop"), query(), 1),
            (lies(read, "DELETE FROM t WHERE k = 1"), query(), 1),
            (lies(read, "SELECT * FROM system_auth.roles"), query(), 1),
            (
                statement("UPDATE t SET v = ? WHERE k = 1", kinds::READ),
                at(1, 1),
                1,
            ),
        ],
        false,
    );
    assert!(found.steps.is_empty(), "{:?}", found.steps);
    let reasons = found.reasons();
    assert!(
        reasons.contains("2 writes, which need --writes"),
        "{reasons}"
    );
}

#[test]
fn statements_that_differ_in_their_literals_are_shown_as_one() {
    let of = |sent: &str| Statement {
        sent: Some(sent.to_owned()),
        ..statement("SELECT v FROM t WHERE k = ?", kinds::READ)
    };
    let query = || Request {
        opcode: Opcode::Query as u8,
        ..at(1, 1)
    };
    let texts = ["SELECT v FROM t WHERE k = 1", "SELECT v FROM t WHERE k = 2"];
    let found = traffic(&texts.map(|text| (of(text), query(), 1)), false);
    let numbers: Vec<usize> = found.steps.iter().map(|step| step.statement()).collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(
        numbers.iter().map(|n| found.alike[*n]).collect::<Vec<_>>(),
        [0, 0]
    );
}

#[test]
fn made_up_values_hide_nothing_and_are_not_endless() {
    let of = |name, size| Made { key: 7, name, size };
    let written = of("[timestamp]", None)
        .of(of_type(0x02, &[0, 2]))
        .expect("made");
    let written = i64::from_be_bytes(written.try_into().expect("eight bytes"));
    let now_us = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_micros();
    assert!(
        (1_700_000_000_000_000..=now_us as i64).contains(&written),
        "{written}"
    );
    let long = of("v", Some(u32::MAX))
        .of(of_type(0x03, &[0, 3]))
        .expect("made");
    assert_eq!(long.len(), 16 << 20);
}

#[test]
fn pieces_are_of_equal_time_and_leave_nothing_out() {
    let read = statement("SELECT v FROM t WHERE k = ?", kinds::READ);
    // Not in the order of their times, as answers are.
    let times = [900_u64, 100, 0, 1_000, 400, 450, 990];
    let requests: Vec<_> = times
        .iter()
        .map(|us| (read.clone(), at(*us, 1), 1))
        .collect();
    let traffic = traffic(&requests, false);
    assert_eq!(traffic.length(), Duration::from_micros(1_000));
    let pieces: Vec<_> = (0..3).map(|number| traffic.piece(number, 3)).collect();
    assert_eq!(pieces, [0..2, 2..4, 4..7]);
    assert_eq!(traffic.piece(0, 1), 0..7);
}

#[test]
fn a_connection_has_as_many_in_flight_as_it_had() {
    let read = statement("SELECT v FROM t WHERE k = ?", kinds::READ);
    let requests = [
        (0, 1, 100),
        (50, 1, 100),
        (99, 1, 1),
        (100, 1, 5),
        (0, 2, 10),
        (20, 2, 10),
    ];
    let requests = requests.map(|(us, connection, took)| (read.clone(), at(us, connection), took));
    assert_eq!(traffic(&requests, false).widths, [3, 1]);
}

const TEXT: ColumnType<'_> = ColumnType::VARCHAR;

fn of_type(id: u16, raw: &'static [u8]) -> ColumnType<'static> {
    ColumnType { id, raw }
}

#[test]
fn a_key_has_one_value_and_other_keys_have_others() {
    let of = |key, name, size| Made { key, name, size }.of(TEXT).expect("a text");
    assert_eq!(of(1, "k", None), of(1, "k", None));
    assert_ne!(of(1, "k", None), of(2, "k", None));
    assert_ne!(of(1, "k", None), of(1, "other", None));
    assert_eq!(of(1, "k", Some(100)).len(), 100);
    assert!(std::str::from_utf8(&of(1, "k", Some(3))).is_ok());
}

#[test]
fn values_have_the_length_that_their_type_wants() {
    let made = |id, raw| {
        Made {
            key: 7,
            name: "c",
            size: Some(5),
        }
        .of(of_type(id, raw))
    };
    for (id, length) in [
        (0x02, 8),
        (0x03, 5),
        (0x04, 1),
        (0x07, 8),
        (0x08, 4),
        (0x09, 4),
        (0x0B, 8),
        (0x0C, 16),
        (0x0F, 16),
        (0x10, 4),
        (0x11, 4),
        (0x12, 8),
        (0x13, 2),
        (0x14, 1),
    ] {
        assert_eq!(
            made(id, &[]).map(|value| value.len()),
            Some(length),
            "{id:#x}"
        );
    }
    // list<int>: a count, a length, an int
    assert_eq!(
        made(0x20, &[0, 0x20, 0, 0x09]).map(|value| value.len()),
        Some(12)
    );
    assert_eq!(
        made(0x21, &[0, 0x21, 0, 0x09, 0, 0x14]).map(|value| value.len()),
        Some(17)
    );
    // A user's type
    assert_eq!(made(0x30, &[0, 0x30]), None);
    assert_eq!(made(0x20, &[0, 0x20, 0, 0x30]), None);
    let limit = Made {
        key: 7,
        name: "[limit]",
        size: Some(4),
    };
    assert_eq!(
        limit.of(of_type(0x09, &[])),
        Some(1_000_i32.to_be_bytes().to_vec())
    );
}

#[test]
fn recorded_values_are_used_and_only_missing_ones_made_up() {
    let marker = |name: &str| Marker {
        name: name.to_owned(),
        type_id: TEXT.id,
        type_raw: TEXT.raw.to_vec(),
    };
    let prepared = Prepared {
        id: Vec::new(),
        result_metadata_id: Vec::new(),
        markers: vec![marker("k"), marker("v")],
        key: vec![0],
        table: ("ks".to_owned(), "t".to_owned()),
    };
    let read = statement("SELECT v FROM t WHERE k = ?", kinds::READ);
    let traffic = traffic(&[(read, at(1, 1), 1)], false);
    let step = &traffic.steps[0];
    let whole = [Value::Bytes(b"a".to_vec()), Value::Null];
    let values =
        |recorded: &[Value], sizes: &Sizes| prepared.values(step, recorded, sizes).expect("values");
    assert_eq!(values(&whole, &Sizes::new()), whole);
    let mut sizes = Sizes::new();
    prepared.note_sizes(&[Value::Sized(3), Value::Sized(9)], &mut sizes);
    let made = values(&[Value::Sized(4), Value::Unset], &sizes);
    // A key has one size, so that it is found again.
    assert!(
        matches!(&made[..], [Value::Bytes(key), Value::Unset] if key.len() == 3),
        "{made:?}"
    );
    // A text with literals, whose values were not bound.
    assert_eq!(values(&[], &sizes).len(), 2);
    // No file fills the memory with what is made up: nodes take no such request.
    let mut large = Sizes::new();
    prepared.note_sizes(&[Value::Sized(16 << 20), Value::Sized(1)], &mut large);
    assert!(prepared.values(step, &[], &large).is_none());
}

fn rows(cells: &[&[u8]]) -> Got {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, 1);
    write::u32(&mut body, 1);
    write::string(&mut body, "ks");
    write::string(&mut body, "t");
    write::string(&mut body, "v");
    write::u16(&mut body, 0x03);
    write::u32(&mut body, cells.len() as u32);
    cells
        .iter()
        .for_each(|cell| write::bytes(&mut body, Some(cell)));
    got(Opcode::Result, body)
}

fn got(opcode: Opcode, body: Vec<u8>) -> Got {
    let answer = helenus_client::Answer {
        version: 5,
        flags: 0,
        stream: 1,
        opcode: opcode as u8,
        body,
    };
    read(Ok(Ok(answer))).got
}

#[test]
fn answers_are_compared_row_for_row() {
    let error = |code: i32| {
        let mut body = Vec::new();
        write::i32(&mut body, code);
        write::string(&mut body, "no");
        got(Opcode::Error, body)
    };
    let one = rows(&[b"a", b"b"]);
    for (other, compared) in [
        (rows(&[b"a", b"b"]), Compared::Same),
        (rows(&[b"b", b"a"]), Compared::Reordered),
        (rows(&[b"a", b"c"]), Compared::Different),
        (rows(&[b"a"]), Compared::Different),
        (rows(&[b"ab"]), Compared::Different),
        (error(0x1001), Compared::Failed),
        (Got::Nothing("client timeout"), Compared::Failed),
        (Got::Done, Compared::Different),
    ] {
        assert_eq!(one.compare(&other), compared, "{other:?}");
        assert_eq!(other.compare(&one), compared, "{other:?}");
    }
    assert_eq!(error(0x1001).compare(&error(0x1001)), Compared::Same);
    assert_eq!(error(0x1001).compare(&error(0x1100)), Compared::Failed);
    assert_eq!(
        got(Opcode::Result, vec![0]).failure(),
        Some("unreadable answer")
    );
}

#[test]
fn a_connection_is_as_wide_as_it_was_at_most() {
    let read = statement("SELECT v FROM t WHERE k = ?", kinds::READ);
    let steps = |took_us: u64| {
        let recorded: Vec<_> = (0..40_000)
            .map(|n| (read.clone(), at(n, 1), took_us))
            .collect();
        traffic(&recorded, false).widths
    };
    assert_eq!(steps(3), [3]);
    // Of a file that says that all were in flight at once.
    assert_eq!(steps(u64::MAX / 4), [32_767]);
}

#[test]
fn a_request_that_leaves_late_is_timed_from_when_it_was_due() {
    let due = std::time::Instant::now();
    let at = |ms| due + Duration::from_millis(ms);
    assert_eq!(begin(None, at(9)), (at(9), None));
    assert_eq!(
        begin(Some(due), at(1)),
        (at(1), Some(Duration::from_millis(1)))
    );
    assert_eq!(
        begin(Some(due), at(9)),
        (due, Some(Duration::from_millis(9)))
    );
}

#[test]
fn a_load_that_was_not_offered_is_told_of_each_endpoint() {
    let read = statement("SELECT v FROM t WHERE k = ?", kinds::READ);
    let requests: Vec<_> = (0..=1_000)
        .map(|n| (read.clone(), at(n * 1_000, 1), 1))
        .collect();
    let traffic = traffic(&requests, false);
    // The second endpoint's requests leave later and later: 1 s in the end.
    let played = [0, 1].map(|slower| {
        let sample = |step: usize| Sample {
            step,
            took: Duration::from_millis(1),
            late: Some(Duration::from_micros(slower * 1_000 * step as u64)),
            got: Got::Done,
            bytes: 0,
        };
        (0..=1_000).map(sample).collect::<Vec<_>>()
    });
    let mut gathered = Gathered::new(2);
    gathered.add_round(&traffic, &played, 1.0);
    let endpoints = ["a", "b"].map(|name| {
        let points = vec!["127.0.0.1:1".to_owned()];
        crate::client::endpoint::Endpoint::new(
            name.to_owned(),
            points,
            crate::client::endpoint::Policy::RoundRobin,
        )
    });
    let outcome = gathered.outcome(&endpoints, &traffic);
    let rates: Vec<_> = outcome
        .pace
        .iter()
        .map(|of| of.map(|of| of.reached_per_s.round()))
        .collect();
    assert_eq!(rates, [Some(1_001.0), Some(501.0)]);
    let behind = outcome.pace.iter().flatten().map(|of| of.fell_behind());
    assert_eq!(behind.collect::<Vec<_>>(), [false, true]);
    // Nothing is known of an endpoint that no request has left for.
    let mut gathered = Gathered::new(2);
    let [first, _] = played;
    gathered.add_round(&traffic, &[Vec::new(), first], 1.0);
    let outcome = gathered.outcome(&endpoints, &traffic);
    let known: Vec<bool> = outcome.pace.iter().map(Option::is_some).collect();
    assert_eq!(known, [false, true]);
}

#[test]
fn pages_of_reads_side_by_side_are_told_apart() {
    let scan = statement("SELECT v FROM t", kinds::READ);
    let page = |arrived_us, continues: bool, key| Request {
        page_size: Some(10),
        marks: if continues { marks::CONTINUES } else { 0 },
        key,
        ..at(arrived_us, 1)
    };
    let requests = [
        // Two scans at once; the second is answered first.
        (page(0, false, None), 100),
        (page(10, false, None), 20),
        (page(40, true, None), 30),
        (page(120, true, None), 10),
        // Another key, and a page whose read began before the capture.
        (page(130, true, Some(5)), 10),
        (page(140, true, None), 10),
    ];
    let requests = requests.map(|(request, took)| (scan.clone(), request, took));
    let traffic = traffic(&requests, false);
    let reads: Vec<usize> = traffic.steps.iter().map(|step| step.read).collect();
    assert_eq!(reads, [1, 2, 2, 1, 3, 1]);
}

#[test]
fn all_statements_of_a_batch_are_prepared_again() {
    let write = statement("UPDATE t SET v = ? WHERE k = 1", kinds::WRITE);
    let mut step = traffic(&[(write, at(0, 1), 1)], true).steps.remove(0);
    step.parts = [7, 3, 7, 5].map(|of| (of, Vec::new())).to_vec();
    assert_eq!(step.distinct_statements(), [3, 5, 7]);
}
