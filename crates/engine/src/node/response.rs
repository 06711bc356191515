//! A node's answer: whose it is, and what of it is the proxy's own business.

use std::rc::Rc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Header, Opcode, Reader, code, strip_prelude};

use crate::ends::Reply;
use crate::engine::{ClientRequestKey, Engine, LinkKey, NodeRequestKey};
use crate::execution::Execution;
use crate::execution::outcome::Response;
use crate::memory::Body;
use crate::message::Owner;
use crate::node::link::{LinkKind, Stream};
use crate::output::{HeldAnswer, Output};
use crate::stats::add;

impl Engine {
    /// An envelope from a node.
    pub(crate) fn on_node_envelope(&mut self, link_key: LinkKey, header: Header, body: &[u8]) {
        let Some(link) = self.links.get_mut(link_key) else {
            return;
        };
        if header.stream <= 0 {
            // Stream 0 is what a 5.0 node says when a request waited too long in its own queue; whose
            // it was, it does not say.
            return;
        }
        let node = link.node;
        let Stream::Busy(key) = link.release_stream(header.stream) else {
            return;
        };
        let flight = self.requests.nodes.get_mut(key).and_then(|r| r.land());
        let Some(flight) = flight else { return };
        let us = self
            .cx
            .now
            .saturating_duration_since(flight.sent)
            .as_micros() as u64;
        self.nodes[node.as_usize()].stats.latency.record(us);
        let service_us = u32::try_from(us).unwrap_or(u32::MAX);
        self.leave_queue(key, Some(service_us));
        let Some(opcode) = Opcode::from_number(header.opcode) else {
            return self.fail(key, code::SERVER, "a node sent an unknown opcode", &[]);
        };
        let Ok((prelude, content)) = strip_prelude(header.flags, body) else {
            return self.fail(key, code::SERVER, "a node sent a malformed answer", &[]);
        };
        if opcode == Opcode::Error && self.on_node_error(key, node, content) {
            return;
        }
        let owner = self.requests.nodes.get(key).map(|request| &request.owner);
        match owner {
            None => {}
            Some(Owner::InRange(statement)) => {
                let statement = statement.clone();
                self.on_range_prepared(key, &statement, opcode, content);
            }
            Some(Owner::Reprepare { id, node: taught }) => {
                let (id, taught) = (id.clone(), *taught);
                self.drop_message(key);
                self.on_reprepared((&id, taught), node, opcode, content);
            }
            Some(Owner::Whole(_) | Owner::Part(..)) => {
                let response = Response {
                    header,
                    prelude,
                    content,
                    service_us,
                };
                self.on_response(key, link_key, opcode, response, body);
            }
        }
    }

    /// Handles errors that the client need not see; true if this was one.
    fn on_node_error(&mut self, key: NodeRequestKey, node: NodeIndex, content: &[u8]) -> bool {
        add(&self.nodes[node.as_usize()].stats.counters.errors, 1);
        let Ok(error) = ErrorBody::parse(content) else {
            return false;
        };
        match error.code {
            code::UNPREPARED => {
                let Ok(id) = Reader::new(error.fields).short_bytes() else {
                    return false;
                };
                self.reprepare(key, node, id)
            }
            code::READ_TIMEOUT => {
                self.note_read_timeout(key);
                false
            }
            code::IS_BOOTSTRAPPING => {
                // The node did not even try.
                add(&self.cx.shared.stats.global.requests_retried, 1);
                self.route(key);
                true
            }
            // This node has not; one before it may have.
            code::UNAVAILABLE | code::OVERLOADED if self.may_have_written(key) => {
                self.fail_untried(key, error.code, error.message, error.fields);
                true
            }
            _ => false,
        }
    }

    /// A connection has another keyspace now. Only USE may do that, over links of its own; whatever else
    /// has done it, nobody uses that connection again.
    pub(crate) fn quarantine(&mut self, link: LinkKey) {
        let shared = self
            .links
            .get(link)
            .is_some_and(|link| link.kind != LinkKind::Use);
        if shared {
            tracing::error!("a shared connection has changed its keyspace: closing it");
            self.kill_link(link);
        }
    }

    pub(crate) fn on_keyspace_set(&mut self, key: ClientRequestKey, content: &[u8]) {
        let mut reader = Reader::new(content);
        let Ok(keyspace) = reader.i32().and_then(|_| reader.string()) else {
            return;
        };
        let keyspace: Rc<str> = keyspace.into();
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let session = request.caller.session;
        self.clients.set_keyspace(session, keyspace);
    }

    /// The client may next ask any node: so it hears of its schema change only when all nodes that are up
    /// know it, or after `cluster.schema_agreement_max_ms`.
    pub(crate) fn hold_for_agreement(
        &mut self,
        client: ClientRequestKey,
        key: NodeRequestKey,
        opcode: Opcode,
        header_flags: u8,
        body: &[u8],
    ) {
        let version = self.cx.snapshot.version;
        let node = self
            .requests
            .nodes
            .get(key)
            .and_then(|request| request.node);
        let node = node.and_then(|node| self.cx.snapshot.nodes.get(node.as_usize()));
        let coordinator = node.map(|node| node.address);
        self.drop_message(key);
        let Some(coordinator) = coordinator else {
            let body = Body::Borrowed(body);
            let reply = Reply {
                opcode,
                header_flags,
                body,
                version,
            };
            return self.answer_clients(client, reply);
        };
        if let Some(request) = self.requests.clients.get_mut(client) {
            // It has been executed: no time-out can undo that.
            request.execution = Execution::Held;
        }
        add(&self.cx.shared.stats.global.schema_agreements, 1);
        let limit = Duration::from_millis(self.cx.shared.config.cluster.schema_agreement_max_ms);
        self.cx.ask(Output::Agree(HeldAnswer {
            request: client,
            coordinator,
            limit,
            opcode,
            header_flags,
            body: body.to_vec(),
            version,
        }));
    }

    /// The nodes agree on the schema, or have had their time.
    pub fn on_agreed(&mut self, now: Instant, held: &HeldAnswer) {
        self.set_now(now);
        self.adopt_snapshot();
        let reply = Reply {
            opcode: held.opcode,
            header_flags: held.header_flags,
            body: Body::Borrowed(&held.body),
            version: held.version,
        };
        self.answer_clients(held.request, reply);
        self.settle();
    }

    /// Sends a message once more to the node that it was on.
    pub(crate) fn send_again(&mut self, key: NodeRequestKey, node: NodeIndex) {
        // EXECUTE of a client of an older version carries the metadata id that is now known.
        let prepared = self
            .requests
            .query(key)
            .and_then(|query| query.prepared.as_ref());
        if let Some(id) = prepared.map(|prepared| prepared.id.clone())
            && let Some(newer) = self.statements.prepared(&self.cx.shared, &id)
            && let Some(query) = self.requests.query_mut(key)
        {
            query.prepared = Some(newer);
        }
        self.put_in_front(key, node);
        self.route(key);
    }

    /// What happens to a message whose link broke, after so many writes to it.
    pub(crate) fn on_message_lost(&mut self, key: NodeRequestKey, writes: u64, why: &str) {
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        let Some(flight) = request.land() else { return };
        let node = request.node;
        let has_left = writes > flight.behind;
        request.maybe_applied |= has_left;
        self.leave_queue(key, None);
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        match &request.owner {
            Owner::InRange(statement) => {
                let statement = statement.clone();
                return self.on_range_lost(key, &statement);
            }
            Owner::Reprepare { id, node } => {
                let (id, node) = (id.clone(), *node);
                self.drop_message(key);
                // They had not been executed: any node may have them.
                for key in self.take_repreparing(&id, node) {
                    self.route(key);
                }
                return;
            }
            Owner::Whole(_) | Owner::Part(..) => {}
        }
        let idempotent = self
            .requests
            .query(key)
            .is_some_and(|query| query.idempotent);
        if idempotent || !has_left {
            add(&self.cx.shared.stats.global.requests_retried, 1);
            return self.route(key);
        }
        let address = node
            .and_then(|n| self.cx.snapshot.nodes.get(n.as_usize()))
            .map_or_else(String::new, |n| n.address.to_string());
        let text = format!(
            "Helenus: the connection to {address} broke while the request was in flight ({why}); \
             whether it took effect is not known"
        );
        self.fail_timeout(key, &text);
    }
}
