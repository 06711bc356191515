//! Which nodes are tried, and when again after a failure.

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::upstream::health::is_long_ago;
use crate::upstream::links::Links;

impl Links {
    /// Notes a failure to connect; the next try comes after a pause.
    pub(crate) fn back_off(&mut self, cx: &mut Context, node: NodeIndex, why: &str) {
        let is_linked = self.is_linked(node);
        self.health[node.as_usize()].note_refusal(cx.now, is_linked);
        self.put_off(cx, node, why);
    }

    /// Notes a failure that is the proxy's own; the next try comes after a pause.
    pub(in crate::upstream) fn back_off_without_means(
        &mut self,
        cx: &mut Context,
        node: NodeIndex,
        why: &str,
    ) {
        self.health[node.as_usize()].note_lack_of_means();
        self.put_off(cx, node, why);
    }

    fn put_off(&mut self, cx: &mut Context, node: NodeIndex, why: &str) {
        let address = cx.snapshot.nodes().address_of(node);
        let health = &mut self.health[node.as_usize()];
        if health.failures() == 0 {
            tracing::warn!(node = %address, "cannot connect: {why}");
        }
        let pause = pause_after(cx, health.failures());
        health.note_failure(cx.now + pause);
    }

    /// True if the pause after a node's last failure is over.
    pub(crate) fn may_be_tried(&self, node: NodeIndex, now: Instant) -> bool {
        self.health[node.as_usize()].may_be_tried(now)
    }

    /// A node has been reached, if not over a link.
    pub(crate) fn note_reached(&mut self, node: NodeIndex, now: Instant) {
        self.health[node.as_usize()].clear(now);
    }

    /// A node can be reached again: no need to wait for the next try.
    pub(crate) fn on_node_up(&mut self, cx: &mut Context, node: NodeIndex) {
        let Some(health) = self.health.get_mut(node.as_usize()) else {
            return;
        };
        if health.failures() > 0 {
            health.try_at(cx.now);
            self.maintain(cx);
        }
    }

    /// Cuts the pause before unreachable nodes are tried again: somebody needs one now.
    pub(crate) fn try_again(&mut self, cx: &mut Context) {
        let now = cx.now;
        let mut cut = false;
        for health in &mut self.health {
            cut |= health.hurry(now);
        }
        for (_, pool) in &mut self.pools {
            for pause in pool.unjudged.values_mut() {
                if is_long_ago(pause.tried, now) {
                    pause.until = now;
                    pause.tried = now;
                    cut = true;
                }
            }
        }
        if cut {
            self.maintain(cx);
        }
    }

    #[cfg(test)]
    pub(crate) fn failures(&self, node: NodeIndex) -> u32 {
        self.health[node.as_usize()].failures()
    }

    #[cfg(test)]
    pub(crate) fn suspect(&mut self, node: NodeIndex, until: Instant) {
        self.health[node.as_usize()].suspect(until);
    }
}

/// The pause after so many failures before: it doubles, with jitter.
pub(in crate::upstream) fn pause_after(cx: &mut Context, failures: u32) -> Duration {
    let links = &cx.shared.config.links;
    let (min, max) = (links.backoff_min_ms.max(1), links.backoff_max_ms.max(1));
    let jitter = cx.random() % 1024;
    let pause = min.saturating_mul(1 << failures.min(20)).min(max);
    Duration::from_millis(pause / 2 + pause.saturating_mul(jitter) / 2048)
}
