//! Decides in which order the nodes are tried for one query.
//!
//! Picture: somebody with a letter for a firm of three equal partners: the one
//! down the corridor first, else those in the same building in turn, else any
//! colleague in the building who will carry it, and only if it was allowed the
//! branch in another city.
//!
//! Formula: usable nodes in these groups, each once, at most eight:
//!
//! 1. replicas in the local rack,
//! 2. other replicas in the local data centre,
//! 3. other nodes of the local data centre,
//! 4. if `allow_remote`, remote replicas,
//! 5. if `allow_remote`, other remote nodes.
//!
//! The first group that has nodes, n of them, starts at its element `turn mod n`,
//! so that n queries in a row start at n different nodes. With
//! [`Preference::Primary`] groups 1 and 2 are one, in ring order and not turned:
//! writers of one partition then meet at one coordinator, where their Paxos
//! rounds queue up instead of outbidding each other.
//!
//! Source: the token-aware and DC-aware round-robin policies that Cassandra's
//! drivers share; L. Lamport, Paxos Made Simple (2001), section 2.4, for why
//! duelling proposers do not progress.

use crate::ring::{NodeIndex, NodeSpec};

#[cfg(test)]
mod tests;

/// Where each node is, seen from the proxy.
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
    /// Without a local data centre every node is local; without a local rack (or
    /// without a data centre that it is in) no rack is preferred.
    pub fn new(nodes: &[NodeSpec], local_dc: Option<&str>, local_rack: Option<&str>) -> NodeTable {
        NodeTable::from_localities(nodes.iter().map(|node| match local_dc {
            None => Locality::LocalDc,
            Some(dc) if dc != node.dc => Locality::Remote,
            Some(_) if local_rack == Some(node.rack.as_str()) => Locality::LocalRack,
            Some(_) => Locality::LocalDc,
        }))
    }

    /// One locality for each node, in index order.
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

    pub fn len(&self) -> usize {
        self.localities.len()
    }

    pub fn is_empty(&self) -> bool {
        self.localities.is_empty()
    }

    /// `None` for a node that the table does not have.
    pub fn locality(&self, node: NodeIndex) -> Option<Locality> {
        self.localities.get(node.as_usize()).copied()
    }
}

/// Which of several equally near replicas comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Each in turn.
    #[default]
    Spread,
    /// The first in ring order, for lightweight transactions.
    Primary,
}

/// What a plan is made from.
#[derive(Clone, Copy)]
pub struct RouteInput<'a> {
    /// In ring order; empty if the owners are not known.
    pub replicas: &'a [NodeIndex],
    pub nodes: &'a NodeTable,
    /// Whether a node may be sent a query at present.
    pub usable: &'a dyn Fn(NodeIndex) -> bool,
    /// A counter that the caller raises by one for each query.
    pub turn: u64,
    /// Whether nodes of other data centres may be tried, after all local ones.
    pub allow_remote: bool,
    pub preference: Preference,
}

/// Nodes in the order in which to try them, none of them twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    nodes: [NodeIndex; Plan::CAPACITY],
    next: u8,
    len: u8,
}

impl Plan {
    /// A query that failed on eight nodes will not do better on a ninth.
    pub const CAPACITY: usize = 8;

    /// One node, and none to fall back on.
    pub fn only(node: NodeIndex) -> Plan {
        let mut plan = Plan::empty();
        plan.push(node);
        plan
    }

    /// One node, then what is left of this plan.
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
        }
    }

    /// True if no candidate is left.
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
        Some(node)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

/// Puts the usable nodes in order. Never allocates.
pub fn plan(input: &RouteInput<'_>) -> Plan {
    let mut plan = Plan::empty();
    match input.preference {
        Preference::Spread => {
            push_replicas(&mut plan, input, |at| at == Locality::LocalRack);
            push_replicas(&mut plan, input, |at| at == Locality::LocalDc);
        }
        Preference::Primary => push_replicas(&mut plan, input, |at| at != Locality::Remote),
    }
    push_others(&mut plan, input, &input.nodes.local);
    if input.allow_remote {
        push_replicas(&mut plan, input, |at| at == Locality::Remote);
        push_others(&mut plan, input, &input.nodes.remote);
    }
    plan
}

fn push_replicas(plan: &mut Plan, input: &RouteInput<'_>, wanted: impl Fn(Locality) -> bool) {
    let fits =
        |&node: &NodeIndex| input.nodes.locality(node).is_some_and(&wanted) && (input.usable)(node);
    let group = input.replicas.iter().copied().filter(fits);
    let turn = match input.preference {
        Preference::Spread => input.turn,
        Preference::Primary => 0,
    };
    push_turned(plan, group, turn);
}

fn push_others(plan: &mut Plan, input: &RouteInput<'_>, all: &[NodeIndex]) {
    let fits = |node: &NodeIndex| !input.replicas.contains(node) && (input.usable)(*node);
    if plan.is_empty() {
        // One of these gets the query: count the fitting ones, to share evenly.
        push_turned(plan, all.iter().copied().filter(fits), input.turn);
    } else if !all.is_empty() {
        // Only to fall back on: start anywhere and stop as soon as the plan is full.
        let (before, after) = all.split_at((input.turn % all.len() as u64) as usize);
        let room = Plan::CAPACITY - plan.len();
        let group = after.iter().chain(before).copied().filter(fits);
        group.take(room).for_each(|node| plan.push(node));
    }
}

/// Pushes the whole group, starting at its element `turn mod n`.
fn push_turned(plan: &mut Plan, group: impl Iterator<Item = NodeIndex> + Clone, turn: u64) {
    let count = group.clone().count();
    if count == 0 {
        return;
    }
    let start = (turn % count as u64) as usize;
    let turned = group.clone().skip(start).chain(group.take(start));
    let room = Plan::CAPACITY - plan.len();
    turned.take(room).for_each(|node| plan.push(node));
}
