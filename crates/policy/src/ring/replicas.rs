//! Decides which nodes hold the replicas of each slot, and in which order.
//!
//! Formula. SimpleStrategy: the first min(rf, nodes) distinct nodes on a walk clockwise from the
//! slot. NetworkTopologyStrategy, for each data centre on the same walk: it needs min(rf, its
//! nodes) replicas and may repeat a rack rf − (its racks) times. A node not chosen yet is taken if
//! its rack is new, or else if a repeat is left, which it uses up. The walk ends when every data
//! centre has its replicas. Only nodes that own a token count as nodes, and only their racks as
//! racks.
//!
//! Evidence: the same as for the ring (`ring/tests.rs`).
//!
//! Limits: transient replicas count as full ones; strategies from plug-ins are
//! [`Replication::Unknown`].
//!
//! Source: Cassandra's `SimpleStrategy` and `NetworkTopologyStrategy` (`calculateNaturalReplicas`),
//! whose order is kept exactly.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{NodeIndex, Replication, Ring};

/// The replicas of every slot of one ring under one replication. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReplicaSets(Arc<Sets>);

#[derive(Debug)]
enum Sets {
    /// `nodes[ends[slot - 1]..ends[slot]]`
    PerSlot {
        ends: Vec<u32>,
        nodes: Vec<NodeIndex>,
    },
    Same(Vec<NodeIndex>),
}

impl ReplicaSets {
    /// The replicas in the order of the walk, the primary first.
    ///
    /// Empty if they are unknown or make no difference: for `Local` and `Unknown` replication, and
    /// for a slot that the ring does not have.
    pub fn of_slot(&self, slot: usize) -> &[NodeIndex] {
        match &*self.0 {
            Sets::Same(nodes) => nodes,
            Sets::PerSlot { ends, nodes } => {
                let Some(&end) = ends.get(slot) else {
                    return &[];
                };
                let start = slot.checked_sub(1).map_or(0, |before| ends[before]);
                &nodes[start as usize..end as usize]
            }
        }
    }

    /// True if both share one allocation.
    pub fn is_shared_with(&self, other: &ReplicaSets) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Replica sets of one ring for many keyspaces; keyspaces with equal replication share them.
#[derive(Clone, Debug)]
pub struct ReplicaCatalog {
    ring: Arc<Ring>,
    sets: BTreeMap<Replication, ReplicaSets>,
}

impl ReplicaCatalog {
    pub fn new(ring: Arc<Ring>) -> Self {
        ReplicaCatalog {
            ring,
            sets: BTreeMap::new(),
        }
    }

    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Computes the sets on the first call for a replication, then returns clones.
    pub fn get(&mut self, replication: &Replication) -> ReplicaSets {
        if let Some(sets) = self.sets.get(replication) {
            return sets.clone();
        }
        let sets = self.ring.replica_sets(replication);
        self.sets.insert(replication.clone(), sets.clone());
        sets
    }
}

impl Ring {
    /// The replicas of every slot. Use a [`ReplicaCatalog`] for many keyspaces.
    pub fn replica_sets(&self, replication: &Replication) -> ReplicaSets {
        let sets = match replication {
            Replication::Local | Replication::Unknown => Sets::Same(Vec::new()),
            Replication::Everywhere => Sets::Same(members(self)),
            Replication::Simple { rf } => simple(self, *rf),
            Replication::NetworkTopology(dcs) => network_topology(self, dcs),
        };
        ReplicaSets(Arc::new(sets))
    }
}

/// The nodes that own at least one slot, in index order.
fn members(ring: &Ring) -> Vec<NodeIndex> {
    let mut members = ring.owners.clone();
    members.sort_unstable();
    members.dedup();
    members
}

fn simple(ring: &Ring, rf: usize) -> Sets {
    each_slot(ring, |walk, out| out.extend(walk.iter().take(rf)))
}

/// The replicas that one data centre still needs on the current walk.
#[derive(Clone, Copy)]
struct Needs {
    replicas: usize,
    rack_repeats: usize,
}

fn network_topology(ring: &Ring, dcs: &BTreeMap<String, usize>) -> Sets {
    let members = members(ring);
    let location = |node: NodeIndex| &ring.locations[node.as_usize()];
    let mut needs_at_start = Vec::with_capacity(dcs.len());
    let mut needs_of_node: Vec<Option<usize>> = vec![None; ring.node_count()];
    for (dc, &rf) in dcs {
        let in_dc = members.iter().copied().filter(|&n| location(n).dc == *dc);
        let mut racks: Vec<u16> = in_dc.clone().map(|node| location(node).rack).collect();
        let nodes = racks.len();
        racks.sort_unstable();
        racks.dedup();
        for node in in_dc {
            needs_of_node[node.as_usize()] = Some(needs_at_start.len());
        }
        needs_at_start.push(Needs {
            replicas: rf.min(nodes),
            rack_repeats: rf.saturating_sub(racks.len()),
        });
    }
    let replicas_total: usize = needs_at_start.iter().map(|needs| needs.replicas).sum();

    let mut needs_of_dc = needs_at_start.clone();
    let mut racks_seen = Marks::new(ring.node_count());
    each_slot(ring, |walk, out| {
        needs_of_dc.copy_from_slice(&needs_at_start);
        racks_seen.clear();
        let mut replicas_left = replicas_total;
        for &node in walk {
            if replicas_left == 0 {
                break;
            }
            let Some(needs) = needs_of_node[node.as_usize()].map(|at| &mut needs_of_dc[at]) else {
                continue;
            };
            if needs.replicas == 0 {
                continue;
            }
            if !racks_seen.set(usize::from(location(node).rack)) {
                if needs.rack_repeats == 0 {
                    continue;
                }
                needs.rack_repeats -= 1;
            }
            needs.replicas -= 1;
            replicas_left -= 1;
            out.push(node);
        }
        debug_assert_eq!(
            replicas_left, 0,
            "one full walk satisfies every data centre"
        );
    })
}

/// Calls `choose` for each slot with the distinct nodes in the order of the walk from there.
///
/// That order needs no actual walk: going through the slots backwards, each slot moves its owner to
/// the front. So a slot costs a pass over the nodes instead of the ring, even if the nodes of a
/// data centre or rack are far apart on it.
fn each_slot(ring: &Ring, mut choose: impl FnMut(&[NodeIndex], &mut Vec<NodeIndex>)) -> Sets {
    let mut walk = Vec::new();
    let mut met = Marks::new(ring.node_count());
    met.clear();
    walk.extend(ring.owners.iter().filter(|node| met.set(node.as_usize())));

    // Both are built backwards, like the slots, and reversed at the end.
    let mut nodes: Vec<NodeIndex> = Vec::new();
    let mut counts = Vec::with_capacity(ring.len());
    for owner in ring.owners.iter().rev() {
        if let Some(at) = walk.iter().position(|node| node == owner) {
            walk[..=at].rotate_right(1);
        }
        let before = nodes.len();
        choose(&walk, &mut nodes);
        nodes[before..].reverse();
        counts.push((nodes.len() - before) as u32);
    }
    nodes.reverse();
    nodes.shrink_to_fit();
    let ends = counts.iter().rev().scan(0, |end, count| {
        *end += count;
        Some(*end)
    });
    Sets::PerSlot {
        ends: ends.collect(),
        nodes,
    }
}

/// A set of small integers that can be cleared in one step, which happens for every slot.
struct Marks {
    marked_in: Vec<u32>,
    round: u32,
}

impl Marks {
    /// Needs a `clear` before its first use.
    fn new(len: usize) -> Self {
        Marks {
            marked_in: vec![0; len],
            round: 0,
        }
    }

    fn clear(&mut self) {
        // One round per slot; the number of slots fits into u32, as in `ends`.
        self.round += 1;
    }

    /// Returns true if it was not marked before.
    fn set(&mut self, at: usize) -> bool {
        let new = self.marked_in[at] != self.round;
        self.marked_in[at] = self.round;
        new
    }
}
