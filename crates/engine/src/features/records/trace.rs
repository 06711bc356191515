//! A request's trace: what is kept for it, and how it is handed out when the request ends.

use std::time::{Duration, Instant};

use crate::exec::Execution;
use crate::exec::attempt_end::AttemptEnd;
use crate::features;
use crate::features::records::attempts::{ATTEMPTS_MAX, Attempt, Attempts, Noted};
use crate::features::records::slow::SlowRequest;
use crate::features::records::traces::{RequestTrace, TraceParent};
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::output::Output;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::pipeline::node_request::{NodeRequest, Stage};
use crate::pipeline::query::Query;
use crate::pipeline::request::{Caller, ClientRequest};
use crate::pipeline::timing::Timing;
use crate::statement::digest::is_not_understood;

#[cfg(test)]
mod tests;

/// No keyspace or table has a longer name; what clients ask for may have.
const NAME_BYTES_MAX: usize = 256;

/// A node request has left a node, or will not go to one, after this time at it: for its client request to
/// remember, if anything is traced.
#[inline]
pub(in crate::features) fn on_attempt(
    engine: &mut Engine,
    key: NodeRequestKey,
    at_node_us: u64,
    end: AttemptEnd,
) {
    if engine.features().records.traces.is_on() {
        note(engine, key, at_node_us, end);
    }
}

#[cold]
fn note(engine: &mut Engine, key: NodeRequestKey, at_node_us: u64, end: AttemptEnd) {
    let Stations { cx, requests, .. } = engine.stations();
    let Some(request) = requests.nodes.get_mut(key) else {
        return;
    };
    let Some(client) = request.client() else {
        return;
    };
    let Some(client) = requests.clients.get_mut(client) else {
        return;
    };
    // The next attempt's wait is another.
    let queued_us = request.take_queued_us();
    let timing = client.timing_mut();
    timing.queued_us = timing.queued_us.wrapping_add(queued_us);
    let noted = &mut client.features.keep().records;
    noted.get_or_insert_default().note(Noted {
        node: request.node(),
        queued_us,
        at_node_us: at_node_us as u32,
        ended: cx.now,
        end,
    });
}

/// Hands out what a request has come to, for whoever traces it.
pub(super) fn hand_out(
    engine: &mut Engine,
    key: ClientRequestKey,
    client: Caller,
    mut slow: SlowRequest,
    is_slow: bool,
    parent: Option<TraceParent>,
) {
    let Some(request) = engine.requests().clients.get(key) else {
        return;
    };
    let query = request.asked();
    let (keyspace, table) = match is_not_understood(query.opcode, slow.error) {
        true => (None, None),
        false => table_of(query),
    };
    let asked = &mut slow.asked;
    asked.keyspace = asked.keyspace.take().filter(|name| is_name(name));
    let (attempts, attempts_left_out) = attempts_of(engine, request, client.started);
    let trace = RequestTrace {
        began: since_1970_of(engine, client.started),
        request: slow,
        parent,
        keyspace,
        table,
        is_idempotent: query.resendable.is_idempotent(),
        is_slow,
        has_turn: request.features.has_turn(),
        attempts,
        attempts_left_out,
    };
    let trace = features::Output::Traced(Box::new(trace));
    engine.cx_mut().ask(Output::Feature(trace));
}

fn since_1970_of(engine: &Engine, at: Instant) -> Duration {
    let ago = engine.now().saturating_duration_since(at);
    engine.cx().since_1970().saturating_sub(ago)
}

/// Those of a request that ends now, as one sees them that has come at this time.
fn attempts_of(engine: &Engine, request: &ClientRequest, began: Instant) -> (Vec<Attempt>, u32) {
    let none = Attempts::default();
    let noted = request.features.rare();
    let noted = noted.and_then(|rare| rare.records.as_deref());
    let noted = noted.unwrap_or(&none);
    let mut open = open_attempts(engine, request);
    let last = last_attempt(
        engine,
        *request.timing(),
        noted,
        &request.execution,
        open.is_empty(),
    );
    // Parts may be many.
    let room = ATTEMPTS_MAX.saturating_sub(noted.noted.len());
    let left_out = open.len().saturating_sub(room);
    open.truncate(room);
    let all = noted.noted.iter().copied().chain(open).chain(last);
    let mut attempts: Vec<Attempt> = all.map(|of| attempt(engine, &of, began)).collect();
    attempts.sort_by_key(|attempt| attempt.sent);
    (attempts, noted.left_out.saturating_add(left_out as u32))
}

/// Times before its client has asked are not its own: it has joined another.
fn attempt(engine: &Engine, of: &Noted, began: Instant) -> Attempt {
    let us = |us: u32| Duration::from_micros(us.into());
    let sent = of
        .ended
        .checked_sub(us(of.at_node_us))
        .unwrap_or(began)
        .max(began);
    let at_node = of.ended.saturating_duration_since(sent);
    let waited = sent.saturating_duration_since(began).min(us(of.queued_us));
    Attempt {
        node: of.node,
        queued_us: waited.as_micros() as u32,
        sent: since_1970_of(engine, sent),
        at_node_us: at_node.as_micros() as u32,
        end: of.end,
    }
}

/// Attempts that still wait for nodes or are at them, and will be nobody's.
fn open_attempts(engine: &Engine, request: &ClientRequest) -> Vec<Noted> {
    let open = engine.requests().open_of(request);
    open.filter_map(|of| open_attempt(engine, of)).collect()
}

fn open_attempt(engine: &Engine, request: &NodeRequest) -> Option<Noted> {
    let mut open = Noted {
        node: None,
        queued_us: request.queued_us(),
        at_node_us: 0,
        ended: engine.now(),
        end: AttemptEnd::NotSent,
    };
    match request.stage() {
        Stage::InFlight(_, flight) => {
            let us = engine
                .cx()
                .now
                .saturating_duration_since(flight.sent)
                .as_micros();
            open.node = request.node();
            open.at_node_us = us as u32;
            open.end = AttemptEnd::GivenUp;
        }
        Stage::Queued(waiting) => {
            let us = engine.cx().now_us().saturating_sub(waiting.since_us);
            open.queued_us = open.queued_us.saturating_add(us as u32);
        }
        Stage::Unplaced | Stage::Admitted(_) => return None,
    }
    Some(open)
}

/// The last attempt of a request whose answer came to the whole of it: the sums, less the attempts that were noted.
fn last_attempt(
    engine: &Engine,
    timing: Timing,
    noted: &Attempts,
    execution: &Execution,
    is_closed: bool,
) -> Option<Noted> {
    if !is_closed || !execution.is_single() {
        return None;
    }
    let at_node_us = timing.at_nodes_us.wrapping_sub(noted.at_node_us);
    let queued_us = timing.queued_us.wrapping_sub(noted.queued_us);
    let is_sent = at_node_us > 0 || (noted.noted.is_empty() && timing.slowest().is_some());
    if !is_sent && queued_us == 0 {
        return None;
    }
    Some(Noted {
        node: is_sent.then_some(timing.last).flatten(),
        queued_us,
        at_node_us,
        ended: engine.now(),
        end: match is_sent {
            true => AttemptEnd::Answered,
            false => AttemptEnd::NotSent,
        },
    })
}

/// The keyspace and the table that a query is about, as far as it is about one.
fn table_of(query: &Query) -> (Option<Box<str>>, Option<Box<str>>) {
    let facts = query.statement.as_ref().map(|statement| &statement.facts);
    let table = facts.and_then(|facts| facts.table.as_ref());
    let named = facts.and_then(|facts| facts.keyspace.as_ref());
    let keyspace = match named {
        Some(named) => Some(named.as_str()),
        None => query.keyspace_in_force(),
    };
    let table = table.map(|table| table.as_str());
    (
        keyspace.filter(|name| is_name(name)).map(Into::into),
        table.filter(|name| is_name(name)).map(Into::into),
    )
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
}
