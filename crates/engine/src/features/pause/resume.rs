//! Requests that have waited for the end of a pause begin their way anew, or have waited for too long.

use crate::features::pause::held::HeldRequest;
use crate::features::pause::hold_back::wait_max;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::session::clients::Terms;
use crate::stats::add;

/// Carries out a request that has waited, unless its client has left.
pub(in crate::features) fn on_work(engine: &mut Engine, held: &HeldRequest) {
    let session = held.session;
    let Stations {
        cx,
        statements,
        clients,
        ..
    } = engine.stations();
    clients.in_flight_ended(session);
    let Some(Terms { version, pool, .. }) = clients.terms_of(session) else {
        return;
    };
    let arrival = held.arrival(version, pool);
    let (content, of) = (arrival.content, held.keyspace.as_deref());
    // It was counted when it came.
    let analysis = statements.analyze_again(cx, held.opcode, content, version, of);
    match analysis {
        Ok(analysis) => engine.after_system(arrival, analysis, true),
        Err(e) => engine.refuse_unread(&arrival, &e),
    }
}

/// Answers what has waited for too long, and forgets what nobody waits for any more.
pub(in crate::features) fn on_late(engine: &mut Engine) {
    if engine.features().pause.is_empty() {
        return;
    }
    let Stations {
        cx,
        features,
        clients,
        ..
    } = engine.stations();
    let late = features
        .pause
        .take_late(cx.now, |session| clients.is_there(session));
    for (hold, held) in late {
        engine.stations().clients.in_flight_ended(held.session);
        add(&hold.refused, 1);
        let Some(terms) = engine.clients().terms_of(held.session) else {
            continue;
        };
        let why = hold.too_long(wait_max(engine));
        let arrival = held.arrival(terms.version, terms.pool);
        engine.refuse(&arrival, None, &why);
    }
}
