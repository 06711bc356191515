//! Node requests whose link is silent or gone: whether another node may have them.

use helenus_policy::ring::NodeIndex;
use helenus_wire::code;

use crate::exec::attempt_end::AttemptEnd;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::Owner;
use crate::pipeline::retry::resendable::Loss;
use crate::stats::add;
use crate::upstream::traffic::Lost;

impl Engine {
    /// Sends what waits on a silent link to other nodes, if it can be repeated and they can take it.
    pub(crate) fn rescue_requests(&mut self, link: LinkKey) {
        let Some(stuck) = self.links.stuck(&self.cx, link) else {
            return;
        };
        let mut rescued = 0;
        for key in stuck.node_requests {
            if rescued >= stuck.rescues_max {
                break;
            }
            if !self.may_be_rescued(key, stuck.node) {
                continue;
            }
            rescued += 1;
            if let Some(landed) = self.give_up(key) {
                if let Some(request) = self.requests.nodes.get_mut(key) {
                    request.note_in_doubt();
                }
                self.note_attempt(key, landed.us, AttemptEnd::Silent);
            }
            add(&self.cx.shared.stats.global.requests_rescued, 1);
            self.queues.note_failure(&self.cx, stuck.node);
            self.leave_queue(key, None);
            let is_errand = self.on_errand_lost(key);
            if !is_errand && !self.is_without_owners(key, Some(stuck.node)) {
                self.route(key);
            }
        }
    }

    /// Where no owner of what is asked for can be asked but the lost one, another node would wait for them as well. True if
    /// the request goes on without them.
    fn is_without_owners(&mut self, key: NodeRequestKey, lost: Option<NodeIndex>) -> bool {
        let Some(request) = self.requests.nodes.get(key) else {
            return false;
        };
        let client = request.client();
        let client = client.and_then(|client| self.requests.clients.get(client));
        let (Some(client), Some(query)) = (client, self.requests.query_of(request)) else {
            return false;
        };
        let owners = client.target().owners();
        let is_fit = |node: &NodeIndex| {
            Some(*node) != lost && self.links.is_fit(&self.cx, query.pool, *node)
        };
        let is_owned = !owners.is_empty();
        is_owned && !owners.iter().any(is_fit) && self.try_as_asked(key, code::UNAVAILABLE)
    }

    fn may_be_rescued(&self, key: NodeRequestKey, silent: NodeIndex) -> bool {
        let Some(request) = self.requests.nodes.get(key) else {
            return false;
        };
        let Some(query) = self.requests.query_of(request) else {
            return false;
        };
        // Without another node to go to, waiting is the best that it can do.
        let is_other =
            |node: NodeIndex| node != silent && self.links.is_fit(&self.cx, query.pool, node);
        if let Owner::Errand(errand) = request.owner() {
            return errand.may_be_rescued(self, &is_other);
        }
        let mut untried = request.untried().into_iter().flatten();
        let client = request.client();
        let client = client.and_then(|client| self.requests.clients.get(client));
        // Another has been asked already.
        let hedged = client.is_some_and(|client| client.execution.is_hedged());
        untried.any(is_other) && !hedged && self.requests.may_be_sent_again(key, Loss::MayCome)
    }

    /// The link of a node request broke.
    pub(crate) fn on_node_request_lost(&mut self, key: NodeRequestKey, lost: &Lost, why: &str) {
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        let Some(landed) = request.land(self.cx.now) else {
            return;
        };
        let node = request.node();
        let loss = lost.loss(&landed.flight);
        if loss != Loss::NotBegun {
            request.note_in_doubt();
        }
        self.note_attempt(key, landed.us, AttemptEnd::Lost);
        if loss == Loss::MayCome {
            let until = self.done_by(key, landed.flight.sent);
            self.keep_permit(key, &landed.flight, until);
        }
        self.leave_queue(key, None);
        if self.on_errand_lost(key) {
            return;
        }
        if self.requests.may_be_sent_again(key, loss) {
            if self.is_without_owners(key, node) {
                return;
            }
            add(&self.cx.shared.stats.global.requests_retried, 1);
            return self.route(key);
        }
        let address = node
            .and_then(|n| self.cx.snapshot.nodes().get(n))
            .map_or_else(String::new, |n| n.address().to_string());
        let text = format!(
            "Helenus: the connection to {address} broke while the request was in flight ({why}); \
             whether it took effect is not known"
        );
        self.fail_timeout(key, &text);
    }
}
