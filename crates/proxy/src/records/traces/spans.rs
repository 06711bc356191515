//! A request as spans: one for the request, and below it its waits and its attempts at nodes.
//!
//! Attributes follow OpenTelemetry's conventions for database spans; `helenus.…` are those that it has no names
//! for. Statements are shown without values, and messages of errors, which may quote values, not at all.

use std::time::Duration;

use helenus_engine::config::Config;
use helenus_engine::features::records::{Attempt, AttemptEnd, RequestTrace, TraceParent};
use helenus_engine::snapshot::{Node, Snapshot};
use helenus_policy::ring::NodeIndex;
use helenus_wire::{Opcode, code};
use ring::rand::{SecureRandom, SystemRandom};

use super::otlp::{
    AnyValue, ExportRequest, KeyValue, PARENT_IS_KNOWN, PARENT_IS_REMOTE, Resource, ResourceSpans,
    SAMPLED, Scope, ScopeSpans, Span, SpanKind, Status, StatusCode, Value,
};
use crate::uuid;

#[cfg(test)]
mod tests;

/// Makes messages.
#[derive(Debug)]
pub(super) struct Writer {
    random: SystemRandom,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            random: SystemRandom::new(),
        }
    }
}

type Attributes = Vec<KeyValue>;

fn put(attributes: &mut Attributes, key: &str, value: Value) {
    attributes.push(KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    });
}

fn put_text(attributes: &mut Attributes, key: &str, text: &str) {
    put(attributes, key, Value::String(text.to_owned()));
}

fn put_number(attributes: &mut Attributes, key: &str, number: impl TryInto<i64>) {
    let number = number.try_into().unwrap_or(i64::MAX);
    put(attributes, key, Value::Int(number));
}

impl Writer {
    /// One message about several requests.
    pub(super) fn message(
        &self,
        traces: &[Box<RequestTrace>],
        settings: &Config,
        snapshot: &Snapshot,
    ) -> ExportRequest {
        let mut spans = Vec::new();
        for trace in traces {
            self.write(trace, snapshot, &mut spans);
        }
        let version = env!("CARGO_PKG_VERSION");
        let scope = Scope {
            name: "helenus".to_owned(),
            version: version.to_owned(),
        };
        ExportRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource(settings)),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope),
                    spans,
                }],
            }],
        }
    }

    /// Bytes that nobody else has.
    fn id<const N: usize>(&self) -> Vec<u8> {
        let mut id = [0; N];
        // Without random bytes the id is invalid, and the collector says so.
        let _ = self.random.fill(&mut id);
        id.to_vec()
    }

    fn write(&self, trace: &RequestTrace, snapshot: &Snapshot, spans: &mut Vec<Span>) {
        let name = name(trace);
        let parent = trace.parent.as_ref();
        let trace_id = parent.map_or_else(|| self.id::<16>(), |of| of.trace_id.to_vec());
        let root = Span {
            trace_id: trace_id.clone(),
            span_id: self.id::<8>(),
            parent_span_id: parent.map_or_else(Vec::new, |of| of.span_id.to_vec()),
            name: name.clone(),
            kind: SpanKind::Server.into(),
            start_time_unix_nano: nanos(trace.began),
            end_time_unix_nano: nanos(trace.request.at),
            attributes: request_attributes(trace, &name, snapshot),
            status: status(trace.request.error.is_some()),
            flags: flags(parent),
        };
        let below = |name: &str, kind: SpanKind, from: Duration, to: Duration| Span {
            trace_id: trace_id.clone(),
            span_id: self.id::<8>(),
            parent_span_id: root.span_id.clone(),
            name: name.to_owned(),
            kind: kind.into(),
            start_time_unix_nano: nanos(from),
            end_time_unix_nano: nanos(to),
            attributes: Vec::new(),
            status: None,
            flags: SAMPLED | PARENT_IS_KNOWN,
        };
        let mut children = Vec::new();
        let first = trace.attempts.first().map(queued_since);
        if let Some(first) = first.filter(|first| trace.has_turn && *first > trace.began) {
            children.push(below(
                "helenus.turn",
                SpanKind::Internal,
                trace.began,
                first,
            ));
        }
        for attempt in &trace.attempts {
            if attempt.queued_us > 0 {
                let (since, kind) = (queued_since(attempt), SpanKind::Internal);
                let mut queue = below("helenus.queue", kind, since, attempt.sent);
                put_node(&mut queue.attributes, node_of(snapshot, attempt.node));
                children.push(queue);
            }
            if attempt.end == AttemptEnd::NotSent {
                continue;
            }
            let end = attempt.sent + Duration::from_micros(attempt.at_node_us.into());
            let mut at_node = below(&name, SpanKind::Client, attempt.sent, end);
            at_node.attributes = attempt_attributes(trace, attempt, snapshot);
            at_node.status = status(is_failure(attempt.end));
            children.push(at_node);
        }
        spans.push(root);
        spans.append(&mut children);
    }
}

fn resource(settings: &Config) -> Resource {
    let mut attributes = Vec::new();
    let own = settings.tracing.resource.keys();
    let is_own: Vec<&str> = own.map(String::as_str).collect();
    let advertised = settings.advertised().to_string();
    let ours = [
        ("service.name", settings.tracing.service_name.as_str()),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", &advertised),
    ];
    for (key, value) in ours {
        if !is_own.contains(&key) {
            put_text(&mut attributes, key, value);
        }
    }
    for (key, value) in &settings.tracing.resource {
        put_text(&mut attributes, key, value);
    }
    Resource { attributes }
}

fn nanos(since_1970: Duration) -> u64 {
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

fn flags(parent: Option<&TraceParent>) -> u32 {
    let remote = match parent {
        Some(_) => PARENT_IS_REMOTE,
        None => 0,
    };
    SAMPLED | PARENT_IS_KNOWN | remote
}

fn status(is_error: bool) -> Option<Status> {
    is_error.then(|| Status {
        code: StatusCode::Error.into(),
    })
}

fn is_failure(end: AttemptEnd) -> bool {
    match end {
        AttemptEnd::Error(_) | AttemptEnd::TimedOut | AttemptEnd::Silent | AttemptEnd::Lost => true,
        AttemptEnd::Answered | AttemptEnd::GivenUp | AttemptEnd::NotSent => false,
    }
}

fn queued_since(attempt: &Attempt) -> Duration {
    let waited = Duration::from_micros(attempt.queued_us.into());
    attempt.sent.saturating_sub(waited)
}

/// The operation: the first word of the statement, or what else was asked.
fn operation(trace: &RequestTrace) -> String {
    let asked = &trace.request.asked;
    let text = asked.statement.as_deref().unwrap_or_default();
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next();
    match (asked.opcode, word) {
        (Opcode::Batch, _) => "BATCH".to_owned(),
        (_, Some(word)) if word.eq_ignore_ascii_case("begin") => "BATCH".to_owned(),
        (_, Some(word)) if !word.is_empty() => word.to_ascii_uppercase(),
        (opcode, _) => opcode.name().to_ascii_uppercase(),
    }
}

fn name(trace: &RequestTrace) -> String {
    let operation = operation(trace);
    match (&trace.keyspace, &trace.table) {
        (Some(keyspace), Some(table)) => format!("{operation} {keyspace}.{table}"),
        (Some(target), None) | (None, Some(target)) => format!("{operation} {target}"),
        (None, None) => operation,
    }
}

/// The attributes of all spans that are about the database.
fn common_attributes(trace: &RequestTrace) -> Attributes {
    let mut all = Vec::new();
    put_text(&mut all, "db.system.name", "cassandra");
    put_text(&mut all, "db.operation.name", &operation(trace));
    if let Some(keyspace) = &trace.keyspace {
        put_text(&mut all, "db.namespace", keyspace);
    }
    if let Some(table) = &trace.table {
        put_text(&mut all, "db.collection.name", table);
    }
    let consistency = trace.request.consistency.name().to_ascii_lowercase();
    put_text(&mut all, "cassandra.consistency.level", &consistency);
    all
}

fn request_attributes(trace: &RequestTrace, name: &str, snapshot: &Snapshot) -> Attributes {
    let request = &trace.request;
    let mut all = common_attributes(trace);
    put_text(&mut all, "db.query.summary", name);
    if let Some(text) = &request.asked.statement {
        put_text(&mut all, "db.query.text", text);
    }
    put(
        &mut all,
        "cassandra.query.idempotent",
        Value::Bool(trace.is_idempotent),
    );
    put_number(
        &mut all,
        "cassandra.speculative_execution.count",
        i64::from(request.is_hedged),
    );
    let mut answered = trace.attempts.iter().rev();
    let answered = answered.find(|of| of.end == AttemptEnd::Answered);
    put_coordinator(&mut all, answered.and_then(|of| node_of(snapshot, of.node)));
    if let Some(client) = request.asked.client {
        put_text(&mut all, "client.address", &client.ip().to_string());
        put_number(&mut all, "client.port", client.port());
    }
    if let Some(role) = &request.asked.role {
        put_text(&mut all, "helenus.role", role);
    }
    put_text(&mut all, "helenus.class", request.class.name());
    put_text(&mut all, "helenus.execution", request.execution);
    put_number(&mut all, "helenus.answer.bytes", request.bytes);
    put(&mut all, "helenus.slow", Value::Bool(trace.is_slow));
    if request.is_shared {
        put(&mut all, "helenus.shared", Value::Bool(true));
    }
    if trace.attempts_left_out > 0 {
        put_number(
            &mut all,
            "helenus.attempts.left_out",
            trace.attempts_left_out,
        );
    }
    if let Some(error) = request.error {
        put_error(&mut all, error);
    }
    all
}

fn attempt_attributes(trace: &RequestTrace, attempt: &Attempt, snapshot: &Snapshot) -> Attributes {
    let mut all = common_attributes(trace);
    put_node(&mut all, node_of(snapshot, attempt.node));
    let ended = match attempt.end {
        AttemptEnd::Answered => "answered",
        AttemptEnd::Error(_) => "error",
        AttemptEnd::TimedOut => "timed_out",
        AttemptEnd::Silent => "silent",
        AttemptEnd::Lost => "connection_lost",
        AttemptEnd::GivenUp => "given_up",
        AttemptEnd::NotSent => "not_sent",
    };
    put_text(&mut all, "helenus.attempt.end", ended);
    match attempt.end {
        AttemptEnd::Error(error) => put_error(&mut all, error),
        end if is_failure(end) => put_text(&mut all, "error.type", ended),
        _ => {}
    }
    all
}

fn put_error(attributes: &mut Attributes, error: i32) {
    put_text(attributes, "error.type", code::name(error));
    put_text(attributes, "db.response.status_code", &error.to_string());
}

fn node_of(snapshot: &Snapshot, node: Option<NodeIndex>) -> Option<&Node> {
    snapshot.nodes().get(node?)
}

fn put_node(attributes: &mut Attributes, node: Option<&Node>) {
    let Some(node) = node else {
        return;
    };
    let address = node.address();
    put_text(
        attributes,
        "network.peer.address",
        &address.ip().to_string(),
    );
    put_number(attributes, "network.peer.port", address.port());
    put_coordinator(attributes, Some(node));
}

fn put_coordinator(attributes: &mut Attributes, node: Option<&Node>) {
    if let Some(node) = node {
        put_text(
            attributes,
            "cassandra.coordinator.id",
            &uuid::text(node.host_id()),
        );
        put_text(attributes, "cassandra.coordinator.dc", node.dc());
    }
}
