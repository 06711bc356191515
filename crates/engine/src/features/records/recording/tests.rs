use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{Opcode, Version, code};

use crate::config::{Config, RuleSettings};
use crate::features;
use crate::features::records::{ErrorRecord, Report, SlowRequest, StatementRecord, Wanted};
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, rows};
use crate::worker_status;

const READ: &str = "SELECT total FROM app.others WHERE customer = 'secret'";
const SHOWN: &str = "SELECT total FROM app.others WHERE customer = ?";
const COLUMNS: [Spec; 1] = [("total", BIGINT)];
const VERSIONS: [(Version, Version); 2] = [(Version::V4, Version::V5), (Version::V5, Version::V5)];

fn ask(bench: &mut Bench, stream: i16, text: &str) {
    let body = Asking::default().query(bench.versions.0, text);
    bench.ask(Opcode::Query, stream, &body);
}

/// The node answers what it has been asked, after this time.
fn answer_after(bench: &mut Bench, time: Duration) {
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    bench.now += time;
    let page = rows("others", &COLUMNS, None, &[&[0; 8], &[1; 8]]);
    bench.say(Opcode::Result, stream, &page);
    assert_eq!(bench.answer().0, Opcode::Result);
}

fn report(bench: &mut Bench, wanted: Wanted) -> Report {
    let wanted = worker_status::Wanted::Feature(features::Wanted::Records(wanted));
    match bench.report(wanted) {
        worker_status::Report::Feature(features::Report::Records(report)) => report,
        other => panic!("{other:?}"),
    }
}

fn slow(bench: &mut Bench) -> Vec<SlowRequest> {
    match report(bench, Wanted::Slow { max: 10 }) {
        Report::Slow(slow, _) => slow,
        other => panic!("{other:?}"),
    }
}

/// The latest, and the latest of each code.
fn errors(bench: &mut Bench) -> (Vec<ErrorRecord>, Vec<ErrorRecord>) {
    match report(bench, Wanted::Errors { max: 10 }) {
        Report::Errors(recent, last) => (recent, last),
        other => panic!("{other:?}"),
    }
}

fn statements(bench: &mut Bench) -> Vec<StatementRecord> {
    match report(bench, Wanted::Statements { max: 10 }) {
        Report::Statements(statements) => statements,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_slow_read_is_shown_with_where_its_time_went_and_without_values() {
    for versions in VERSIONS {
        let mut bench = Bench::with(Config::default(), versions);
        ask(&mut bench, 1, READ);
        answer_after(&mut bench, Duration::from_millis(99));
        assert!(slow(&mut bench).is_empty());
        ask(&mut bench, 1, READ);
        answer_after(&mut bench, Duration::from_millis(250));
        let shown = slow(&mut bench);
        assert_eq!(shown.len(), 1);
        let of = &shown[0];
        assert_eq!(of.asked.statement.as_deref(), Some(SHOWN));
        assert_eq!(of.asked.client.map(|client| client.port()), Some(4));
        assert_eq!((of.took_us, of.at_nodes_us), (250_000, 250_000));
        assert_eq!((of.queued_us, of.slowest_us), (0, 250_000));
        assert_eq!(of.slowest, Some(NodeIndex(0)));
        assert_eq!((of.node_requests, of.attempts), (1, 1));
        assert_eq!((of.class, of.execution), (Class::Point, "whole"));
        assert!(of.error.is_none() && !of.is_shared && !of.is_hedged);
        assert!(!format!("{shown:?}").contains("secret"));
        bench.is_done();
    }
}

#[test]
fn the_wait_in_a_nodes_queue_is_told_from_the_time_at_the_node() {
    let mut config = Config::default();
    config.links.node_in_flight_max = 16;
    config.aggregation.share_reads = false;
    let mut bench = Bench::with(config, VERSIONS[1]);
    for stream in 0..17 {
        ask(&mut bench, stream, READ);
    }
    let first = bench.at_node();
    assert_eq!(first.len(), 16);
    bench.now += Duration::from_millis(300);
    let page = rows("others", &COLUMNS, None, &[]);
    for (_, stream, _) in first {
        bench.say(Opcode::Result, stream, &page);
    }
    assert_eq!(bench.answers().len(), 16);
    // In another tick, or it would be one of too many.
    bench.wait(Duration::from_millis(100));
    answer_after(&mut bench, Duration::from_millis(50));
    let shown = slow(&mut bench).remove(0);
    assert_eq!((shown.queued_us, shown.at_nodes_us), (300_000, 150_000));
    assert_eq!(shown.took_us, 450_000);
    bench.is_done();
}

#[test]
fn errors_are_counted_by_code_and_shown_with_node_and_statement() {
    for versions in VERSIONS {
        let mut bench = Bench::with(Config::default(), versions);
        ask(&mut bench, 1, READ);
        let (_, stream, _) = bench.one_at_node();
        let quoted = "Invalid STRING constant (secret)";
        bench.say_error(stream, code::CONFIG, quoted, &[]);
        assert_eq!(bench.error().0, code::CONFIG);
        let (recent, last) = errors(&mut bench);
        assert_eq!((recent.len(), last.len()), (1, 1));
        assert_eq!(recent[0].asked.statement.as_deref(), Some(SHOWN));
        assert_eq!(
            (recent[0].code, recent[0].node),
            (code::CONFIG, Some(NodeIndex(0)))
        );
        assert!(!format!("{recent:?}").contains("secret"));
        assert_eq!(bench.common.stats.errors.list(), [(code::CONFIG, 1)]);
        let cost = statements(&mut bench);
        assert_eq!(
            (cost[0].errors, cost[0].calls.round()),
            (1.0, cost[0].calls)
        );
        assert_eq!(cost[0].asked.client, None, "not one client's");
        bench.is_done();
    }
}

#[test]
fn of_what_nodes_do_not_understand_only_the_first_word_is_shown() {
    // It parses here; the node says that it does not, or that there is no such column.
    for error in [code::SYNTAX, code::INVALID] {
        let mut bench = Bench::with(Config::default(), VERSIONS[1]);
        // Often enough for one to be counted among what statements cost.
        for _ in 0..64 {
            ask(&mut bench, 1, READ);
            let (_, stream, _) = bench.one_at_node();
            bench.say_error(stream, error, "no viable alternative at 'secret'", &[]);
            assert_eq!(bench.error().0, error);
        }
        let (recent, _) = errors(&mut bench);
        assert_eq!(recent[0].asked.statement.as_deref(), Some("SELECT …"));
        assert_eq!(recent[0].message, None);
        let shown = statements(&mut bench);
        let shown = shown.iter().map(|of| of.asked.statement.as_deref());
        assert_eq!(shown.collect::<Vec<_>>(), [Some("SELECT …")]);
        bench.is_done();
    }
}

#[test]
fn what_the_proxy_refuses_is_among_the_errors() {
    let config = Config {
        rules: vec![RuleSettings {
            name: "none".to_owned(),
            keyspace: "app".into(),
            in_flight: Some(0),
            ..RuleSettings::default()
        }],
        ..Config::default()
    };
    let mut bench = Bench::with(config, VERSIONS[1]);
    ask(&mut bench, 1, READ);
    assert_eq!(bench.error().0, code::OVERLOADED);
    let (recent, _) = errors(&mut bench);
    assert_eq!(recent[0].asked.statement.as_deref(), Some(SHOWN));
    assert!(
        recent[0]
            .message
            .as_deref()
            .is_some_and(|of| of.contains("none"))
    );
    assert_eq!(recent[0].node, None);
    assert_eq!(bench.common.stats.errors.list(), [(code::OVERLOADED, 1)]);
    assert_eq!(failed_and_refused(&bench), (0, 1));
}

#[test]
fn every_error_of_the_proxys_own_is_counted_once() {
    let mut bench = Bench::with(Config::default(), VERSIONS[1]);
    // Bytes that are no request at all.
    bench.ask(Opcode::Query, 3, &[0, 0, 0, 9, 1]);
    assert_eq!(bench.error().0, code::PROTOCOL);
    assert_eq!(failed_and_refused(&bench), (0, 1));
    // An error of the node is none of the proxy's.
    ask(&mut bench, 1, READ);
    let (_, stream, _) = bench.one_at_node();
    bench.say_error(stream, code::INVALID, "no such table", &[]);
    assert_eq!(bench.error().0, code::INVALID);
    assert_eq!(failed_and_refused(&bench), (0, 1));
    // A node that says nothing: each client that waits for the answer hears of it.
    ask(&mut bench, 1, READ);
    ask(&mut bench, 2, READ);
    bench.wait(Duration::from_secs(60));
    assert_eq!(bench.answers().len(), 2);
    assert_eq!(failed_and_refused(&bench), (2, 1));
    let errors = bench.common.stats.errors.list();
    assert_eq!(errors.iter().map(|(_, count)| count).sum::<u64>(), 4);
}

fn failed_and_refused(bench: &Bench) -> (u64, u64) {
    let global = &bench.common.stats.global;
    let of = [&global.requests_failed, &global.requests_refused];
    let [failed, refused] = of.map(|count| count.load(Ordering::Relaxed));
    (failed, refused)
}

#[test]
fn statements_that_differ_in_values_are_one_and_cost_what_they_cost() {
    let mut bench = Bench::with(Config::default(), VERSIONS[1]);
    for n in 0..640 {
        let text = format!("SELECT total FROM app.others WHERE customer = {n}");
        ask(&mut bench, 1, &text);
        answer_after(&mut bench, Duration::from_millis(2));
    }
    let costs = statements(&mut bench);
    assert_eq!(costs.len(), 1);
    let cost = &costs[0];
    assert_eq!(cost.asked.statement.as_deref(), Some(SHOWN));
    assert!((cost.calls - 640.0).abs() <= 64.0, "{}", cost.calls);
    assert_eq!(cost.rows, 2.0 * f64::from(cost.calls));
    assert_eq!(cost.whole.mean_us(), Some(2_000.0));
    assert_eq!(cost.at_nodes.mean_us(), Some(2_000.0));
}
