//! What the workers share of a node. Each has a queue of its own for it; its scan permits are counted over
//! all of them, with a bit for each worker whose scans wait for one. Whoever returns a permit wakes the
//! next such worker, so that they take turns.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{PieceAnswered, Settings, Slots};

/// Workers that can be woken; further ones look by themselves once a tick.
const WAKEABLE: usize = 64;

/// What workers share of a node: its scan permits, and room that is lent to who needs it.
#[derive(Debug)]
pub(crate) struct SharedNode {
    scans: AtomicU32,
    waiting: AtomicU64,
    /// Requests and their bytes in flight beyond what each worker may always have there.
    pub(super) lent: AtomicU32,
    pub(super) lent_bytes: AtomicUsize,
    /// Permits, as many as `best` has found.
    permits: AtomicU32,
    best: Mutex<Slots>,
    since: Instant,
}

impl SharedNode {
    fn new(permits: u32, since: Instant) -> Self {
        SharedNode {
            scans: AtomicU32::new(0),
            waiting: AtomicU64::new(0),
            lent: AtomicU32::new(0),
            lent_bytes: AtomicUsize::new(0),
            permits: AtomicU32::new(permits),
            best: Mutex::new(Slots::new(permits)),
            since,
        }
    }
}

/// What workers share of each node.
#[derive(Debug)]
pub struct SharedNodes {
    nodes: RwLock<Vec<Arc<SharedNode>>>,
    since: Instant,
}

impl SharedNodes {
    pub(crate) fn new(now: Instant) -> SharedNodes {
        SharedNodes {
            nodes: RwLock::default(),
            since: now,
        }
    }

    /// That of a node, made on first use with this number of permits. Workers keep the `Arc`.
    pub(crate) fn of(&self, node: NodeIndex, permits: u32) -> Arc<SharedNode> {
        let mut nodes = match self.nodes.write() {
            Ok(nodes) => nodes,
            Err(poisoned) => poisoned.into_inner(),
        };
        while nodes.len() <= node.as_usize() {
            nodes.push(Arc::new(SharedNode::new(permits, self.since)));
        }
        nodes[node.as_usize()].clone()
    }
}

/// A permit for one piece of a scan at a node, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct ScanPermit(Arc<SharedNode>);

impl Drop for ScanPermit {
    fn drop(&mut self) {
        self.0.scans.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SharedNode {
    /// Takes one of this number of permits, if one is free.
    pub(super) fn try_take(self: &Arc<Self>, permits: u32) -> Option<ScanPermit> {
        let taken = self
            .scans
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |scans| {
                (scans < permits).then_some(scans + 1)
            });
        taken.is_ok().then(|| ScanPermit(self.clone()))
    }

    /// Says whether a worker's scans wait. Said before a permit is tried for, so that whoever returns one
    /// in that moment sees it.
    pub(super) fn say_waiting(&self, worker: usize, waits: bool) {
        let bit = 1 << (worker % WAKEABLE);
        let said = self.waiting.load(Ordering::Relaxed) & bit != 0;
        if worker < WAKEABLE && said != waits {
            match waits {
                true => self.waiting.fetch_or(bit, Ordering::SeqCst),
                false => self.waiting.fetch_and(!bit, Ordering::SeqCst),
            };
        }
    }

    /// The next worker behind this one whose scans wait.
    pub(super) fn next_waiting(&self, worker: usize) -> Option<usize> {
        let waiting = self.waiting.load(Ordering::SeqCst);
        let own = worker % WAKEABLE;
        (1..WAKEABLE)
            .map(|step| (own + step) % WAKEABLE)
            .find(|other| waiting & (1 << other) != 0)
    }

    /// What has not been given back, by any worker.
    pub(crate) fn residue(&self) -> Option<String> {
        let scans = self.scans.load(Ordering::Relaxed);
        let waiting = self.waiting.load(Ordering::Relaxed);
        let lent = self.lent.load(Ordering::Relaxed);
        let bytes = self.lent_bytes.load(Ordering::Relaxed);
        let clear = scans == 0 && waiting == 0 && lent == 0 && bytes == 0;
        (!clear).then(|| {
            format!("{scans} scan permits, workers {waiting:b} waiting for one, {lent} lent, {bytes} bytes lent")
        })
    }

    /// Where the search for the best number of permits starts, unless it has found something. `informed`:
    /// whether the node's processors are known.
    pub(super) fn begin_at(&self, permits: u32, informed: bool) {
        if let Ok(mut best) = self.best.lock() {
            best.begin_at(permits, informed);
            self.permits.store(best.in_force(), Ordering::Relaxed);
        }
    }

    /// Permits that were found to be best.
    pub(super) fn permits(&self) -> u32 {
        self.permits.load(Ordering::Relaxed)
    }

    /// A scan's piece was answered.
    pub(super) fn learn(&self, now: Instant, answer: PieceAnswered, settings: &Settings) {
        let waits = answer.waits || self.waiting.load(Ordering::SeqCst) != 0;
        let answer = PieceAnswered { waits, ..answer };
        let now_us = now.saturating_duration_since(self.since).as_micros() as u64;
        if let Ok(mut best) = self.best.lock() {
            best.on_answer(now_us, answer, settings.scan_slots_bounds());
            self.permits.store(best.in_force(), Ordering::Relaxed);
        }
    }

    /// Pieces in flight, over all workers.
    pub(crate) fn scans(&self) -> u32 {
        self.scans.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_whose_scans_wait_are_woken_in_turn() {
        let nodes = SharedNodes::new(crate::testing::begin());
        let node = nodes.of(NodeIndex(0), 1);
        assert_eq!(node.next_waiting(0), None);
        for worker in [2, 5, WAKEABLE] {
            node.say_waiting(worker, true);
            node.say_waiting(worker, true);
        }
        let woken = [0, 2, 5].map(|worker| node.next_waiting(worker));
        assert_eq!(
            woken,
            [Some(2), Some(5), Some(2)],
            "the last looks by itself"
        );
        node.say_waiting(2, false);
        assert_eq!(node.next_waiting(5), None, "never itself");
        assert_eq!(node.next_waiting(0), Some(5));
        node.say_waiting(5, false);
        assert_eq!(node.residue(), None);
    }

    #[test]
    fn permits_are_as_many_as_were_asked_for_over_all_workers() {
        let nodes = SharedNodes::new(crate::testing::begin());
        let (one, other) = (nodes.of(NodeIndex(3), 2), nodes.of(NodeIndex(3), 9));
        assert_eq!(other.permits(), 2, "made on first use");
        let first = one.try_take(2);
        let second = other.try_take(2);
        assert!(first.is_some() && second.is_some());
        assert!(one.try_take(2).is_none());
        assert_eq!(one.scans(), 2);
        drop(first);
        assert!(one.try_take(2).is_some());
    }
}
