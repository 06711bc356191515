//! Describes requests that have ended, for people: slow ones, errors, and what statements cost.
//!
//! Most requests never come here: one answer in 16 is counted for its statement, and what is slow or an error
//! is described, a bounded number in each tick.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, RowsView, strip_prelude};
use rustc_hash::FxHasher;

use crate::features::records::described::Described;
use crate::features::records::errors::{ErrorRecord, shown_message};
use crate::features::records::slow::SlowRequest;
use crate::features::records::statements::Cost;
use crate::features::records::trace::hand_out;
use crate::features::records::traces::Looked;
use crate::features::records::{Report, Wanted};
use crate::keys::{ClientRequestKey, PoolKey, SessionKey};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::client_answer::ClientAnswer;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::pipeline::query::Query;
use crate::pipeline::request::ClientRequest;
use crate::pipeline::shown::own_keyspace;
use crate::pipeline::timing::Timing;
use crate::session::node_answer::NodeAnswer;
use crate::statement::digest::Digest;
use crate::statement::prepared::Statement;
use crate::stats::add;
use crate::upstream::links::Links;

#[cfg(test)]
mod tests;

pub(in crate::features) fn on_settings(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    features.records.adopt(&cx.shared.config);
}

pub(in crate::features) fn on_tick(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    features.records.on_tick(cx.now_us());
}

/// The answer to a question about records.
pub(in crate::features) fn report(engine: &Engine, wanted: Wanted) -> Report {
    let records = &engine.features().records;
    match wanted {
        Wanted::Slow { max } => {
            let (slow, left_out) = records.slow(max);
            Report::Slow(slow, left_out)
        }
        Wanted::Errors { max } => {
            let (recent, last) = records.errors(max);
            Report::Errors(recent, last)
        }
        Wanted::Statements { max } => Report::Statements(records.statements(max)),
    }
}

/// Counts an answer for its statement, and for all that it stands for.
#[inline(never)]
pub(in crate::features) fn on_sampled(
    engine: &mut Engine,
    key: ClientRequestKey,
    of: &ClientAnswer<'_>,
) {
    let Some(request) = engine.requests().clients.get(key) else {
        return;
    };
    let (query, timing) = (request.asked(), request.timing());
    let cost = Cost {
        took_us: of.us,
        at_nodes_us: timing.at_nodes_us.into(),
        rows: rows_in(&of.answer),
        bytes: of.answer.body.len(),
    };
    let code = error_in(&of.answer).map(|error| error.code);
    let Some(digest) = query.digest(code) else {
        return;
    };
    let cost_key = key_of(engine.links(), query, &digest);
    if !engine.features().records.knows(cost_key) {
        let asked = described(engine, query, Some(&digest), None);
        engine.features_mut().records.learn(cost_key, asked);
    }
    engine.features_mut().records.note_cost(cost_key, &cost);
}

/// Looks at a request that ends.
#[inline]
pub(in crate::features) fn on_client_answered(
    engine: &mut Engine,
    key: ClientRequestKey,
    of: &ClientAnswer<'_>,
) {
    let records = &mut engine.features_mut().records;
    let looked = records.traces.look(of.header_flags);
    let is_error = of.answer.opcode == Opcode::Error;
    if is_error || records.is_slow(of.class, of.us) || looked != Looked::No {
        record(engine, key, of, looked);
    }
}

/// Describes a request that is slow, ends with an error, or is traced.
#[cold]
fn record(engine: &mut Engine, key: ClientRequestKey, of: &ClientAnswer<'_>, looked: Looked) {
    let ClientAnswer {
        client, us, answer, ..
    } = *of;
    let error = error_in(&answer);
    let Stations {
        cx,
        features,
        requests,
        links,
        ..
    } = engine.stations();
    let records = &mut features.records;
    let Some(request) = requests.clients.get(key) else {
        return;
    };
    let (query, code) = (request.asked(), error.as_ref().map(|error| error.code));
    let class = query.class;
    let is_slow = records.is_slow(class, us);
    let is_shown = is_slow && records.takes_slow(class);
    let traced = records
        .traces
        .wants(looked, is_slow, query.header_flags, &query.body);
    if traced == Err(true) {
        add(&cx.shared.stats.global.traces_dropped, 1);
    }
    if code.is_none() && !is_shown && traced.is_err() {
        return;
    }
    let digest = query.digest(code);
    let cost_key = digest.as_ref().filter(|_| code.is_some());
    let cost_key = cost_key.map(|digest| key_of(links, query, digest));
    // Of a flood, most are only counted.
    let is_error = code.is_some_and(|code| records.takes_error(code));
    let is_counted = cost_key.is_some_and(|key| records.takes_cost_error(key));
    if !is_shown && !is_error && !is_counted && traced.is_err() {
        return;
    }
    let Some(request) = engine.requests().clients.get(key) else {
        return;
    };
    let query = request.asked();
    let timing = timing_of(engine, request);
    let asked = described(engine, query, digest.as_ref(), Some(client.session));
    let slow = (is_shown || traced.is_ok())
        .then(|| ended(engine, request, of, &timing, asked.clone(), code));
    if let Some(key) = cost_key.filter(|_| is_counted) {
        let client = None;
        let of_anyone = Described {
            client,
            ..asked.clone()
        };
        engine.features_mut().records.learn(key, of_anyone);
        engine.features_mut().records.note_cost_error(key);
    }
    if let Some(slow) = slow {
        if let Ok(parent) = traced {
            hand_out(engine, key, client, slow.clone(), is_slow, parent);
        }
        if is_shown {
            engine.features_mut().records.note_slow(slow);
        }
    }
    if let Some(error) = error.filter(|_| is_error) {
        record_error(engine, &error, asked, timing.slowest());
    }
}

/// The record of a request that has ended.
fn ended(
    engine: &Engine,
    request: &ClientRequest,
    of: &ClientAnswer<'_>,
    timing: &Timing,
    asked: Described,
    error: Option<i32>,
) -> SlowRequest {
    let query = request.asked();
    SlowRequest {
        at: engine.cx().since_1970(),
        asked,
        class: query.class,
        consistency: query.consistency,
        execution: request.execution.name(),
        took_us: of.us,
        queued_us: timing.queued_us,
        at_nodes_us: timing.at_nodes_us,
        slowest_us: timing.slowest_us,
        slowest: timing.slowest(),
        nodes: timing.nodes(),
        node_requests: timing.node_requests,
        attempts: timing.attempts,
        is_hedged: timing.is_hedged,
        is_shared: of.client.session != request.caller().session
            || of.client.stream != request.caller().stream,
        bytes: of.answer.body.len(),
        error,
    }
}

/// Describes an error of the proxy's own, about a request that never became one.
#[cold]
pub(in crate::features) fn on_refused(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    statement: Option<&Statement>,
    code: i32,
    message: &str,
) {
    if !engine.features_mut().records.takes_error(code) {
        return;
    }
    let named = own_keyspace(arrival.opcode, arrival.version, arrival.content);
    let keyspace = named.or(arrival.keyspace.map(|keyspace| &**keyspace));
    let asked = Described {
        statement: statement.map(|statement| statement.digest().text.clone()),
        keyspace: keyspace.map(Into::into),
        role: role_of(engine, arrival.pool),
        client: engine.clients().peer_of(arrival.session),
        opcode: arrival.opcode,
    };
    let error = ErrorBody {
        code,
        message,
        fields: &[],
    };
    record_error(engine, &error, asked, None);
}

fn record_error(
    engine: &mut Engine,
    error: &ErrorBody<'_>,
    asked: Described,
    node: Option<NodeIndex>,
) {
    let Stations { cx, features, .. } = engine.stations();
    let may_quote = cx.shared.config.admin.show_keys;
    features.records.note_error(ErrorRecord {
        at: cx.since_1970(),
        asked,
        code: error.code,
        message: shown_message(error, may_quote),
        node,
    });
}

/// Where a request's time has gone, with what is still at nodes or waits for them.
fn timing_of(engine: &Engine, request: &ClientRequest) -> Timing {
    let mut timing = *request.timing();
    for open in engine.requests().open_of(request) {
        timing.note_open(open, engine.now(), engine.cx().now_us());
    }
    timing
}

fn described(
    engine: &Engine,
    query: &Query,
    digest: Option<&Digest>,
    client: Option<SessionKey>,
) -> Described {
    Described {
        statement: digest.map(|digest| digest.text.clone()),
        keyspace: query.keyspace_in_force().map(Into::into),
        role: role_of(engine, query.pool),
        client: client.and_then(|client| engine.clients().peer_of(client)),
        opcode: query.opcode,
    }
}

fn role_of(engine: &Engine, pool: PoolKey) -> Option<Arc<str>> {
    engine.links().identity_of(pool)?.role().cloned()
}

/// The key of a statement's costs: the same on all workers.
fn key_of(links: &Links, query: &Query, digest: &Digest) -> (u64, u32) {
    let mut hasher = FxHasher::default();
    digest.number.hash(&mut hasher);
    query.keyspace_in_force().hash(&mut hasher);
    (hasher.finish(), links.role_number(query.pool))
}

/// The error that an answer is.
fn error_in<'a>(answer: &NodeAnswer<'a>) -> Option<ErrorBody<'a>> {
    if answer.opcode != Opcode::Error {
        return None;
    }
    let (_, content) = strip_prelude(answer.header_flags, answer.body).ok()?;
    ErrorBody::parse(content).ok()
}

/// Rows of an answer.
fn rows_in(answer: &NodeAnswer<'_>) -> usize {
    if answer.opcode != Opcode::Result {
        return 0;
    }
    let Ok((_, content)) = strip_prelude(answer.header_flags, answer.body) else {
        return 0;
    };
    RowsView::parse(content).map_or(0, |rows| rows.row_count)
}
