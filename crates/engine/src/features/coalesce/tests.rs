use std::time::Duration;

use helenus_wire::{Opcode, Version};

use crate::config::Config;
use crate::output::LinkEnd;
use crate::testing::bench::{Asking, BIGINT, Bench, rows};

const NODES: usize = 3;
const READ: &str = "SELECT x FROM app.others WHERE customer = 1";

fn ask(bench: &mut Bench, stream: i16) {
    let body = Asking::default().query(Version::V5, READ);
    bench.ask(Opcode::Query, stream, &body);
}

/// A read at a node.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    node: usize,
    stream: i16,
}

/// What nodes have been sent since.
fn all_asked(bench: &mut Bench) -> Vec<Attempt> {
    let mut found = Vec::new();
    for node in 0..NODES {
        let sent = bench.at(node);
        found.extend(sent.iter().map(|(_, stream, _)| Attempt {
            node,
            stream: *stream,
        }));
    }
    found
}

fn asked(bench: &mut Bench) -> Attempt {
    let found = all_asked(bench);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

fn answer(bench: &mut Bench, attempt: Attempt) {
    let page = rows("others", &[("x", BIGINT)], None, &[&[0; 8]]);
    bench.say_as(attempt.node, Opcode::Result, attempt.stream, &page);
}

fn pass(bench: &mut Bench, time: Duration) {
    bench.now += time;
    bench.engine.on_deadline(bench.now, Duration::ZERO);
}

/// The streams on which the client has been answered since.
fn answered(bench: &mut Bench) -> Vec<i16> {
    let answers = bench.answers().into_iter();
    answers.map(|(_, stream, _)| stream).collect()
}

/// A read on stream 2 that two nodes have been asked for. The first attempt is lost then, and goes to the
/// third node, for which it has not left yet. Returns the second.
fn hedged_and_queued_again(bench: &mut Bench) -> Attempt {
    ask(bench, 1);
    let first = asked(bench);
    pass(bench, Duration::from_millis(1));
    answer(bench, first);
    assert_eq!(answered(bench), [1], "it is known how long it takes");
    ask(bench, 2);
    let first = asked(bench);
    for _ in 0..3 {
        pass(bench, Duration::from_millis(10));
    }
    let second = asked(bench);
    bench.end_link(first.node, LinkEnd::ByNode);
    second
}

#[test]
fn a_read_joins_none_with_an_attempt_that_has_left() {
    let versions = (Version::V5, Version::V5);
    let mut bench = Bench::with_nodes(NODES as u8, Config::default(), versions);
    let second = hedged_and_queued_again(&mut bench);
    // Its rows may be older than what the client knows to have been written by now.
    ask(&mut bench, 3);
    answer(&mut bench, second);
    assert_eq!(answered(&mut bench), [2]);
    // Its own, and the first attempt of the other, which is nobody's by now.
    for attempt in all_asked(&mut bench) {
        answer(&mut bench, attempt);
    }
    assert_eq!(answered(&mut bench), [3]);
    bench.is_done();
}

#[test]
fn a_read_joins_one_whose_attempts_are_all_in_the_proxy_again() {
    let versions = (Version::V5, Version::V5);
    let mut bench = Bench::with_nodes(NODES as u8, Config::default(), versions);
    let second = hedged_and_queued_again(&mut bench);
    bench.end_link(second.node, LinkEnd::ByNode);
    ask(&mut bench, 3);
    let attempts = all_asked(&mut bench);
    assert_eq!(attempts.len(), 2, "both go to the third node");
    answer(&mut bench, attempts[0]);
    assert_eq!(answered(&mut bench), [2, 3]);
    answer(&mut bench, attempts[1]);
    bench.is_done();
}
