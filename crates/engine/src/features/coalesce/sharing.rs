//! How reads join others, and wait for them.

use crate::features::Arrived;
use crate::features::coalesce::buckets::{Found, Read, Slot, Ticket, is_parked};
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::pipeline::node_request::{NodeRequest, Stage};
use crate::pipeline::request::Caller;
use crate::stats::add;

pub(in crate::features) fn on_settings(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    features.coalesce.adopt(&cx.shared.config.aggregation);
}

/// Lets a read join an identical one that has not left yet.
pub(in crate::features) fn join(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
) -> Option<ClientRequestKey> {
    let read = Read {
        arrival: request.arrival,
        timestamp_at: request.analysis.timestamp_at,
    };
    let (at, candidates) = match engine
        .features_mut()
        .coalesce
        .find(request.statement, &read)
    {
        Found::Nothing => return None,
        Found::Bucket(at, candidates) => (at, candidates),
    };
    for candidate in candidates.into_iter().flatten() {
        if may_be_joined(engine, candidate, &read) {
            join_one(engine, candidate, request);
            return Some(candidate);
        }
    }
    *slot = Some(engine.features().coalesce.ticket(at));
    None
}

/// True if a read may get the answer of another request: they ask the same, and that one is still in the proxy.
fn may_be_joined(engine: &Engine, key: ClientRequestKey, read: &Read<'_>) -> bool {
    let Some(request) = engine.requests().clients.get(key) else {
        return false;
    };
    if request.execution.has_rows()
        || !read.same_as(request.asked())
        || !request.features.may_be_joined(engine.cx())
    {
        return false;
    }
    if is_parked(request.features.coalesce) {
        return true;
    }
    // Any attempt may be the one whose answer counts.
    let mut attempts = request.execution.wholes().peekable();
    attempts.peek().is_some() && attempts.all(|attempt| is_here(engine, attempt))
}

/// True if a node request is known not to have left the proxy.
fn is_here(engine: &Engine, key: NodeRequestKey) -> bool {
    let request = engine.requests().nodes.get(key);
    match request.map(NodeRequest::stage) {
        Some(Stage::Queued(_)) => true,
        Some(Stage::InFlight(_, flight)) => !engine.links().has_left(flight),
        Some(Stage::Unplaced | Stage::Admitted(_)) | None => false,
    }
}

fn join_one(engine: &mut Engine, key: ClientRequestKey, of: &Arrived<'_>) {
    let (session, started) = (of.arrival.session, engine.now());
    if let Some(request) = engine.requests_mut().clients.get_mut(key) {
        request.join(Caller {
            session,
            stream: of.arrival.header.stream,
            started,
        });
    }
    engine.stations().clients.in_flight_began(session);
    add(&engine.cx().shared.stats.global.reads_shared, 1);
}

/// Notes a request that goes on alone; true if it must wait for an identical one to come back.
#[inline]
pub(in crate::features) fn waits(engine: &mut Engine, key: ClientRequestKey) -> bool {
    let request = engine.requests().clients.get(key);
    let Some(ticket) = request.and_then(|request| request.features.coalesce) else {
        return false;
    };
    let now = engine.now();
    let parked = engine.features_mut().coalesce.enter(now, key, ticket);
    let global = &engine.cx().shared.stats.global;
    add(&global.reads_parked, u64::from(parked));
    parked
}

/// A request has ended: who waits for it may go.
#[inline]
pub(in crate::features) fn on_end(engine: &mut Engine, key: ClientRequestKey, slot: &Slot) {
    if let Some(ticket) = *slot
        && let Some(parked) = engine.features_mut().coalesce.leave(key, ticket)
    {
        unpark(engine, parked);
    }
}

/// Sends the reads that have waited for too long.
pub(in crate::features) fn end_waits(engine: &mut Engine) {
    let Stations {
        cx,
        features,
        requests,
        ..
    } = engine.stations();
    let is_parked = |key: ClientRequestKey| {
        let request = requests.clients.get(key);
        request.is_some_and(|request| is_parked(request.features.coalesce))
    };
    let late = features.coalesce.take_late(cx.now, is_parked);
    for key in late {
        unpark(engine, key);
    }
}

fn unpark(engine: &mut Engine, key: ClientRequestKey) {
    let Stations {
        features, requests, ..
    } = engine.stations();
    let Some(request) = requests.clients.get_mut(key) else {
        return;
    };
    let Some(Ticket::Parked(at)) = request.features.coalesce else {
        return;
    };
    request.features.coalesce = Some(features.coalesce.unpark(key, at));
    engine.start(key);
}

/// State of sharing left once all clients have left.
pub(in crate::features) fn leak_check(engine: &Engine, found: &mut Vec<String>) {
    let coalescing = &engine.features().coalesce;
    if coalescing.is_waiting() {
        found.push("reads that wait for others".to_owned());
    }
    let counted = coalescing.counted();
    if counted != 0 {
        found.push(format!("{counted} reads that others may join"));
    }
}
