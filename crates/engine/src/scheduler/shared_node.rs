//! State of a node that workers share. Each worker has a queue of its own for it; its scan permits are counted over
//! all workers, with a bit for each whose scans wait for one. Whoever returns a permit wakes the worker at which the
//! tenant waits that has had the least ([`Shares`]); where several are alike, workers take turns. A worker leaves a
//! free permit to another one at which somebody waits that has had less.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{Class, PieceAnswered, Settings, Slots};

use crate::support::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::support::sync::{Arc, Mutex, NUMBERED_MAX, RwLock, Shares};

/// Workers that can be woken; further ones look by themselves once a tick.
const WAKEABLE: usize = NUMBERED_MAX;

/// Workers hear of the same node within this time.
const LOW_AGAIN_MS: u64 = 10_000;

const BITS: usize = u64::BITS as usize;

/// A set of workers, as far as they can be woken.
#[derive(Debug, Default)]
struct WorkerSet([AtomicU64; WAKEABLE / BITS]);

impl WorkerSet {
    fn word(&self, worker: usize) -> Option<(&AtomicU64, u64)> {
        let word = self.0.get(worker / BITS)?;
        Some((word, 1 << (worker % BITS)))
    }

    /// True if a worker is in it: it alone changes that, or its answer may be late.
    fn has(&self, worker: usize) -> bool {
        let word = self.word(worker);
        word.is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// True if there are others in it than this one.
    fn has_others_than(&self, worker: usize) -> bool {
        self.0.iter().enumerate().any(|(at, word)| {
            let own = match worker / BITS == at {
                true => 1 << (worker % BITS),
                false => 0,
            };
            word.load(Ordering::SeqCst) & !own != 0
        })
    }

    /// False if it was in it.
    fn insert(&self, worker: usize) -> bool {
        let word = self.word(worker);
        word.is_some_and(|(word, bit)| word.fetch_or(bit, Ordering::SeqCst) & bit == 0)
    }

    fn remove(&self, worker: usize) {
        if let Some((word, bit)) = self.word(worker) {
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}

/// State of a node that workers share: its scan permits, and room that is lent to who needs it.
#[derive(Debug)]
pub(crate) struct SharedNode {
    scans: AtomicU32,
    /// Of these, those that are kept for what nobody waits for any more.
    kept: AtomicU32,
    waiting: WorkerSet,
    /// By worker: its scans that wait would take a permit as long as fewer than this are taken. 0: none
    /// waits, or they wait for something else as well.
    wanted: [AtomicU32; WAKEABLE],
    /// A bit for each worker that has been told of a permit and has not looked yet.
    woken: WorkerSet,
    /// Work served for each tenant, by all workers.
    pub(super) shares: Arc<Shares>,
    /// Requests and their bytes in flight beyond what each worker may always have there.
    pub(super) lent: AtomicU32,
    pub(super) lent_bytes: AtomicUsize,
    /// Permits, as many as `best` has found.
    permits: AtomicU32,
    best: Mutex<Slots>,
    /// When that began with one permit, in milliseconds, plus 1; 0: never.
    low_ms: AtomicU64,
    since: Instant,
}

impl SharedNode {
    fn new(permits: u32, since: Instant) -> Self {
        SharedNode {
            scans: AtomicU32::new(0),
            kept: AtomicU32::new(0),
            waiting: WorkerSet::default(),
            wanted: std::array::from_fn(|_| AtomicU32::new(0)),
            woken: WorkerSet::default(),
            shares: Arc::default(),
            lent: AtomicU32::new(0),
            lent_bytes: AtomicUsize::new(0),
            permits: AtomicU32::new(permits),
            best: Mutex::new(Slots::new(permits)),
            low_ms: AtomicU64::new(0),
            since,
        }
    }
}

/// State of each node that workers share.
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

    /// No scans of a worker that has ended wait any more.
    pub(crate) fn forget_worker(&self, worker: usize) {
        let nodes = match self.nodes.read() {
            Ok(nodes) => nodes,
            Err(poisoned) => poisoned.into_inner(),
        };
        nodes.iter().for_each(|node| node.say_waiting(worker, None));
    }
}

/// A permit for one piece of a scan at a node, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct ScanPermit {
    node: Arc<SharedNode>,
    is_kept: bool,
}

impl ScanPermit {
    /// Nobody waits any more for what it was taken for.
    pub(super) fn keep(mut self) -> ScanPermit {
        if !self.is_kept {
            self.is_kept = true;
            self.node.kept.fetch_add(1, Ordering::Relaxed);
        }
        self
    }
}

impl Drop for ScanPermit {
    fn drop(&mut self) {
        if self.is_kept {
            self.node.kept.fetch_sub(1, Ordering::Relaxed);
        }
        self.node.scans.fetch_sub(1, Ordering::SeqCst);
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
        taken.is_ok().then(|| ScanPermit {
            node: self.clone(),
            is_kept: false,
        })
    }

    /// True if this number of permits, or more, are with scans that nobody waits for any more, and none with another.
    pub(super) fn are_all_kept(&self, permits: u32) -> bool {
        let kept = self.kept.load(Ordering::Relaxed);
        kept >= permits.max(1) && kept >= self.scans.load(Ordering::Relaxed)
    }

    /// True if fewer than this number of permits are taken.
    pub(super) fn has_free(&self, permits: u32) -> bool {
        self.scans.load(Ordering::SeqCst) < permits
    }

    /// Says whether a worker's scans wait, and up to which number of permits they would take one. Said
    /// before a permit is tried for, so that whoever returns one in that moment sees it.
    pub(super) fn say_waiting(&self, worker: usize, permits: Option<u32>) {
        let said = self.waiting.has(worker);
        if worker >= WAKEABLE || !said && permits.is_none() {
            return;
        }
        let wants = permits.unwrap_or(0);
        if self.wanted[worker].load(Ordering::Relaxed) != wants {
            self.wanted[worker].store(wants, Ordering::SeqCst);
        }
        match permits.is_some() {
            true if !said => _ = self.waiting.insert(worker),
            false => self.waiting.remove(worker),
            true => {}
        }
    }

    /// True if scans of other workers than this one wait.
    pub(super) fn others_wait(&self, worker: usize) -> bool {
        self.waiting.has_others_than(worker)
    }

    /// The worker whose scan gets the next permit, if that is another one than this, whose turn is last.
    pub(super) fn next_waiting(&self, worker: usize) -> Option<usize> {
        if !self.others_wait(worker) {
            return None;
        }
        let next = self.shares.next(Class::Scan, worker, self.can_use_one());
        next.filter(|next| *next != worker)
    }

    /// A worker at which a tenant waits that has had less than all that wait at this one.
    pub(super) fn next_before(&self, worker: usize) -> Option<usize> {
        self.shares
            .next_before(Class::Scan, worker, self.can_use_one())
    }

    /// Which workers would take one more permit.
    fn can_use_one(&self) -> impl Fn(usize) -> bool + '_ {
        let scans = self.scans.load(Ordering::SeqCst);
        move |worker| {
            let wanted = self.wanted.get(worker);
            wanted.is_some_and(|wanted| scans < wanted.load(Ordering::SeqCst))
        }
    }

    /// A worker is to be told of a permit; false if it has been, and has not looked yet.
    pub(super) fn begin_to_wake(&self, worker: usize) -> bool {
        self.woken.insert(worker)
    }

    /// A worker looks whether there is a permit for its scans.
    pub(super) fn on_woken(&self, worker: usize) {
        if self.woken.has(worker) {
            self.woken.remove(worker);
        }
    }

    /// State not given back, by any worker.
    pub(crate) fn leak_check(&self) -> Option<String> {
        let scans = self.scans.load(Ordering::Relaxed);
        let waiting = self.waiting.has_others_than(WAKEABLE);
        let lent = self.lent.load(Ordering::Relaxed);
        let bytes = self.lent_bytes.load(Ordering::Relaxed);
        let tenants = self.shares.waiting();
        let clear = scans == 0 && !waiting && lent == 0 && bytes == 0 && tenants == 0;
        (!clear).then(|| {
            format!(
                "{scans} scan permits, some waiting for one: {waiting}, {lent} lent, {bytes} bytes lent, \
                 {tenants} tenants waiting"
            )
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

    /// The node runs cold: the search starts anew with one permit. Each worker says so, the first counts.
    pub(super) fn begin_low(&self, now: Instant) {
        let now_ms = now.saturating_duration_since(self.since).as_millis() as u64 + 1;
        let before_ms = self.low_ms.load(Ordering::Relaxed);
        if before_ms > 0 && now_ms.saturating_sub(before_ms) < LOW_AGAIN_MS {
            return;
        }
        if let Ok(mut best) = self.best.lock() {
            self.low_ms.store(now_ms, Ordering::Relaxed);
            best.begin_low();
            self.permits.store(best.in_force(), Ordering::Relaxed);
        }
    }

    /// Permits that were found to be best.
    pub(super) fn permits(&self) -> u32 {
        self.permits.load(Ordering::Relaxed)
    }

    /// A scan's piece was answered.
    pub(super) fn learn(&self, now: Instant, answer: PieceAnswered, settings: &Settings) {
        let waits = answer.waits || self.waiting.has_others_than(WAKEABLE);
        let answer = PieceAnswered { waits, ..answer };
        let now_us = now.saturating_duration_since(self.since).as_micros() as u64;
        let (min, max) = settings.scan_slots_bounds();
        if let Ok(mut best) = self.best.lock() {
            best.on_answer(now_us, answer, min, max);
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
    use helenus_policy::schedule::{Job, Offer, Schedule};

    use super::*;

    /// The queue of a worker in which two scans of a tenant wait, for one permit.
    fn wait(node: &SharedNode, worker: usize, tenant: u32) -> Schedule<()> {
        let mut queue = Schedule::sharing(Settings::default(), node.shares.clone(), worker);
        let job = Job {
            tenant,
            ..Job::of_work(10_000)
        };
        for _ in 0..2 {
            let offered = queue.offer(0, (), Class::Scan, job, false);
            assert!(matches!(offered, Offer::Queued(_)));
        }
        node.say_waiting(worker, Some(1));
        queue
    }

    #[test]
    fn a_scan_that_is_waited_for_says_how_fast_the_node_is() {
        let nodes = SharedNodes::new(crate::testing::begin());
        let node = nodes.of(NodeIndex(0), 1);
        let kept = node.try_take(2).expect("a permit").keep();
        let other = node.try_take(2).expect("a permit");
        assert!(!node.are_all_kept(1), "only one is allowed by now");
        drop(other);
        assert!(node.are_all_kept(1));
        assert!(!node.are_all_kept(2));
        drop(kept);
        assert!(!node.are_all_kept(1));
    }

    #[test]
    fn workers_whose_scans_wait_are_woken_in_turn() {
        let nodes = SharedNodes::new(crate::testing::begin());
        let node = nodes.of(NodeIndex(0), 1);
        assert_eq!(node.next_waiting(0), None);
        let queues = [2, 5, WAKEABLE].map(|worker| wait(&node, worker, 7));
        let woken = [0, 2, 5].map(|worker| node.next_waiting(worker));
        assert_eq!(
            woken,
            [Some(2), Some(5), Some(2)],
            "the last looks by itself"
        );
        let before = [0, 2, 5].map(|worker| node.next_before(worker));
        assert_eq!(before, [Some(2), None, None], "they are alike");
        node.say_waiting(2, None);
        assert_eq!(node.next_waiting(5), None, "never itself");
        assert_eq!(node.next_waiting(0), Some(5));
        node.say_waiting(5, Some(0));
        assert_eq!(node.next_waiting(0), None, "it can use none");
        node.say_waiting(5, None);
        assert!(node.leak_check().is_some());
        drop(queues);
        assert_eq!(node.leak_check(), None);
    }

    #[test]
    fn scans_of_workers_with_large_numbers_are_woken_like_others() {
        let nodes = SharedNodes::new(crate::testing::begin());
        let node = nodes.of(NodeIndex(0), 1);
        let queues = [3, 64, 200].map(|worker| wait(&node, worker, 7));
        let woken = [0, 3, 64, 200].map(|worker| node.next_waiting(worker));
        assert_eq!(woken, [Some(3), Some(64), Some(200), Some(3)]);
        assert!(node.begin_to_wake(200) && !node.begin_to_wake(200));
        node.on_woken(200);
        assert!(node.begin_to_wake(200));
        for worker in [3, 64, 200] {
            node.say_waiting(worker, None);
        }
        drop(queues);
        assert_eq!(node.leak_check(), None);
    }

    #[test]
    fn who_has_had_less_is_next_wherever_it_waits() {
        let nodes = SharedNodes::new(crate::testing::begin());
        let node = nodes.of(NodeIndex(0), 1);
        let (mut one, _same) = (wait(&node, 0, 1), wait(&node, 1, 1));
        let _other = wait(&node, 3, 2);
        assert!(one.poll_dispatch(0, true).is_some());
        assert_eq!(node.next_waiting(0), Some(3));
        let before = [0, 1, 3].map(|worker| node.next_before(worker));
        assert_eq!(before, [Some(3), Some(3), None]);
        let permit = node.try_take(1);
        assert_eq!(node.next_before(0), None, "there is no permit for it");
        drop(permit);
        assert_eq!(node.next_before(0), Some(3));
        node.say_waiting(3, Some(0));
        assert_eq!(node.next_before(0), None, "it could not use it");
        assert_eq!(node.next_waiting(0), Some(1));
    }

    #[test]
    fn a_worker_is_told_once_until_it_has_looked() {
        let nodes = SharedNodes::new(crate::testing::begin());
        let node = nodes.of(NodeIndex(0), 1);
        let told = [2, 2, 3].map(|worker| node.begin_to_wake(worker));
        assert_eq!(told, [true, false, true]);
        node.on_woken(2);
        assert!(node.begin_to_wake(2) && !node.begin_to_wake(3));
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
