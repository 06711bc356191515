use std::time::Duration;

use helenus_wire::{ErrorBody, Opcode, Version, code, write};

use super::*;
use crate::config::Config;
use crate::output::LinkEnd;
use crate::shared::WorkerMessage;
use crate::snapshot::list_columns::ListColumns;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, VARCHAR};

const NODES: usize = 3;
const TIME: Option<i64> = Some(1_700_000_000_000_000);

/// How a node request is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// Its coordinator misses replicas.
    Unavailable,
    /// Its node has closed the connection.
    ByNode,
    /// The connection has ended in another way.
    Cut,
    /// Its node stands still, until the link is closed.
    Silence,
}

const ALL: [Lost; 4] = [Lost::Unavailable, Lost::ByNode, Lost::Cut, Lost::Silence];

impl Resendable {
    fn expected(self) -> Vec<Lost> {
        match self {
            Resendable::IfNotBegun => Vec::new(),
            Resendable::IfOver => vec![Lost::Unavailable, Lost::ByNode],
            Resendable::Always => ALL.to_vec(),
        }
    }
}

fn bench() -> Bench {
    Bench::with_nodes(NODES as u8, Config::default(), (Version::V5, Version::V5))
}

/// The nodes that have been sent something since, and on which streams.
fn asked(bench: &mut Bench) -> Vec<(usize, i16)> {
    let at = |node| {
        bench
            .at(node)
            .into_iter()
            .map(move |(_, stream, _)| (node, stream))
    };
    (0..NODES).flat_map(at).collect()
}

/// After which losses a request is sent to another node.
fn sent_again(mut begin: impl FnMut(&mut Bench), opcode: Opcode, body: &[u8]) -> Vec<Lost> {
    let is_sent_again = |lost: &Lost| {
        let mut bench = bench();
        begin(&mut bench);
        bench.ask(opcode, 7, body);
        let first = asked(&mut bench);
        let [(node, stream)] = first[..] else {
            panic!("{first:?}");
        };
        match lost {
            Lost::Unavailable => miss_replicas(&mut bench, node, stream),
            Lost::ByNode => bench.end_link(node, LinkEnd::ByNode),
            Lost::Cut => bench.end_link(node, LinkEnd::Cut),
            Lost::Silence => bench.wait(Duration::from_millis(3_700)),
        }
        let again = asked(&mut bench);
        assert_eq!(again.is_empty(), !bench.answers().is_empty(), "{lost:?}");
        assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
        !again.is_empty()
    };
    ALL.into_iter().filter(is_sent_again).collect()
}

fn miss_replicas(bench: &mut Bench, node: usize, stream: i16) {
    let mut fields = Vec::new();
    write::u16(&mut fields, 6);
    write::i32(&mut fields, 2);
    write::i32(&mut fields, 1);
    let error = ErrorBody {
        code: code::UNAVAILABLE,
        message: "Cannot achieve consistency level",
        fields: &fields,
    };
    let mut body = Vec::new();
    error.write(&mut body);
    bench.say_as(node, Opcode::Error, stream, &body);
}

fn check_text(text: &str, timestamp: Option<i64>, expected: Resendable) {
    let asking = Asking {
        timestamp,
        ..Asking::default()
    };
    let body = asking.query(Version::V5, text);
    let again = sent_again(|_| (), Opcode::Query, &body);
    assert_eq!(again, expected.expected(), "{text}");
}

#[test]
fn what_may_replace_a_list_is_never_sent_twice() {
    for text in [
        "INSERT INTO app.listed (customer, l) VALUES (1, ['a', 'b'])",
        "UPDATE app.listed SET x = 1, l = ['a', 'b'] WHERE customer = 1",
        "INSERT INTO app.listed JSON '{\"customer\": 1, \"l\": [\"a\"]}'",
        "INSERT INTO app.listed (customer, unknown) VALUES (1, ['a'])",
        "INSERT INTO app.unknown (customer, x) VALUES (1, ['a'])",
        "BEGIN BATCH INSERT INTO app.others (customer, x) VALUES (1, 2) \
         INSERT INTO app.listed (customer, l) VALUES (1, ['a']) APPLY BATCH",
        "BEGIN UNLOGGED BATCH UPDATE app.listed SET l = ['a'] WHERE customer = 1 APPLY BATCH",
        "UPDATE app.listed SET l = l + ['a'] WHERE customer = 1",
        "UPDATE app.listed SET l = ['a'] + l WHERE customer = 1",
        "UPDATE app.listed SET l[0] = 'a' WHERE customer = 1",
        "DELETE l[0] FROM app.listed WHERE customer = 1",
        "INSERT INTO app.listed (customer, x) VALUES (1, 2) IF NOT EXISTS",
        "INSERT INTO app.listed (customer, status) VALUES (1, f())",
    ] {
        check_text(text, TIME, Resendable::IfNotBegun);
    }
}

#[test]
fn other_writes_with_a_clients_time_are_sent_again_whatever_has_become_of_them() {
    for text in [
        "INSERT INTO app.listed (customer, f, s) VALUES (1, ['a', 'b'], {'c'})",
        "INSERT INTO app.listed (customer, l) VALUES (1, null)",
        "INSERT INTO app.others JSON '{\"customer\": 1, \"x\": 1}'",
        "UPDATE app.listed SET f = ['a'], x = 2 WHERE customer = 1",
        "DELETE l FROM app.listed WHERE customer = 1",
        "DELETE FROM app.listed WHERE customer = 1",
        "BEGIN BATCH INSERT INTO app.listed (customer, f) VALUES (1, ['a']) APPLY BATCH",
    ] {
        check_text(text, TIME, Resendable::Always);
    }
}

#[test]
fn a_write_without_a_clients_time_is_not_sent_again_while_a_node_may_still_execute_it() {
    for text in [
        "INSERT INTO app.others (customer, x) VALUES (1, 2)",
        "UPDATE app.others SET x = 1 WHERE customer = 1",
        "DELETE FROM app.others WHERE customer = 1",
        "BEGIN BATCH INSERT INTO app.others (customer, x) VALUES (1, 2) USING TIMESTAMP 5 \
         INSERT INTO app.others (customer, x) VALUES (2, 2) APPLY BATCH",
    ] {
        check_text(text, None, Resendable::IfOver);
        check_text(text, Some(i64::MIN), Resendable::IfOver);
    }
    for text in [
        "SELECT x FROM app.others WHERE customer = 1",
        "INSERT INTO app.others (customer, x) VALUES (1, 2) USING TIMESTAMP 5",
        "BEGIN BATCH USING TIMESTAMP 5 INSERT INTO app.others (customer, x) VALUES (1, 2) APPLY BATCH",
        "BEGIN BATCH INSERT INTO app.others (customer, x) VALUES (1, 2) USING TIMESTAMP 5 APPLY BATCH",
    ] {
        check_text(text, None, Resendable::Always);
    }
}

const ID: &[u8] = &[3; 16];

#[test]
fn prepared_writes_are_judged_by_the_schema_too() {
    let values: &[&[u8]] = &[&[0; 8], b"v"];
    let list = [("customer", BIGINT), ("l", VARCHAR)];
    let plain = [("customer", BIGINT), ("status", VARCHAR)];
    for (text, markers, timestamp, expected) in [
        (
            "INSERT INTO app.listed (customer, l) VALUES (?, ?)",
            list,
            TIME,
            Resendable::IfNotBegun,
        ),
        (
            "INSERT INTO app.listed (customer, status) VALUES (?, ?)",
            plain,
            TIME,
            Resendable::Always,
        ),
        (
            "INSERT INTO app.listed (customer, status) VALUES (?, ?)",
            plain,
            None,
            Resendable::IfOver,
        ),
    ] {
        let asking = Asking {
            values,
            timestamp,
            ..Asking::default()
        };
        let begin = |bench: &mut Bench| know(bench, text, &markers);
        let body = asking.execute(Version::V5, ID);
        assert_eq!(
            sent_again(begin, Opcode::Execute, &body),
            expected.expected(),
            "{text}"
        );
        let body = batch(values, timestamp);
        assert_eq!(
            sent_again(begin, Opcode::Batch, &body),
            expected.expected(),
            "a batch of {text}"
        );
    }
}

/// All nodes know the statement.
fn know(bench: &mut Bench, text: &str, markers: &[Spec]) {
    bench.prepare_at_any(text, ID, markers);
    let prepared = bench.prepared(ID, "others", markers, &[]);
    for (node, stream) in asked(bench) {
        bench.say_as(node, Opcode::Result, stream, &prepared);
    }
}

/// A batch of the prepared statement.
fn batch(values: &[&[u8]], timestamp: Option<i64>) -> Vec<u8> {
    let mut body = vec![0];
    write::u16(&mut body, 1);
    body.push(1);
    write::short_bytes(&mut body, ID);
    write::u16(&mut body, values.len() as u16);
    for value in values {
        write::bytes(&mut body, Some(value));
    }
    let options = Asking {
        timestamp,
        ..Asking::default()
    };
    options.write(Version::V5, &mut body);
    body
}

#[test]
fn a_prepared_write_is_judged_by_the_newest_schema() {
    const TEXT: &str = "INSERT INTO app.others (customer, added) VALUES (?, ?)";
    let markers = [("customer", BIGINT), ("added", VARCHAR)];
    let asking = Asking {
        values: &[&[0; 8], b"v"],
        timestamp: TIME,
        ..Asking::default()
    };
    let body = asking.execute(Version::V5, ID);
    // The second type takes the place of the first, and the statement has been judged in between.
    for (first, second, expected) in [
        (None, Some("text"), Resendable::Always),
        (Some("text"), Some("list<text>"), Resendable::IfNotBegun),
    ] {
        let begin = |bench: &mut Bench| {
            know(bench, TEXT, &markers);
            add_column(bench, first);
            bench.ask(Opcode::Execute, 9, &body);
            for (node, stream) in asked(bench) {
                bench.say_as(node, Opcode::Result, stream, &1_i32.to_be_bytes());
            }
            assert_eq!(bench.answer().0, Opcode::Result);
            add_column(bench, second);
        };
        let again = sent_again(begin, Opcode::Execute, &body);
        assert_eq!(again, expected.expected(), "{first:?}, then {second:?}");
    }
}

/// The schema says that the table has a further column of this type.
fn add_column(bench: &mut Bench, cql_type: Option<&str>) {
    let mut lists = ListColumns::default();
    lists.note("app", "others", "customer", "bigint");
    if let Some(cql_type) = cql_type {
        lists.note("app", "others", "added", cql_type);
    }
    let next = bench.common.snapshot.load().successor().lists(lists);
    bench.common.store(next.build());
    bench.engine.on_message(bench.now, WorkerMessage::Snapshot);
}

#[test]
fn a_timestamp_that_is_not_set_is_none() {
    const TEXT: &str = "INSERT INTO app.others (customer, x) VALUES (?, ?) USING TIMESTAMP ?";
    let markers = [("customer", BIGINT), ("x", BIGINT), ("[timestamp]", BIGINT)];
    let begin = |bench: &mut Bench| know(bench, TEXT, &markers);
    let values: [&[u8]; 3] = [&[0; 8]; 3];
    let asking = Asking {
        values: &values,
        ..Asking::default()
    };
    let mut body = asking.execute(Version::V5, ID);
    let again = sent_again(begin, Opcode::Execute, &body);
    assert_eq!(again, Resendable::Always.expected());
    // The last value, which says that it is not set.
    body.truncate(body.len() - 12);
    write::i32(&mut body, -2);
    let again = sent_again(begin, Opcode::Execute, &body);
    assert_eq!(again, Resendable::IfOver.expected());
}

#[test]
fn what_has_not_left_is_sent_again_whatever_it_is() {
    let text = "UPDATE app.listed SET l = l + ['a'] WHERE customer = 1";
    let body = Asking::default().query(Version::V5, text);
    let mut bench = bench();
    bench.ask(Opcode::Query, 7, &body);
    for node in 0..NODES - 1 {
        bench.end_link(node, LinkEnd::Cut);
    }
    let asked = asked(&mut bench);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(bench.answers(), []);
}
