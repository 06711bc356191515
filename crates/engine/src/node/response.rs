//! A node's answer: whose it is, and what of it is the proxy's own business.

use std::rc::Rc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Header, Opcode, Reader, code, flags, strip_prelude, write};

use crate::engine::{ClientRequestKey, Engine, LinkKey, NodeRequestKey};
use crate::execution::outcome::Response;
use crate::execution::warnings::USE_WARNING;
use crate::request::Owner;
use crate::stats::add;

impl Engine {
    /// An envelope from a node.
    pub(crate) fn on_node_envelope(&mut self, link_key: LinkKey, header: Header, body: &[u8]) {
        if header.stream <= 0 {
            // Stream 0 is what a 5.0 node says when a request waited too long in its own queue; whose
            // it was, it does not say.
            return;
        }
        let Some((node, key)) = self.links.release(link_key, header.stream) else {
            return;
        };
        let flight = self.requests.nodes.get_mut(key).and_then(|r| r.land());
        let Some(flight) = flight else { return };
        let us = self
            .cx
            .now
            .saturating_duration_since(flight.sent)
            .as_micros() as u64;
        self.links.stats(node).latency.record(us);
        let service_us = u32::try_from(us).unwrap_or(u32::MAX);
        self.leave_schedule(key, Some(service_us));
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
        add(&self.links.stats(node).counters.errors, 1);
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
        if let Some(session) = self.session(session) {
            session.keyspace = Some(keyspace);
        }
    }

    /// Sends a message once more to the node that it was on.
    pub(crate) fn send_again(&mut self, key: NodeRequestKey, node: NodeIndex) {
        // EXECUTE of a client of an older version carries the metadata id that is now known.
        let prepared = self
            .requests
            .query(key)
            .and_then(|query| query.prepared.as_ref());
        if let Some(id) = prepared.map(|prepared| prepared.id.clone())
            && let Some(newer) = self.prepared(&id)
            && let Some(query) = self.requests.query_mut(key)
        {
            query.prepared = Some(newer);
        }
        self.put_in_front(key, node);
        self.route(key);
    }
}

/// The body without Cassandra's remark about USE; `None` if it has none.
pub(crate) fn without_use_warning(
    header: &mut Header,
    prelude: &[u8],
    content: &[u8],
) -> Option<Vec<u8>> {
    let mut reader = Reader::new(prelude);
    let mut body = Vec::with_capacity(prelude.len() + content.len());
    if header.flags & flags::TRACING != 0 {
        body.extend_from_slice(&reader.uuid().ok()?);
    }
    let warnings = reader.string_list().ok()?;
    if !warnings.iter().any(|w| w.starts_with(USE_WARNING)) {
        return None;
    }
    let kept: Vec<&str> = warnings
        .into_iter()
        .filter(|w| !w.starts_with(USE_WARNING))
        .collect();
    if kept.is_empty() {
        header.flags &= !flags::WARNING;
    } else {
        write::string_list(&mut body, &kept);
    }
    body.extend_from_slice(reader.rest());
    body.extend_from_slice(content);
    Some(body)
}
