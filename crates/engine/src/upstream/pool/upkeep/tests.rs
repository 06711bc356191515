use std::collections::BTreeSet;
use std::time::Duration;

use helenus_wire::{Opcode, Version};

use crate::config::Config;
use crate::keys::LinkKey;
use crate::output::{Dialed, NotDialed, Output};
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench, no_rows};
use crate::testing::{Envelope, envelopes, open_links, take_sent};

const VERSION: Version = Version::V5;

fn ask(bench: &mut Bench, stream: i16) {
    let text = format!("SELECT total FROM app.others WHERE customer = {stream}");
    let body = Asking::default().query(VERSION, &text);
    bench.ask(Opcode::Query, stream, &body);
}

fn renew(bench: &mut Bench) {
    bench
        .engine
        .on_message(bench.now, WorkerMessage::Renew(None));
}

fn bench() -> Bench {
    Bench::with(Config::default(), (VERSION, VERSION))
}

/// The connections that are asked for, and those that are to be closed.
fn outputs(bench: &mut Bench) -> (Vec<LinkKey>, usize) {
    // A connection that is to be closed is named until it is.
    let (mut dialed, mut closed) = (Vec::new(), BTreeSet::new());
    while let Some(output) = bench.engine.poll_output() {
        match output {
            Output::Dial(key, _) => dialed.push(key),
            Output::Link(key) => {
                closed.insert(key);
            }
            _ => {}
        }
    }
    (dialed, closed.len())
}

fn queries(bench: &mut Bench, link: LinkKey) -> Vec<Envelope> {
    let mut sent = envelopes(true, &take_sent(&mut bench.engine, link));
    sent.retain(|(opcode, ..)| *opcode == Opcode::Query);
    sent
}

fn nothing() -> Vec<u8> {
    no_rows("others", &[("total", BIGINT)])
}

#[test]
fn a_link_is_used_until_the_one_in_its_place_is_there_and_then_answers_what_it_has() {
    let mut bench = bench();
    ask(&mut bench, 1);
    let (_, first, _) = bench.one_at_node();
    let other = std::net::SocketAddr::from(([10, 0, 0, 9], 9042));
    let elsewhere = WorkerMessage::Renew(Some(other));
    bench.engine.on_message(bench.now, elsewhere);
    assert_eq!(outputs(&mut bench), (vec![], 0));
    renew(&mut bench);
    // The new one is not there yet.
    ask(&mut bench, 2);
    let (_, second, _) = bench.one_at_node();
    let opened = open_links(&mut bench.engine, bench.now, VERSION);
    let [(_, new)] = opened[..] else {
        panic!("{} links", opened.len());
    };
    ask(&mut bench, 3);
    assert_eq!(bench.at_node(), []);
    assert_eq!(queries(&mut bench, new).len(), 1);
    bench.wait(Duration::from_millis(300));
    assert_eq!(
        outputs(&mut bench),
        (vec![], 0),
        "it has something to answer"
    );
    for stream in [first, second] {
        bench.say(Opcode::Result, stream, &nothing());
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    bench.wait(Duration::from_millis(200));
    assert_eq!(outputs(&mut bench), (vec![], 1));
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
}

#[test]
fn a_link_stays_in_use_while_no_other_can_be_opened() {
    let mut bench = bench();
    renew(&mut bench);
    for round in 0..3 {
        let (dialed, closed) = outputs(&mut bench);
        assert_eq!((dialed.len(), closed), (1, 0), "round {round}");
        let refused = Err(NotDialed::Lost("connection refused".to_owned()));
        bench.engine.on_dialed(bench.now, dialed[0], refused);
        // It is tried again, but not at once, and the node is in no trouble.
        bench.wait(Duration::from_millis(4_500));
        assert_eq!(outputs(&mut bench), (vec![], 1), "what was dialed");
        ask(&mut bench, 1);
        let (_, stream, _) = bench.one_at_node();
        bench.say(Opcode::Result, stream, &nothing());
        assert_eq!(bench.answer().0, Opcode::Result);
        assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
        bench.wait(Duration::from_millis(600));
    }
    assert_eq!(open_links(&mut bench.engine, bench.now, VERSION).len(), 1);
    bench.wait(Duration::from_millis(200));
    assert_eq!(outputs(&mut bench), (vec![], 1), "now it is replaced");
}

#[test]
fn a_link_that_breaks_while_its_successor_is_opened_is_missed_by_nobody() {
    let mut bench = bench();
    renew(&mut bench);
    let (dialed, _) = outputs(&mut bench);
    bench.break_link();
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
    ask(&mut bench, 1);
    bench.wait(Duration::from_millis(200));
    // The one that is on its way will do.
    let (more, _) = outputs(&mut bench);
    assert_eq!((dialed.len(), more.len()), (1, 0));
    let made = Ok(Dialed::default());
    assert!(bench.engine.on_dialed(bench.now, dialed[0], made));
}

#[test]
fn special_links_are_replaced_too() {
    let mut bench = bench();
    // It has a link of its own.
    let body = Asking::default().query(VERSION, "USE app");
    bench.ask(Opcode::Query, 1, &body);
    let special = open_links(&mut bench.engine, bench.now, VERSION);
    assert_eq!(special.len(), 1);
    assert_eq!(queries(&mut bench, special[0].1).len(), 1);
    renew(&mut bench);
    let mut opened = Vec::new();
    for _ in 0..5 {
        opened.extend(open_links(&mut bench.engine, bench.now, VERSION));
        bench.wait(Duration::from_millis(100));
    }
    assert_eq!(opened.len(), 2, "the shared one and the special one");
    bench.ask(Opcode::Query, 2, &body);
    let mut new = Vec::new();
    for (_, link) in opened {
        new.push(queries(&mut bench, link).len());
    }
    new.sort_unstable();
    assert_eq!(new, [0, 1]);
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
}
