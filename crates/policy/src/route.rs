//! Decides in which order the nodes are tried for a query.
//!
//! Formula: usable nodes in these groups, each node once, at most eight:
//!
//! 1. replicas in the local rack,
//! 2. other replicas in the local data centre,
//! 3. other nodes of the local data centre,
//! 4. remote replicas, if they may be tried ([`Elsewhere`]),
//! 5. other remote nodes, if they may.
//!
//! With [`Elsewhere::Owners`], and no replica in the local data centre, usable or not, group 4 comes first.
//!
//! The first non-empty group, of n nodes, starts at element `rotation mod n`, so that n consecutive
//! queries start at n different nodes. With [`Preference::Primary`] groups 1 and 2 are one group,
//! in ring order and not rotated: writers of one partition then share a coordinator, where their
//! Paxos rounds queue up instead of preempting each other.
//!
//! Evidence: `route/tests.rs` checks random topologies for completeness, order and even spread.
//!
//! Limits: load and latency play no part, but for the order of the replicas ([`crate::choice`]). The
//! caller marks nodes as usable or not.
//!
//! Source: the token-aware and DC-aware round-robin policies that Cassandra's drivers share; L.
//! Lamport, "Paxos Made Simple" (2001), section 2.4, for why duelling proposers make no progress.

use crate::ring::{NodeIndex, NodeSpec};

#[cfg(test)]
mod tests;

/// How near each node is to the proxy.
#[derive(Clone, Debug, Default)]
pub struct NodeTable {
    localities: Vec<Locality>,
    local: Vec<NodeIndex>,
    remote: Vec<NodeIndex>,
}

/// How near a node is to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locality {
    LocalRack,
    LocalDc,
    Remote,
}

impl NodeTable {
    /// Without a local data centre every node is local. Without a local rack, or without the data
    /// centre it belongs to, no rack is preferred.
    pub fn new(nodes: &[NodeSpec], local_dc: Option<&str>, local_rack: Option<&str>) -> NodeTable {
        NodeTable::from_localities(nodes.iter().map(|node| match local_dc {
            None => Locality::LocalDc,
            Some(dc) if dc != node.dc => Locality::Remote,
            Some(_) if local_rack == Some(node.rack.as_str()) => Locality::LocalRack,
            Some(_) => Locality::LocalDc,
        }))
    }

    /// One locality per node, in index order.
    pub fn from_localities(localities: impl IntoIterator<Item = Locality>) -> NodeTable {
        let mut table = NodeTable::default();
        for (node, locality) in (0..=u16::MAX).map(NodeIndex).zip(localities) {
            table.localities.push(locality);
            match locality {
                Locality::LocalRack | Locality::LocalDc => table.local.push(node),
                Locality::Remote => table.remote.push(node),
            }
        }
        table
    }

    /// The nodes of the local data centre.
    pub fn local(&self) -> &[NodeIndex] {
        &self.local
    }

    /// False also for a node that is not in the table.
    pub fn is_local(&self, node: NodeIndex) -> bool {
        self.locality(node).is_some_and(|at| at != Locality::Remote)
    }

    /// `None` for a node that is not in the table.
    pub fn locality(&self, node: NodeIndex) -> Option<Locality> {
        self.localities.get(node.as_usize()).copied()
    }
}

/// Which of several equally near replicas comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Round-robin.
    #[default]
    Spread,
    /// The first in the order given: ring order, for lightweight transactions, or the order in which
    /// [`crate::choice`] has put them.
    Primary,
}

/// When nodes of other data centres are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elsewhere {
    #[default]
    Never,
    /// After all local ones.
    Last,
    /// Those that own what no local node owns, before local ones, which would have to ask them; others last.
    Owners,
}

/// The input of [`plan`].
#[derive(Clone, Copy)]
pub struct RouteInput<'a> {
    /// In ring order; empty if the owners are not known.
    pub replicas: &'a [NodeIndex],
    pub nodes: &'a NodeTable,
    /// True of a node to which a query may be sent now.
    pub usable: &'a dyn Fn(NodeIndex) -> bool,
    /// A counter that the caller increments with each query.
    pub rotation: u64,
    pub elsewhere: Elsewhere,
    pub preference: Preference,
}

/// Distinct nodes in the order in which to try them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    nodes: [NodeIndex; Plan::CAPACITY],
    next: u8,
    len: u8,
    /// How many of those left are owners that come before all other nodes.
    owners: u8,
}

impl Plan {
    /// A query that has failed on eight nodes is unlikely to succeed on a ninth.
    pub const CAPACITY: usize = 8;

    /// A single node, without fallback.
    pub fn only(node: NodeIndex) -> Plan {
        let mut plan = Plan::empty();
        plan.push(node);
        plan
    }

    /// The given node, then the rest of this plan.
    pub fn behind(self, node: NodeIndex) -> Plan {
        let mut plan = Plan::only(node);
        let rest = self.filter(|other| *other != node);
        rest.take(Plan::CAPACITY - 1)
            .for_each(|other| plan.push(other));
        plan
    }

    fn empty() -> Plan {
        Plan {
            nodes: [NodeIndex(0); Plan::CAPACITY],
            next: 0,
            len: 0,
            owners: 0,
        }
    }

    /// True if no candidates are left.
    pub fn is_empty(&self) -> bool {
        self.next == self.len
    }

    /// The number of candidates left.
    pub fn len(&self) -> usize {
        usize::from(self.len - self.next)
    }

    /// The candidates left.
    pub fn as_slice(&self) -> &[NodeIndex] {
        &self.nodes[usize::from(self.next)..usize::from(self.len)]
    }

    /// Those of the candidates left that own what is asked for: in the local data centre or, with
    /// [`Elsewhere::Owners`] and none there, in others.
    pub fn owners(&self) -> &[NodeIndex] {
        &self.as_slice()[..usize::from(self.owners)]
    }

    /// The given owner next, and the one that was taken last behind all others.
    pub fn instead(&mut self, owner: NodeIndex) {
        let left = usize::from(self.next)..usize::from(self.len);
        let at = self.owners().iter().position(|other| *other == owner);
        let (Some(at), Some(taken)) = (at, left.start.checked_sub(1)) else {
            return;
        };
        let taken = self.nodes[taken];
        self.nodes[left.clone()][..=at].rotate_right(1);
        self.nodes.copy_within(left.clone(), 0);
        (self.next, self.len) = (0, left.len() as u8);
        self.push(taken);
    }

    fn push(&mut self, node: NodeIndex) {
        debug_assert!(
            !self.as_slice().contains(&node),
            "{node:?} is planned twice"
        );
        self.nodes[usize::from(self.len)] = node;
        self.len += 1;
    }
}

impl Iterator for Plan {
    type Item = NodeIndex;

    fn next(&mut self) -> Option<NodeIndex> {
        let node = *self.as_slice().first()?;
        self.next += 1;
        self.owners = self.owners.saturating_sub(1);
        Some(node)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

/// A turn by a count that some do not raise by one each time: neighbouring turns begin anywhere, so nobody
/// always gets the same one.
pub fn scattered(count: u64) -> u64 {
    let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33
}

/// Orders the usable nodes. Never allocates.
pub fn plan(input: &RouteInput<'_>) -> Plan {
    let mut plan = Plan::empty();
    match input.preference {
        Preference::Spread => {
            push_replicas(&mut plan, input, |at| at == Locality::LocalRack);
            push_replicas(&mut plan, input, |at| at == Locality::LocalDc);
        }
        Preference::Primary => push_replicas(&mut plan, input, |at| at != Locality::Remote),
    }
    let is_local = |node: &NodeIndex| input.nodes.is_local(*node);
    let owners_first = input.elsewhere == Elsewhere::Owners && !input.replicas.iter().any(is_local);
    if owners_first {
        push_replicas(&mut plan, input, |at| at == Locality::Remote);
    }
    plan.owners = plan.len;
    push_others(&mut plan, input, &input.nodes.local);
    if input.elsewhere != Elsewhere::Never {
        if !owners_first {
            push_replicas(&mut plan, input, |at| at == Locality::Remote);
        }
        push_others(&mut plan, input, &input.nodes.remote);
    }
    plan
}

fn push_replicas(plan: &mut Plan, input: &RouteInput<'_>, wanted: impl Fn(Locality) -> bool) {
    let fits =
        |&node: &NodeIndex| input.nodes.locality(node).is_some_and(&wanted) && (input.usable)(node);
    let group = input.replicas.iter().copied().filter(fits);
    match input.preference {
        Preference::Spread => push_rotated(plan, group, input.rotation),
        Preference::Primary => {
            let room = Plan::CAPACITY - plan.len();
            group.take(room).for_each(|node| plan.push(node));
        }
    }
}

fn push_others(plan: &mut Plan, input: &RouteInput<'_>, all: &[NodeIndex]) {
    let fits = |node: &NodeIndex| !input.replicas.contains(node) && (input.usable)(*node);
    if plan.is_empty() {
        // One of these gets the query: rotate over the usable ones, to spread load evenly.
        push_rotated(plan, all.iter().copied().filter(fits), input.rotation);
    } else if !all.is_empty() {
        // Fallback only: any starting point will do, and the search stops once the plan is full.
        let (before, after) = all.split_at((input.rotation % all.len() as u64) as usize);
        let room = Plan::CAPACITY - plan.len();
        let group = after.iter().chain(before).copied().filter(fits);
        group.take(room).for_each(|node| plan.push(node));
    }
}

/// Pushes the whole group, starting at its element `rotation mod n`.
fn push_rotated(plan: &mut Plan, group: impl Iterator<Item = NodeIndex> + Clone, rotation: u64) {
    let count = group.clone().count();
    if count == 0 {
        return;
    }
    let start = (rotation % count as u64) as usize;
    let rotated = group.clone().skip(start).chain(group.take(start));
    let room = Plan::CAPACITY - plan.len();
    rotated.take(room).for_each(|node| plan.push(node));
}
