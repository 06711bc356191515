//! Nodes to which the upkeep could not connect. They are tried again after a while, and until then nothing waits for
//! them: one that is lost has copies of many groups of ranges, and of many tables.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helenus_engine::snapshot::HostId;

use super::trouble::Trouble;

/// A node is tried again after this time at first, and after twice as long each time,
const RETRY_US: u64 = 1_000_000;
/// up to so long.
const RETRY_MAX_US: u64 = 60_000_000;

/// As many as the cluster has nodes, at most.
#[derive(Debug, Default)]
pub(crate) struct Unreachable(Mutex<BTreeMap<HostId, Node>>);

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    failures: u32,
    until_us: u64,
}

impl Unreachable {
    /// Fails while it is not to be tried.
    pub(in crate::insync) fn check(&self, node: HostId, now_us: u64) -> Result<(), Trouble> {
        let nodes = self.nodes();
        match nodes.get(&node).filter(|node| now_us < node.until_us) {
            Some(_) => Err(Trouble::Unreachable(node)),
            None => Ok(()),
        }
    }

    /// Those first that may be tried now, otherwise in the same order.
    pub(super) fn put_off_last(
        &self,
        mut nodes: Vec<(HostId, SocketAddr)>,
        now_us: u64,
    ) -> Vec<(HostId, SocketAddr)> {
        nodes.sort_by_key(|(node, _)| self.check(*node, now_us).is_err());
        nodes
    }

    pub(super) fn on_failed(&self, node: HostId, now_us: u64) {
        let mut nodes = self.nodes();
        let node = nodes.entry(node).or_default();
        let time_us = (RETRY_US << node.failures.min(16)).min(RETRY_MAX_US);
        node.failures = node.failures.saturating_add(1);
        node.until_us = now_us.saturating_add(time_us);
    }

    pub(super) fn on_connected(&self, node: HostId) {
        self.nodes().remove(&node);
    }

    /// How often in a row it has failed.
    pub(super) fn failures(&self, node: HostId) -> u32 {
        self.nodes().get(&node).map_or(0, |node| node.failures)
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<HostId, Node>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_answer_is_tried_later_each_time_and_others_at_once() {
        let (nodes, lost, other) = (Unreachable::default(), [1; 16], [2; 16]);
        let mut now_us = 0;
        for wait_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(nodes.check(lost, now_us).is_ok());
            nodes.on_failed(lost, now_us);
            now_us += wait_s * 1_000_000;
            assert!(nodes.check(lost, now_us - 1).is_err());
            assert!(nodes.check(other, now_us - 1).is_ok());
        }
        assert_eq!((nodes.failures(lost), nodes.failures(other)), (8, 0));
        nodes.on_connected(lost);
        assert_eq!(nodes.failures(lost), 0);
        nodes.on_failed(lost, now_us);
        assert!(nodes.check(lost, now_us + 1_000_000).is_ok(), "begun anew");
    }

    #[test]
    fn where_any_node_will_do_one_that_is_put_off_comes_last() {
        let nodes = Unreachable::default();
        let at = |host: u8| ([host; 16], SocketAddr::from(([127, 0, 0, host], 9042)));
        let order = |now_us| nodes.put_off_last([1, 2, 3].map(at).to_vec(), now_us);
        assert_eq!(order(0), [1, 2, 3].map(at));
        nodes.on_failed([1; 16], 0);
        assert_eq!(order(0), [2, 3, 1].map(at));
        nodes.on_failed([2; 16], 0);
        nodes.on_failed([3; 16], 0);
        assert_eq!(order(0), [1, 2, 3].map(at), "none is left out");
        assert_eq!(order(1_000_000), [1, 2, 3].map(at));
    }
}
