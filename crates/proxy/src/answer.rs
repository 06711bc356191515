//! A node's answer on its way back to the client, and what stands in for one that does not come.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{
    ErrorBody, Header, JoinedBody, Opcode, Reader, ResultKind, Version, code, flags, result_kind,
    strip_prelude, write,
};
use tokio::sync::oneshot;

use crate::fan::PartAnswer;
use crate::link::Stream;
use crate::request::Origin;
use crate::scan::{Piece, kept_bytes};
use crate::shared::ControlRequest;
use crate::stats::{add, sub};
use crate::turns::{Turn, is_not_applied};
use crate::worker::{Key, State};

/// One of so many answers is learned from: workers share what they learn, and would take its memory
/// from each other with every answer.
const LEARNED_ONE_OF: u64 = 16;

/// Cassandra warns when a statement without a keyspace runs on a connection of another keyspace than
/// it was prepared in. On a shared link that says nothing about the client.
pub const USE_WARNING: &str =
    "`USE <keyspace>` with prepared statements is considered to be an anti-pattern";

impl State {
    /// An envelope from a node.
    pub fn on_node_envelope(&mut self, link_key: Key, header: Header, body: &[u8]) {
        let Some(link) = self.links.get_mut(link_key.index as usize) else {
            return;
        };
        if header.stream <= 0 {
            // Stream 0 is what a 5.0 node says when a request waited too long in its own queue; whose
            // it was, it does not say.
            return;
        }
        let node = link.node;
        let version = link.version;
        let Stream::Busy(key) = link.release_stream(header.stream) else {
            return;
        };
        sub(&self.nodes[node.as_usize()].stats.in_flight, 1);
        let now = self.now;
        let Some(request) = self.request(key) else {
            return;
        };
        request.at = None;
        let sent = request.sent;
        let us = now.saturating_duration_since(sent).as_micros() as u64;
        self.nodes[node.as_usize()].stats.latency.record(us);
        let service_us = u32::try_from(us).unwrap_or(u32::MAX);
        self.leave_schedule(key, Some(service_us));
        let Some(opcode) = Opcode::from_number(header.opcode) else {
            return self.fail(key, code::SERVER, "a node sent an unknown opcode", &[]);
        };
        let Ok((prelude, content)) = strip_prelude(header.flags, body) else {
            return self.fail(key, code::SERVER, "a node sent a malformed answer", &[]);
        };
        if opcode == Opcode::Error
            && (self.on_node_error(key, node, content) || self.abandon_tail(key))
        {
            return;
        }
        let sampled = self.random().is_multiple_of(LEARNED_ONE_OF);
        let Some(request) = self.request(key) else {
            return;
        };
        match &request.origin {
            Origin::Client => {}
            Origin::PrepareAhead => return self.drop_request(key),
            Origin::InRange(statement) => {
                let statement = statement.clone();
                return self.on_range_prepared(key, &statement, node, opcode, content);
            }
            Origin::Reprepare(id) => {
                let id = id.clone();
                self.drop_request(key);
                return self.on_reprepared(&id, node, opcode, content);
            }
            Origin::Part(parent, index) => {
                let (parent, index) = (*parent, *index);
                self.drop_request(key);
                let answer = PartAnswer {
                    header,
                    prelude,
                    content,
                    service_us,
                };
                return self.on_part(parent, index, Some(answer));
            }
        }
        let mut header = header;
        let mut stripped: Option<JoinedBody> = None;
        if opcode == Opcode::Result {
            if header.flags & flags::WARNING != 0 && request.opcode == Opcode::Execute {
                stripped = without_use_warning(&mut header, prelude, content).map(Into::into);
            }
            if let Some(statement) = &request.statement
                && (sampled || statement.learned.is_news(service_us))
            {
                statement.learned.note_answer(content.len(), service_us);
            }
            match result_kind(content) {
                Ok(ResultKind::Prepared) => self.on_prepared(key, node, content),
                Ok(ResultKind::Rows) if request.scan.is_some() => {
                    let mut page = JoinedBody::default();
                    let parts = (prelude, content);
                    match self.on_piece(key, &mut header, parts, service_us, &mut page) {
                        Piece::More => return self.route(key),
                        Piece::Unwanted => return self.drop_request(key),
                        Piece::Whole => {}
                        Piece::Last => stripped = Some(page),
                        Piece::Broken(why) => {
                            let text = format!("a node sent a malformed answer: {why}");
                            return self.fail(key, code::SERVER, &text, &[]);
                        }
                        Piece::TooLarge => {
                            let text = "Helenus: there is no room for so many rows at once \
                                        (limits.in_flight_bytes_max): ask for smaller pages";
                            return self.fail(key, code::OVERLOADED, text, &[]);
                        }
                    }
                }
                Ok(ResultKind::Rows) if request.turn.is_some() => {
                    request.condition_failed = is_not_applied(content);
                }
                Ok(ResultKind::SetKeyspace) => self.on_keyspace_set(key, content),
                Ok(ResultKind::SchemaChange) => {
                    return self.hold_for_agreement(key, opcode, header.flags, body);
                }
                _ => {}
            }
        }
        let body = stripped.as_deref().unwrap_or(body);
        self.answer_clients(key, opcode, header.flags, body, version);
    }

    /// Handles errors that the client need not see; true if this was one.
    fn on_node_error(&mut self, key: Key, node: NodeIndex, content: &[u8]) -> bool {
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
            code::IS_BOOTSTRAPPING => {
                // The node did not even try.
                add(&self.shared.stats.global.requests_retried, 1);
                self.route(key);
                true
            }
            _ => false,
        }
    }

    fn on_keyspace_set(&mut self, key: Key, content: &[u8]) {
        let mut reader = Reader::new(content);
        let Ok(keyspace) = reader.i32().and_then(|_| reader.string()) else {
            return;
        };
        let keyspace: Rc<str> = keyspace.into();
        let Some(request) = self.request(key) else {
            return;
        };
        let session = request.session;
        if let Some(session) = self.session(session) {
            session.keyspace = Some(keyspace);
        }
    }

    /// The client may next ask any node: so it hears of its schema change only when all nodes know it.
    fn hold_for_agreement(&mut self, key: Key, opcode: Opcode, header_flags: u8, body: &[u8]) {
        let Some(me) = self.me.upgrade() else {
            return;
        };
        let Some(node) = self.request(key).and_then(|r| r.node) else {
            return;
        };
        let Some(address) = self.snapshot.nodes.get(node.as_usize()).map(|n| n.address) else {
            return;
        };
        let (sender, receiver) = oneshot::channel();
        let body = body.to_vec();
        let version = self.snapshot.version;
        add(&self.shared.stats.global.schema_agreements, 1);
        let control = self.shared.control.clone();
        tokio::task::spawn_local(async move {
            if control
                .send(ControlRequest::Agree(address, sender))
                .await
                .is_ok()
            {
                let _ = receiver.await;
            }
            let mut state = me.borrow_mut();
            state.adopt_snapshot();
            state.answer_clients(key, opcode, header_flags, &body, version);
        });
    }

    /// Sends a request once more to the node that it was on.
    pub fn send_again(&mut self, key: Key, node: NodeIndex) {
        let Some(request) = self.request(key) else {
            return;
        };
        // EXECUTE of a client of an older version carries the metadata id that is now known.
        if let Some(id) = request.prepared.as_ref().map(|p| p.id.clone()) {
            let newer = self.prepared(&id);
            if let (Some(request), Some(newer)) = (self.request(key), newer) {
                request.prepared = Some(newer);
            }
        }
        self.put_in_front(key, node);
        self.route(key);
    }

    /// What happens to a request whose link broke.
    pub fn on_request_lost(&mut self, key: Key, why: &str) {
        let Some(request) = self.request(key) else {
            return;
        };
        request.at = None;
        let node = request.node;
        if let Some(node) = node {
            sub(&self.nodes[node.as_usize()].stats.in_flight, 1);
        }
        self.leave_schedule(key, None);
        let Some(request) = self.request(key) else {
            return;
        };
        match &request.origin {
            Origin::PrepareAhead => return self.drop_request(key),
            Origin::InRange(statement) => {
                statement.forget_range();
                return self.drop_request(key);
            }
            Origin::Reprepare(id) => {
                let (id, waiting_node) = (id.clone(), node);
                self.drop_request(key);
                let Some(node) = waiting_node else { return };
                let waiting = self.repreparing.remove(&(id, node)).unwrap_or_default();
                // They had not been executed: any node may have them.
                for key in waiting {
                    self.route(key);
                }
                return;
            }
            Origin::Client | Origin::Part(..) => {}
        }
        if request.idempotent {
            add(&self.shared.stats.global.requests_retried, 1);
            return self.route(key);
        }
        let address = node
            .and_then(|n| self.snapshot.nodes.get(n.as_usize()))
            .map_or_else(String::new, |n| n.address.to_string());
        let text = format!(
            "Helenus: the connection to {address} broke while the request was in flight ({why}); \
             whether it took effect is not known"
        );
        self.fail_timeout(key, &text);
    }

    /// No node can take the request.
    pub fn fail_unavailable(&mut self, key: Key) {
        let Some(request) = self.request(key) else {
            return;
        };
        let mut fields = Vec::with_capacity(10);
        write::u16(&mut fields, request.consistency.0);
        write::i32(&mut fields, 1);
        write::i32(&mut fields, 0);
        let text = "Helenus: no Cassandra node can be reached now";
        self.fail(key, code::UNAVAILABLE, text, &fields);
    }

    /// Nobody knows what became of the request.
    pub fn fail_timeout(&mut self, key: Key, text: &str) {
        let Some(request) = self.request(key) else {
            return;
        };
        let mut fields = Vec::with_capacity(24);
        write::u16(&mut fields, request.consistency.0);
        write::i32(&mut fields, 0);
        write::i32(&mut fields, 1);
        let (class, opcode, session) = (request.class, request.opcode, request.session);
        let lwt = request.statement.as_ref().is_some_and(|s| s.facts.lwt);
        let is_read = request.statement.as_ref().is_some_and(|s| s.is_read());
        if is_read {
            fields.push(0);
            return self.fail(key, code::READ_TIMEOUT, text, &fields);
        }
        if matches!(class, Class::Write | Class::Lwt) || opcode == Opcode::Batch {
            let write_type = match opcode {
                Opcode::Batch => "BATCH",
                _ if lwt => "CAS",
                _ => "SIMPLE",
            };
            write::string(&mut fields, write_type);
            // The two bytes behind "CAS" count contentions. Only v5 has them, and the conversion to an
            // older version would replace the text.
            let newest = self
                .session(session)
                .is_some_and(|session| session.version == Version::V5);
            if write_type == "CAS" && newest {
                write::u16(&mut fields, 0);
            }
            return self.fail(key, code::WRITE_TIMEOUT, text, &fields);
        }
        self.fail(key, code::SERVER, text, &[]);
    }

    /// Answers a request with an error of the proxy's own.
    pub fn fail(&mut self, key: Key, code: i32, message: &str, fields: &[u8]) {
        let Some(request) = self.request(key) else {
            return;
        };
        match &request.origin {
            Origin::Client => {}
            Origin::PrepareAhead => return self.drop_request(key),
            Origin::InRange(statement) => {
                statement.forget_range();
                return self.drop_request(key);
            }
            Origin::Part(parent, index) => {
                let (parent, index) = (*parent, *index);
                self.drop_request(key);
                return self.on_part(parent, index, None);
            }
            Origin::Reprepare(id) => {
                let (id, node) = (id.clone(), request.node.or(request.admitted));
                self.drop_request(key);
                let Some(node) = node else { return };
                let waiting = self.repreparing.remove(&(id, node)).unwrap_or_default();
                for key in waiting {
                    self.fail(key, code, message, fields);
                }
                return;
            }
        }
        let clients = 1 + request.followers.len() as u64;
        add(&self.shared.stats.global.requests_failed, clients);
        let mut body = Vec::with_capacity(message.len() + fields.len() + 8);
        ErrorBody {
            code,
            message,
            fields,
        }
        .write(&mut body);
        let version = self.snapshot.version;
        self.answer_clients(key, Opcode::Error, 0, &body, version);
    }

    /// Answers a request's client, and those that shared it, with a body of version `from`.
    pub fn answer_clients(
        &mut self,
        key: Key,
        opcode: Opcode,
        header_flags: u8,
        body: &[u8],
        from: Version,
    ) {
        let Some(request) = self.request(key) else {
            return;
        };
        let (session, stream, started) = (request.session, request.client_stream, request.started);
        let followers = std::mem::take(&mut request.followers);
        let error = opcode == Opcode::Error;
        self.answer_converted(session, stream, opcode, header_flags, body, from);
        self.count(key, session, started, error);
        for other in followers {
            self.answer_converted(
                other.session,
                other.stream,
                opcode,
                header_flags,
                body,
                from,
            );
            self.count(key, other.session, other.started, error);
        }
        self.drop_request(key);
    }

    /// Counts one client's answer.
    fn count(&mut self, key: Key, session: Key, started: Instant, error: bool) {
        let us = self.now.saturating_duration_since(started).as_micros() as u64;
        self.completed.queries += 1;
        self.completed.latency_sum_us += us;
        let request = &self.requests[key.index as usize];
        if let Some(table) = &request.table {
            let counter = match &request.statement {
                Some(s) if s.is_read() => &table.reads,
                _ => &table.writes,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            table.latency.record(us);
            if error {
                table.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.shared.stats.latency[request.class as usize].record(us);
        if let Some(session) = self.session(session) {
            session.in_flight -= 1;
        }
    }

    /// Forgets a request and keeps its buffer for the next.
    pub fn drop_request(&mut self, key: Key) {
        if self.request(key).is_none() {
            return;
        }
        self.leave_schedule(key, None);
        let request = self.requests.remove(key.index as usize);
        self.in_flight_bytes -= request.body.len() + kept_bytes(&request);
        let (ticket, turn) = (request.ticket, request.turn);
        if request.body.capacity() <= 4096 && self.spare_bodies.len() < 1024 {
            self.spare_bodies.push(request.body);
        }
        if let Some(ticket) = ticket {
            self.leave_share(key, ticket);
        }
        if let Some(Turn::Has(partition)) = turn {
            self.leave_turn(partition, request.condition_failed);
        }
        if let Some(fan) = request.scan.and_then(|scan| scan.fan) {
            self.drop_waiting(&fan.children);
        }
        if let Some(by_owner) = request.by_owner {
            self.drop_waiting(&by_owner.children);
        }
    }
}

/// The body without Cassandra's remark about USE; `None` if it has none.
fn without_use_warning(header: &mut Header, prelude: &[u8], content: &[u8]) -> Option<Vec<u8>> {
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
