//! A node's answer on its way back to the client, and what stands in for one that does not come.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{
    ErrorBody, Header, JoinedBody, Opcode, Reader, ResultKind, Version, code, flags, result_kind,
    strip_prelude, write,
};

use crate::client::large::LargeAnswer;
use crate::client::outbox::LARGE;
use crate::engine::{Engine, LinkKey, RequestKey, SessionKey};
use crate::execution::paged_scan::{Piece, kept_bytes};
use crate::execution::retry::PartFailure;
use crate::execution::scatter_gather::{PartAnswer, PartOutcome};
use crate::gates::coalesce::Follower;
use crate::gates::lwt_queue::{Turn, is_not_applied};
use crate::memory::{Body, NO_MEMORY};
use crate::node::link::{LinkKind, Stream};
use crate::output::{HeldAnswer, Output};
use crate::request::Origin;
use crate::stats::add;

/// One of so many answers is learned from: workers share what they learn, and would take its memory
/// from each other with every answer.
const LEARNED_ONE_OF: u64 = 16;

/// Cassandra warns when a statement without a keyspace runs on a connection of another keyspace than
/// it was prepared in. On a shared link that says nothing about the client.
pub(crate) const USE_WARNING: &str =
    "`USE <keyspace>` with prepared statements is considered to be an anti-pattern";

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
        let version = link.version;
        let Stream::Busy(key) = link.release_stream(header.stream) else {
            return;
        };
        let now = self.cx.now;
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
        if opcode == Opcode::Error {
            let code = ErrorBody::parse(content).map_or(code::SERVER, |error| error.code);
            if self.on_node_error(key, node, content) || self.abandon_tail(key, code) {
                return;
            }
        }
        let sampled = self.cx.random().is_multiple_of(LEARNED_ONE_OF);
        let Some(request) = self.request(key) else {
            return;
        };
        match &request.origin {
            Origin::Client => {}
            Origin::InRange(statement) => {
                let statement = statement.clone();
                return self.on_range_prepared(key, &statement, node, opcode, content);
            }
            Origin::Reprepare { id, node: taught } => {
                let (id, taught) = (id.clone(), *taught);
                self.drop_request(key);
                return self.on_reprepared((&id, taught), node, opcode, content);
            }
            Origin::Part(parent, index) => {
                let (parent, index, untried) = (*parent, *index, request.plan);
                self.drop_request(key);
                let answer = PartAnswer {
                    header,
                    prelude,
                    content,
                    service_us,
                };
                return self.on_part(key, parent, index, PartOutcome::of_answer(answer, untried));
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
                            return self.fail(key, code::OVERLOADED, NO_MEMORY, &[]);
                        }
                    }
                }
                Ok(ResultKind::Rows) if request.turn.is_some() => {
                    request.condition_failed = is_not_applied(content);
                }
                Ok(ResultKind::SetKeyspace) => {
                    self.on_keyspace_set(key, content);
                    self.quarantine(link_key);
                }
                Ok(ResultKind::SchemaChange) => {
                    return self.hold_for_agreement(key, opcode, header.flags, body);
                }
                _ => {}
            }
        }
        let body = stripped.map_or(Body::Borrowed(body), Body::Joined);
        self.answer_clients(key, opcode, header.flags, body, version);
    }

    /// Handles errors that the client need not see; true if this was one.
    fn on_node_error(&mut self, key: RequestKey, node: NodeIndex, content: &[u8]) -> bool {
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
            code::UNAVAILABLE | code::OVERLOADED => {
                let maybe_applied = self
                    .request(key)
                    .is_some_and(|request| request.maybe_applied && request.is_write());
                if maybe_applied {
                    self.fail_untried(key, error.code, error.message, error.fields);
                }
                maybe_applied
            }
            _ => false,
        }
    }

    /// A connection has another keyspace now. Only USE may do that, over links of its own; whatever else
    /// has done it, nobody uses that connection again.
    fn quarantine(&mut self, link: LinkKey) {
        let shared = self
            .links
            .get(link)
            .is_some_and(|link| link.kind != LinkKind::Use);
        if shared {
            tracing::error!("a shared connection has changed its keyspace: closing it");
            self.kill_link(link);
        }
    }

    fn on_keyspace_set(&mut self, key: RequestKey, content: &[u8]) {
        let mut reader = Reader::new(content);
        let Ok(keyspace) = reader.i32().and_then(|_| reader.string()) else {
            return;
        };
        let keyspace: Rc<str> = keyspace.into();
        let Some(request) = self.request(key) else {
            return;
        };
        let session = request.session;
        self.clients.set_keyspace(session, keyspace);
    }

    /// The client may next ask any node: so it hears of its schema change only when all nodes that are up
    /// know it, or after `cluster.schema_agreement_max_ms`.
    fn hold_for_agreement(
        &mut self,
        key: RequestKey,
        opcode: Opcode,
        header_flags: u8,
        body: &[u8],
    ) {
        let version = self.cx.snapshot.version;
        let node = self.request(key).and_then(|request| request.node);
        let node = node.and_then(|node| self.cx.snapshot.nodes.get(node.as_usize()));
        let Some(coordinator) = node.map(|node| node.address) else {
            return self.answer_clients(key, opcode, header_flags, body, version);
        };
        if let Some(request) = self.request(key) {
            // It has been executed: no time-out can undo that.
            request.is_held = true;
        }
        add(&self.cx.shared.stats.global.schema_agreements, 1);
        let limit = Duration::from_millis(self.cx.shared.config.cluster.schema_agreement_max_ms);
        self.cx.ask(Output::Agree(HeldAnswer {
            request: key,
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
        let HeldAnswer {
            request,
            opcode,
            header_flags,
            body,
            version,
            ..
        } = held;
        self.answer_clients(*request, *opcode, *header_flags, &body[..], *version);
        self.settle();
    }

    /// Sends a request once more to the node that it was on.
    pub(crate) fn send_again(&mut self, key: RequestKey, node: NodeIndex) {
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

    /// What happens to a request whose link broke, after so many writes to it.
    pub(crate) fn on_request_lost(&mut self, key: RequestKey, writes: u64, why: &str) {
        let Some(request) = self.request(key) else {
            return;
        };
        request.at = None;
        let node = request.node;
        let has_left = writes > request.sent_behind;
        request.maybe_applied |= has_left;
        self.leave_schedule(key, None);
        let Some(request) = self.request(key) else {
            return;
        };
        match &request.origin {
            Origin::InRange(statement) => {
                let statement = statement.clone();
                return self.on_range_lost(key, &statement);
            }
            Origin::Reprepare { id, node } => {
                let (id, node) = (id.clone(), *node);
                self.drop_request(key);
                // They had not been executed: any node may have them.
                for key in self.take_repreparing(&id, node) {
                    self.route(key);
                }
                return;
            }
            Origin::Client | Origin::Part(..) => {}
        }
        if request.idempotent || !has_left {
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

    /// No node can take the request.
    pub(crate) fn fail_unavailable(&mut self, key: RequestKey) {
        let Some(request) = self.request(key) else {
            return;
        };
        let mut fields = Vec::with_capacity(10);
        write::u16(&mut fields, request.consistency.0);
        write::i32(&mut fields, 1);
        write::i32(&mut fields, 0);
        let text = "Helenus: no Cassandra node can be reached now";
        self.fail_untried(key, code::UNAVAILABLE, text, &fields);
    }

    /// Answers with an error that says that the request was not tried; or, if it is a write that a node
    /// may have applied without saying so, with a time-out.
    pub(crate) fn fail_untried(&mut self, key: RequestKey, code: i32, text: &str, fields: &[u8]) {
        let Some(request) = self.request(key) else {
            return;
        };
        if request.maybe_applied && request.is_write() {
            let text = format!(
                "Helenus: a node lost its connection before it answered this write, and then no other \
                 could take it; whether it took effect is not known ({text})"
            );
            return self.fail_timeout(key, &text);
        }
        self.fail(key, code, text, fields);
    }

    /// Nobody knows what became of the request.
    pub(crate) fn fail_timeout(&mut self, key: RequestKey, text: &str) {
        let Some(request) = self.request(key) else {
            return;
        };
        let mut fields = Vec::with_capacity(24);
        write::u16(&mut fields, request.consistency.0);
        write::i32(&mut fields, 0);
        write::i32(&mut fields, 1);
        let (is_write, opcode, session) = (request.is_write(), request.opcode, request.session);
        let lwt = request.statement.as_ref().is_some_and(|s| s.facts.lwt);
        let is_read = request.statement.as_ref().is_some_and(|s| s.is_read());
        if is_read {
            self.note_read_timeout(key);
            fields.push(0);
            return self.fail(key, code::READ_TIMEOUT, text, &fields);
        }
        if is_write {
            let write_type = match opcode {
                Opcode::Batch => "BATCH",
                _ if lwt => "CAS",
                _ => "SIMPLE",
            };
            write::string(&mut fields, write_type);
            // The two bytes behind "CAS" count contentions. Only v5 has them, and the conversion to an
            // older version would replace the text.
            let newest = self.clients.version_of(session) == Some(Version::V5);
            if write_type == "CAS" && newest {
                write::u16(&mut fields, 0);
            }
            return self.fail(key, code::WRITE_TIMEOUT, text, &fields);
        }
        self.fail(key, code::SERVER, text, &[]);
    }

    /// Answers a request with an error of the proxy's own.
    pub(crate) fn fail(&mut self, key: RequestKey, code: i32, message: &str, fields: &[u8]) {
        let Some(request) = self.request(key) else {
            return;
        };
        match &request.origin {
            Origin::Client => {}
            Origin::InRange(statement) => {
                let statement = statement.clone();
                return self.on_range_lost(key, &statement);
            }
            Origin::Part(parent, index) => {
                let (parent, index, untried) = (*parent, *index, request.plan);
                self.drop_request(key);
                let error = ErrorBody {
                    code,
                    message,
                    fields,
                };
                let failure = PartFailure::of_proxy(error, untried);
                return self.on_part(key, parent, index, PartOutcome::Failed(failure));
            }
            Origin::Reprepare { id, node } => {
                let (id, node) = (id.clone(), *node);
                self.drop_request(key);
                for key in self.take_repreparing(&id, node) {
                    if !self.abandon_tail(key, code) {
                        self.fail_untried(key, code, message, fields);
                    }
                }
                return;
            }
        }
        let clients = 1 + request.followers.len() as u64;
        add(&self.cx.shared.stats.global.requests_failed, clients);
        let mut body = Vec::with_capacity(message.len() + fields.len() + 8);
        ErrorBody {
            code,
            message,
            fields,
        }
        .write(&mut body);
        let version = self.cx.snapshot.version;
        self.answer_clients(key, Opcode::Error, 0, &body[..], version);
    }

    /// Answers a request's client, and those that shared it, with a body of version `from`.
    pub(crate) fn answer_clients<'a>(
        &mut self,
        key: RequestKey,
        opcode: Opcode,
        header_flags: u8,
        body: impl Into<Body<'a>>,
        from: Version,
    ) {
        let body = body.into();
        let Some(request) = self.request(key) else {
            return;
        };
        let (session, stream, started) = (request.session, request.client_stream, request.started);
        let followers = std::mem::take(&mut request.followers);
        let error = opcode == Opcode::Error;
        let own = Follower {
            session,
            stream,
            started,
        };
        let clients = std::iter::once(own).chain(followers);
        if body.len() < LARGE {
            for client in clients {
                let (session, stream) = (client.session, client.stream);
                self.answer_converted(session, stream, opcode, header_flags, &body, from);
                self.count(key, session, client.started, error);
            }
        } else {
            let mut large = LargeAnswer::new(opcode, header_flags, body, from);
            for client in clients {
                self.answer_large(client.session, client.stream, &mut large);
                self.count(key, client.session, client.started, error);
            }
        }
        self.drop_request(key);
    }

    /// Counts one client's answer.
    fn count(&mut self, key: RequestKey, session: SessionKey, started: Instant, error: bool) {
        let us = self.cx.now.saturating_duration_since(started).as_micros() as u64;
        self.completed.queries += 1;
        self.completed.latency_sum_us += us;
        let Some(request) = self.requests.get(key) else {
            return;
        };
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
        self.cx.shared.stats.latency[request.class as usize].record(us);
        self.clients.in_flight_ended(session);
    }

    /// Forgets a request and keeps its buffer for the next.
    pub(crate) fn drop_request(&mut self, key: RequestKey) {
        if self.request(key).is_none() {
            return;
        }
        self.leave_schedule(key, None);
        let Some(request) = self.requests.remove(key) else {
            return;
        };
        self.cx
            .memory
            .sub(request.body.len() + kept_bytes(&request));
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
            self.drop_waiting(&fan.children());
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
