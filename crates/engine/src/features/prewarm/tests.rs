use std::time::Duration;

use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::{Opcode, Version, write};

use crate::config::Config;
use crate::features::prewarm::lessons::{AT_ONCE, HELD_BACK};
use crate::keys::LinkKey;
use crate::output::{LinkEnd, Output};
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench};
use crate::testing::{Envelope, bytes_of, envelopes, node, open_links, take};

const STATEMENTS: usize = 20;

fn text(number: usize) -> String {
    format!("SELECT c{number} FROM app.others WHERE customer = ?")
}

/// Two nodes that know statements, and a link to a third one, which has joined.
fn joined() -> (Bench, LinkKey) {
    let mut config = Config::default();
    // Silence alone does not end a link here.
    config.links.silence_ms = 60_000;
    let mut bench = Bench::with_nodes(2, config, (Version::V5, Version::V5));
    for number in 0..STATEMENTS {
        let id = [b'i', number as u8];
        bench.prepare_at_any(&text(number), &id, &[("customer", BIGINT)]);
        // Ahead on the other node.
        settle(&mut bench);
    }
    let next = bench.common.snapshot.load().successor();
    let next = next.nodes((0..3).map(node));
    let next = next.places(NodeTable::from_localities([Locality::LocalDc; 3]));
    bench.common.store(next.build());
    bench.engine.on_message(bench.now, WorkerMessage::Snapshot);
    let links = open_links(&mut bench.engine, bench.now, Version::V5);
    let [(_, link)] = links[..] else {
        panic!("a link to the third node, not {links:?}");
    };
    (bench, link)
}

/// The nodes that are there answer PREPAREs.
fn settle(bench: &mut Bench) {
    for at in 0..2 {
        for (opcode, stream, _) in bench.at(at) {
            assert_eq!(opcode, Opcode::Prepare);
            bench.say_as(at, Opcode::Result, stream, &prepared());
        }
    }
}

/// An answer that is not about the statement: it teaches the proxy nothing.
fn prepared() -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 1);
    body
}

/// Requests to the node that has joined.
fn asked(bench: &mut Bench, link: LinkKey) -> Vec<Envelope> {
    let Some(encoder) = bench.engine.link_bytes(link) else {
        return Vec::new();
    };
    let (bytes, sent) = take(encoder);
    bench.engine.on_link_sent(bench.now, link, sent);
    let mut asked = envelopes(true, &bytes);
    asked.retain(|(opcode, ..)| *opcode != Opcode::Options);
    asked
}

fn say(bench: &mut Bench, link: LinkKey, stream: i16) {
    let bytes = bytes_of((Version::V5, true), stream, Opcode::Result, &prepared());
    bench.engine.on_link_bytes(bench.now, link, &bytes);
}

/// True if a read goes to the node that has joined, sooner or later.
fn serves(bench: &mut Bench, link: LinkKey) -> bool {
    let reads = (0..64).filter(|stream| {
        // Identical ones that have not left would share an answer.
        bench.at(0);
        bench.at(1);
        let text = format!("SELECT x FROM app.unknown WHERE customer = {stream}");
        let body = Asking::default().query(Version::V5, &text);
        bench.ask(Opcode::Query, *stream, &body);
        let there = asked(bench, link);
        there.iter().any(|(opcode, ..)| *opcode == Opcode::Query)
    });
    reads.count() > 0
}

#[test]
fn a_node_that_has_joined_is_taught_a_few_statements_at_a_time_and_serves_then() {
    let (mut bench, link) = joined();
    let mut texts = Vec::new();
    loop {
        let lessons = asked(&mut bench, link);
        if lessons.is_empty() {
            break;
        }
        assert!(lessons.len() <= AT_ONCE, "{}", lessons.len());
        assert!(!serves(&mut bench, link), "it is not ready");
        for (opcode, stream, body) in lessons {
            assert_eq!(opcode, Opcode::Prepare);
            texts.push(String::from_utf8_lossy(&body[4..body.len() - 4]).into_owned());
            say(&mut bench, link, stream);
        }
    }
    texts.sort();
    let mut all: Vec<String> = (0..STATEMENTS).map(text).collect();
    all.sort();
    assert_eq!(texts, all, "each once");
    bench.wait(Duration::from_millis(200));
    assert!(serves(&mut bench, link));
}

#[test]
fn a_node_that_does_not_learn_serves_all_the_same_after_a_while() {
    let (mut bench, link) = joined();
    assert_eq!(asked(&mut bench, link).len(), AT_ONCE);
    bench.wait(HELD_BACK + Duration::from_millis(200));
    assert!(serves(&mut bench, link));
}

#[test]
fn lessons_end_with_their_link() {
    let (mut bench, link) = joined();
    assert_eq!(asked(&mut bench, link).len(), AT_ONCE);
    bench
        .engine
        .on_link_closed(bench.now, link, (LinkEnd::ByNode, "gone"), None);
    while let Some(output) = bench.engine.poll_output() {
        assert!(!matches!(output, Output::Tell(..)));
    }
    assert_eq!(bench.engine.requests_in_flight(), 0);
    assert!(
        bench
            .common
            .features
            .prewarm
            .is_taught(helenus_policy::ring::NodeIndex(2))
    );
}
