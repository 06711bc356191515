//! Teaches a node that has joined the statements that its clients use: what the engine does of it.

use std::ops::Range;

use helenus_policy::ring::NodeIndex;

use crate::backlog;
use crate::engine::Engine;
use crate::features;
use crate::features::prewarm::lessons::HELD_BACK;
use crate::keys::PoolKey;

/// A link to a node is up: if it is the first one to a node that has joined, its lessons begin.
pub(in crate::features) fn on_link_up(engine: &mut Engine, node: NodeIndex, pool: PoolKey) {
    let now = engine.cx.now;
    if !engine.features.prewarm.note_link(node, now) {
        return;
    }
    let shared = engine.cx.shared.clone();
    if shared.prepared_count() == 0 {
        // It serves at once.
        return;
    }
    engine.links.hold_back(node, Some(now + HELD_BACK));
    let (teachers, worker) = (&shared.features.prewarm, engine.cx.index);
    let lessons = &mut engine.features.prewarm;
    lessons.begin(teachers, worker, node, pool, || shared.all_prepared());
    on_work(engine, node);
}

/// Goes on with the lessons of a node.
pub(in crate::features) fn on_work(engine: &mut Engine, node: NodeIndex) {
    while let Some((prepared, pool)) = engine.features.prewarm.next(node) {
        if !engine.links.has_link(pool, node) {
            engine.features.prewarm.note_ended(node, &prepared.id);
            engine.features.prewarm.give_up(node);
            break;
        }
        engine.prepare_ahead(&prepared, node, pool);
    }
    let teachers = &engine.cx.shared.features.prewarm;
    engine.features.prewarm.end_if_over(teachers, node);
}

/// Nodes that have been taught are held back no longer.
pub(in crate::features) fn on_tick(engine: &mut Engine) {
    let (teachers, now) = (&engine.cx.shared.features.prewarm, engine.cx.now);
    for node in engine.features.prewarm.take_taught(teachers, now) {
        engine.links.hold_back(node, None);
    }
}

/// Nodes have joined, of these numbers.
pub(in crate::features) fn on_joined(engine: &mut Engine, joined: Range<usize>) {
    for index in joined {
        engine.features.prewarm.expect(NodeIndex(index as u16));
    }
}

/// The PREPARE of a statement on a node has ended, however.
pub(in crate::features) fn on_prepare_ended(engine: &mut Engine, node: NodeIndex, id: &[u8]) {
    if engine.features.prewarm.note_ended(node, id) {
        let work = features::Work::Prewarm(node);
        engine.later(backlog::Work::Feature(work));
    }
}
