//! Node requests whose answers are not waited for any more, although their nodes may still work on them.

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;

use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{Flight, Landed, NodeRequest};
use crate::pipeline::query::Query;
use crate::scheduler::Admission;
use crate::snapshot::Node;
use crate::snapshot::timeouts::{Timed, Timeouts};

#[cfg(test)]
mod tests;

/// A part that has been halved so often is not sure to take little.
const CUT_HALVED_MAX: u8 = 3;

impl Engine {
    /// Takes a node request off its link. Its answer may still come, and is nobody's; a scan keeps its permit for as
    /// long as its node may work on it.
    pub(crate) fn give_up(&mut self, key: NodeRequestKey) -> Option<Landed> {
        let request = self.requests.nodes.get_mut(key)?;
        let landed = request.land(self.cx.now)?;
        let is_long = request.admission().is_some_and(Admission::has_permit);
        let until = self.done_by(key, landed.flight.sent);
        self.links.give_up(&landed.flight, until);
        if is_long {
            self.keep_permit(key, &landed.flight, until);
        }
        Some(landed)
    }

    /// A scan that was in flight there keeps its permit, until then at most.
    pub(crate) fn keep_permit(&mut self, key: NodeRequestKey, flight: &Flight, until: Instant) {
        if let Some(request) = self.requests.nodes.get_mut(key)
            && let Some(admission) = request.admission_mut()
        {
            let (link, stream) = (flight.link, flight.stream);
            self.queues
                .keep_permit(&self.cx, admission, link, stream, until);
        }
    }

    /// Until when a node may work on a node request that was sent then, by its own time-outs. One that it reads
    /// page by page may be at any page: it has as long as a page takes.
    pub(crate) fn done_by(&self, key: NodeRequestKey, sent: Instant) -> Instant {
        let request = self.requests.nodes.get(key);
        let query = request.and_then(|request| self.requests.query_of(request));
        let (Some(request), Some(query)) = (request, query) else {
            return sent;
        };
        match query.timed() {
            Timed::Pages => self.cx.now + self.page_of(request.node()),
            timed => sent + self.timeouts_of(request.node()).limit(timed),
        }
    }

    /// True if it is a part of a scan that was cut so as to take little. A part that still takes long after it was
    /// halved a few times is one partition, most likely, and takes what it takes.
    pub(crate) fn is_cut(&self, request: &NodeRequest, query: &Query) -> bool {
        let Some((client, part)) = request.part() else {
            return false;
        };
        let halved = || {
            let client = self.requests.clients.get(client);
            client.map_or(0, |client| client.execution.halved(part))
        };
        query.class == Class::Scan && halved() < CUT_HALVED_MAX
    }

    /// How long a node may work on a page of a scan.
    pub(crate) fn page_of(&self, node: Option<NodeIndex>) -> Duration {
        self.timeouts_of(node).limit(Timed::Range)
    }

    /// The time-outs of a node, as far as it has told them.
    pub(crate) fn timeouts_of(&self, node: Option<NodeIndex>) -> Timeouts {
        let node = node.and_then(|at| self.cx.snapshot.nodes().get(at));
        node.map(Node::timeouts).unwrap_or_default()
    }
}
