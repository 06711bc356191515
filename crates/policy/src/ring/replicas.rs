//! Decides which nodes hold the copies of each slot, and in which order.
//!
//! Picture: walking clockwise around the round table, copies go to the guests one
//! meets: to each guest once, and, while there are families (racks) without a
//! copy, not twice to one family unless there are more copies than families.
//!
//! Formula. SimpleStrategy: the first min(rf, nodes) distinct nodes of the walk.
//! NetworkTopologyStrategy, for each data centre on the same walk: it wants
//! min(rf, its nodes) copies and may repeat a rack rf − (its racks) times. A node
//! not yet chosen is taken if its rack is new, or else if a repeat is left, which
//! it uses up. The walk ends when every centre has what it wants. Only nodes that
//! own a token count as nodes, and only their racks as racks.
//!
//! Source: Cassandra's `SimpleStrategy` and `NetworkTopologyStrategy`
//! (`calculateNaturalReplicas`), whose order is kept exactly.

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
    /// The nodes that hold a copy, the primary first, in the order of the walk.
    ///
    /// Empty if that is not known or makes no difference: for `Local` and
    /// `Unknown` replication and for a slot that the ring does not have.
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

    /// True if both are one allocation.
    pub fn is_shared_with(&self, other: &ReplicaSets) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Replica sets of one ring for many keyspaces; equal replications share one.
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

    /// Computes the sets at the first call for a replication, then hands out clones.
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

/// What one data centre still wants on the current walk.
#[derive(Clone, Copy)]
struct Want {
    copies: usize,
    rack_repeats: usize,
}

fn network_topology(ring: &Ring, dcs: &BTreeMap<String, usize>) -> Sets {
    let members = members(ring);
    let location = |node: NodeIndex| &ring.locations[node.as_usize()];
    let mut wants_at_start = Vec::with_capacity(dcs.len());
    let mut want_of_node: Vec<Option<usize>> = vec![None; ring.node_count()];
    for (dc, &rf) in dcs {
        let in_dc = members.iter().copied().filter(|&n| location(n).dc == *dc);
        let mut racks: Vec<u16> = in_dc.clone().map(|node| location(node).rack).collect();
        let nodes = racks.len();
        racks.sort_unstable();
        racks.dedup();
        for node in in_dc {
            want_of_node[node.as_usize()] = Some(wants_at_start.len());
        }
        wants_at_start.push(Want {
            copies: rf.min(nodes),
            rack_repeats: rf.saturating_sub(racks.len()),
        });
    }
    let copies_in_all: usize = wants_at_start.iter().map(|want| want.copies).sum();

    let mut wants = wants_at_start.clone();
    let mut racks_met = Marks::new(ring.node_count());
    each_slot(ring, |walk, out| {
        wants.copy_from_slice(&wants_at_start);
        racks_met.clear();
        let mut copies_left = copies_in_all;
        for &node in walk {
            if copies_left == 0 {
                break;
            }
            let Some(want) = want_of_node[node.as_usize()].map(|at| &mut wants[at]) else {
                continue;
            };
            if want.copies == 0 {
                continue;
            }
            if !racks_met.set(usize::from(location(node).rack)) {
                if want.rack_repeats == 0 {
                    continue;
                }
                want.rack_repeats -= 1;
            }
            want.copies -= 1;
            copies_left -= 1;
            out.push(node);
        }
        debug_assert_eq!(copies_left, 0, "a whole turn satisfies every data centre");
    })
}

/// Runs `choose` for each slot with the distinct nodes in the order in which the
/// walk from there meets them.
///
/// That order needs no walk: going backwards, each slot moves its owner to the
/// front. So a slot costs a pass over the nodes, not over the ring, also where
/// a data centre or a rack is hard to meet.
fn each_slot(ring: &Ring, mut choose: impl FnMut(&[NodeIndex], &mut Vec<NodeIndex>)) -> Sets {
    let mut walk = Vec::new();
    let mut met = Marks::new(ring.node_count());
    met.clear();
    walk.extend(ring.owners.iter().filter(|node| met.set(node.as_usize())));

    // Both are written backwards, as the slots come, and turned around at the end.
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

/// A set of small numbers that is emptied in one step, as it is for every slot.
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
        // One round a slot: the number of slots fits, as `ends` does.
        self.round += 1;
    }

    /// True if it was not marked before.
    fn set(&mut self, at: usize) -> bool {
        let new = self.marked_in[at] != self.round;
        self.marked_in[at] = self.round;
        new
    }
}
