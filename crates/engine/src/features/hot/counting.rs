//! Which requests are counted for their partitions, and what follows.

use crate::features::Arrived;
use crate::features::hot::keys::{Asked, HotKeys};
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;

/// Counts a request for its partition, if it is one of those that are looked at.
#[inline]
pub(in crate::features) fn on_shared(engine: &mut Engine, request: &Arrived<'_>, joins: bool) {
    if engine.features_mut().hot.is_next() {
        note(engine, request, joins);
    }
}

#[inline(never)]
fn note(engine: &mut Engine, request: &Arrived<'_>, is_shared: bool) {
    let Arrived {
        arrival,
        analysis,
        statement,
    } = *request;
    let Stations {
        cx,
        features,
        statements,
        links,
        ..
    } = engine.stations();
    let Some(identity) = links.identity_of(arrival.pool) else {
        return;
    };
    let Some(token) = analysis.place.as_ref().and_then(|place| place.token) else {
        return;
    };
    let Some(table) = statements.counters_of(cx, analysis, statement) else {
        return;
    };
    let key = cx.shared.config.admin.show_keys;
    let key = key.then(|| statements.routing_key(analysis)).flatten();
    let asked = Asked {
        opcode: arrival.opcode,
        bytes: arrival.body.len(),
        statement,
        identity,
        is_shared,
    };
    features.hot.note(&asked, analysis.lwt, &table, token, key);
}

/// True if the partition with this token is a notable part of a node's work.
#[inline]
pub(in crate::features) fn spreads(state: &HotKeys, token: i64) -> bool {
    state.is_hot(token)
}

/// Decides which partitions are hot, and publishes them now and then.
pub(in crate::features) fn on_tick(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    features.hot.on_tick(cx);
}
