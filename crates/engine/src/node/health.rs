//! What a worker thinks of a node: whether it can be reached, and whether it is in trouble.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::node::links::Links;
use crate::stats::{NodeStats, add, sub};

/// Requests make unreachable nodes be tried at most this often.
const DEMAND_PAUSE: Duration = Duration::from_millis(250);

/// One node, as this worker has met it.
pub(super) struct Health {
    /// Failed attempts to connect in a row.
    failures: u32,
    retry_at: Instant,
    /// When a connection was last tried.
    tried: Instant,
    /// Such a node is tried last for a while.
    suspect_until: Option<Instant>,
    /// Requests in flight over this worker's links, as published.
    in_flight: usize,
    stats: Arc<NodeStats>,
}

impl Health {
    pub(super) fn new(now: Instant, stats: Arc<NodeStats>) -> Health {
        Health {
            failures: 0,
            retry_at: now,
            tried: now,
            suspect_until: None,
            in_flight: 0,
            stats,
        }
    }

    #[inline]
    pub(super) fn stats(&self) -> &NodeStats {
        &self.stats
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    #[inline]
    pub(super) fn is_sound(&self, now: Instant) -> bool {
        self.suspect_until.is_none_or(|until| until <= now)
    }

    /// Whether the pause after its last failure is over.
    pub(super) fn may_be_tried(&self, now: Instant) -> bool {
        self.retry_at <= now
    }

    pub(super) fn note_try(&mut self, now: Instant) {
        self.tried = now;
    }

    /// It has been reached.
    pub(super) fn clear(&mut self) {
        self.failures = 0;
        self.suspect_until = None;
    }

    /// It has answered over a link that was silent.
    #[inline]
    pub(super) fn trust(&mut self) {
        self.suspect_until = None;
    }

    pub(super) fn suspect(&mut self, until: Instant) {
        self.suspect_until = Some(until);
    }

    /// The same, unless it is suspect for longer.
    pub(super) fn suspect_at_least(&mut self, until: Instant) {
        self.suspect_until = self.suspect_until.max(Some(until));
    }

    /// Ends the pause before it is tried again, if the last try was long enough ago.
    fn hurry(&mut self, now: Instant) -> bool {
        let is_due = self.failures > 0 && is_long_ago(self.tried, now);
        if is_due {
            self.retry_at = now;
        }
        is_due
    }

    pub(super) fn publish_in_flight(&mut self, in_flight: usize) {
        let before = std::mem::replace(&mut self.in_flight, in_flight);
        let gauge = &self.stats.in_flight;
        add(gauge, in_flight.saturating_sub(before) as u64);
        sub(gauge, before.saturating_sub(in_flight) as u64);
    }
}

fn is_long_ago(tried: Instant, now: Instant) -> bool {
    now.saturating_duration_since(tried) > DEMAND_PAUSE
}

impl Links {
    /// Notes a failure to connect; the next try comes after a pause.
    pub(crate) fn back_off(&mut self, cx: &mut Context, node: NodeIndex, why: &str) {
        let address = cx.snapshot.nodes[node.as_usize()].address;
        let health = &mut self.health[node.as_usize()];
        if health.failures == 0 {
            tracing::warn!(node = %address, "cannot connect: {why}");
        }
        health.retry_at = cx.now + pause_after(cx, health.failures);
        health.failures = health.failures.saturating_add(1);
    }

    /// Whether the pause after a node's last failure is over.
    pub(crate) fn may_be_tried(&self, node: NodeIndex, now: Instant) -> bool {
        self.health[node.as_usize()].may_be_tried(now)
    }

    /// A node has been reached, if not over a link.
    pub(crate) fn note_reached(&mut self, node: NodeIndex) {
        self.health[node.as_usize()].clear();
    }

    /// A node can be reached again: no need to wait for the next try.
    pub(crate) fn on_node_up(&mut self, cx: &mut Context, node: NodeIndex) {
        let Some(health) = self.health.get_mut(node.as_usize()) else {
            return;
        };
        if health.failures > 0 {
            health.failures = 1;
            health.retry_at = cx.now;
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
        self.health[node.as_usize()].failures
    }

    #[cfg(test)]
    pub(crate) fn suspect(&mut self, node: NodeIndex, until: Instant) {
        self.health[node.as_usize()].suspect(until);
    }
}

/// The pause after so many failures before: it doubles, with jitter.
pub(super) fn pause_after(cx: &mut Context, failures: u32) -> Duration {
    let links = &cx.shared.config.links;
    let (min, max) = (links.backoff_min_ms.max(1), links.backoff_max_ms.max(1));
    let jitter = cx.random() % 1024;
    let pause = min.saturating_mul(1 << failures.min(20)).min(max);
    Duration::from_millis(pause / 2 + pause.saturating_mul(jitter) / 2048)
}
