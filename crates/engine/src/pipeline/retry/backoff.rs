//! Node requests that are sent again a little later, and whether the cluster is being changed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use slotmap::Key;

use crate::keys::NodeRequestKey;
use crate::snapshot::Snapshot;

/// How long after a change of the ring coordinators may still see it differently.
const MOVES_FOR: Duration = Duration::from_secs(60);
/// How long nodes may be on their way without a change before that is taken for lasting: a node that is listed
/// and never serves. Coordinators tell of pending nodes, too.
const MOVES_FOR_MAX: Duration = Duration::from_secs(600);
/// The first pause; each further one is twice as long, up to the last.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// A request that coordinators have refused for so long fails.
const PATIENCE: Duration = Duration::from_secs(5);

/// UNAVAILABLE answers that a node request has had, and its pauses between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed {
    since: Instant,
    /// Pauses so far.
    pauses: u32,
    /// When the current one has begun.
    paused: Option<Instant>,
}

impl Missed {
    pub(crate) fn new(now: Instant) -> Missed {
        Missed {
            since: now,
            pauses: 0,
            paused: None,
        }
    }

    /// It waits from now on.
    pub(crate) fn begin_pause(&mut self, now: Instant) {
        self.paused = Some(now);
    }

    pub(crate) fn is_pausing(&self) -> bool {
        self.paused.is_some()
    }

    /// For how long it has waited, if it has.
    pub(crate) fn end_pause(&mut self, now: Instant) -> Option<Duration> {
        let since = self.paused.take()?;
        Some(now.saturating_duration_since(since))
    }

    /// The next pause, unless there have been enough. `jitter`: any number, so that those which were refused
    /// together do not come back together.
    pub(crate) fn next_pause(&mut self, now: Instant, jitter: u64) -> Option<Duration> {
        let pause = PAUSE_MAX.min(PAUSE_MIN * (1 << self.pauses.min(8)));
        let pause = pause / 2 + pause.mul_f64((jitter % 1024) as f64 / 2048.0);
        self.pauses += 1;
        let is_over = now.saturating_duration_since(self.since) + pause > PATIENCE;
        (!is_over).then_some(pause)
    }
}

/// Node requests that wait to be sent again.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    by_end: BinaryHeap<Reverse<(Instant, u64, NodeRequestKey)>>,
    /// When the ring has last changed.
    moved: Option<Instant>,
    /// When other nodes than before have last been on their way.
    began: Option<Instant>,
}

impl Pauses {
    pub(crate) fn begin(&mut self, end: Instant, key: NodeRequestKey) {
        // Keys have an order of their own, which means nothing: those of one instant go as they were made.
        let order = key.data().as_ffi();
        self.by_end.push(Reverse((end, order, key)));
    }

    /// When the next one ends.
    #[inline]
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.by_end.peek().map(|Reverse((end, ..))| *end)
    }

    /// A node request whose pause is over; it may be gone by now.
    pub(crate) fn take_over(&mut self, now: Instant) -> Option<NodeRequestKey> {
        self.next_end().filter(|end| *end <= now)?;
        let Reverse((.., key)) = self.by_end.pop()?;
        Some(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        self.by_end.iter().map(|Reverse((.., key))| *key)
    }

    /// Another snapshot is in force.
    pub(crate) fn note_snapshot(&mut self, now: Instant, old: &Snapshot, new: &Snapshot) {
        if old.is_known() && !old.nodes().own_ring_of(new.nodes()) {
            self.moved = Some(now);
        }
        let are_others = !old.nodes().move_as(new.nodes());
        // The first snapshot comes in place of itself.
        if are_others || self.began.is_none() && new.nodes().are_moving() {
            self.began = Some(now);
        }
    }

    /// True if nodes may see the ring differently at the moment.
    pub(crate) fn is_ring_moving(&self, now: Instant, snapshot: &Snapshot) -> bool {
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let is_under_way =
            snapshot.nodes().are_moving() && since(self.began).is_some_and(|of| of < MOVES_FOR_MAX);
        is_under_way || since(self.moved).is_some_and(|of| of < MOVES_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Mover;

    #[test]
    fn a_node_that_never_serves_does_not_move_the_ring_for_ever() {
        let begin = crate::testing::begin();
        let later = |s| begin + Duration::from_secs(s);
        let still = Snapshot::unknown();
        let joins = |number: u8| {
            let mover = Mover {
                host_id: [number; 16],
                address: ([10, 0, 0, number], 9042).into(),
            };
            Snapshot::builder().joining(vec![mover], 1).build()
        };
        let mut pauses = Pauses::default();
        pauses.note_snapshot(begin, &joins(1), &joins(1));
        assert!(pauses.is_ring_moving(begin, &joins(1)), "from the first on");
        let mut pauses = Pauses::default();
        assert!(!pauses.is_ring_moving(begin, &still));
        pauses.note_snapshot(begin, &still, &joins(1));
        // Other changes do not count.
        pauses.note_snapshot(later(500), &joins(1), &joins(1));
        assert!(pauses.is_ring_moving(later(599), &joins(1)));
        assert!(!pauses.is_ring_moving(later(600), &joins(1)));
        pauses.note_snapshot(later(700), &joins(1), &joins(2));
        assert!(pauses.is_ring_moving(later(701), &joins(2)), "another one");
        pauses.note_snapshot(later(702), &joins(2), &still);
        assert!(!pauses.is_ring_moving(later(703), &still));
    }

    #[test]
    fn pauses_grow_and_end_in_time() {
        for jitter in [0, 511, 1023] {
            let begin = crate::testing::begin();
            let (mut missed, mut now) = (Missed::new(begin), begin);
            let mut pauses = Vec::new();
            while let Some(pause) = missed.next_pause(now, jitter) {
                pauses.push(pause);
                now += pause;
            }
            assert!(pauses.is_sorted(), "{pauses:?}");
            assert!(pauses[0] >= PAUSE_MIN / 2 && pauses[0] <= PAUSE_MIN);
            assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX));
            let waited = now - begin;
            assert!(waited <= PATIENCE && waited > PATIENCE - PAUSE_MAX);
            assert!(pauses.len() < 30, "{}", pauses.len());
        }
    }
}
