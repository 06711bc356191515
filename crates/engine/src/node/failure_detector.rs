//! What to make of a node that has fallen silent, and of one that is back.
//!
//! Being wrong about a silent node must cost little, as it may only collect garbage. So the steps
//! are: a probe, which is nothing; with it the node is tried last until it answers; then what can be
//! repeated is sent to another node as well; and only after `links.probe_timeout_ms` is the link
//! closed, which costs clients what cannot be repeated.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{BatchView, ExecuteView, Opcode, QueryView, strip_payload};

use crate::engine::{Engine, LinkKey, NodeRequestKey};
use crate::node::link::Stream;
use crate::query::Query;
use crate::stats::add;

impl Engine {
    pub(crate) fn on_probe_sent(&mut self, node: NodeIndex) {
        let patience = Duration::from_millis(self.cx.shared.config.links.probe_timeout_ms);
        let until = self.cx.now + patience;
        let state = &mut self.nodes[node.as_usize()];
        state.suspect_until = state.suspect_until.max(Some(until));
    }

    pub(crate) fn on_probe_answered(&mut self, node: NodeIndex) {
        self.nodes[node.as_usize()].suspect_until = None;
    }

    /// Sends what waits on a silent link to other nodes, if it can be repeated and they can take it.
    pub(crate) fn rescue_requests(&mut self, link_key: LinkKey) {
        let Some(link) = self.links.get(link_key) else {
            return;
        };
        let node = link.node;
        let waiting: Vec<(i16, NodeRequestKey)> = link
            .streams
            .iter()
            .enumerate()
            .filter_map(|(id, stream)| match stream {
                Stream::Busy(key) => Some((id as i16, *key)),
                _ => None,
            })
            .collect();
        // More orphans would cost the link itself, should the node come back.
        let room = (self.cx.shared.config.links.in_flight_max / 2).saturating_sub(link.orphans);
        let mut rescued = 0;
        for (stream, key) in waiting {
            if rescued >= room {
                break;
            }
            if !self.may_be_rescued(key, node) {
                continue;
            }
            rescued += 1;
            // Its answer may still come, and will be ignored.
            if let Some(link) = self.links.get_mut(link_key) {
                link.orphan(stream);
            }
            if let Some(request) = self.requests.nodes.get_mut(key) {
                request.land();
                request.maybe_applied = true;
            }
            add(&self.cx.shared.stats.global.requests_rescued, 1);
            self.leave_queue(key, None);
            self.route(key);
        }
    }

    fn may_be_rescued(&self, key: NodeRequestKey, silent: NodeIndex) -> bool {
        let now = self.cx.now;
        let Some(request) = self.requests.nodes.get(key) else {
            return false;
        };
        let Some(query) = self.requests.query_of(request) else {
            return false;
        };
        let Some(pool) = self.pools.get(query.pool) else {
            return false;
        };
        // Without another node to go to, waiting is the best that it can do.
        let another = request.target.untried().is_some_and(|mut plan| {
            plan.any(|node| {
                let state = self.nodes.get(node.as_usize());
                let sound = state.is_some_and(|n| n.suspect_until.is_none_or(|t| t <= now));
                node != silent && sound && pool.has_link(node)
            })
        });
        request.owner.client().is_some() && query.idempotent && another && may_come_late(query)
    }

    /// A node can be reached again: no need to wait for the next try.
    pub(crate) fn on_node_up(&mut self, address: SocketAddr) {
        let nodes = &self.cx.snapshot.nodes;
        let Some(at) = nodes.iter().position(|n| n.address == address && !n.gone) else {
            return;
        };
        let Some(state) = self.nodes.get_mut(at) else {
            return;
        };
        if state.failures > 0 {
            state.failures = 1;
            state.retry_at = self.cx.now;
            self.maintain_pools();
        }
    }
}

/// Whether it does no harm if a frozen node executes this long after another has answered it: a
/// write must then carry a timestamp, or it would undo what was written meanwhile.
fn may_come_late(query: &Query) -> bool {
    if query.opcode == Opcode::Prepare || query.statement.as_ref().is_some_and(|s| s.is_read()) {
        return true;
    }
    let Ok(body) = strip_payload(query.header_flags, query.version, &query.body) else {
        return false;
    };
    let timestamp = match query.opcode {
        Opcode::Query => QueryView::parse(body, query.version).map(|v| v.options.timestamp),
        Opcode::Execute => ExecuteView::parse(body, query.version).map(|v| v.options.timestamp),
        Opcode::Batch => BatchView::parse(body, query.version).map(|v| v.options.timestamp),
        _ => return false,
    };
    timestamp.is_ok_and(|t| t.is_some())
}
