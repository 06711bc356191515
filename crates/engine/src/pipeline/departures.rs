//! Node requests that leave the queues of nodes: because they may go, or because they have waited too
//! long.

use helenus_policy::ring::NodeIndex;
use helenus_wire::code;

use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::Stage;
use crate::scheduler::settings::{standing_key, wait_key};
use crate::stats::add;

impl Engine {
    /// A permit for scans may be free on this node.
    pub(crate) fn on_scan_permit(&mut self, node: NodeIndex) {
        if node.as_usize() >= self.queues.len() {
            return;
        }
        self.queues.on_woken(&self.cx, node);
        self.pump(node, true);
        self.queues.pass_permit_on(&mut self.cx, node);
    }

    /// Sends what waits for a node and may go now.
    pub(crate) fn pump(&mut self, node: NodeIndex, may_scan: bool) {
        while let Some(key) = self.next_of(node, may_scan) {
            if self.is_abandoned(key) {
                add(&self.cx.shared.stats.global.requests_cancelled, 1);
                self.cancel(key);
            } else if !self.send_as_known(key, node) {
                self.leave_queue(key, None);
                self.route(key);
            }
        }
        // Whichever of its node requests came or went since the last time.
        self.queues.say_waiting(&self.cx, node);
    }

    fn next_of(&mut self, node: NodeIndex, may_scan: bool) -> Option<NodeRequestKey> {
        let requests = &self.requests;
        let waiting = |key| {
            let request = requests.nodes.get(key)?;
            match *request.stage() {
                Stage::Queued(waiting) => Some((requests.query_of(request)?.body.len(), waiting)),
                _ => None,
            }
        };
        let (key, admission) = self.queues.poll(&mut self.cx, node, may_scan, waiting)?;
        let now_us = self.cx.now_us();
        let request = self.requests.nodes.get_mut(key)?;
        request.end_wait(self.cx.now, now_us);
        request.admit(admission);
        Some(key)
    }

    /// Refuses what has waited for as long as its class may, and what nobody will wait for any longer;
    /// once a tick.
    pub(crate) fn refuse_late(&mut self) {
        for (key, class) in self.queues.shed(&self.cx) {
            let text = format!(
                "Helenus: more requests come than the node serves, and this one has waited for its bound \
                 (scheduling.{}, class {}): try again later",
                standing_key(class),
                class.name()
            );
            self.refuse_queued(key, &text);
        }
        while let Some((key, class)) = self.queues.poll_expired(&self.cx) {
            let text = format!(
                "Helenus: the node did not come to this request within its bound \
                 (scheduling.{}, class {}): try again later",
                wait_key(class),
                class.name()
            );
            self.refuse_queued(key, &text);
        }
    }

    /// Refuses what was taken out of a node's queue.
    fn refuse_queued(&mut self, key: NodeRequestKey, text: &str) {
        let now_us = self.cx.now_us();
        if let Some(request) = self.requests.nodes.get_mut(key) {
            let waited = request.refuse(self.cx.now, now_us);
            if let Some(waiting) = waited {
                self.queues.on_expired(waiting);
            }
        }
        add(&self.cx.shared.stats.global.requests_overloaded, 1);
        self.fail_untried(key, code::OVERLOADED, text, &[]);
    }
}
