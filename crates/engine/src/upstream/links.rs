//! The connections of one worker to its nodes, and what it thinks of these nodes.

use std::ops::Range;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::Version;
use slotmap::{SecondaryMap, SlotMap};

use crate::config::Aggregation;
use crate::context::Context;
use crate::keys::{LinkKey, NodeRequestKey, PoolKey};
use crate::pipeline::node_request::Flight;
use crate::stats::{NodeStats, Stats};
use crate::upstream::connect::connection::Connecting;
use crate::upstream::health::Health;
use crate::upstream::link::Link;
use crate::upstream::pace::Pace;
use crate::upstream::pool::Pool;
use crate::upstream::repreparing::Repreparing;

/// All links of a worker, in pools of one role each.
pub(crate) struct Links {
    /// All connections, those that are links and those that are being set up.
    pub(super) keys: SlotMap<LinkKey, ()>,
    pub(super) open: SecondaryMap<LinkKey, Link>,
    pub(super) connecting: SecondaryMap<LinkKey, Connecting>,
    pub(super) pools: SlotMap<PoolKey, Pool>,
    /// By node.
    pub(super) health: Vec<Health>,
    pub(crate) repreparing: Repreparing,
    /// Links with something to be written.
    pub(super) dirty: Vec<LinkKey>,
    pub(super) pace: Pace,
}

impl Links {
    pub(crate) fn new(settings: &Aggregation) -> Links {
        Links {
            keys: SlotMap::with_key(),
            open: SecondaryMap::new(),
            connecting: SecondaryMap::new(),
            pools: SlotMap::with_key(),
            health: Vec::new(),
            repreparing: Repreparing::default(),
            dirty: Vec::new(),
            pace: Pace::new(settings),
        }
    }

    /// Makes room for nodes that are new in the snapshot. The numbers of those that have joined.
    pub(crate) fn adopt_nodes(&mut self, cx: &Context) -> Range<usize> {
        let before = self.health.len();
        for (at, node) in cx.snapshot.nodes().by_index().skip(before) {
            let name = || node.address().to_string();
            let stats = cx.shared.stats.node(at, name);
            self.health.push(Health::new(cx.now, stats));
        }
        match before {
            // Those of the first snapshot have been there before.
            0 => 0..0,
            _ => before..self.health.len(),
        }
    }

    /// A node's counters.
    pub(crate) fn stats(&self, node: NodeIndex) -> &NodeStats {
        self.health[node.as_usize()].stats()
    }

    /// The links of a role.
    #[inline]
    pub(crate) fn of_role(&self, pool: PoolKey) -> Option<&Pool> {
        self.pools.get(pool)
    }

    #[cfg(test)]
    pub(crate) fn pool_keys(&self) -> impl Iterator<Item = PoolKey> + '_ {
        self.pools.keys()
    }

    /// True if a role has a shared link to a node.
    #[inline]
    pub(crate) fn has_link(&self, pool: PoolKey, node: NodeIndex) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.has_link(node))
    }

    /// True if a node is not known to be in trouble.
    #[inline]
    pub(crate) fn is_sound(&self, node: NodeIndex, now: Instant) -> bool {
        let health = self.health.get(node.as_usize());
        health.is_some_and(|health| health.is_sound(now))
    }

    /// True if a node can be asked for a role, and nothing speaks against it.
    #[inline]
    pub(crate) fn is_fit(&self, cx: &Context, pool: PoolKey, node: NodeIndex) -> bool {
        self.has_link(pool, node)
            && self.is_sound(node, cx.now)
            && !cx.snapshot.nodes().is_gone(node)
    }

    /// True if a node is not known to be in trouble, and the last attempt to reach it has not failed.
    pub(crate) fn is_reachable(&self, node: NodeIndex, now: Instant) -> bool {
        let health = &self.health[node.as_usize()];
        health.failures() == 0 && health.is_sound(now)
    }

    /// Until when a node that has joined is tried last; `None`: no longer.
    pub(crate) fn hold_back(&mut self, node: NodeIndex, until: Option<Instant>) {
        self.health[node.as_usize()].hold_back(until);
    }

    /// True if there is a link to a node that is not known to be silent.
    pub(crate) fn is_linked(&self, node: NodeIndex) -> bool {
        self.linked().any(|linked| linked == node)
    }

    /// For how long a node could not be reached although others could.
    pub(crate) fn away_by_itself(&self, node: NodeIndex, now: Instant) -> Duration {
        let health = |node: NodeIndex| &self.health[node.as_usize()];
        let others = self.linked().filter(|other| *other != node);
        let beside = others.map(|other| health(node).away_beside(health(other), now));
        beside.max().unwrap_or_default()
    }

    /// The nodes of links that are not known to be silent.
    fn linked(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let links = self.open.values();
        let heard = links.filter(|link| link.closing.is_none() && link.probed.is_none());
        heard.map(|link| link.node)
    }

    /// True if a node request that is in flight may have reached its node.
    pub(crate) fn has_left(&self, flight: &Flight) -> bool {
        let link = self.open.get(flight.link);
        link.is_none_or(|link| link.writes > flight.behind)
    }

    /// The version that is spoken on a link: its own, whatever others speak by now.
    pub(crate) fn version_of(&self, link: LinkKey) -> Option<Version> {
        Some(self.open.get(link)?.version)
    }

    /// Gives up on a node request's answer, which may still come; its node is done with it then.
    pub(crate) fn give_up(&mut self, flight: &Flight, done_by: Instant) {
        if let Some(link) = self.open.get_mut(flight.link) {
            link.orphan(flight.stream, done_by);
        }
    }

    /// Whose answer comes by this stream, and from which node; its stream is free again.
    #[inline]
    pub(crate) fn release(
        &mut self,
        key: LinkKey,
        stream: i16,
    ) -> Option<(NodeIndex, NodeRequestKey)> {
        let link = self.open.get_mut(key)?;
        let node_request = link.release_stream(stream).node_request()?;
        Some((link.node, node_request))
    }

    /// The node requests that have waited for a PREPARE of the proxy's own, which has ended.
    pub(crate) fn take_repreparing(&mut self, id: &[u8], node: NodeIndex) -> Vec<NodeRequestKey> {
        self.repreparing.take(id, node)
    }

    /// Shows what only this worker knows, once a tick.
    pub(crate) fn publish_gauges(&mut self, stats: &Stats) {
        self.pace.publish(stats);
        let mut in_flight = vec![0; self.health.len()];
        for link in self.open.values() {
            in_flight[link.node.as_usize()] += link.in_flight();
        }
        for (health, in_flight) in self.health.iter_mut().zip(in_flight) {
            health.publish_in_flight(in_flight);
        }
    }
}
