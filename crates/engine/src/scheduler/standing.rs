//! How the queues of nodes stand, for others.

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;

use crate::context::Context;
use crate::scheduler::{LATELY_US, Queue, Queues};

impl Queues {
    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many scans want a node: those in flight there, and those of this worker that wait.
    pub(crate) fn scans(&self, node: NodeIndex) -> usize {
        let queue = self.nodes.get(node.as_usize());
        queue.map_or(usize::MAX, Queue::scans)
    }

    /// Those of these owners that long work should rather not go to, a bit for each.
    pub(crate) fn lagging(&self, cx: &Context, owners: &[NodeIndex]) -> u32 {
        self.choice.lagging(cx.now_us(), owners)
    }

    /// When each of these owners would be done with one more scan than it has: their number, times how much
    /// slower it is than the best of them.
    pub(crate) fn after_scans(&self, cx: &Context, owners: &[NodeIndex]) -> [f32; Plan::CAPACITY] {
        let mut after = match self.assignment().is_informed() {
            true => self.choice.slower(cx.now_us(), owners),
            false => [1.0; Plan::CAPACITY],
        };
        for (owner, after) in owners.iter().zip(&mut after) {
            *after *= self.scans(*owner).saturating_add(1) as f32;
        }
        after
    }

    /// True if scans are in flight, from any worker, or wait here.
    pub(crate) fn scans_about(&self) -> bool {
        self.nodes.iter().any(|queue| queue.scans() > 0)
    }

    /// True if nodes have had anything else than scans to do a moment ago, from any worker.
    pub(crate) fn others_lately(&self, now_us: u64) -> bool {
        let lately = |at_us| now_us.saturating_sub(at_us) < LATELY_US;
        let mut nodes = self.nodes.iter();
        nodes.any(|queue| queue.others > 0 && lately(queue.others_at_us))
    }

    /// Scan permits of all nodes.
    pub(crate) fn scan_permits(&self) -> usize {
        let permits = |queue: &Queue| queue.schedule.scan_slots() as usize;
        self.nodes.iter().map(permits).sum()
    }

    /// Scan permits of all nodes while nothing else is to be done.
    pub(crate) fn scan_permits_idle(&self) -> u64 {
        let permits = |queue: &Queue| u64::from(queue.schedule.settings().scan_slots_idle);
        self.nodes.iter().map(permits).sum()
    }

    /// True if a node's queue has an order of the paper's, which knows kinds of requests only.
    pub(crate) fn is_preset(&self, node: NodeIndex) -> bool {
        let schedule = &self.nodes[node.as_usize()].schedule;
        schedule.settings().variant.is_preset()
    }

    /// How many node requests wait for a node and how many are at it, as counted.
    pub(crate) fn counted(&self, node: NodeIndex) -> (usize, usize) {
        let schedule = &self.nodes[node.as_usize()].schedule;
        (schedule.waiting(), schedule.in_flight())
    }

    /// State not given back, in words.
    pub(crate) fn leak_check(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, queue) in self.nodes.iter().enumerate() {
            let name = &queue.stats.name;
            let (waiting, in_flight) = (queue.schedule.waiting(), queue.schedule.in_flight());
            if waiting > 0 {
                found.push(format!("{waiting} in the queue of {name}"));
            }
            if in_flight > 0 {
                found.push(format!("{in_flight} at {name}"));
            }
            if !queue.inside.is_clear() {
                found.push(format!("places at {name}"));
            }
            let outstanding = self.choice.outstanding(NodeIndex(at as u16));
            if outstanding != (0, 0, 0) {
                found.push(format!("{outstanding:?} of predicted work at {name}"));
            }
            if let Some(shared) = queue.shared.leak_check() {
                found.push(format!("{shared} of {name}"));
            }
        }
        if !self.noted.is_empty() {
            found.push("nodes to be looked at".to_owned());
        }
        found
    }
}
