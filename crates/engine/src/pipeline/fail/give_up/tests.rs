//! A node is asked for no more scans than it has permits while it may work on those that nobody waits for, and
//! permits come back when it cannot any more.

use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Opcode, Version, code};

use crate::config::{Config, RuleSettings};
use crate::output::LinkEnd;
use crate::snapshot::NodeFacts;
use crate::snapshot::timeouts::Timeouts;
use crate::support::tick::TICK;
use crate::testing::bench::{Asking, BIGINT, Bench, TABLE, no_rows, rows};

/// Sent as they are, and read page by page by the node.
const FIRST: &str = "SELECT avg(total) FROM app.orders";
const SECOND: &str = "SELECT avg(x) FROM app.orders";
const TRUNCATE: &str = "TRUNCATE app.orders";
const COUNT: &str = "SELECT count(*) FROM app.orders";
const FILTER: &str = "SELECT total FROM app.orders WHERE total = 1 ALLOW FILTERING";
const DROPPED: &str = "Query timed out before it could start";
const S: fn(u64) -> Duration = Duration::from_secs;

/// A node has so many permits, is slow to answer and not suspected of being gone.
fn config(permits: u32) -> Config {
    let mut config = Config::default();
    config.scheduling.scan_slots = permits;
    config.scheduling.scan_slots_idle = permits;
    config.scheduling.scan_slots_max = permits;
    config.scheduling.scan_wait_max_ms = 600_000;
    config.scheduling.standing_scan_wait_max_ms = 0;
    config.links.silence_ms = 600_000;
    config
}

fn bench(permits: u32) -> Bench {
    Bench::with(config(permits), (Version::V5, Version::V5))
}

/// The node tells its time-outs, which are the defaults.
fn tell_timeouts(bench: &mut Bench) {
    let timeouts = Timeouts::from_settings([("native_transport_timeout", "12s")]);
    let next = bench.common.snapshot.load().successor();
    let next = next.node(NodeIndex(0), |node| {
        node.learn(NodeFacts {
            timeouts,
            ..NodeFacts::default()
        });
    });
    bench.common.store(next.build());
    bench.wait(TICK);
}

fn ask(bench: &mut Bench, stream: i16, text: &str) {
    let body = Asking::default().query(Version::V5, text);
    bench.ask(Opcode::Query, stream, &body);
}

/// The stream on which the node has been asked for one scan, if it has.
fn at_node(bench: &mut Bench) -> Option<i16> {
    let mut asked = bench.at_node();
    assert!(asked.len() < 2, "{asked:?}");
    let (opcode, stream, _) = asked.pop()?;
    assert_eq!(opcode, Opcode::Query);
    Some(stream)
}

fn mean() -> Vec<u8> {
    rows(TABLE, &[("avg", BIGINT)], None, &[&[0; 8]])
}

fn permits_taken(bench: &Bench) -> u32 {
    bench.common.nodes.of(NodeIndex(0), 1).scans()
}

#[test]
fn what_the_node_has_dropped_gives_its_permit_to_the_next() {
    let mut bench = bench(1);
    tell_timeouts(&mut bench);
    ask(&mut bench, 1, FIRST);
    ask(&mut bench, 2, SECOND);
    let first = at_node(&mut bench).expect("a scan");
    bench.wait(S(13));
    assert_eq!((at_node(&mut bench), bench.answers().len()), (None, 0));
    // Another error there says nothing of any request.
    bench.say_error(0, code::OVERLOADED, "something else", &[]);
    bench.wait(TICK);
    assert_eq!((at_node(&mut bench), bench.answers().len()), (None, 0));
    bench.say_error(0, code::OVERLOADED, DROPPED, &[]);
    bench.wait(TICK);
    assert_eq!(bench.error(), (code::OVERLOADED, DROPPED.to_owned()));
    let second = at_node(&mut bench).expect("the permit is free");
    // Were the node to answer all the same, nobody would get that.
    bench.say(Opcode::Result, first, &no_rows(TABLE, &[("avg", BIGINT)]));
    assert_eq!(bench.answers(), []);
    bench.say(Opcode::Result, second, &mean());
    assert_eq!(bench.answer(), (Opcode::Result, mean()));
    assert_eq!(permits_taken(&bench), 0);
    bench.is_done();
}

#[test]
fn while_it_is_not_known_what_the_node_has_dropped_both_are_waited_for() {
    let mut bench = bench(2);
    tell_timeouts(&mut bench);
    ask(&mut bench, 1, FIRST);
    let first = at_node(&mut bench).expect("a scan");
    ask(&mut bench, 2, SECOND);
    assert!(at_node(&mut bench).is_some());
    bench.wait(S(13));
    bench.say_error(0, code::OVERLOADED, DROPPED, &[]);
    bench.wait(S(100));
    assert_eq!((bench.answers().len(), permits_taken(&bench)), (0, 2));
    bench.say(Opcode::Result, first, &mean());
    assert_eq!(bench.answer(), (Opcode::Result, mean()));
    bench.wait(TICK);
    assert_eq!(bench.error(), (code::OVERLOADED, DROPPED.to_owned()));
    assert_eq!(permits_taken(&bench), 0);
    bench.is_done();
}

#[test]
fn a_truncate_that_was_dropped_hides_no_later_drop() {
    let mut bench = bench(1);
    tell_timeouts(&mut bench);
    ask(&mut bench, 1, TRUNCATE);
    assert_eq!(bench.at_node().len(), 1);
    ask(&mut bench, 2, FIRST);
    assert!(at_node(&mut bench).is_some());
    bench.wait(S(13));
    // Both of them.
    bench.say_error(0, code::OVERLOADED, DROPPED, &[]);
    bench.say_error(0, code::OVERLOADED, DROPPED, &[]);
    bench.wait(TICK);
    assert_eq!(bench.error(), (code::OVERLOADED, DROPPED.to_owned()));
    // The other is left to its own time-out, and counts meanwhile.
    ask(&mut bench, 3, SECOND);
    assert!(at_node(&mut bench).is_some());
    bench.wait(S(13));
    bench.say_error(0, code::OVERLOADED, DROPPED, &[]);
    bench.wait(TICK);
    assert_eq!(bench.error(), (code::OVERLOADED, DROPPED.to_owned()));
    bench.wait(S(60));
    assert_eq!(bench.error().0, code::SERVER);
    bench.is_done();
}

#[test]
fn what_is_younger_than_the_node_drops_is_not_what_it_has_dropped() {
    let mut bench = bench(2);
    tell_timeouts(&mut bench);
    ask(&mut bench, 1, FIRST);
    assert!(at_node(&mut bench).is_some());
    bench.wait(S(10));
    ask(&mut bench, 2, SECOND);
    let second = at_node(&mut bench).expect("a scan");
    bench.wait(S(3));
    bench.say_error(0, code::OVERLOADED, DROPPED, &[]);
    bench.wait(TICK);
    assert_eq!(bench.error(), (code::OVERLOADED, DROPPED.to_owned()));
    bench.wait(S(100));
    bench.say(Opcode::Result, second, &mean());
    assert_eq!(bench.answer(), (Opcode::Result, mean()));
    bench.is_done();
}

#[test]
fn a_node_that_has_not_told_its_time_outs_is_not_believed_which_it_has_dropped() {
    let mut bench = bench(1);
    ask(&mut bench, 1, FIRST);
    let first = at_node(&mut bench).expect("a scan");
    bench.wait(S(13));
    bench.say_error(0, code::OVERLOADED, DROPPED, &[]);
    bench.wait(S(10));
    assert_eq!(bench.answers(), []);
    bench.say(Opcode::Result, first, &mean());
    assert_eq!(bench.answer(), (Opcode::Result, mean()));
    bench.is_done();
}

#[test]
fn a_scan_that_is_given_up_has_its_permit_until_its_node_answers() {
    let mut config = config(1);
    config.rules.push(RuleSettings {
        name: "means".to_owned(),
        keyspace: "app".into(),
        timeout_ms: Some(1_000),
        ..RuleSettings::default()
    });
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    ask(&mut bench, 1, FIRST);
    let first = at_node(&mut bench).expect("a scan");
    bench.wait(S(2));
    assert_eq!(bench.error().0, code::READ_TIMEOUT);
    ask(&mut bench, 2, SECOND);
    assert_eq!((at_node(&mut bench), permits_taken(&bench)), (None, 1));
    bench.say(Opcode::Result, first, &mean());
    let second = at_node(&mut bench).expect("the permit is free");
    bench.say(Opcode::Result, second, &mean());
    assert_eq!(bench.answer(), (Opcode::Result, mean()));
    assert_eq!(permits_taken(&bench), 0);
    bench.is_done();
}

#[test]
fn a_scan_whose_link_is_lost_has_its_permit_until_its_node_must_be_done() {
    for (end, seconds) in [(LinkEnd::Cut, 12), (LinkEnd::ByNode, 0)] {
        let mut bench = bench(1);
        ask(&mut bench, 1, FIRST);
        assert!(at_node(&mut bench).is_some());
        bench.end_link(0, end);
        bench.wait(S(seconds).saturating_sub(TICK));
        let taken = permits_taken(&bench);
        assert_eq!(taken, u32::from(seconds > 0), "{end:?}");
        bench.wait(TICK);
        assert_eq!(permits_taken(&bench), 0, "{end:?}");
    }
}

/// Answers what the node is asked, but for the first, until nothing more comes; the stream of the first.
fn count_all_but_one(bench: &mut Bench, mut one: Option<i16>) -> Option<i16> {
    loop {
        let asked = bench.at_node();
        if asked.is_empty() {
            return one;
        }
        for (_, stream, _) in asked {
            match one {
                None => one = Some(stream),
                Some(_) => bench.say(Opcode::Result, stream, &counted()),
            }
        }
    }
}

fn counted() -> Vec<u8> {
    rows(TABLE, &[("count", BIGINT)], None, &[&1_i64.to_be_bytes()])
}

#[test]
fn a_part_that_stays_long_however_it_is_cut_takes_what_it_takes() {
    let mut bench = bench(64);
    ask(&mut bench, 1, COUNT);
    // The part by whose time the others are cut.
    let sample = at_node(&mut bench).expect("a sample");
    bench.say(Opcode::Result, sample, &counted());
    let mut long = count_all_but_one(&mut bench, None).expect("a part");
    let mut halved = 0;
    loop {
        bench.wait(S(13));
        match count_all_but_one(&mut bench, None) {
            Some(half) => (long, halved) = (half, halved + 1),
            None => break,
        }
        assert!(halved < 10, "it is never given its time");
    }
    assert_eq!(halved, 3);
    bench.wait(S(500));
    assert_eq!((bench.at_node().len(), bench.answers().len()), (0, 0));
    bench.say(Opcode::Result, long, &counted());
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.is_done();
}

#[test]
fn a_stretch_that_is_lost_is_sent_again_once_its_node_must_be_done_with_it() {
    let mut bench = bench(1);
    let asking = Asking {
        page_size: Some(100),
        ..Asking::default()
    };
    let body = asking.query(Version::V5, FILTER);
    bench.ask(Opcode::Query, 3, &body);
    assert!(at_node(&mut bench).is_some());
    // The page may still be complete in time, but the node has one permit, and may read on.
    bench.wait(S(23));
    assert_eq!((at_node(&mut bench), bench.answers().len()), (None, 0));
    bench.wait(S(2));
    let mut stream = at_node(&mut bench).expect("the permit is free");
    loop {
        let nothing = no_rows(TABLE, &[("total", BIGINT)]);
        bench.say(Opcode::Result, stream, &nothing);
        match at_node(&mut bench) {
            Some(next) => stream = next,
            None => break,
        }
    }
    assert_eq!(bench.answer().0, Opcode::Result);
    assert_eq!(permits_taken(&bench), 0);
    bench.is_done();
}
