//! Who owns what, as each node sees it: a ring that changes, of which nodes hear one after the other.
//!
//! A change goes through three views, and begins the next only when all nodes that are up have come to the
//! one before, as Cassandra's ring delay sees to it:
//!
//! 1. the old ring, and writes go to the new owners as well, which must have them before they count;
//! 2. after the new owners have got what the old ones had, the new ring, and writes go to the old owners as
//!    well: some nodes still read there. Cassandra's own do not, so that a read may miss a write while nodes
//!    disagree; the model is stricter, so that any read which does is the proxies' fault;
//! 3. the new ring.

use std::collections::{BTreeMap, BTreeSet};

use helenus_policy::ring::{NodeIndex, ReplicaSets, Replication, Ring};
use helenus_policy::token::Partitioner;

use super::{Cluster, Health};
use crate::chaos::proxy::specs_of;

/// Nodes in the order of their tokens, and what each owns.
#[derive(Clone)]
pub(in crate::chaos) struct Owners {
    pub members: Vec<usize>,
    ring: Ring,
    replicas: ReplicaSets,
}

impl Owners {
    pub(in crate::chaos) fn new(members: Vec<usize>, replication: &Replication) -> Owners {
        let ring = Ring::new(Partitioner::Murmur3, &specs_of(&members));
        let replicas = ring.replica_sets(replication);
        Owners {
            members,
            ring,
            replicas,
        }
    }

    pub(super) fn of(&self, key: i64) -> Vec<usize> {
        let slot = self.ring.slot_of_key(&key.to_be_bytes());
        let nodes = self.replicas.of_slot(slot.unwrap_or(0));
        nodes.iter().map(|node| node.as_usize()).collect()
    }
}

impl Owners {
    /// Whether some range has no replica but these nodes.
    pub(super) fn has_range_among(&self, nodes: &BTreeSet<usize>) -> bool {
        let mut of_slots = (0..self.ring.len()).map(|slot| self.replicas.of_slot(slot));
        let is_among = |of: &[NodeIndex]| of.iter().all(|node| nodes.contains(&node.as_usize()));
        of_slots.any(|of| !of.is_empty() && is_among(of))
    }
}

/// One view of the ring.
pub(super) struct View {
    owners: Owners,
    /// Who else has to get what is written.
    also: Option<Owners>,
}

/// All views, and what nodes think of each other.
pub(in crate::chaos) struct Views {
    all: Vec<View>,
    /// The node that serves a request at the moment: what it sees counts.
    coordinator: usize,
    /// Coordinators that take another node for dead, and until when.
    doubts: BTreeMap<(usize, usize), u64>,
    now_us: u64,
}

impl Views {
    pub(super) fn new(owners: Owners) -> Views {
        let first = View { owners, also: None };
        Views {
            all: vec![first],
            coordinator: 0,
            doubts: BTreeMap::new(),
            now_us: 0,
        }
    }

    pub(super) fn coordinate(&mut self, node: usize, now_us: u64) {
        self.coordinator = node;
        self.now_us = now_us;
    }
}

impl Cluster {
    /// The node that serves a request at the moment, and when.
    pub(super) fn coordinator(&self) -> (usize, u64) {
        (self.views.coordinator, self.views.now_us)
    }

    fn view(&self) -> &View {
        &self.views.all[self.nodes[self.views.coordinator].view]
    }

    pub(in crate::chaos) fn replicas_of(&self, key: i64) -> Vec<usize> {
        self.view().owners.of(key)
    }

    /// Who has to get a write beside the replicas.
    pub(super) fn pending_of(&self, key: i64) -> Vec<usize> {
        let view = self.view();
        let Some(also) = &view.also else {
            return Vec::new();
        };
        let owners = view.owners.of(key);
        let mut pending = also.of(key);
        pending.retain(|node| !owners.contains(node));
        pending
    }

    /// Whether the coordinator takes a node for alive.
    pub(super) fn seems_up(&self, node: usize) -> bool {
        let Views {
            coordinator,
            doubts,
            now_us,
            ..
        } = &self.views;
        let doubted = doubts.get(&(*coordinator, node));
        let doubted = doubted.is_some_and(|until_us| until_us > now_us);
        self.nodes[node].health == Health::Up && !doubted
    }

    /// From now on the newest view is this one. Returns its number.
    pub(in crate::chaos) fn change_view(&mut self, owners: Owners, also: Option<Owners>) -> usize {
        self.views.all.push(View { owners, also });
        self.views.all.len() - 1
    }

    /// A node hears of a view.
    pub(in crate::chaos) fn hear_of(&mut self, node: usize, view: usize) {
        let node = &mut self.nodes[node];
        node.view = node.view.max(view);
    }

    /// A node is up when trouble is over, with what it had prepared.
    pub(in crate::chaos) fn restart_after_trouble(&mut self, node: usize) {
        let newest = self.newest_view();
        self.hear_of(node, newest);
        self.nodes[node].health = Health::Up;
    }

    /// Whether all nodes that are up have come to a view. Those that are down hear of it before they serve
    /// again.
    pub(in crate::chaos) fn all_have_heard(&self, view: usize) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.all(|node| node.health == Health::Down || node.view >= view)
    }

    /// The owners by the newest view.
    pub(in crate::chaos) fn owners(&self) -> &Owners {
        let newest = self.views.all.last().expect("there is a first view");
        &newest.owners
    }

    /// A coordinator takes a node for dead until then.
    pub(in crate::chaos) fn doubt(&mut self, coordinator: usize, node: usize, until_us: u64) {
        self.views.doubts.insert((coordinator, node), until_us);
    }

    /// New owners get what the old ones have.
    pub(in crate::chaos) fn stream(&mut self, to: &Owners) {
        let keys: BTreeSet<i64> = self.by_token.values().copied().collect();
        let from = self.owners().clone();
        for key in keys {
            let old = from.of(key);
            let newest = old
                .iter()
                .filter_map(|node| self.nodes[*node].cells.get(&key));
            let Some(newest) = newest.max().copied() else {
                continue;
            };
            for node in to.of(key).into_iter().filter(|node| !old.contains(node)) {
                let cell = self.nodes[node].cells.entry(key).or_default();
                *cell = newest.max(*cell);
            }
        }
    }

    pub(super) fn newest_view(&self) -> usize {
        self.views.all.len() - 1
    }
}
