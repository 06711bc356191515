//! Teaches a node that has joined the statements that its clients use: what the engine does of it.

use std::ops::Range;

use helenus_policy::ring::NodeIndex;

use crate::backlog;
use crate::features;
use crate::features::prewarm::lessons::HELD_BACK;
use crate::keys::PoolKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;

/// A link to a node is up: if it is the first one to a node that has joined, its lessons begin.
pub(in crate::features) fn on_link_up(engine: &mut Engine, node: NodeIndex, pool: PoolKey) {
    let now = engine.now();
    if !engine.features_mut().prewarm.note_link(node, now) {
        return;
    }
    let shared = engine.cx().shared.clone();
    if shared.prepared_count() == 0 {
        // It serves at once.
        return;
    }
    engine
        .stations()
        .links
        .hold_back(node, Some(now + HELD_BACK));
    let (teachers, worker) = (&shared.features.prewarm, engine.cx().index);
    let lessons = &mut engine.features_mut().prewarm;
    lessons.begin(teachers, worker, node, pool, || shared.all_prepared());
    on_work(engine, node);
}

/// Goes on with the lessons of a node.
pub(in crate::features) fn on_work(engine: &mut Engine, node: NodeIndex) {
    while let Some((prepared, pool)) = engine.features_mut().prewarm.next(node) {
        if !engine.links().has_link(pool, node) {
            engine.features_mut().prewarm.note_ended(node, &prepared.id);
            engine.features_mut().prewarm.give_up(node);
            break;
        }
        engine.prepare_ahead(&prepared, node, pool);
    }
    let Stations { cx, features, .. } = engine.stations();
    let teachers = &cx.shared.features.prewarm;
    features.prewarm.end_if_over(teachers, node);
}

/// Nodes that have been taught are held back no longer.
pub(in crate::features) fn on_tick(engine: &mut Engine) {
    let Stations {
        cx,
        features,
        links,
        ..
    } = engine.stations();
    let teachers = &cx.shared.features.prewarm;
    for node in features.prewarm.take_taught(teachers, cx.now) {
        links.hold_back(node, None);
    }
}

/// Nodes have joined, of these numbers.
pub(in crate::features) fn on_joined(engine: &mut Engine, joined: Range<usize>) {
    for index in joined {
        engine
            .features_mut()
            .prewarm
            .expect(NodeIndex(index as u16));
    }
}

/// The PREPARE of a statement on a node has ended, however.
pub(in crate::features) fn on_prepare_ended(engine: &mut Engine, node: NodeIndex, id: &[u8]) {
    if engine.features_mut().prewarm.note_ended(node, id) {
        let work = features::Work::Prewarm(node);
        engine.later(backlog::Work::Feature(work));
    }
}
