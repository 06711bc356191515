//! A node request leaves for a node.

use helenus_policy::ring::NodeIndex;
use helenus_wire::code;

use crate::features;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{Flight, Form, Prediction};
use crate::stats::add;
use crate::upstream::choose_link::Choice;

const TOO_LATE: &str = "Helenus: what is known of layouts and encoded columns has become too old, or has \
    changed, before the request was to be sent; try again";

impl Engine {
    /// Puts a request on a link to a node; false if the node has none with room. True also when it
    /// now waits for a link of its own kind.
    pub(crate) fn dispatch(&mut self, key: NodeRequestKey, node: NodeIndex) -> bool {
        let Some(request) = self.requests.nodes.get(key) else {
            return false;
        };
        let Some(query) = self.requests.query_of(request) else {
            return false;
        };
        let is_late = query.send_before.is_some_and(|end| self.cx.now >= end);
        if is_late || features::is_late(self, key) {
            self.leave_queue(key, None);
            self.fail_unsendable(key, code::OVERLOADED, TOO_LATE, &[]);
            return true;
        }
        match self.links.choose(&mut self.cx, key, query, node) {
            Choice::NoRoom => false,
            Choice::Link(link) => {
                let client = match request.form() {
                    Form::Own => request.whole(),
                    Form::Piece { .. } | Form::Other(_) => None,
                };
                let client = client.and_then(|client| self.requests.clients.get(client));
                let is_open = client.is_some_and(|client| client.features.is_open());
                let (links, cx) = (&mut self.links, &self.cx);
                let flight = links.put(cx, link, key, request, query, is_open);
                let is_sent = flight.is_some();
                if let Some(flight) = flight {
                    self.note_flight(key, node, flight);
                }
                is_sent
            }
            Choice::Waits => {
                self.leave_queue(key, None);
                // It comes back through `route`, whose plan must still hold this node.
                if let Some(request) = self.requests.nodes.get_mut(key) {
                    request.put_in_front(node);
                }
                true
            }
            Choice::Refused(why) => {
                self.leave_queue(key, None);
                self.fail_untried(key, code::OVERLOADED, why, &[]);
                true
            }
        }
    }

    /// Writes down on a link what others could still join until now.
    pub(crate) fn push_open(&mut self, key: LinkKey) {
        let Some(open) = self.links.take_open(key) else {
            return;
        };
        for &(node_request, stream) in &open {
            let request = self.requests.nodes.get(node_request);
            let flight = request.and_then(|request| request.flight());
            let is_there =
                flight.is_some_and(|flight| (flight.link, flight.stream) == (key, stream));
            if !is_there {
                // It has been given up, and its answer will not come.
                self.links.release_unsent(key, stream);
                continue;
            }
            if !features::on_leaves(self, key, stream, node_request) {
                self.push_one(key, stream, node_request);
            }
        }
        self.links.give_back_open(key, open);
    }

    fn push_one(&mut self, link: LinkKey, stream: i16, key: NodeRequestKey) {
        if let Some(request) = self.requests.nodes.get(key)
            && let Some(query) = self.requests.query_of(request)
        {
            self.links.push_one(&self.cx, link, stream, request, query);
        }
    }

    /// A node request is in flight to a node.
    #[inline]
    fn note_flight(&mut self, key: NodeRequestKey, node: NodeIndex, flight: Flight) {
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        request.fly(node, flight);
        features::on_flight(&mut self.features);
        if matches!(
            request.work(),
            Prediction::Piece { .. } | Prediction::Part(_)
        ) {
            add(&self.cx.shared.stats.global.scan_pieces, 1);
        }
    }
}
