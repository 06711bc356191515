use std::time::Duration;

use helenus_wire::{Opcode, Version, code, write};

use crate::config::Config;
use crate::testing::bench::{Asking, Bench};

#[test]
fn what_is_local_to_a_node_is_asked_of_another_when_it_stands_still() {
    for text in [
        "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'app'",
        "DESCRIBE KEYSPACE app",
    ] {
        let mut bench = Bench::with_nodes(2, Config::default(), (Version::V5, Version::V5));
        let query = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 1, &query);
        let [first] = asked(&mut bench)[..] else {
            panic!("one node is asked: {text}");
        };
        let another = (0..100).find_map(|_| {
            bench.wait(Duration::from_millis(100));
            asked(&mut bench).pop()
        });
        let (node, stream) = another.unwrap_or_else(|| panic!("{text}: {:?}", bench.answers()));
        assert_ne!(node, first.0, "{text}");
        bench.say_as(node, Opcode::Result, stream, &1_i32.to_be_bytes());
        let answers = bench.answers();
        assert!(
            matches!(answers[..], [(Opcode::Result, 1, _)]),
            "{text}: {answers:?}"
        );
    }
}

/// Whatever a request does: a node that is ending says so before it begins with it.
#[test]
fn what_a_node_that_is_ending_refuses_goes_to_another() {
    let mut bench = Bench::with_nodes(2, Config::default(), (Version::V5, Version::V5));
    let text = "UPDATE app.orders SET total = total + 1 WHERE customer = 1 AND day = 1";
    bench.ask(
        Opcode::Query,
        1,
        &Asking::default().query(Version::V5, text),
    );
    let [(first, stream)] = asked(&mut bench)[..] else {
        panic!("one node is asked");
    };
    let mut error = Vec::new();
    write::i32(&mut error, code::OVERLOADED);
    write::string(&mut error, "Server is shutting down");
    bench.say_as(first, Opcode::Error, stream, &error);
    let [(second, stream)] = asked(&mut bench)[..] else {
        panic!("another is asked: {:?}", bench.answers());
    };
    assert_ne!(first, second);
    bench.say_as(second, Opcode::Result, stream, &1_i32.to_be_bytes());
    assert!(matches!(bench.answers()[..], [(Opcode::Result, 1, _)]));
}

/// While nodes do not agree on the schema, one that lacks a table is no judge of statements about it.
#[test]
fn what_a_node_does_not_know_yet_is_asked_of_another() {
    let missing = "table orders does not exist";
    let other = "Undefined column name total in table app.orders";
    let wrong = "Invalid INTEGER constant (1) for \"day\" of type text";
    let mut bench = Bench::with_nodes(2, Config::default(), (Version::V5, Version::V5));
    for (version, messages, expected) in [
        (Some([7; 16]), [missing, missing], missing),
        (Some([7; 16]), [other, wrong], wrong),
        (Some([7; 16]), [wrong, ""], wrong),
        (None, [missing, ""], missing),
    ] {
        bench.disagree(version);
        bench.wait(Duration::from_millis(100));
        let text = "UPDATE app.orders SET total = total + 1 WHERE customer = 1 AND day = 1";
        let query = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 1, &query);
        let mut nodes = Vec::new();
        for message in messages.into_iter().filter(|message| !message.is_empty()) {
            let [(node, stream)] = asked(&mut bench)[..] else {
                panic!("a node is asked: {:?}", bench.answers());
            };
            nodes.push(node);
            let mut error = Vec::new();
            write::i32(&mut error, code::INVALID);
            write::string(&mut error, message);
            bench.say_as(node, Opcode::Error, stream, &error);
        }
        nodes.dedup();
        assert_eq!(
            nodes.len(),
            messages.iter().filter(|m| !m.is_empty()).count()
        );
        assert_eq!(asked(&mut bench), [], "each is asked once");
        assert_eq!(bench.error(), (code::INVALID, expected.to_owned()));
    }
}

/// Nodes that have been sent a query since, and on which streams.
fn asked(bench: &mut Bench) -> Vec<(usize, i16)> {
    let mut found = Vec::new();
    for node in 0..2 {
        let sent = bench.at(node).into_iter();
        let queries = sent.filter(|(opcode, _, _)| *opcode == Opcode::Query);
        found.extend(queries.map(|(_, stream, _)| (node, stream)));
    }
    found
}
