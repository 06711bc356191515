//! Scans that wait for a node which is slower than was thought when they were sent there: another owner,
//! which would be done with them much sooner, and has room for them in its queue, takes them over.
//!
//! A node that becomes slow keeps what it has been given, for seconds, while others have nothing to do. What
//! waits for it in the proxy can still go elsewhere, to an owner that would take half of the time at most
//! ([`SOONER`]), so that small differences move nothing to and fro; if the node is not well by now
//! (ejected, failing, silent, three times slower than the best), to one that would not take longer. Each
//! move begins the wait anew, so only what has not waited for long is moved ([`WAITED_MAX_US`]), and of one
//! node request there are no more moves than it has owners.

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;

use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{NodeRequest, Stage, Target};
use crate::pipeline::queue::job;
use crate::scheduler::Waiting;
use crate::stats::add;

/// How many times sooner another owner has to be done.
const SOONER: f32 = 2.0;
/// A scan that has waited for longer keeps its place and its bound: a node that has become slow shows it sooner.
const WAITED_MAX_US: u64 = 1_000_000;

impl Engine {
    /// Looks at all scans that wait. Each move changes what the next one sees.
    pub(crate) fn move_waiting_scans(&mut self) {
        if !self.queues.assignment().is_informed() || !self.queues.scans_about() {
            return;
        }
        let waiting = self.requests.nodes.iter();
        let waiting = waiting.filter(|(_, request)| waits_for(request).is_some());
        let keys: Vec<NodeRequestKey> = waiting.map(|(key, _)| key).collect();
        for key in keys {
            let Some(owner) = self.better_owner(key) else {
                continue;
            };
            let now_us = self.cx.now_us();
            if let Some(request) = self.requests.nodes.get_mut(key) {
                request.end_wait(self.cx.now, now_us);
                request.move_to(owner);
            }
            self.leave_queue(key, None);
            add(&self.cx.shared.stats.global.scans_moved, 1);
            self.route_now(key);
        }
    }

    /// The owner that would be done with a waiting scan so much sooner than the node which it waits for.
    fn better_owner(&self, key: NodeRequestKey) -> Option<NodeIndex> {
        let request = self.requests.nodes.get(key)?;
        let (waiting, plan) = waits_for(request)?;
        let node = waiting.node;
        if self.cx.now_us().saturating_sub(waiting.since_us) > WAITED_MAX_US {
            return None;
        }
        let query = self.requests.query_of(request)?;
        let (pool, job) = (query.pool, job(request, query, &self.statements.typical));
        let mut nodes = [node; Plan::CAPACITY];
        let others = plan.owners();
        let len = (others.len() + 1).min(nodes.len());
        nodes[1..len].copy_from_slice(&others[..len - 1]);
        let nodes = &nodes[..len];
        let after = self.queues.after_scans(&self.cx, nodes);
        let lagging = self.queues.lagging(&self.cx, nodes);
        let scans = self.queues.scans(node) as f32;
        // It is one of those that the node has already.
        let here = after[0] * scans / (scans + 1.0);
        let can_take = |at: &usize| {
            lagging >> at & 1 == 0
                && self.links.is_fit(&self.cx, pool, nodes[*at])
                && self.queues.would_queue_scan(nodes[*at], &job)
        };
        let best = (1..len).filter(can_take);
        let best = best.min_by(|one, other| after[*one].total_cmp(&after[*other]))?;
        let sooner = match lagging & 1 {
            1 => 1.0,
            _ => SOONER,
        };
        (after[best] * sooner <= here).then_some(nodes[best])
    }
}

/// How a scan waits for a node, and where else it could go.
fn waits_for(request: &NodeRequest) -> Option<(&Waiting, &Plan)> {
    match (request.stage(), request.target()) {
        (Stage::Queued(waiting), Target::Planned(plan))
            if request.lane() == Class::Scan && !plan.owners().is_empty() =>
        {
            Some((waiting, plan))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
