use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, Version, code, write};

use super::*;
use crate::config::Config;
use crate::shared::WorkerMessage;
use crate::testing::Envelope;
use crate::testing::bench::{Asking, Bench};

const READ: &str = "SELECT x FROM app.others WHERE customer = 1";
const WRITE: &str = "INSERT INTO app.others (customer, x) VALUES (1, 2)";
const CONDITIONAL: &str = "INSERT INTO app.others (customer, x) VALUES (1, 2) IF NOT EXISTS";
const VOID: [u8; 4] = 1_i32.to_be_bytes();
const LOCAL_QUORUM: u16 = 6;

fn bench(nodes: u8) -> Bench {
    Bench::with_nodes(nodes, Config::default(), (Version::V5, Version::V5))
}

fn ask(bench: &mut Bench, text: &str) {
    let body = Asking::default().query(Version::V5, text);
    bench.ask(Opcode::Query, 7, &body);
}

/// The only request that any node has, and which node.
fn asked(bench: &mut Bench, nodes: usize) -> Option<(usize, Envelope)> {
    let mut found: Vec<_> = (0..nodes)
        .flat_map(|node| bench.at(node).into_iter().map(move |asked| (node, asked)))
        .collect();
    assert!(found.len() <= 1, "{found:?}");
    found.pop()
}

/// A node misses replicas: so many are required.
fn miss(bench: &mut Bench, node: usize, stream: i16, required: i32) {
    let mut fields = Vec::new();
    write::u16(&mut fields, LOCAL_QUORUM);
    write::i32(&mut fields, required);
    write::i32(&mut fields, 1);
    let mut body = Vec::new();
    let error = ErrorBody {
        code: code::UNAVAILABLE,
        message: "Cannot achieve consistency level",
        fields: &fields,
    };
    error.write(&mut body);
    bench.say_as(node, Opcode::Error, stream, &body);
}

/// Another ring is in force.
fn move_ring(bench: &mut Bench) {
    let next = bench.common.snapshot.load().successor();
    let next = next.tokens(vec!["1".to_owned()]);
    bench.common.store(next.build());
    bench.engine.on_message(bench.now, WorkerMessage::Snapshot);
}

#[test]
fn another_coordinator_is_asked_once() {
    for text in [READ, WRITE] {
        let mut bench = bench(3);
        ask(&mut bench, text);
        let (first, (_, stream, _)) = asked(&mut bench, 3).expect("a coordinator");
        miss(&mut bench, first, stream, 2);
        let (second, (_, stream, _)) = asked(&mut bench, 3).expect("another");
        assert_ne!(first, second);
        miss(&mut bench, second, stream, 2);
        assert_eq!(bench.error().0, code::UNAVAILABLE);
        bench.is_done();
    }
}

#[test]
fn what_is_not_idempotent_is_not_sent_again() {
    let mut bench = bench(3);
    move_ring(&mut bench);
    ask(&mut bench, CONDITIONAL);
    let (node, (_, stream, _)) = asked(&mut bench, 3).expect("a coordinator");
    miss(&mut bench, node, stream, 2);
    assert_eq!(bench.error().0, code::UNAVAILABLE);
}

#[test]
fn while_the_ring_moves_it_waits_and_succeeds() {
    let mut bench = bench(1);
    move_ring(&mut bench);
    ask(&mut bench, WRITE);
    for _ in 0..5 {
        let (_, stream, _) = bench.one_at_node();
        miss(&mut bench, 0, stream, 1);
        assert_eq!(bench.at_node(), [], "it waits");
        assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
        bench.wait(Duration::from_millis(600));
    }
    let (_, stream, _) = bench.one_at_node();
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));
    bench.is_done();
}

#[test]
fn an_answer_that_asks_for_pending_replicas_tells_that_the_ring_moves() {
    for (required, waits) in [(1, false), (2, true)] {
        let mut bench = bench(1);
        ask(&mut bench, WRITE);
        let (_, stream, _) = bench.one_at_node();
        miss(&mut bench, 0, stream, required);
        let answers = bench.answers();
        assert_eq!(
            answers.is_empty(),
            waits,
            "{required} required: {answers:?}"
        );
    }
}

#[test]
fn its_patience_ends_with_what_the_coordinator_says() {
    let mut bench = bench(1);
    move_ring(&mut bench);
    ask(&mut bench, READ);
    let mut times = 0;
    let failed = loop {
        if let Some((_, stream, _)) = bench.at_node().pop() {
            times += 1;
            miss(&mut bench, 0, stream, 1);
        }
        if let Some((_, _, body)) = bench.answers().pop() {
            break ErrorBody::parse(&body).expect("an error").code;
        }
        bench.wait(Duration::from_millis(100));
    };
    assert_eq!(failed, code::UNAVAILABLE);
    assert!((5..40).contains(&times), "{times}");
    bench.is_done();
}

/// The request that the node gets at the end of a pause, if there is one.
fn sent_again(bench: &mut Bench) -> Envelope {
    for _ in 0..100 {
        if let Some(asked) = bench.at_node().pop() {
            return asked;
        }
        bench.wait(Duration::from_millis(100));
    }
    panic!("nothing is sent again");
}

#[test]
fn a_pause_is_no_time_at_a_node() {
    let mut config = Config::default();
    config.limits.request_timeout_ms = Some(2_000);
    let mut bench = Bench::with_nodes(1, config, (Version::V5, Version::V5));
    move_ring(&mut bench);
    ask(&mut bench, WRITE);
    // In all for longer than a node has for it.
    let begin = bench.now;
    let stream = loop {
        let (_, stream, _) = sent_again(&mut bench);
        if bench.now - begin > Duration::from_millis(2_500) {
            break stream;
        }
        miss(&mut bench, 0, stream, 1);
    };
    bench.wait(Duration::from_millis(1_500));
    assert_eq!(bench.answers(), [], "the node has had it for less");
    let timeouts = |bench: &Bench| {
        let counters = &bench.engine.links.stats(NodeIndex(0)).counters;
        counters.timeouts.load(Ordering::Relaxed)
    };
    assert_eq!(timeouts(&bench), 0);
    bench.say(Opcode::Result, stream, &VOID);
    assert_eq!(bench.answer(), (Opcode::Result, VOID.to_vec()));

    // Time at the node still counts.
    ask(&mut bench, WRITE);
    let (_, stream, _) = bench.one_at_node();
    miss(&mut bench, 0, stream, 1);
    sent_again(&mut bench);
    bench.wait(Duration::from_millis(2_200));
    assert_eq!(bench.error().0, code::WRITE_TIMEOUT);
    assert_eq!(timeouts(&bench), 1);
}

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    let mut bench = bench(1);
    move_ring(&mut bench);
    ask(&mut bench, READ);
    let (_, stream, _) = bench.one_at_node();
    miss(&mut bench, 0, stream, 1);
    bench.leave();
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.at_node(), [], "nobody wants it");
    assert_eq!(bench.engine.requests_in_flight(), 0);
}

#[test]
fn only_an_answer_that_can_be_read_tells_of_pending_replicas() {
    let fields = |level: u16, required: i32| {
        let mut fields = Vec::new();
        write::u16(&mut fields, level);
        write::i32(&mut fields, required);
        fields
    };
    assert!(tells_of_pending(&fields(1, 2), 1), "ONE");
    assert!(!tells_of_pending(&fields(1, 1), 1), "ONE");
    assert!(tells_of_pending(&fields(4, 3), 3), "QUORUM");
    assert!(!tells_of_pending(&fields(4, 2), 3), "QUORUM");
    assert!(
        !tells_of_pending(&fields(4, 9), 0),
        "nobody knows the owners"
    );
    assert!(!tells_of_pending(&fields(5, 9), 3), "ALL");
    assert!(!tells_of_pending(&[], 3));
}
