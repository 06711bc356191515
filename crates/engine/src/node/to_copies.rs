//! What writes to copies in sync want to know of nodes, and of their connections.

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::keys::PoolKey;
use crate::node::links::Links;

/// What is between a role and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The node can be connected to, maybe not by this role, or not once more.
    Role,
    /// The node cannot be connected to.
    Node,
    /// The proxy has no means for a connection.
    Means,
}

impl Links {
    /// The last start of a node that has answered, if it has told.
    pub(crate) fn newest_boot(&self, node: NodeIndex) -> Option<u32> {
        self.health.get(node.as_usize())?.boot()
    }

    /// The nodes that cannot be reached while others can, and for how long.
    pub(crate) fn away(&self, now: Instant) -> Vec<(NodeIndex, Duration)> {
        let nodes = (0..=u16::MAX).map(NodeIndex).zip(&self.health);
        let lost = nodes.filter(|(_, health)| health.failures() > 0);
        lost.map(|(node, _)| (node, self.away_by_itself(node, now)))
            .collect()
    }

    /// Whether a role has a connection to a node, or will have one soon.
    pub(crate) fn may_reach(&self, cx: &Context, pool: PoolKey, node: NodeIndex) -> bool {
        let (Some(pool), Some(health)) = (self.pools.get(pool), self.health.get(node.as_usize()))
        else {
            return false;
        };
        let will_reach = || pool.awaits_link_to(node) || pool.may_connect(cx, node, health);
        pool.has_link(node) || health.failures() == 0 && will_reach()
    }

    /// Why a role may have no connection to a node, as far as is known.
    pub(crate) fn obstacle(&self, node: NodeIndex) -> Obstacle {
        let health = self.health.get(node.as_usize());
        let Some(health) = health.filter(|health| health.failures() > 0) else {
            return Obstacle::Role;
        };
        match (health.lacks_means(), self.is_linked(node)) {
            (true, _) => Obstacle::Means,
            (false, true) => Obstacle::Role,
            (false, false) => Obstacle::Node,
        }
    }

    /// The role of a pool has a write under way: it is kept although it may have no clients. False if the role has
    /// ended, or has no way to the nodes any more.
    pub(crate) fn keep_for_write(&mut self, cx: &Context, pool: PoolKey) -> bool {
        let Some(pool) = self.pools.get_mut(pool) else {
            return false;
        };
        pool.idle_since = cx.now;
        pool.may_open(&cx.snapshot)
    }
}

#[cfg(test)]
mod tests;
