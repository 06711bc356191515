//! Requests that wait because an operator has paused their role or keyspace, and go on when that is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_cql::Kind;
use helenus_wire::Opcode;

use crate::backlog::Work;
use crate::features::pause::held::HeldRequest;
use crate::features::pause::operator_pause::{Hold, MEMORY_SHARE, Paused};
use crate::features::{self, Arrived, Verdict};
use crate::memory::{Held, NO_MEMORY};
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::snapshot::timeouts::{Timed, Timeouts};
use crate::statement::prepared::Statement;
use crate::stats::add;

/// Requests that go on at a time; others come in between.
const RELEASED_AT_ONCE: usize = 256;

/// Lets a request wait if it is paused.
#[inline]
pub(in crate::features) fn on_request(
    engine: &mut Engine,
    request: &Arrived<'_>,
    has_waited: bool,
) -> Verdict {
    match engine.features().pause.is_empty() {
        true => Verdict::GoOn,
        false => hold_back(engine, request, has_waited),
    }
}

#[inline(never)]
fn hold_back(engine: &mut Engine, request: &Arrived<'_>, has_waited: bool) -> Verdict {
    let arrival = request.arrival;
    let Some(hold) = hold_of(engine, request, has_waited) else {
        return Verdict::GoOn;
    };
    let bytes = size_of::<HeldRequest>() + arrival.body.len();
    let bytes_max = engine.cx().shared.memory_max() / MEMORY_SHARE;
    if engine.cx().memory.is_full(bytes) {
        add(&hold.refused, 1);
        return Verdict::Refused(NO_MEMORY.to_owned());
    }
    let place = match hold.admit(bytes, bytes_max) {
        Ok(place) => place,
        // It would only have kept the order.
        Err(_) if hold.is_over(engine.now()) => return Verdict::GoOn,
        Err(why) => return Verdict::Refused(why),
    };
    let request = HeldRequest {
        session: arrival.session,
        keyspace: arrival.keyspace.cloned(),
        until: engine.now() + wait_max(engine),
        header: arrival.header,
        opcode: arrival.opcode,
        body: arrival.body.to_vec(),
        content_at: arrival.payload().len(),
        _bytes: Held::new(&engine.cx().memory, bytes),
        _place: place,
    };
    engine.features_mut().pause.push(&hold, request);
    engine.stations().clients.in_flight_began(arrival.session);
    Verdict::Waits
}

/// The pause that a request is under. Requests with which drivers connect, and PREPAREs, change nothing
/// and do not wait.
fn hold_of(engine: &mut Engine, request: &Arrived<'_>, has_waited: bool) -> Option<Arc<Hold>> {
    let Arrived {
        arrival,
        analysis,
        statement,
    } = *request;
    let passes = |of: &Statement| of.facts.kind == Kind::Use || of.is_node_local(analysis.keyspace);
    if arrival.opcode == Opcode::Prepare || statement.is_some_and(passes) {
        return None;
    }
    let (opcode, content) = (arrival.opcode, arrival.content);
    let Stations {
        cx,
        features,
        statements,
        links,
        ..
    } = engine.stations();
    let keyspaces = statements.keyspaces(cx, opcode, content, arrival.version, analysis);
    let identity = links.identity_of(arrival.pool);
    let role = identity.and_then(|identity| identity.role().map(|role| &**role));
    features.pause.of(cx.now, has_waited, |of| match of {
        Paused::Role(of) => role == Some(of),
        Paused::Keyspace(of) => keyspaces.may_have(of),
    })
}

/// How long a request waits at most: as long as it might be at a node.
pub(in crate::features) fn wait_max(engine: &Engine) -> Duration {
    let nodes = engine.cx().snapshot.nodes().all().iter();
    let of_nodes = nodes.map(|node| node.timeouts().limit(Timed::Read));
    let set = engine.cx().shared.config.request_timeout();
    let longest = set.or_else(|| of_nodes.max());
    longest.unwrap_or_else(|| Timeouts::default().limit(Timed::Read))
}

/// Takes over what has been paused and resumed.
pub(in crate::features) fn adopt(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    let list = cx.shared.features.pause.list(cx.now);
    features.pause.adopt(list);
    on_deadline(engine);
}

/// Lets requests go on whose pause is over, a number of them at a time.
pub(in crate::features) fn on_deadline(engine: &mut Engine) {
    if engine.features().pause.is_empty() {
        return;
    }
    let now = engine.now();
    for _ in 0..RELEASED_AT_ONCE {
        let Some(held) = engine.features_mut().pause.next(now) else {
            return;
        };
        engine.later(Work::Feature(features::Work::Pause(Box::new(held))));
    }
}

/// When requests are to go on next.
#[inline]
pub(in crate::features) fn deadline(engine: &Engine) -> Option<Instant> {
    engine.features().pause.next_end(engine.now())
}
