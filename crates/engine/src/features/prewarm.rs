//! Teaches a node that has joined the statements that its clients use: what the engine does of it.

pub(crate) mod lessons;

use helenus_policy::ring::NodeIndex;

use crate::engine::Engine;
use crate::features::prewarm::lessons::HELD_BACK;
use crate::keys::PoolKey;

impl Engine {
    /// A link to a node is up: if it is the first one to a node that has joined, its lessons begin.
    pub(crate) fn begin_lessons(&mut self, node: NodeIndex, pool: PoolKey) {
        let now = self.cx.now;
        if !self.links.lessons.note_link(node, now) {
            return;
        }
        let shared = self.cx.shared.clone();
        if shared.prepared_count() == 0 {
            // It serves at once.
            return;
        }
        self.links.hold_back(node, Some(now + HELD_BACK));
        let (teachers, worker) = (&shared.teachers, self.cx.index);
        let lessons = &mut self.links.lessons;
        lessons.begin(teachers, worker, (node, pool), || shared.all_prepared());
        self.teach(node);
    }

    /// Goes on with the lessons of a node.
    pub(crate) fn teach(&mut self, node: NodeIndex) {
        while let Some((prepared, pool)) = self.links.lessons.next(node) {
            if !self.links.has_link(pool, node) {
                self.links.lessons.note_ended(node, &prepared.id);
                self.links.lessons.give_up(node);
                break;
            }
            self.prepare_ahead(&prepared, node, pool);
        }
        let teachers = &self.cx.shared.teachers;
        self.links.lessons.end_if_over(teachers, node);
    }

    /// Nodes that have been taught are held back no longer.
    pub(crate) fn release_taught(&mut self) {
        let (teachers, now) = (&self.cx.shared.teachers, self.cx.now);
        for node in self.links.lessons.take_taught(teachers, now) {
            self.links.hold_back(node, None);
        }
    }
}

#[cfg(test)]
mod tests;
