use std::sync::Arc;

use helenus_engine::features::records::{Described, SlowRequest};
use helenus_policy::schedule::Class;
use helenus_wire::Consistency;

use super::*;

/// Of a read that waited in a queue, failed at one node and was answered by another.
fn trace() -> RequestTrace {
    let at = |us: u64| Duration::from_secs(1_700_000_000) + Duration::from_micros(us);
    let attempt = |node, queued_us, sent, at_node_us, end| Attempt {
        node: Some(NodeIndex(node)),
        queued_us,
        sent: at(sent),
        at_node_us,
        end,
    };
    RequestTrace {
        request: SlowRequest {
            at: at(10_000),
            asked: Described {
                statement: Some("SELECT c FROM ks.t WHERE k = ?".into()),
                keyspace: None,
                role: Some("app".into()),
                client: Some(SocketAddr::from(([10, 0, 0, 9], 4_000))),
                opcode: Opcode::Execute,
            },
            class: Class::Point,
            consistency: Consistency::LOCAL_QUORUM,
            execution: "whole",
            took_us: 10_000,
            queued_us: 2_000,
            at_nodes_us: 7_000,
            slowest_us: 4_000,
            slowest: Some(NodeIndex(1)),
            nodes: Vec::new(),
            node_requests: 1,
            attempts: 2,
            is_hedged: false,
            is_shared: false,
            bytes: 100,
            error: None,
        },
        began: at(0),
        parent: None,
        keyspace: Some("ks".into()),
        table: Some("t".into()),
        is_idempotent: true,
        is_slow: false,
        has_turn: false,
        attempts: vec![
            attempt(0, 2_000, 3_000, 3_000, AttemptEnd::Error(code::OVERLOADED)),
            attempt(1, 0, 6_000, 4_000, AttemptEnd::Answered),
        ],
        attempts_left_out: 0,
    }
}

fn snapshot() -> Snapshot {
    let node = |number: u8| Node {
        address: SocketAddr::from(([10, 0, 0, number], 9_042)),
        host_id: [number; 16],
        dc: "dc1".to_owned(),
        rack: String::new(),
        release_version: String::new(),
        processors: None,
        timeouts: None,
        batches: None,
        pages: None,
        hints: None,
        gone: false,
    };
    Snapshot {
        nodes: vec![node(1), node(2)],
        ..Snapshot::unknown()
    }
}

fn spans(trace: RequestTrace) -> Vec<Span> {
    let traces = [Box::new(trace)];
    let message = Writer::default().message(&traces, &Config::default(), &snapshot());
    message.resource_spans[0].scope_spans[0].spans.clone()
}

fn text(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|of| of.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::String(text) => text.clone(),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(number) => number.to_string(),
    })
}

fn is(span: &Span, key: &str, expected: &str) {
    assert_eq!(
        text(span, key).as_deref(),
        Some(expected),
        "{key} of {}",
        span.name
    );
}

#[test]
fn a_request_is_a_span_with_its_waits_and_attempts_below() {
    let spans = spans(trace());
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let name = "SELECT ks.t";
    assert_eq!(names, [name, "helenus.queue", name, name]);
    let root = &spans[0];
    assert!(root.parent_span_id.is_empty());
    assert_eq!((root.trace_id.len(), root.span_id.len()), (16, 8));
    for child in &spans[1..] {
        assert_eq!(child.trace_id, root.trace_id);
        assert_eq!(child.parent_span_id, root.span_id);
        assert_ne!(child.span_id, root.span_id);
        assert!(child.start_time_unix_nano >= root.start_time_unix_nano);
        assert!(child.end_time_unix_nano <= root.end_time_unix_nano);
    }
    let begin = root.start_time_unix_nano;
    let times = spans.iter().map(|of| {
        (
            of.start_time_unix_nano - begin,
            of.end_time_unix_nano - begin,
        )
    });
    let expected = [(0, 10), (1, 3), (3, 6), (6, 10)];
    assert!(times.eq(expected.map(|(from, to)| (from * 1_000_000, to * 1_000_000))));
    let kinds: Vec<i32> = spans.iter().map(|of| of.kind).collect();
    assert_eq!(kinds, [2, 1, 3, 3]);
    for (key, value) in [
        ("db.system.name", "cassandra"),
        ("db.namespace", "ks"),
        ("db.collection.name", "t"),
        ("db.operation.name", "SELECT"),
        ("db.query.summary", name),
        ("db.query.text", "SELECT c FROM ks.t WHERE k = ?"),
        ("cassandra.consistency.level", "local_quorum"),
        ("cassandra.query.idempotent", "true"),
        (
            "cassandra.coordinator.id",
            "02020202-0202-0202-0202-020202020202",
        ),
        ("cassandra.coordinator.dc", "dc1"),
        ("client.address", "10.0.0.9"),
        ("client.port", "4000"),
        ("helenus.role", "app"),
    ] {
        is(root, key, value);
    }
    assert!(root.status.is_none() && text(root, "error.type").is_none());
    is(&spans[2], "network.peer.address", "10.0.0.1");
    is(&spans[2], "network.peer.port", "9042");
    is(&spans[2], "helenus.attempt.end", "error");
    is(&spans[2], "error.type", "OVERLOADED");
    is(
        &spans[2],
        "db.response.status_code",
        &code::OVERLOADED.to_string(),
    );
    assert_eq!(spans[2].status.as_ref().map(|status| status.code), Some(2));
    is(&spans[3], "network.peer.address", "10.0.0.2");
    is(&spans[3], "helenus.attempt.end", "answered");
    assert!(spans[3].status.is_none());
}

#[test]
fn a_request_of_a_trace_is_part_of_it_and_others_have_traces_of_their_own() {
    let parent = TraceParent {
        trace_id: [7; 16],
        span_id: [8; 8],
        is_sampled: true,
    };
    let part = spans(RequestTrace {
        parent: Some(parent),
        ..trace()
    });
    assert_eq!(
        (&part[0].trace_id[..], &part[0].parent_span_id[..]),
        (&[7; 16][..], &[8; 8][..])
    );
    assert_eq!(part[0].flags, 0x301);
    assert_eq!(part[1].parent_span_id, part[0].span_id);
    assert_eq!(part[1].flags, 0x101);
    let (one, two) = (spans(trace()), spans(trace()));
    assert_ne!(one[0].trace_id, two[0].trace_id);
    assert_ne!(one[0].span_id, two[0].span_id);
}

#[test]
fn what_was_never_sent_has_a_wait_and_an_error() {
    let mut refused = trace();
    refused.request.error = Some(code::OVERLOADED);
    refused.attempts.truncate(1);
    refused.attempts[0].end = AttemptEnd::NotSent;
    refused.has_turn = true;
    let spans = spans(refused);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["SELECT ks.t", "helenus.turn", "helenus.queue"]);
    is(&spans[0], "error.type", "OVERLOADED");
    assert_eq!(spans[0].status.as_ref().map(|status| status.code), Some(2));
    let turn = &spans[1];
    assert_eq!(
        turn.end_time_unix_nano - turn.start_time_unix_nano,
        1_000_000
    );
}

#[test]
fn what_is_done_is_named_by_statement_or_opcode() {
    for (opcode, statement, expected) in [
        (Opcode::Query, Some("select c FROM ks.t"), "SELECT"),
        (Opcode::Query, Some("BEGIN BATCH INSERT"), "BATCH"),
        (Opcode::Batch, Some("BATCH of INSERT …"), "BATCH"),
        (Opcode::Prepare, Some("PREPARE SELECT c"), "PREPARE"),
        (Opcode::Execute, None, "EXECUTE"),
        (Opcode::Query, Some("'x'"), "QUERY"),
    ] {
        let mut of = trace();
        of.request.asked.opcode = opcode;
        of.request.asked.statement = statement.map(Arc::from);
        assert_eq!(operation(&of), expected);
    }
    let mut of = trace();
    of.table = None;
    assert_eq!(name(&of), "SELECT ks");
    of.keyspace = None;
    assert_eq!(name(&of), "SELECT");
}

#[test]
fn the_settings_name_the_resource_and_may_replace_what_is_said_of_it() {
    let mut config = Config::default();
    config.tracing.service_name = "orders-proxy".to_owned();
    let own = [
        ("service.version", "mine"),
        ("deployment.environment.name", "test"),
    ];
    config.tracing.resource = own.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let mut found: Vec<(String, String)> = resource(&config)
        .attributes
        .into_iter()
        .map(|of| match of.value.and_then(|value| value.value) {
            Some(Value::String(text)) => (of.key, text),
            other => panic!("{other:?}"),
        })
        .collect();
    found.sort();
    let expected = [
        ("deployment.environment.name", "test"),
        ("service.instance.id", "127.0.0.1:9142"),
        ("service.name", "orders-proxy"),
        ("service.version", "mine"),
    ];
    assert_eq!(found, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
}
