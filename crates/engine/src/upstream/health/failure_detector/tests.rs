//! Links most of whose streams wait for answers that nobody wants any more.

use std::time::Duration;

use helenus_wire::{Opcode, Version};

use crate::config::Config;
use crate::keys::LinkKey;
use crate::output::{NotDialed, Output};
use crate::testing::bench::{Asking, BIGINT, Bench, no_rows};
use crate::testing::{open_links, take_sent};

const VERSION: Version = Version::V5;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// A link has four streams. Clients are answered after a second, the node may take twelve.
fn bench() -> Bench {
    let mut config = Config::default();
    config.links.in_flight_max = 4;
    config.limits.request_timeout_ms = Some(1_000);
    // That it answers nothing is no reason for a probe.
    config.links.silence_ms = 600_000;
    Bench::with(config, (VERSION, VERSION))
}

/// The streams on which the node has been asked.
fn ask(bench: &mut Bench, reads: i16) -> Vec<i16> {
    for stream in 0..reads {
        let text = format!("SELECT total FROM app.others WHERE customer = {stream}");
        let body = Asking::default().query(VERSION, &text);
        bench.ask(Opcode::Query, stream, &body);
    }
    let asked = bench.at_node();
    asked.into_iter().map(|(_, stream, _)| stream).collect()
}

/// Asks for so much, all of which is given up after a second.
fn give_up(bench: &mut Bench, reads: i16) -> Vec<i16> {
    let asked = ask(bench, reads);
    assert_eq!(asked.len(), reads as usize);
    bench.wait(MS(1_200));
    assert_eq!(bench.answers().len(), reads as usize);
    asked
}

fn answer(bench: &mut Bench, stream: i16) {
    let nothing = no_rows("others", &[("total", BIGINT)]);
    bench.say(Opcode::Result, stream, &nothing);
}

fn links(bench: &Bench) -> usize {
    bench.engine.links().open.len()
}

/// The connection that has been asked for.
fn dialed(bench: &mut Bench) -> Option<LinkKey> {
    let mut dialed = None;
    while let Some(output) = bench.engine.poll_output() {
        if let Output::Dial(key, _) = output {
            assert_eq!(dialed.replace(key), None);
        }
    }
    dialed
}

fn fail_dialing(bench: &mut Bench) {
    if let Some(key) = dialed(bench) {
        let refused = Err(NotDialed::Lost("connection refused".to_owned()));
        bench.engine.on_dialed(bench.now, key, refused);
    }
}

#[test]
fn half_of_its_streams_may_be_given_up() {
    let mut bench = bench();
    give_up(&mut bench, 2);
    bench.wait(MS(20_000));
    assert_eq!((links(&bench), dialed(&mut bench)), (1, None));
}

#[test]
fn a_link_whose_node_may_still_answer_is_replaced_and_loses_nothing() {
    let mut bench = bench();
    let given_up = give_up(&mut bench, 3);
    let last = ask(&mut bench, 1);
    let opened = open_links(&mut bench.engine, bench.now, VERSION);
    assert_eq!((opened.len(), links(&bench)), (1, 2));
    // A new request goes there.
    assert!(ask(&mut bench, 2).is_empty());
    assert!(!take_sent(&mut bench.engine, opened[0].1).is_empty());
    bench.wait(MS(300));
    assert_eq!(links(&bench), 2, "it has something to answer");
    answer(&mut bench, last[0]);
    assert_eq!(bench.answer().0, Opcode::Result);
    given_up.into_iter().for_each(|at| answer(&mut bench, at));
    assert_eq!(bench.answers(), []);
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
}

#[test]
fn a_link_that_cannot_be_replaced_is_kept_until_its_node_is_done_with_what_was_given_up() {
    let mut bench = bench();
    give_up(&mut bench, 3);
    // It answers what it is asked, and no other can be opened.
    for second in 1..10 {
        fail_dialing(&mut bench);
        let asked = ask(&mut bench, 1);
        assert_eq!(asked.len(), 1, "after {second} s");
        answer(&mut bench, asked[0]);
        assert_eq!(bench.answer().0, Opcode::Result);
        bench.wait(MS(1_000));
    }
    bench.wait(MS(1_600));
    assert_eq!(ask(&mut bench, 1).len(), 1);
    bench.wait(MS(500));
    assert_eq!(links(&bench), 0);
    assert!(bench.engine.contradictions().is_empty());
}

#[test]
fn a_link_without_any_stream_left_is_closed_at_once() {
    let mut bench = bench();
    give_up(&mut bench, 4);
    assert_eq!(links(&bench), 0);
    assert!(dialed(&mut bench).is_some());
    assert!(bench.engine.contradictions().is_empty());
}

#[test]
fn a_node_that_answers_nothing_gets_a_new_link_every_five_seconds_at_most() {
    let mut bench = bench();
    let (begin, mut opened) = (bench.now, 0);
    while bench.now < begin + MS(60_000) {
        for stream in 0..3 {
            let text = format!("SELECT total FROM app.others WHERE customer = {stream}");
            let body = Asking::default().query(VERSION, &text);
            bench.ask(Opcode::Query, stream, &body);
        }
        opened += open_links(&mut bench.engine, bench.now, VERSION).len();
        let all: Vec<LinkKey> = bench.engine.links().open.keys().collect();
        for link in all {
            take_sent(&mut bench.engine, link);
        }
        bench.wait(MS(1_200));
        assert_eq!(bench.answers().len(), 3);
        assert!(links(&bench) <= 2);
        assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
    }
    assert!((10..=13).contains(&opened), "{opened} in 60 s");
}
