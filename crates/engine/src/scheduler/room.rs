//! Room for requests in flight on a node over all workers.

use std::sync::atomic::Ordering;

use helenus_policy::ring::NodeIndex;

use crate::config::Config;
use crate::scheduler::shared_node::SharedNode;

/// Room for requests in flight on a node over all workers: a part of it is each worker's own, so that none can be
/// kept out by the others, and costs it no look at them; the rest is lent to who needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    own: u32,
    lent_max: u32,
    own_bytes: usize,
    lent_bytes_max: usize,
}

impl Room {
    pub(crate) fn new(config: &Config, workers: usize) -> Room {
        let proxies = config.proxies_at_work();
        let workers = workers.max(1);
        let requests = config.links.node_in_flight_max.div_ceil(proxies);
        let own = (requests / 2 / workers).max(1);
        let bytes = config.links.node_bytes_max;
        let own_bytes = bytes / 2 / workers;
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Room {
            own: count(own),
            lent_max: count(requests.saturating_sub(own * workers)),
            own_bytes,
            lent_bytes_max: bytes.saturating_sub(own_bytes * workers),
        }
    }
}

/// Requests and bytes that one worker has in flight on a node, in its own room.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    requests: u32,
    bytes: usize,
}

impl Inside {
    /// True if the node takes one more request of this worker.
    pub(super) fn has_room(&self, shared: &SharedNode, room: &Room) -> bool {
        let requests =
            self.requests < room.own || shared.lent.load(Ordering::Relaxed) < room.lent_max;
        let bytes = self.bytes < room.own_bytes
            || shared.lent_bytes.load(Ordering::Relaxed) < room.lent_bytes_max;
        // The last of them may go beyond: one of each worker at the same moment, or a large one.
        (requests && bytes) || self.requests == 0
    }

    pub(super) fn enter(
        &mut self,
        shared: &SharedNode,
        node: NodeIndex,
        bytes: usize,
        room: &Room,
    ) -> Occupied {
        let is_lent = self.requests >= room.own;
        let are_bytes_lent = self.bytes >= room.own_bytes;
        match is_lent {
            true => _ = shared.lent.fetch_add(1, Ordering::Relaxed),
            false => self.requests += 1,
        }
        match are_bytes_lent {
            true => _ = shared.lent_bytes.fetch_add(bytes, Ordering::Relaxed),
            false => self.bytes += bytes,
        }
        Occupied {
            node,
            bytes,
            is_lent,
            are_bytes_lent,
        }
    }

    pub(super) fn leave(&mut self, shared: &SharedNode, place: Occupied) {
        match place.is_lent {
            true => _ = shared.lent.fetch_sub(1, Ordering::Relaxed),
            false => self.requests -= 1,
        }
        match place.are_bytes_lent {
            true => _ = shared.lent_bytes.fetch_sub(place.bytes, Ordering::Relaxed),
            false => self.bytes -= place.bytes,
        }
    }

    /// True if there is nothing in flight.
    pub(crate) fn is_clear(&self) -> bool {
        self.requests == 0 && self.bytes == 0
    }
}

/// A request's place among those in flight on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupied {
    pub node: NodeIndex,
    bytes: usize,
    is_lent: bool,
    are_bytes_lent: bool,
}
