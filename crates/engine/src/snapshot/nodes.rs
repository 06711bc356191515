//! The nodes, where they are and which parts of the ring they own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use helenus_policy::ring::{NodeIndex, Ring};
use helenus_policy::route::{Locality, NodeTable};

use crate::snapshot::hint_window::HintWindow;
use crate::snapshot::node::{Mover, Node};

/// The cluster's nodes and the ring.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    pub(super) all: Vec<Node>,
    /// Where each node is, seen from here.
    pub(super) places: NodeTable,
    /// `None` if the partitioner is not one whose tokens the proxy can compute.
    pub(super) ring: Option<Ring>,
    /// Texts of the ring's tokens in order.
    pub(super) tokens: Vec<String>,
    /// Nodes that are listed and not used yet: they do not serve, or others have not heard of them.
    pub(super) joining: Vec<Mover>,
    /// How many owners of tokens these are beside the nodes that are used: of several with the same tokens, one is.
    pub(super) joining_owners: usize,
    /// Nodes that are still used although they are not listed any more: others have not heard of that.
    pub(super) leaving: Vec<Mover>,
    /// The node that answers for node-local tables.
    pub(super) pinned: NodeIndex,
    pub(super) local_dc: String,
    /// See [`Nodes::page_rows_max`].
    page_rows_max: Option<usize>,
}

impl Nodes {
    /// How many indexes of nodes there are: of those that have left, too.
    #[inline]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub fn get(&self, node: NodeIndex) -> Option<&Node> {
        self.all.get(node.as_usize())
    }

    /// # Panics
    /// There is no such node.
    pub fn address_of(&self, node: NodeIndex) -> SocketAddr {
        self.all[node.as_usize()].address()
    }

    /// All nodes in the order of their indexes, those that have left included.
    #[inline]
    pub fn all(&self) -> &[Node] {
        &self.all
    }

    /// [`Self::all`], with their indexes.
    pub fn by_index(&self) -> impl Iterator<Item = (NodeIndex, &Node)> + Clone {
        (0..=u16::MAX).map(NodeIndex).zip(&self.all)
    }

    /// The nodes that have not left.
    pub fn present(&self) -> impl Iterator<Item = &Node> + Clone {
        self.all.iter().filter(|node| !node.is_gone())
    }

    /// The node that serves at an address.
    pub fn at(&self, address: SocketAddr) -> Option<NodeIndex> {
        let (at, _) = self.by_index().find(|(_, node)| node.serves_at(address))?;
        Some(at)
    }

    /// True if a node has left, also for another address.
    #[inline]
    pub fn is_gone(&self, node: NodeIndex) -> bool {
        self.get(node).is_none_or(Node::is_gone)
    }

    /// Where each node is, seen from here.
    #[inline]
    pub fn places(&self) -> &NodeTable {
        &self.places
    }

    /// How near a node is.
    #[inline]
    pub fn locality(&self, node: NodeIndex) -> Option<Locality> {
        self.places.locality(node)
    }

    /// How near the node is that serves at an address.
    pub fn locality_of(&self, address: SocketAddr) -> Option<Locality> {
        self.locality(self.at(address)?)
    }

    /// True if a node is in another data centre.
    #[inline]
    pub fn is_remote(&self, node: NodeIndex) -> bool {
        self.locality(node) == Some(Locality::Remote)
    }

    /// The ring, if the partitioner is one whose tokens the proxy can compute.
    #[inline]
    pub fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref()
    }

    /// Texts of the ring's tokens in order.
    pub(crate) fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// True if others have the same nodes, and these own the same parts of the ring.
    pub(crate) fn own_ring_of(&self, other: &Nodes) -> bool {
        let gone = |nodes: &Nodes| -> Vec<bool> { nodes.all.iter().map(Node::is_gone).collect() };
        gone(self) == gone(other) && self.tokens == other.tokens
    }

    /// Nodes that are listed and not used yet: they do not serve, or others have not heard of them.
    pub fn joining(&self) -> &[Mover] {
        &self.joining
    }

    /// How many owners of tokens these are beside the nodes that are used.
    pub fn joining_owners(&self) -> usize {
        self.joining_owners
    }

    /// Nodes that are still used although they are not listed any more: others have not heard of that.
    pub fn leaving(&self) -> &[Mover] {
        &self.leaving
    }

    /// True if nodes may see the ring differently.
    pub fn are_moving(&self) -> bool {
        !self.joining.is_empty() || !self.leaving.is_empty()
    }

    /// True if the same nodes join and leave there.
    pub(crate) fn move_as(&self, other: &Nodes) -> bool {
        (&self.joining, &self.leaving) == (&other.joining, &other.leaving)
    }

    /// True if others are the same nodes, own the same parts of the ring, and the same of them move.
    pub fn are_those_of(&self, other: &Nodes) -> bool {
        self.all == other.all && self.tokens == other.tokens && self.move_as(other)
    }

    /// The node that answers for node-local tables.
    #[inline]
    pub fn pinned(&self) -> NodeIndex {
        self.pinned
    }

    pub fn local_dc(&self) -> &str {
        &self.local_dc
    }

    /// Names of all data centres.
    pub fn dcs(&self) -> BTreeSet<&str> {
        self.present().map(Node::dc).collect()
    }

    /// How many rows of a page all nodes take without a word, as far as they have told.
    #[inline]
    pub(crate) fn page_rows_max(&self) -> usize {
        self.page_rows_max.unwrap_or(usize::MAX)
    }

    /// For how long all nodes keep hints for one that is down, as far as they have told.
    pub fn hint_window(&self) -> Duration {
        let windows = self.present().filter_map(|node| node.facts().hints);
        let HintWindow(window) = windows.min_by_key(|of| of.0).unwrap_or_default();
        window
    }

    /// Works out what requests ask for again and again.
    pub(super) fn work_out(&mut self) {
        let limits = self.present().filter_map(|node| node.facts().pages);
        self.page_rows_max = limits.map(|of| of.rows_max).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::node::NodeFacts;
    use crate::snapshot::page_limits::PageLimits;

    #[test]
    fn nodes_that_are_gone_or_silent_limit_no_page() {
        let node = |rows_max: Option<usize>, is_gone| {
            let mut node = crate::testing::node(1).with_facts(NodeFacts {
                pages: rows_max.map(|rows_max| PageLimits { rows_max }),
                ..NodeFacts::default()
            });
            node.set_gone(is_gone);
            node
        };
        let of = |all: &[Node]| {
            let all = all.to_vec();
            let mut nodes = Nodes {
                all,
                ..Nodes::default()
            };
            nodes.work_out();
            nodes.page_rows_max()
        };
        assert_eq!(of(&[]), usize::MAX);
        let nodes = [
            node(None, false),
            node(Some(500), false),
            node(Some(300), false),
            node(Some(2), true),
        ];
        assert_eq!(of(&nodes), 300);
        assert_eq!(of(&nodes[..1]), usize::MAX);
    }
}
