//! One query for all clients that ask the same before it is sent.
//!
//! A read may join another only while that one has not left the proxy: then the node looks at its
//! data after both clients have asked, and either could have got that answer alone. A read that is
//! already on its way is never joined, or a client might not see its own write. Of one with two attempts
//! neither may be on its way.

mod buckets;

use self::buckets::{Found, Read, Ticket};
use crate::engine::Engine;
use crate::features::{self, Arrived};
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::node_request::Stage;
use crate::pipeline::request::Caller;
use crate::stats::add;

/// What is kept of a request: its part in sharing.
pub(super) type Slot = Option<Ticket>;
/// What a worker keeps.
pub(super) use self::buckets::Coalescing as State;

#[inline]
pub(super) fn is_waiting(slot: &Slot) -> bool {
    matches!(slot, Some(Ticket::Parked(_)))
}

pub(super) fn on_settings(engine: &mut Engine) {
    let settings = &engine.cx.shared.config.aggregation;
    engine.features.coalesce.adopt(settings);
}

/// Lets a read join an identical one that has not left yet.
pub(super) fn join(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
) -> Option<ClientRequestKey> {
    let read = Read {
        arrival: request.arrival,
        timestamp_at: request.analysis.timestamp_at,
    };
    let (at, candidates) = match engine.features.coalesce.find(request.statement, &read) {
        Found::Nothing => return None,
        Found::Bucket(at, candidates) => (at, candidates),
    };
    for candidate in candidates.into_iter().flatten() {
        if can_join(engine, candidate) && join_one(engine, candidate, &read) {
            return Some(candidate);
        }
    }
    *slot = Some(engine.features.coalesce.ticket(at));
    None
}

/// Whether a request is still in the proxy.
fn can_join(engine: &Engine, key: ClientRequestKey) -> bool {
    let Some(request) = engine.requests.clients.get(key) else {
        return false;
    };
    if request.execution.has_rows() {
        return false;
    }
    if is_waiting(&request.features.coalesce) {
        return true;
    }
    // Any attempt may be the one whose answer counts.
    let (whole, hedge) = (request.execution.whole(), request.execution.hedge());
    let is_here = |attempt| is_here(engine, attempt);
    whole.is_some_and(is_here) && hedge.is_none_or(is_here)
}

/// Whether a node request is known not to have left the proxy.
fn is_here(engine: &Engine, key: NodeRequestKey) -> bool {
    let request = engine.requests.nodes.get(key);
    match request.map(|request| &request.stage) {
        Some(Stage::Queued(_)) => true,
        Some(Stage::InFlight(_, flight)) => !engine.links.has_left(flight),
        Some(Stage::Unplaced | Stage::Admitted(_)) | None => false,
    }
}

fn join_one(engine: &mut Engine, key: ClientRequestKey, read: &Read<'_>) -> bool {
    let cx = &engine.cx;
    let request = engine.requests.clients.get_mut(key);
    let request = request
        .filter(|request| read.same_as(request.asked()) && features::may_be_joined(cx, request));
    let Some(request) = request else {
        return false;
    };
    let session = read.arrival.session;
    request.followers.push(Caller {
        session,
        stream: read.arrival.header.stream,
        started: cx.now,
    });
    engine.clients.in_flight_began(session);
    add(&cx.shared.stats.global.reads_shared, 1);
    true
}

/// Notes a request that goes on alone; true if it must wait for an identical one to come back.
#[inline]
pub(super) fn waits(engine: &mut Engine, key: ClientRequestKey) -> bool {
    let request = engine.requests.clients.get(key);
    let Some(ticket) = request.and_then(|request| request.features.coalesce) else {
        return false;
    };
    let now = engine.cx.now;
    let parked = engine.features.coalesce.enter(now, key, ticket);
    let global = &engine.cx.shared.stats.global;
    add(&global.reads_parked, u64::from(parked));
    parked
}

/// A request has ended: who waits for it may go.
#[inline]
pub(super) fn on_end(engine: &mut Engine, key: ClientRequestKey, slot: &Slot) {
    if let Some(ticket) = *slot
        && let Some(parked) = engine.features.coalesce.leave(key, ticket)
    {
        unpark(engine, parked);
    }
}

/// Sends the reads that have waited for too long.
pub(super) fn end_waits(engine: &mut Engine) {
    let requests = &engine.requests.clients;
    let is_parked = |key: ClientRequestKey| {
        let request = requests.get(key);
        request.is_some_and(|request| is_waiting(&request.features.coalesce))
    };
    let late = engine.features.coalesce.take_late(engine.cx.now, is_parked);
    for key in late {
        unpark(engine, key);
    }
}

fn unpark(engine: &mut Engine, key: ClientRequestKey) {
    let Some(request) = engine.requests.clients.get_mut(key) else {
        return;
    };
    let Some(Ticket::Parked(at)) = request.features.coalesce else {
        return;
    };
    request.features.coalesce = Some(engine.features.coalesce.unpark(key, at));
    engine.start(key);
}

/// What is left of sharing once all clients have left.
pub(super) fn residue(engine: &Engine, found: &mut Vec<String>) {
    let coalescing = &engine.features.coalesce;
    if coalescing.is_waiting() {
        found.push("reads that wait for others".to_owned());
    }
    let counted = coalescing.counted();
    if counted != 0 {
        found.push(format!("{counted} reads that others may join"));
    }
}

#[cfg(test)]
mod tests;
