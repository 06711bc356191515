use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Opcode, Version, code, flags, write};

use crate::config::{Config, Tracing};
use crate::features;
use crate::features::records::{Attempt, AttemptEnd, RequestTrace, TraceParent};
use crate::output::Output;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, rows};

const READ: &str = "SELECT total FROM app.others WHERE customer = 'secret'";
const COLUMNS: [Spec; 1] = [("total", BIGINT)];
const V5: (Version, Version) = (Version::V5, Version::V5);
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Traces so large a share of requests.
fn tracing(sample_ratio: f64) -> Config {
    Config {
        tracing: Tracing {
            endpoint: Some("http://127.0.0.1:4318".to_owned()),
            sample_ratio,
            requests_per_second_max: 100_000,
            ..Tracing::default()
        },
        ..Config::default()
    }
}

fn ask(bench: &mut Bench, stream: i16) {
    let body = Asking::default().query(bench.versions.0, READ);
    bench.ask(Opcode::Query, stream, &body);
}

/// [`ask`] with a custom payload.
fn ask_with_parent(bench: &mut Bench, stream: i16, parent: &str) {
    let mut body = Vec::new();
    write::u16(&mut body, 1);
    write::string(&mut body, "traceparent");
    write::bytes(&mut body, Some(parent.as_bytes()));
    body.extend(Asking::default().query(bench.versions.0, READ));
    bench.ask_with_flags(flags::CUSTOM_PAYLOAD, Opcode::Query, stream, &body);
}

fn page() -> Vec<u8> {
    rows("others", &COLUMNS, None, &[&[0; 8]])
}

/// The node answers what it has been asked, after this time.
fn answer_after(bench: &mut Bench, time: Duration) {
    let (_, stream, _) = bench.one_at_node();
    bench.now += time;
    bench.say(Opcode::Result, stream, &page());
    assert_eq!(bench.answer().0, Opcode::Result);
}

fn traces(bench: &mut Bench) -> Vec<RequestTrace> {
    let outputs = std::iter::from_fn(|| bench.engine.poll_output());
    let traces = outputs.filter_map(|output| match output {
        Output::Feature(features::Output::Traced(trace)) => Some(*trace),
        _ => None,
    });
    traces.collect()
}

fn shown(attempts: &[Attempt]) -> Vec<(Option<u16>, u32, u32, AttemptEnd)> {
    let shown = attempts.iter().map(|of| {
        (
            of.node.map(|node| node.0),
            of.queued_us,
            of.at_node_us,
            of.end,
        )
    });
    shown.collect()
}

#[test]
fn a_request_whose_turn_has_come_is_handed_out_with_its_attempt() {
    let mut bench = Bench::with(tracing(1.0), V5);
    ask(&mut bench, 1);
    answer_after(&mut bench, ms(7));
    let trace = traces(&mut bench).remove(0);
    assert_eq!(trace.request.took_us, 7_000);
    assert_eq!(trace.request.at - trace.began, ms(7));
    assert_eq!(
        (trace.keyspace.as_deref(), trace.table.as_deref()),
        (Some("app"), Some("others"))
    );
    assert!(trace.parent.is_none() && !trace.is_slow && trace.is_idempotent);
    let attempts = shown(&trace.attempts);
    assert_eq!(attempts, [(Some(0), 0, 7_000, AttemptEnd::Answered)]);
    assert_eq!(trace.attempts[0].sent, trace.began);
    assert!(!format!("{trace:?}").contains("secret"));
    bench.is_done();
}

#[test]
fn nothing_is_handed_out_that_nobody_wants() {
    for config in [Config::default(), tracing(0.0)] {
        let mut bench = Bench::with(config, V5);
        ask(&mut bench, 1);
        answer_after(&mut bench, ms(7));
        ask_with_parent(&mut bench, 1, &PARENT.replace("-01", "-00"));
        answer_after(&mut bench, ms(7));
        assert!(traces(&mut bench).is_empty());
    }
}

#[test]
fn slow_requests_and_those_that_a_client_follows_are_handed_out() {
    let mut bench = Bench::with(tracing(0.0), V5);
    ask(&mut bench, 1);
    answer_after(&mut bench, ms(100));
    ask_with_parent(&mut bench, 1, PARENT);
    let (_, stream, body) = bench.one_at_node();
    let payload = PARENT.as_bytes();
    assert!(
        body.windows(payload.len()).any(|part| part == payload),
        "the node gets it as it is"
    );
    bench.say(Opcode::Result, stream, &page());
    assert_eq!(bench.answer().0, Opcode::Result);
    let traces = traces(&mut bench);
    assert_eq!(traces.len(), 2);
    assert!(traces[0].is_slow && traces[0].parent.is_none());
    assert!(!traces[1].is_slow);
    assert_eq!(traces[1].parent, TraceParent::parse(payload));
    assert_eq!(shown(&traces[1].attempts).len(), 1);
    bench.is_done();
}

#[test]
fn every_attempt_is_told_with_its_own_times() {
    let mut bench = Bench::with_nodes(2, tracing(1.0), V5);
    ask(&mut bench, 1);
    let asked_of = |bench: &mut Bench| {
        let (of, mut asked) = (0..2)
            .map(|node| (node, bench.at(node)))
            .find(|(_, asked)| !asked.is_empty())
            .expect("a node is asked");
        (of, asked.remove(0).1)
    };
    let (first, stream) = asked_of(&mut bench);
    bench.now += ms(3);
    let mut error = Vec::new();
    write::i32(&mut error, code::IS_BOOTSTRAPPING);
    write::string(&mut error, "the node is starting");
    bench.say_as(first, Opcode::Error, stream, &error);
    let (second, stream) = asked_of(&mut bench);
    assert_ne!(first, second);
    bench.now += ms(5);
    bench.say_as(second, Opcode::Result, stream, &page());
    assert_eq!(bench.answer().0, Opcode::Result);
    let trace = traces(&mut bench).remove(0);
    let expected = [
        (
            Some(first as u16),
            0,
            3_000,
            AttemptEnd::Error(code::IS_BOOTSTRAPPING),
        ),
        (Some(second as u16), 0, 5_000, AttemptEnd::Answered),
    ];
    assert_eq!(shown(&trace.attempts), expected);
    assert_eq!(trace.attempts[1].sent - trace.began, ms(3));
}

#[test]
fn the_wait_in_a_queue_is_the_attempts_that_follows() {
    let mut config = tracing(1.0);
    config.links.node_in_flight_max = 16;
    config.aggregation.share_reads = false;
    let mut bench = Bench::with(config, V5);
    for stream in 0..17 {
        ask(&mut bench, stream);
    }
    let first = bench.at_node();
    assert_eq!(first.len(), 16);
    bench.now += ms(30);
    for (_, stream, _) in first {
        bench.say(Opcode::Result, stream, &page());
    }
    assert_eq!(bench.answers().len(), 16);
    assert_eq!(traces(&mut bench).len(), 16);
    answer_after(&mut bench, ms(5));
    let trace = traces(&mut bench).remove(0);
    let expected = [(Some(0), 30_000, 5_000, AttemptEnd::Answered)];
    assert_eq!(shown(&trace.attempts), expected);
    assert_eq!(trace.attempts[0].sent - trace.began, ms(30));
    bench.is_done();
}

#[test]
fn a_node_that_does_not_answer_in_time_is_told() {
    let mut config = tracing(1.0);
    config.limits.request_timeout_ms = Some(1_000);
    let mut bench = Bench::with(config, V5);
    ask(&mut bench, 1);
    assert_eq!(bench.at_node().len(), 1);
    bench.wait(ms(1_200));
    assert_eq!(bench.error().0, code::READ_TIMEOUT);
    let trace = traces(&mut bench).remove(0);
    assert_eq!(trace.request.error, Some(code::READ_TIMEOUT));
    let [(node, 0, us, AttemptEnd::TimedOut)] = shown(&trace.attempts)[..] else {
        panic!("{:?}", trace.attempts);
    };
    assert_eq!(node, Some(0));
    assert!((1_000_000..1_200_000).contains(&us), "{us}");
}

#[test]
fn one_that_joined_anothers_read_sees_what_came_after_it() {
    let mut bench = Bench::with(tracing(1.0), V5);
    ask(&mut bench, 0);
    bench.now += ms(3);
    ask(&mut bench, 1);
    let (_, stream, _) = bench.one_at_node();
    bench.now += ms(4);
    bench.say(Opcode::Result, stream, &page());
    assert_eq!(bench.answers().len(), 2);
    let traces = traces(&mut bench);
    assert_eq!(
        traces
            .iter()
            .map(|of| of.request.is_shared)
            .collect::<Vec<_>>(),
        [false, true]
    );
    for trace in &traces {
        assert!(trace.attempts.iter().all(|of| of.sent >= trace.began));
        assert_eq!(trace.attempts[0].node, Some(NodeIndex(0)));
    }
    let at_node: Vec<_> = traces.iter().map(|of| of.attempts[0].at_node_us).collect();
    assert_eq!(at_node, [7_000, 4_000]);
}

#[test]
fn what_waits_to_be_sent_has_no_names_that_cannot_be() {
    let mut bench = Bench::with(tracing(1.0), V5);
    let text = format!(
        "SELECT total FROM {}.others WHERE customer = 1",
        "k".repeat(60_000)
    );
    let body = Asking::default().query(bench.versions.0, &text);
    bench.ask(Opcode::Query, 1, &body);
    answer_after(&mut bench, ms(7));
    let trace = traces(&mut bench).remove(0);
    assert_eq!(trace.keyspace, None);
    assert_eq!(trace.table.as_deref(), Some("others"));
    assert!(format!("{trace:?}").len() < 8 * 1024);
}

#[test]
fn settings_that_change_count_from_then_on() {
    let mut bench = Bench::with(Config::default(), V5);
    ask(&mut bench, 1);
    answer_after(&mut bench, ms(1));
    assert!(traces(&mut bench).is_empty());
    bench.adopt_config(tracing(1.0));
    ask(&mut bench, 1);
    answer_after(&mut bench, ms(1));
    assert_eq!(traces(&mut bench).len(), 1);
    bench.adopt_config(Config::default());
    ask(&mut bench, 1);
    answer_after(&mut bench, ms(1));
    assert!(traces(&mut bench).is_empty());
}
