//! Where the time of a client request went: what its node requests leave behind when they end.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;

use crate::pipeline::node_request::{NodeRequest, Stage};

/// Nodes that are remembered by number.
const NODES_MAX: u16 = u32::BITS as u16;

/// Times of all node requests of one client request, added up. Those that ran at the same time count each,
/// so sums may exceed the time that its client has waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// In queues of nodes, in the proxy, in microseconds.
    pub queued_us: u32,
    /// From sending to the answer, in microseconds.
    pub at_nodes_us: u32,
    /// Of that, the longest, and where.
    pub slowest_us: u32,
    slowest: NodeIndex,
    /// Where the last of them that has ended was.
    pub last: Option<NodeIndex>,
    pub node_requests: u16,
    /// Nodes tried, over all node requests.
    pub attempts: u16,
    /// It was asked of a second replica because the first was slow.
    pub is_hedged: bool,
    /// A bit for each of the first [`NODES_MAX`] nodes that had a part in it.
    nodes: u32,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            queued_us: 0,
            at_nodes_us: 0,
            slowest_us: 0,
            slowest: NodeIndex(0),
            last: None,
            node_requests: 0,
            attempts: 0,
            is_hedged: false,
            nodes: 0,
        }
    }
}

/// One node request's share of these sums.
struct Ended {
    queued_us: u32,
    at_node_us: u32,
    attempts: u8,
    node: Option<NodeIndex>,
}

impl Ended {
    #[inline]
    fn of(request: &NodeRequest) -> Ended {
        Ended {
            queued_us: request.queued_us(),
            at_node_us: request.at_node_us(),
            attempts: request.attempts(),
            node: request.node(),
        }
    }
}

impl Timing {
    /// A node request of it has ended.
    #[inline]
    pub(crate) fn note(&mut self, ended: &NodeRequest) {
        self.add(&Ended::of(ended));
    }

    #[inline]
    fn add(&mut self, ended: &Ended) {
        // Requests end within minutes, and their parts are bounded: none of these sums comes to its end.
        self.queued_us = self.queued_us.wrapping_add(ended.queued_us);
        self.at_nodes_us = self.at_nodes_us.wrapping_add(ended.at_node_us);
        self.node_requests = self.node_requests.wrapping_add(1);
        self.attempts = self.attempts.wrapping_add(ended.attempts.into());
        self.last = ended.node;
        if let Some(node) = ended.node {
            if ended.at_node_us >= self.slowest_us {
                (self.slowest_us, self.slowest) = (ended.at_node_us, node);
            }
            if node.0 < NODES_MAX {
                self.nodes |= 1 << node.0;
            }
        }
    }

    /// As `note`, for one that waits or is at a node now.
    pub(crate) fn note_open(&mut self, open: &NodeRequest, now: Instant, now_us: u64) {
        let mut soon = Ended::of(open);
        match open.stage() {
            Stage::Queued(waiting) => {
                soon.queued_us += now_us.saturating_sub(waiting.since_us) as u32;
                // Not asked yet.
                soon.node = soon.node.or(Some(waiting.node));
            }
            Stage::InFlight(_, flight) => {
                let us = now.saturating_duration_since(flight.sent).as_micros();
                soon.at_node_us = soon.at_node_us.saturating_add(us as u32);
            }
            Stage::Unplaced | Stage::Admitted(_) => {}
        }
        self.add(&soon);
    }

    /// The node that took longest, if any had a part in it.
    pub(crate) fn slowest(&self) -> Option<NodeIndex> {
        let is_known = self.nodes != 0 || self.slowest.0 >= NODES_MAX;
        is_known.then_some(self.slowest)
    }

    /// The nodes that had a part in it; of large clusters only the first by number.
    pub(crate) fn nodes(&self) -> Vec<NodeIndex> {
        let of = |number: &u16| self.nodes >> number & 1 == 1;
        (0..NODES_MAX).filter(of).map(NodeIndex).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_up_and_the_slowest_node_is_named() {
        let mut timing = Timing::default();
        for (node, queued_us, at_node_us) in [(3, 10, 100), (70, 0, 900), (0, 5, 300)] {
            timing.add(&Ended {
                queued_us,
                at_node_us,
                attempts: 2,
                node: Some(NodeIndex(node)),
            });
        }
        assert_eq!((timing.queued_us, timing.at_nodes_us), (15, 1_300));
        let slowest = (timing.slowest(), timing.slowest_us);
        assert_eq!(slowest, (Some(NodeIndex(70)), 900));
        assert_eq!((timing.node_requests, timing.attempts), (3, 6));
        assert_eq!(timing.nodes(), [NodeIndex(0), NodeIndex(3)]);
    }
}
