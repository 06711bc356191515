//! How requests end: with an answer, with an error, or because nobody waits for them any more.

use helenus_wire::{ErrorBody, Opcode, Version, code, write};

use crate::backlog::{Failed, How};
use crate::exec::attempt_end::AttemptEnd;
use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::memory::Body;
use crate::pipeline::client_answer::ClientAnswer;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{NodeRequest, Stage};
use crate::pipeline::query::Query;
use crate::pipeline::request::Caller;
use crate::session::large::LargeAnswer;
use crate::session::node_answer::NodeAnswer;
use crate::session::outbox::LARGE;
use crate::stats::add;

/// A node's answer to a client request, or what the proxy makes of it.
pub(crate) struct Reply<'a> {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: Body<'a>,
    pub version: Version,
}

impl Engine {
    /// Answers a request's client, and those that share it.
    pub(crate) fn answer_clients(&mut self, key: ClientRequestKey, reply: Reply<'_>) {
        let answer = NodeAnswer {
            opcode: reply.opcode,
            header_flags: reply.header_flags,
            body: &reply.body,
            version: reply.version,
        };
        let reply = match features::shown(self, key, &answer) {
            None => reply,
            Some(shown) => Reply {
                opcode: shown.opcode,
                header_flags: shown.header_flags,
                body: Body::Joined(shown.body.into()),
                version: reply.version,
            },
        };
        let Some(request) = self.requests.clients.get_mut(key) else {
            return;
        };
        request.features.on_reply(reply.body.len(), self.cx.now);
        let own = request.caller();
        let followers = request.take_followers();
        let with_it = request.features.take_answered_with();
        let Reply {
            opcode,
            header_flags,
            body,
            version,
        } = reply;
        for other in with_it {
            let reply = Reply {
                opcode,
                header_flags,
                body: Body::Borrowed(&body),
                version,
            };
            self.answer_clients(other, reply);
        }
        let clients = std::iter::once(own).chain(followers);
        if body.len() < LARGE {
            for client in clients {
                let answer = NodeAnswer {
                    opcode,
                    header_flags,
                    body: &body,
                    version,
                };
                let (clients, cx) = (&mut self.clients, &mut self.cx);
                clients.answer_converted(cx, client.session, client.stream, answer);
                self.count(key, client, answer);
            }
        } else {
            let mut large = LargeAnswer::new(opcode, header_flags, body, version);
            for client in clients {
                let (clients, cx) = (&mut self.clients, &mut self.cx);
                clients.answer_large(cx, client.session, client.stream, &mut large);
                let answer = NodeAnswer {
                    opcode,
                    header_flags,
                    body: large.bytes(),
                    version,
                };
                self.count(key, client, answer);
            }
        }
        self.end_request(key);
    }

    /// Counts one client's answer.
    fn count(&mut self, key: ClientRequestKey, client: Caller, answer: NodeAnswer<'_>) {
        let waited = self.cx.now.saturating_duration_since(client.started);
        let us = waited.as_micros() as u64;
        let is_error = answer.opcode == Opcode::Error;
        self.note_completed(us);
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
            if is_error {
                add(&table.errors, 1);
            }
        }
        let answered = ClientAnswer {
            client,
            us,
            class: query.class,
            header_flags: query.header_flags,
            answer,
        };
        self.cx.shared.stats.latency[query.class as usize].record(us);
        if self.statements.is_counted() {
            request.asked().note_asked(&self.cx, us);
            features::on_sampled(self, key, &answered);
        }
        features::on_client_answered(self, key, &answered);
        self.clients.in_flight_ended(client.session);
    }

    /// Answers with an error whose fields are in that version.
    pub(crate) fn answer_with_error(
        &mut self,
        key: ClientRequestKey,
        error: ErrorBody<'_>,
        version: Version,
    ) {
        let mut body = Vec::with_capacity(error.message.len() + error.fields.len() + 8);
        error.write(&mut body);
        let reply = Reply {
            opcode: Opcode::Error,
            header_flags: 0,
            body: Body::Borrowed(&body),
            version,
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
        add(
            &self.cx.shared.stats.global.requests_failed,
            request.clients(),
        );
        let error = ErrorBody {
            code,
            message,
            fields,
        };
        self.answer_with_error(key, error, self.cx.snapshot.version());
    }

    /// A node request has come to nothing: whoever waits for it hears why.
    pub(crate) fn fail(&mut self, key: NodeRequestKey, code: i32, text: &str, fields: &[u8]) {
        self.note_failed(key, How::Answered, code, text, fields);
    }

    /// As `fail`, with an error that says that it was not tried; or, if it is a write that a node may
    /// have applied without saying so, with a time-out.
    pub(crate) fn fail_untried(
        &mut self,
        key: NodeRequestKey,
        code: i32,
        text: &str,
        fields: &[u8],
    ) {
        self.note_failed(key, How::Untried, code, text, fields);
    }

    /// A node request cannot be sent in this form: whoever waits for it may know another.
    pub(crate) fn fail_unsendable(
        &mut self,
        key: NodeRequestKey,
        code: i32,
        text: &str,
        fields: &[u8],
    ) {
        self.note_failed(key, How::Unsendable, code, text, fields);
    }

    /// Nobody knows what became of a node request.
    pub(crate) fn fail_timeout(&mut self, key: NodeRequestKey, text: &str) {
        self.note_failed(key, How::TimedOut, code::SERVER, text, &[]);
    }

    fn note_failed(&mut self, key: NodeRequestKey, how: How, code: i32, text: &str, fields: &[u8]) {
        let ended = Failed {
            how,
            code,
            text: text.to_owned(),
            fields: fields.to_vec(),
        };
        self.fail_later(key, ended);
    }

    /// No node can take the node request.
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

    /// True if a node request is a write that a node may have applied without saying so.
    pub(crate) fn may_have_written(&self, key: NodeRequestKey) -> bool {
        let request = self.requests.nodes.get(key);
        let query = self.requests.query(key);
        request.is_some_and(NodeRequest::is_in_doubt) && query.is_some_and(|query| query.is_write())
    }

    /// True if a client speaks v5.
    pub(crate) fn is_newest(&self, client: Option<ClientRequestKey>) -> bool {
        let client = client.and_then(|client| self.requests.clients.get(client));
        let version = client.and_then(|client| self.clients.version_of(client.caller().session));
        version == Some(Version::V5)
    }

    /// A read has timed out. If it was a scan, its statement is not taken for short; if it was an aggregate
    /// that was sent as it is, the next one is sampled.
    pub(crate) fn note_read_timeout(&self, key: NodeRequestKey) {
        if let Some(query) = self.requests.query(key) {
            query.note_timeout(self.cx.now);
        }
        let request = self.requests.nodes.get(key);
        let client = request.and_then(|request| request.whole());
        let client = client.and_then(|client| self.requests.clients.get(client));
        if let Some(client) = client
            && let Some(statement) = &client.query.statement
        {
            client.execution.note_timeout(&statement.learned);
        }
    }

    /// True if anyone still waits for a client request.
    pub(crate) fn is_wanted(&self, key: ClientRequestKey) -> bool {
        let Some(request) = self.requests.clients.get(key) else {
            return false;
        };
        let mut callers = request.callers();
        callers.any(|caller| self.clients.is_there(caller.session))
    }

    /// True if a node request that has not been sent may be forgotten: its client is gone, and it would
    /// only have read. A client's write is carried out even if the client has left, as it is by a node.
    pub(crate) fn is_abandoned(&self, key: NodeRequestKey) -> bool {
        let Some(request) = self.requests.nodes.get(key) else {
            return false;
        };
        let is_read = self.requests.query_of(request).is_some_and(Query::is_read);
        let client = request.client();
        is_read && client.is_some_and(|client| !self.is_wanted(client))
    }

    /// Forgets a node request. It is on no link.
    pub(crate) fn drop_node_request(&mut self, key: NodeRequestKey) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        if !matches!(request.stage(), Stage::Unplaced) {
            self.leave_queue(key, None);
        }
        // Its client request keeps where the time went.
        if let Some(ended) = self.requests.nodes.remove(&self.cx.memory, key)
            && let Some(client) = ended.client()
            && let Some(client) = self.requests.clients.get_mut(client)
        {
            client.timing_mut().note(&ended);
        }
    }

    /// A node request has left a node, or will not go to one, after this time at it.
    #[inline]
    pub(crate) fn note_attempt(&mut self, key: NodeRequestKey, us: u64, end: AttemptEnd) {
        features::on_attempt(self, key, us, end);
    }

    /// Forgets a client request, and those of its node requests that no node has.
    pub(crate) fn end_request(&mut self, key: ClientRequestKey) {
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let wholes = request.execution.wholes();
        let parts = request.execution.children();
        for whole in wholes {
            self.give_up(whole);
            self.drop_node_request(whole);
        }
        for part in parts {
            let node_request = self.requests.nodes.get(part);
            // An answer to one in flight comes back to nobody.
            if node_request.is_some_and(|request| !request.is_in_flight()) {
                self.drop_node_request(part);
            }
        }
        if let Some(mut left) = self.requests.remove(&self.cx.memory, key) {
            features::on_end(self, key, &mut left);
        }
    }
}
