//! Requests that have waited for the end of a pause begin their way anew, or have waited for too long.

use crate::engine::Engine;
use crate::features::pause::held::HeldRequest;
use crate::features::pause::hold_back::wait_max;
use crate::session::clients::Terms;
use crate::stats::add;

/// Carries out a request that has waited, unless its client has left.
pub(in crate::features) fn on_work(engine: &mut Engine, held: &HeldRequest) {
    let session = held.session;
    engine.clients.in_flight_ended(session);
    let Some(Terms { version, pool, .. }) = engine.clients.terms_of(session) else {
        return;
    };
    let arrival = held.arrival(version, pool);
    let (content, of) = (arrival.content, held.keyspace.as_deref());
    let cx = &engine.cx;
    // It was counted when it came.
    let analysis = engine
        .statements
        .analyze_again(cx, held.opcode, content, version, of);
    match analysis {
        Ok(analysis) => engine.after_system(arrival, analysis, true),
        Err(e) => engine.refuse_unread(&arrival, &e),
    }
}

/// Answers what has waited for too long, and forgets what nobody waits for any more.
pub(in crate::features) fn on_late(engine: &mut Engine) {
    if engine.features.pause.is_empty() {
        return;
    }
    let clients = &engine.clients;
    let late = engine
        .features
        .pause
        .take_late(engine.cx.now, |session| clients.is_there(session));
    for (hold, held) in late {
        engine.clients.in_flight_ended(held.session);
        add(&hold.refused, 1);
        let Some(terms) = engine.clients.terms_of(held.session) else {
            continue;
        };
        let why = hold.too_long(wait_max(engine));
        let arrival = held.arrival(terms.version, terms.pool);
        engine.refuse(&arrival, None, &why);
    }
}
