//! Statements that a node which has joined is taught before requests need them there.
//!
//! It knows none of the statements that its cluster's clients have prepared. If they came by chance, each
//! worker and request would find out for itself, all at once; and a node that is asked twice at a time to
//! PREPARE what it does not know evicts it again in between. So one worker, whichever has a link first,
//! teaches it all that the proxy knows, [`AT_ONCE`] at a time. Until that is done, though no longer than
//! [`HELD_BACK`], the node is tried last: other coordinators reach its data meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::keys::PoolKey;
use crate::statement::prepared::Prepared;

/// The lessons of this node go on.
pub(in crate::features) type Work = NodeIndex;

/// PREPAREs of a node under way at a time.
pub(crate) const AT_ONCE: usize = 4;
/// How long a node is tried last for the sake of its lessons. Statements that it has not been taught by
/// then it learns when it is asked them.
pub(crate) const HELD_BACK: Duration = Duration::from_secs(5);

/// Which nodes that have joined are taught, by which worker: shared by all of them.
#[derive(Debug, Default)]
pub(crate) struct Teachers(Mutex<FxHashMap<NodeIndex, Teacher>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Teacher {
    Worker(usize),
    /// It has been taught.
    Nobody,
}

impl Teachers {
    /// True if this worker is to teach a node: the first that asks.
    fn begin(&self, node: NodeIndex, worker: usize) -> bool {
        let Ok(mut teachers) = self.0.lock() else {
            return false;
        };
        let teacher = *teachers.entry(node).or_insert(Teacher::Worker(worker));
        teacher == Teacher::Worker(worker)
    }

    fn end(&self, node: NodeIndex) {
        if let Ok(mut teachers) = self.0.lock() {
            teachers.insert(node, Teacher::Nobody);
        }
    }

    pub(crate) fn is_taught(&self, node: NodeIndex) -> bool {
        let teachers = self.0.lock();
        teachers.is_ok_and(|teachers| teachers.get(&node) == Some(&Teacher::Nobody))
    }
}

/// Statements that one node is still to be taught.
struct Course {
    pool: PoolKey,
    left: VecDeque<Arc<Prepared>>,
    under_way: FxHashSet<Box<[u8]>>,
}

/// Nodes that have joined and are not known to be taught.
#[derive(Default)]
pub(crate) struct Lessons {
    /// When the node's first link was up, if it is.
    awaited: FxHashMap<NodeIndex, Option<Instant>>,
    courses: FxHashMap<NodeIndex, Course>,
}

impl Lessons {
    /// A node has joined.
    pub(crate) fn expect(&mut self, node: NodeIndex) {
        self.awaited.insert(node, None);
    }

    /// A link to a node is up. True if it is the first to one that has joined, which is to be held back.
    pub(crate) fn note_link(&mut self, node: NodeIndex, now: Instant) -> bool {
        match self.awaited.get_mut(&node) {
            Some(since @ None) => {
                *since = Some(now);
                true
            }
            _ => false,
        }
    }

    /// Begins to teach a node, if that is left to this worker.
    pub(crate) fn begin(
        &mut self,
        teachers: &Teachers,
        worker: usize,
        node: NodeIndex,
        pool: PoolKey,
        known: impl FnOnce() -> Vec<Arc<Prepared>>,
    ) {
        if teachers.begin(node, worker) {
            let course = Course {
                pool,
                left: known().into(),
                under_way: FxHashSet::default(),
            };
            self.courses.insert(node, course);
        }
    }

    /// The next statement for a node, if there is one and fewer than may be are under way.
    pub(crate) fn next(&mut self, node: NodeIndex) -> Option<(Arc<Prepared>, PoolKey)> {
        let course = self.courses.get_mut(&node)?;
        if course.under_way.len() >= AT_ONCE {
            return None;
        }
        let next = course.left.pop_front()?;
        course.under_way.insert(next.id.clone());
        Some((next, course.pool))
    }

    /// A PREPARE has ended, however. True if it was one of a course.
    pub(crate) fn note_ended(&mut self, node: NodeIndex, id: &[u8]) -> bool {
        let course = self.courses.get_mut(&node);
        course.is_some_and(|course| course.under_way.remove(id))
    }

    /// The node cannot be taught any more: it learns the rest when it is asked.
    pub(crate) fn give_up(&mut self, node: NodeIndex) {
        if let Some(course) = self.courses.get_mut(&node) {
            course.left.clear();
        }
    }

    /// Ends a course with nothing left to be taught.
    pub(crate) fn end_if_over(&mut self, teachers: &Teachers, node: NodeIndex) {
        let course = self.courses.get(&node);
        if course.is_some_and(|course| course.left.is_empty() && course.under_way.is_empty()) {
            self.courses.remove(&node);
            teachers.end(node);
        }
    }

    /// Nodes that are held back no longer: taught by now, by whichever worker.
    pub(crate) fn take_taught(&mut self, teachers: &Teachers, now: Instant) -> Vec<NodeIndex> {
        if self.awaited.is_empty() {
            return Vec::new();
        }
        let is_over = |node: NodeIndex, since: Option<Instant>| {
            since.is_some_and(|since| {
                let held = now.saturating_duration_since(since);
                held >= HELD_BACK || teachers.is_taught(node)
            })
        };
        let awaited = self.awaited.iter();
        let over = awaited.filter(|(node, since)| is_over(**node, **since));
        let over: Vec<NodeIndex> = over.map(|(node, _)| *node).collect();
        for node in &over {
            self.awaited.remove(node);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_teaches_and_all_hear_when_it_is_done() {
        let teachers = Teachers::default();
        let node = NodeIndex(3);
        let now = crate::testing::begin();
        let mut workers: [Lessons; 2] = Default::default();
        let pool = PoolKey::default();
        for (number, lessons) in workers.iter_mut().enumerate() {
            lessons.expect(node);
            assert!(lessons.note_link(node, now));
            assert!(!lessons.note_link(node, now), "only the first");
            lessons.begin(&teachers, number, node, pool, Vec::new);
        }
        assert!(workers[1].courses.is_empty(), "the first worker has it");
        assert_eq!(workers[1].take_taught(&teachers, now), []);
        workers[0].end_if_over(&teachers, node);
        for lessons in &mut workers {
            assert_eq!(lessons.take_taught(&teachers, now), [node]);
            assert_eq!(lessons.take_taught(&teachers, now), [], "once");
        }
    }

    #[test]
    fn a_node_is_not_held_back_for_long() {
        let teachers = Teachers::default();
        let node = NodeIndex(3);
        let now = crate::testing::begin();
        let mut lessons = Lessons::default();
        lessons.expect(node);
        assert_eq!(
            lessons.take_taught(&teachers, now + HELD_BACK),
            [],
            "no link"
        );
        lessons.note_link(node, now);
        assert_eq!(lessons.take_taught(&teachers, now), []);
        assert_eq!(lessons.take_taught(&teachers, now + HELD_BACK), [node]);
    }
}
