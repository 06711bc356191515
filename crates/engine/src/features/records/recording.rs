//! Describes requests that have ended, for people: slow ones, errors, and what statements cost.
//!
//! Most requests never come here: one answer in 16 is counted for its statement, and what is slow or an error
//! is described, a bounded number in each tick.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{
    ErrorBody, Opcode, PrepareView, QueryView, Reader, RowsView, Version, code, flags,
    strip_prelude,
};
use rustc_hash::FxHasher;

use crate::engine::Engine;
use crate::features::records::{
    Answered, Described, Digest, ErrorRecord, Looked, SlowRequest, is_not_understood, shown_message,
};
use crate::keys::{ClientRequestKey, PoolKey, SessionKey};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::query::Query;
use crate::pipeline::request::{Caller, ClientRequest};
use crate::pipeline::timing::Trail;
use crate::session::answers::NodeAnswer;
use crate::statement::prepared::Statement;
use crate::stats::add;

impl Query {
    /// What it is shown as; None if nobody here knows what it asks.
    pub(crate) fn digest(&self, error: Option<i32>) -> Option<Digest> {
        let prepared = self.prepared.as_ref();
        let is_broken = is_not_understood(self.opcode, error);
        let of = |statement: &Statement| match is_broken {
            true => Digest::of_broken(&statement.text),
            false => statement.digest().clone(),
        };
        match (&self.statement, self.opcode) {
            (Some(statement), Opcode::Prepare) => {
                Some(Digest::from(format!("PREPARE {}", of(statement).text)))
            }
            (Some(statement), _) => Some(of(statement)),
            (None, Opcode::Batch) => Some(Digest::from(match prepared {
                Some(first) => format!("BATCH of {} …", first.statement.digest().text),
                None => "BATCH".to_owned(),
            })),
            (None, _) => None,
        }
    }

    /// In force where its text names no keyspace.
    pub(crate) fn keyspace_in_force(&self) -> Option<&str> {
        let names_it = |statement: &Arc<Statement>| statement.facts.keyspace.is_some();
        if self.statement.as_ref().is_some_and(names_it) {
            return None;
        }
        let prepared = self.prepared.as_ref();
        let of_prepared = prepared.and_then(|prepared| prepared.keyspace.as_deref());
        let own = || self.own_keyspace();
        of_prepared.or_else(own).or(self.keyspace.as_deref())
    }

    /// The keyspace that the request names beside its text, as version 5 allows.
    fn own_keyspace(&self) -> Option<&str> {
        let mut reader = Reader::new(&self.body);
        if self.header_flags & flags::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map().ok()?;
        }
        own_keyspace(self.opcode, self.version, reader.rest())
    }
}

impl Engine {
    /// Counts an answer for its statement, and for all that it stands for.
    #[inline(never)]
    pub(crate) fn record_cost(&mut self, key: ClientRequestKey, us: u64, answer: NodeAnswer<'_>) {
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let (query, trail) = (request.asked(), &request.trail);
        let answered = Answered {
            took_us: us,
            at_nodes_us: trail.at_nodes_us.into(),
            rows: rows_in(&answer),
            bytes: answer.body.len(),
        };
        let code = error_in(&answer).map(|error| error.code);
        let Some(digest) = query.digest(code) else {
            return;
        };
        let cost_key = self.cost_key(query, &digest);
        if !self.records.knows(cost_key) {
            let asked = self.described(query, Some(&digest), None);
            self.records.learn(cost_key, asked);
        }
        self.records.note_cost(cost_key, &answered);
    }

    /// Describes a request that is slow, ends with an error, or is traced.
    #[cold]
    pub(crate) fn record_remarkable(
        &mut self,
        key: ClientRequestKey,
        client: Caller,
        (us, looked): (u64, Looked),
        answer: NodeAnswer<'_>,
    ) {
        let error = error_in(&answer);
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let (query, code) = (request.asked(), error.as_ref().map(|error| error.code));
        let class = query.class;
        let is_slow = self.records.is_slow(class, us);
        let is_shown = is_slow && self.records.takes_slow(class);
        let body = (query.header_flags, query.body.as_slice());
        let traced = self.records.traces.wants(looked, is_slow, body);
        if traced == Err(true) {
            add(&self.cx.shared.stats.global.traces_dropped, 1);
        }
        if code.is_none() && !is_shown && traced.is_err() {
            return;
        }
        let digest = query.digest(code);
        let cost_key = digest.as_ref().filter(|_| code.is_some());
        let cost_key = cost_key.map(|digest| self.cost_key(query, digest));
        // Of a flood, most are only counted.
        let is_error = code.is_some_and(|code| self.records.takes_error(code));
        let is_counted = cost_key.is_some_and(|key| self.records.takes_cost_error(key));
        if !is_shown && !is_error && !is_counted && traced.is_err() {
            return;
        }
        let trail = self.trail_of(request);
        let asked = self.described(query, digest.as_ref(), Some(client.session));
        let slow = (is_shown || traced.is_ok()).then(|| {
            self.ended(
                request,
                (client, us),
                (&trail, asked.clone()),
                (answer, code),
            )
        });
        if let Some(key) = cost_key.filter(|_| is_counted) {
            let client = None;
            let of_anyone = Described {
                client,
                ..asked.clone()
            };
            self.records.learn(key, of_anyone);
            self.records.note_cost_error(key);
        }
        if let Some(slow) = slow {
            if let Ok(parent) = traced {
                self.hand_out(key, client, (slow.clone(), is_slow), parent);
            }
            if is_shown {
                self.records.note_slow(slow);
            }
        }
        if let Some(error) = error.filter(|_| is_error) {
            self.record_error(&error, asked, trail.slowest());
        }
    }

    /// What is said of a request that has ended.
    fn ended(
        &self,
        request: &ClientRequest,
        (client, took_us): (Caller, u64),
        (trail, asked): (&Trail, Described),
        (answer, error): (NodeAnswer<'_>, Option<i32>),
    ) -> SlowRequest {
        let query = request.asked();
        SlowRequest {
            at: self.cx.since_1970(),
            asked,
            class: query.class,
            consistency: query.consistency,
            execution: request.execution.name(),
            took_us,
            queued_us: trail.queued_us,
            at_nodes_us: trail.at_nodes_us,
            slowest_us: trail.slowest_us,
            slowest: trail.slowest(),
            nodes: trail.nodes(),
            node_requests: trail.node_requests,
            attempts: trail.attempts,
            is_hedged: trail.is_hedged,
            is_shared: client.session != request.caller.session
                || client.stream != request.caller.stream,
            bytes: answer.body.len(),
            error,
        }
    }

    /// Counts and describes an error of the proxy's own, about a request that never became one.
    #[cold]
    pub(crate) fn record_refusal(
        &mut self,
        arrival: &Arrival<'_>,
        statement: Option<&Statement>,
        (code, message): (i32, &str),
    ) {
        // Drivers prepare the statement again and ask anew.
        if code != code::UNPREPARED {
            add(&self.cx.shared.stats.global.requests_refused, 1);
        }
        if !self.records.takes_error(code) {
            return;
        }
        let named = own_keyspace(arrival.opcode, arrival.version, arrival.content);
        let keyspace = named.or(arrival.keyspace.map(|keyspace| &**keyspace));
        let asked = Described {
            statement: statement.map(|statement| statement.digest().text.clone()),
            keyspace: keyspace.map(Into::into),
            role: self.role_of(arrival.pool),
            client: self.clients.peer_of(arrival.session),
            opcode: arrival.opcode,
        };
        let error = ErrorBody {
            code,
            message,
            fields: &[],
        };
        self.record_error(&error, asked, None);
    }

    fn record_error(&mut self, error: &ErrorBody<'_>, asked: Described, node: Option<NodeIndex>) {
        let may_quote = self.cx.shared.config.admin.show_keys;
        self.records.note_error(ErrorRecord {
            at: self.cx.since_1970(),
            asked,
            code: error.code,
            message: shown_message(error, may_quote),
            node,
        });
    }

    /// Where a request's time has gone, with what is still at nodes or waits for them.
    fn trail_of(&self, request: &ClientRequest) -> Trail {
        let mut trail = request.trail;
        for open in self.open_node_requests(request) {
            trail.note_open(open, self.cx.now, self.cx.now_us());
        }
        trail
    }

    fn described(
        &self,
        query: &Query,
        digest: Option<&Digest>,
        client: Option<SessionKey>,
    ) -> Described {
        Described {
            statement: digest.map(|digest| digest.text.clone()),
            keyspace: query.keyspace_in_force().map(Into::into),
            role: self.role_of(query.pool),
            client: client.and_then(|client| self.clients.peer_of(client)),
            opcode: query.opcode,
        }
    }

    fn role_of(&self, pool: PoolKey) -> Option<Arc<str>> {
        self.links.identity_of(pool)?.role().cloned()
    }

    /// What tells a statement's costs from those of others: the same on all workers.
    fn cost_key(&self, query: &Query, digest: &Digest) -> (u64, u32) {
        let mut hasher = FxHasher::default();
        digest.number.hash(&mut hasher);
        query.keyspace_in_force().hash(&mut hasher);
        (hasher.finish(), self.links.role_number(query.pool))
    }
}

/// The keyspace that a request names beside its text, as version 5 allows.
fn own_keyspace(opcode: Opcode, version: Version, content: &[u8]) -> Option<&str> {
    match (opcode, version) {
        (Opcode::Query, Version::V5) => QueryView::parse(content, version).ok()?.options.keyspace,
        (Opcode::Prepare, Version::V5) => PrepareView::parse(content, version).ok()?.keyspace,
        _ => None,
    }
}

/// The error that an answer is.
fn error_in<'a>(answer: &NodeAnswer<'a>) -> Option<ErrorBody<'a>> {
    if answer.opcode != Opcode::Error {
        return None;
    }
    let (_, content) = strip_prelude(answer.header_flags, answer.body).ok()?;
    ErrorBody::parse(content).ok()
}

/// Rows of an answer.
fn rows_in(answer: &NodeAnswer<'_>) -> usize {
    if answer.opcode != Opcode::Result {
        return 0;
    }
    let Ok((_, content)) = strip_prelude(answer.header_flags, answer.body) else {
        return 0;
    };
    RowsView::parse(content).map_or(0, |rows| rows.row_count)
}
