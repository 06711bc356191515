//! How requests end: with an answer, with an error, or because nobody waits for them any more.

use std::time::{Duration, Instant};

use helenus_wire::{ErrorBody, Opcode, Version, code, write};

use crate::client::large::LargeAnswer;
use crate::client::outbox::LARGE;
use crate::engine::{ClientRequestKey, Engine, NodeRequestKey, SessionKey};
use crate::execution::Execution;
use crate::execution::outcome::Outcome;
use crate::gates::lwt_queue::Turn;
use crate::memory::Body;
use crate::request::{Owner, Query, Stage};
use crate::stats::add;
use crate::timeouts::timed;
use crate::way::Reply;

/// No request has a shorter time-out.
const LIMIT_MIN: Duration = Duration::from_millis(100);

impl Engine {
    /// Answers a request's client, and those that share it.
    pub(crate) fn answer_clients(&mut self, key: ClientRequestKey, reply: Reply<'_>) {
        let Some(request) = self.requests.clients.get_mut(key) else {
            return;
        };
        let own = request.caller;
        let followers = std::mem::take(&mut request.followers);
        let Reply {
            opcode,
            header_flags,
            body,
            version,
        } = reply;
        let error = opcode == Opcode::Error;
        let clients = std::iter::once(own).chain(followers);
        if body.len() < LARGE {
            for client in clients {
                let (session, stream) = (client.session, client.stream);
                self.answer_converted(session, stream, opcode, header_flags, &body, version);
                self.count(key, session, client.started, error);
            }
        } else {
            let mut large = LargeAnswer::new(opcode, header_flags, body, version);
            for client in clients {
                self.answer_large(client.session, client.stream, &mut large);
                self.count(key, client.session, client.started, error);
            }
        }
        self.end_request(key);
    }

    /// Counts one client's answer.
    fn count(&mut self, key: ClientRequestKey, session: SessionKey, started: Instant, error: bool) {
        let us = self.cx.now.saturating_duration_since(started).as_micros() as u64;
        self.completed.queries += 1;
        self.completed.latency_sum_us += us;
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let query = &request.query;
        if let Some(table) = &query.table {
            let counter = match query.is_read() {
                true => &table.reads,
                false => &table.writes,
            };
            add(counter, 1);
            table.latency.record(us);
            if error {
                add(&table.errors, 1);
            }
        }
        self.cx.shared.stats.latency[query.class as usize].record(us);
        if let Some(session) = self.session(session) {
            session.in_flight -= 1;
        }
    }

    /// Answers with a node's error.
    pub(crate) fn answer_with_error(&mut self, key: ClientRequestKey, error: ErrorBody<'_>) {
        let mut body = Vec::with_capacity(error.message.len() + error.fields.len() + 8);
        error.write(&mut body);
        let reply = Reply {
            opcode: Opcode::Error,
            header_flags: 0,
            body: Body::Borrowed(&body),
            version: self.cx.snapshot.version,
        };
        self.answer_clients(key, reply);
    }

    /// Answers with an error of the proxy's own.
    pub(crate) fn fail_client(
        &mut self,
        key: ClientRequestKey,
        code: i32,
        message: &str,
        fields: &[u8],
    ) {
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let clients = 1 + request.followers.len() as u64;
        add(&self.cx.shared.stats.global.requests_failed, clients);
        let error = ErrorBody {
            code,
            message,
            fields,
        };
        self.answer_with_error(key, error);
    }

    /// A message has come to nothing: whoever waits for it hears why.
    pub(crate) fn fail(&mut self, key: NodeRequestKey, code: i32, message: &str, fields: &[u8]) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let untried = request.target.untried();
        match &request.owner {
            Owner::Whole(client) => {
                let client = *client;
                self.drop_message(key);
                self.fail_client(client, code, message, fields);
            }
            Owner::Part(client, part) => {
                let (client, part) = (*client, *part);
                let error = ErrorBody {
                    code,
                    message,
                    fields,
                };
                self.on_part_outcome(client, key, part, Outcome::of_proxy(error, untried));
            }
            Owner::InRange(statement) => {
                let statement = statement.clone();
                self.on_range_lost(key, &statement);
            }
            Owner::Reprepare { id, node } => {
                let (id, node) = (id.clone(), *node);
                self.drop_message(key);
                for key in self.links.take_repreparing(&id, node) {
                    self.fail_unsent(key, code, message, fields);
                }
            }
        }
    }

    /// A message that has not been sent cannot be: whoever waits for it may know better than to fail.
    pub(crate) fn fail_unsent(
        &mut self,
        key: NodeRequestKey,
        code: i32,
        message: &str,
        fields: &[u8],
    ) {
        match self.end_tail(key, code, message, fields) {
            true => {}
            false => self.fail_untried(key, code, message, fields),
        }
    }

    /// Lets a page that was read in parts go on without a message for the rest of it; false if it is
    /// something else.
    pub(crate) fn end_tail(
        &mut self,
        key: NodeRequestKey,
        code: i32,
        message: &str,
        fields: &[u8],
    ) -> bool {
        let owner = self.requests.nodes.get(key).map(|request| &request.owner);
        let Some(Owner::Whole(client)) = owner else {
            return false;
        };
        let client = *client;
        let request = self.requests.clients.get(client);
        if !request.is_some_and(|request| matches!(request.execution, Execution::PagedScan(_))) {
            return false;
        }
        self.drop_message(key);
        let error = ErrorBody {
            code,
            message,
            fields,
        };
        self.on_whole_failed(client, error);
        true
    }

    /// No node can take the message.
    pub(crate) fn fail_unavailable(&mut self, key: NodeRequestKey) {
        let Some(query) = self.requests.query(key) else {
            return;
        };
        let mut fields = Vec::with_capacity(10);
        write::u16(&mut fields, query.consistency.0);
        write::i32(&mut fields, 1);
        write::i32(&mut fields, 0);
        let text = "Helenus: no Cassandra node can be reached now";
        self.fail_untried(key, code::UNAVAILABLE, text, &fields);
    }

    /// Answers with an error that says that the request was not tried; or, if it is a write that a node
    /// may have applied without saying so, with a time-out.
    pub(crate) fn fail_untried(
        &mut self,
        key: NodeRequestKey,
        code: i32,
        text: &str,
        fields: &[u8],
    ) {
        if self.may_have_written(key) {
            let text = format!(
                "Helenus: a node lost its connection before it answered this write, and then no other \
                 could take it; whether it took effect is not known ({text})"
            );
            return self.fail_timeout(key, &text);
        }
        self.fail(key, code, text, fields);
    }

    /// Whether a message is a write that a node may have applied without saying so.
    pub(crate) fn may_have_written(&self, key: NodeRequestKey) -> bool {
        let request = self.requests.nodes.get(key);
        let query = self.requests.query(key);
        request.is_some_and(|request| request.maybe_applied)
            && query.is_some_and(|query| query.is_write())
    }

    /// Nobody knows what became of a message.
    pub(crate) fn fail_timeout(&mut self, key: NodeRequestKey, text: &str) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let Some(query) = self.requests.query_of(request) else {
            return;
        };
        let newest = self.is_newest(request.owner.client());
        let (code, fields) = timed_out(query, newest);
        self.note_read_timeout(key);
        self.fail(key, code, text, &fields);
    }

    /// Whether a client speaks v5.
    fn is_newest(&self, client: Option<ClientRequestKey>) -> bool {
        let client = client.and_then(|client| self.requests.clients.get(client));
        let session = client.and_then(|client| self.sessions.get(client.caller.session));
        session.is_some_and(|session| session.version == Version::V5)
    }

    /// A read has timed out. If it was an aggregate that was sent as it is, the next one is sampled.
    pub(crate) fn note_read_timeout(&self, key: NodeRequestKey) {
        let owner = self.requests.nodes.get(key).map(|request| &request.owner);
        let Some(Owner::Whole(client)) = owner else {
            return;
        };
        let client = self.requests.clients.get(*client);
        if let Some(client) = client
            && let Some(statement) = &client.query.statement
        {
            client.execution.note_timeout(&statement.learned);
        }
    }

    /// Gives up on what has waited for too long.
    pub(crate) fn expire_requests(&mut self) {
        let now = self.cx.now;
        let mut late: Vec<(NodeRequestKey, Duration)> = Vec::new();
        for (key, request) in self.requests.nodes.iter() {
            // In a node's queue it has another bound.
            let age = now.saturating_duration_since(request.progress);
            if request.is_queued() || age <= LIMIT_MIN {
                continue;
            }
            let Some(query) = self.requests.query_of(request) else {
                continue;
            };
            let limit = self.limit_of(query, request.node);
            if age > limit {
                late.push((key, limit));
            }
        }
        let mut never_begun: Vec<(ClientRequestKey, Duration)> = Vec::new();
        for (key, request) in &self.requests.clients {
            let age = now.saturating_duration_since(request.caller.started);
            if age > LIMIT_MIN && request.is_waiting_to_begin() {
                let limit = self.limit_of(&request.query, None);
                if age > limit {
                    never_begun.push((key, limit));
                }
            }
        }
        // What waits for a PREPARE of the proxy's own goes on once that is given up.
        late.sort_by_key(|(key, _)| !self.is_reprepare(*key));
        for (key, limit) in late {
            self.on_message_expired(key, limit);
        }
        for (key, limit) in never_begun {
            self.on_request_expired(key, limit);
        }
    }

    /// How long a message may be at its node.
    fn limit_of(&self, query: &Query, node: Option<helenus_policy::ring::NodeIndex>) -> Duration {
        if let Some(limit) = self.cx.shared.config.request_timeout() {
            return limit;
        }
        let node = node.and_then(|at| self.cx.snapshot.nodes.get(at.as_usize()));
        let timeouts = node.and_then(|node| node.timeouts).unwrap_or_default();
        timeouts.limit(timed(query))
    }

    fn on_message_expired(&mut self, key: NodeRequestKey, limit: Duration) {
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        if self.cx.now.saturating_duration_since(request.progress) <= limit {
            // What it has waited for was given up a moment ago.
            return;
        }
        let node = request.node;
        if let Some(flight) = request.land() {
            self.links.give_up(&flight);
            if let Some(node) = node {
                add(&self.nodes[node.as_usize()].stats.counters.timeouts, 1);
            }
        }
        add(&self.cx.shared.stats.global.requests_timed_out, 1);
        if self.on_reprepare_lost(key) {
            return;
        }
        let text = match node.and_then(|n| self.cx.snapshot.nodes.get(n.as_usize())) {
            Some(node) => format!("Helenus: {} did not answer within {limit:?}", node.address),
            None => no_node_within(limit),
        };
        self.fail_timeout(key, &text);
    }

    fn on_request_expired(&mut self, key: ClientRequestKey, limit: Duration) {
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        add(&self.cx.shared.stats.global.requests_timed_out, 1);
        let (code, fields) = timed_out(&request.query, self.is_newest(Some(key)));
        self.fail_client(key, code, &no_node_within(limit), &fields);
    }

    /// Whether anyone still waits for a client request.
    pub(crate) fn is_wanted(&self, key: ClientRequestKey) -> bool {
        let Some(request) = self.requests.clients.get(key) else {
            return false;
        };
        let followers = request.followers.iter().map(|follower| follower.session);
        let mut clients = std::iter::once(request.caller.session).chain(followers);
        clients.any(|client| self.sessions.contains_key(client))
    }

    /// Whether a message that has not been sent may be forgotten: its client is gone, and it would
    /// only have read. What a client has written before it left is written, as it is by a node.
    pub(crate) fn is_in_vain(&self, key: NodeRequestKey) -> bool {
        let Some(request) = self.requests.nodes.get(key) else {
            return false;
        };
        let is_read = self.requests.query_of(request).is_some_and(Query::is_read);
        let client = request.owner.client();
        is_read && client.is_some_and(|client| !self.is_wanted(client))
    }

    /// Forgets a message that nobody waits for, and the client request if that was all of it.
    pub(crate) fn cancel(&mut self, key: NodeRequestKey) {
        let owner = self.requests.nodes.get(key).map(|request| &request.owner);
        match owner {
            Some(Owner::Whole(client)) => self.end_request(*client),
            _ => self.drop_message(key),
        }
    }

    /// Forgets reads that wait for a node, or for parts of their page, and whose clients have left.
    pub(crate) fn cancel_unwanted(&mut self) {
        if !std::mem::take(&mut self.sessions_left) {
            return;
        }
        let in_flight = |message: NodeRequestKey| {
            let message = self.requests.nodes.get(message);
            message.is_some_and(|message| message.flight().is_some())
        };
        let requests = self.requests.clients.iter().filter(|(key, request)| {
            request.query.is_read()
                && !request.execution.whole().is_some_and(in_flight)
                && !self.is_wanted(*key)
        });
        let in_vain: Vec<ClientRequestKey> = requests.map(|(key, _)| key).collect();
        let number = in_vain.len() as u64;
        add(&self.cx.shared.stats.global.requests_cancelled, number);
        for key in in_vain {
            self.end_request(key);
        }
    }

    /// Forgets a message. It is on no link.
    pub(crate) fn drop_message(&mut self, key: NodeRequestKey) {
        self.leave_schedule(key, None);
        self.requests.nodes.remove(&self.cx.memory, key);
    }

    /// Forgets a client request, and those of its messages that no node has.
    pub(crate) fn end_request(&mut self, key: ClientRequestKey) {
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let (whole, parts) = (request.execution.whole(), request.execution.children());
        if let Some(whole) = whole {
            self.drop_message(whole);
        }
        for part in parts {
            let message = self.requests.nodes.get(part);
            // What is in flight comes back to nobody.
            if message.is_some_and(|message| !matches!(message.stage, Stage::InFlight(..))) {
                self.drop_message(part);
            }
        }
        let Some(ended) = self.requests.remove(&self.cx.memory, key) else {
            return;
        };
        if let Some(ticket) = ended.ticket {
            self.leave_share(key, ticket);
        }
        if let Some(Turn::Has(partition)) = ended.turn {
            self.leave_turn(partition, ended.condition_failed);
        }
    }
}

fn no_node_within(limit: Duration) -> String {
    format!("Helenus: no node took the request within {limit:?}")
}

/// The code and fields of the error that says that nobody knows what became of a query. `newest`: its
/// client speaks v5.
fn timed_out(query: &Query, newest: bool) -> (i32, Vec<u8>) {
    let mut fields = Vec::with_capacity(24);
    write::u16(&mut fields, query.consistency.0);
    write::i32(&mut fields, 0);
    write::i32(&mut fields, 1);
    if query.is_read() {
        fields.push(0);
        return (code::READ_TIMEOUT, fields);
    }
    if !query.is_write() {
        return (code::SERVER, Vec::new());
    }
    let lwt = query.statement.as_ref().is_some_and(|s| s.facts.lwt);
    let write_type = match query.opcode {
        Opcode::Batch => "BATCH",
        _ if lwt => "CAS",
        _ => "SIMPLE",
    };
    write::string(&mut fields, write_type);
    // The two bytes behind "CAS" count contentions. Only v5 has them, and the conversion to an
    // older version would replace the text.
    if write_type == "CAS" && newest {
        write::u16(&mut fields, 0);
    }
    (code::WRITE_TIMEOUT, fields)
}
