//! The whole way of a request.
//!
//! ```text
//! on_request   a client asks: statement → gates
//! start_now    execution makes node requests to nodes
//! route_now    route → admission → node                              (route.rs)
//! on_response  a node answers: execution says what is next
//! take_step    more node requests, or the answer: execution → client
//! ```
//!
//! Between these a request waits in `backlog.rs`, in a node's queue, or for a node.

use std::rc::Rc;
use std::sync::Arc;

use helenus_policy::schedule::Class;
use helenus_wire::{
    ErrorBody, Header, JoinedBody, Opcode, Reader, ResultKind, code, flags, result_kind,
};

use crate::arrival::Arrival;
use crate::client::clients::Terms;
use crate::encoded_requests::Stored;
use crate::ends::Reply;
use crate::engine::Engine;
use crate::execution::Execution;
use crate::execution::layout_read::Tried;
use crate::execution::outcome::{FailedBy, Outcome, Response, Step};
use crate::execution::surroundings::{Surroundings, Todo};
use crate::execution::warnings::without_own_warnings;
use crate::gates::coalesce::Read;
use crate::gates::lwt_queue::is_not_applied;
use crate::gates::merge::Merge;
use crate::gates::rules::Admitted;
use crate::gating::Sharing;
use crate::holding::HeldBack;
use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey, SessionKey};
use crate::layout_reads::AsOfTable;
use crate::memory::{Body, NO_MEMORY};
use crate::node_request::{Form, NodeRequest, Owner, Prediction};
use crate::obeying::at_level;
use crate::rules::{Permit, is_timed};
use crate::statement::analysis::Analysis;
use crate::statement::hot_keys::Asked;
use crate::statement::prepared::Statement;
use crate::stats::add;

/// One of so many answers is learned from: workers share what they learn, and would take its memory
/// from each other with every answer.
const LEARNED_ONE_OF: u64 = 16;

impl Engine {
    /// A client that is ready asks for something. `content` is the body behind its custom payload.
    pub(crate) fn on_request(
        &mut self,
        session: SessionKey,
        header: Header,
        opcode: Opcode,
        body: &[u8],
        content: &[u8],
    ) {
        let Some(terms) = self.clients.terms_of(session) else {
            return;
        };
        let Terms {
            version,
            keyspace,
            pool,
        } = terms;
        let arrival = Arrival {
            session,
            header,
            opcode,
            version,
            pool,
            keyspace: keyspace.as_ref(),
            body,
            content,
        };
        let (cx, of) = (&mut self.cx, keyspace.as_deref());
        let analysis = self.statements.analyze(cx, opcode, content, version, of);
        let analysis = match analysis {
            Ok(analysis) => analysis,
            Err(e) => {
                add(&self.cx.shared.stats.global.clients_protocol_errors, 1);
                let text = e.to_string();
                self.record_refusal(&arrival, None, (code::PROTOCOL, &text));
                return self.answer_error(session, header.stream, code::PROTOCOL, &text);
            }
        };
        self.take_in(arrival, analysis, false);
    }

    /// Takes in a request whose body has been read; it may have waited for the end of a pause.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        arrival: Arrival<'_>,
        analysis: Analysis<'_>,
        has_waited: bool,
    ) {
        let opcode = arrival.opcode;
        let statement = analysis.of_one(opcode);
        if let Some(statement) = &statement
            && self.answer_system(&arrival, statement, &analysis)
        {
            return;
        }
        if !self.holds.is_empty() {
            match self.hold_back(&arrival, &analysis, statement.as_deref(), has_waited) {
                HeldBack::No => {}
                HeldBack::Waits => return,
                HeldBack::Refused(why) => {
                    return self.refuse(&arrival, statement.as_deref(), &why);
                }
            }
        }
        let Admitted { permits, level } = match self.obey(&arrival, &analysis, statement.as_deref())
        {
            Ok(admitted) => admitted,
            Err(why) => return self.refuse_disobedient(&arrival, statement.as_deref(), &why),
        };
        if let Some(level) = level {
            let body = at_level(&arrival, level);
            return self.go_on_with(arrival, &body, permits);
        }
        self.go_on(arrival, analysis, statement, permits);
    }

    /// Goes on with another body than the client's, at another consistency level.
    #[inline(never)]
    fn go_on_with(&mut self, arrival: Arrival<'_>, body: &[u8], permits: Vec<Permit>) {
        let (opcode, version) = (arrival.opcode, arrival.version);
        let content = body.get(arrival.payload().len()..).unwrap_or_default();
        let (cx, of) = (&mut self.cx, arrival.keyspace.map(|of| &**of));
        let analysis = self
            .statements
            .analyze_again(cx, opcode, content, version, of);
        let analysis = match analysis {
            Ok(analysis) => analysis,
            Err(e) => {
                let (session, stream) = (arrival.session, arrival.header.stream);
                return self.answer_error(session, stream, code::PROTOCOL, &e.to_string());
            }
        };
        let arrival = Arrival {
            body,
            content,
            ..arrival
        };
        let statement = analysis.of_one(opcode);
        self.go_on(arrival, analysis, statement, permits);
    }

    /// Goes on with a request that has passed what it had to pass.
    #[inline]
    fn go_on(
        &mut self,
        arrival: Arrival<'_>,
        analysis: Analysis<'_>,
        statement: Option<Arc<Statement>>,
        permits: Vec<Permit>,
    ) {
        let stored = match self.stored(&arrival, &analysis, statement.as_ref()) {
            Ok(stored) => stored,
            Err(refusal) => return self.refuse_rewriting(&arrival, &refusal),
        };
        if stored.sent.is_some() {
            return self.carry_out_stored(arrival, stored, permits);
        }
        self.carry_out(arrival, analysis, statement, (stored, permits));
    }

    /// Carries out what is sent in place of a client's request.
    #[inline(never)]
    fn carry_out_stored(&mut self, arrival: Arrival<'_>, mut stored: Stored, permits: Vec<Permit>) {
        let Some((opcode, body)) = stored.sent.take() else {
            return;
        };
        let content = body.get(arrival.payload().len()..).unwrap_or_default();
        let (cx, of) = (&mut self.cx, arrival.keyspace.map(|of| &**of));
        let version = arrival.version;
        let analysis = self
            .statements
            .analyze_again(cx, opcode, content, version, of);
        let arrival = Arrival {
            opcode,
            body: &body,
            content,
            ..arrival
        };
        let analysis = match analysis {
            Ok(analysis) => analysis,
            Err(e) => {
                let (session, stream) = (arrival.session, arrival.header.stream);
                let text = format!("what would be sent to nodes is malformed: {e}");
                return self.answer_error(session, stream, code::SERVER, &text);
            }
        };
        let statement = analysis.of_one(opcode);
        self.carry_out(arrival, analysis, statement, (stored, permits));
    }

    /// Carries out a request that the proxy does not answer itself.
    fn carry_out(
        &mut self,
        arrival: Arrival<'_>,
        analysis: Analysis<'_>,
        statement: Option<Arc<Statement>>,
        (stored, permits): (Stored, Vec<Permit>),
    ) {
        let Arrival {
            session,
            header,
            opcode,
            version,
            pool,
            keyspace,
            body,
            ..
        } = arrival;
        let read = Read {
            session,
            header,
            opcode,
            version,
            keyspace,
            pool,
            body,
            timestamp_at: analysis.timestamp_at,
        };
        let is_looked_at = self.statements.looks_at_partition();
        let sharing = match is_timed(&permits) {
            // It has its own time.
            true => Sharing::Alone(None),
            false => self.share(statement.as_deref(), &read),
        };
        if is_looked_at {
            self.note_partition(&arrival, &analysis, statement.as_deref(), &sharing);
        }
        let ticket = match sharing {
            Sharing::Joined(_) if permits.is_empty() => return,
            Sharing::Joined(key) => return self.charge_joined(key, permits),
            Sharing::Alone(ticket) => ticket,
        };
        if self.cx.memory.is_full(body.len()) {
            return self.refuse(&arrival, statement.as_deref(), NO_MEMORY);
        }
        let rewritten = match self.rewrite(&arrival, &analysis, statement.as_ref()) {
            Ok(rewritten) => rewritten,
            Err(refusal) => return self.refuse_rewriting(&arrival, &refusal),
        };
        let partition = self.partition_of_lwt(&analysis, statement.as_deref());
        let made = self.make_request(arrival, analysis, statement, ticket);
        let key = match made {
            Ok(mut request) => {
                request.adopt(rewritten);
                request.keep_stored(stored);
                request.permits = permits;
                self.requests.insert(&self.cx.memory, request)
            }
            Err(why) => return self.refuse(&arrival, None, &why),
        };
        self.clients.in_flight_began(session);
        if ticket.is_some_and(|ticket| self.note_shared(key, ticket)) {
            return;
        }
        if self.merging.is_on() && self.merge(key) {
            return;
        }
        if partition.is_none_or(|partition| self.take_turn(key, partition)) {
            self.start(key);
        }
    }

    /// Counts a request for its partition.
    #[inline(never)]
    fn note_partition(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
        sharing: &Sharing,
    ) {
        let Some(identity) = self.links.identity_of(arrival.pool) else {
            return;
        };
        let asked = Asked {
            opcode: arrival.opcode,
            bytes: arrival.body.len(),
            statement,
            identity,
            is_shared: matches!(sharing, Sharing::Joined(_)),
        };
        self.statements.note_partition(&self.cx, analysis, &asked);
    }

    pub(crate) fn refuse(
        &mut self,
        arrival: &Arrival<'_>,
        statement: Option<&Statement>,
        why: &str,
    ) {
        add(&self.cx.shared.stats.global.requests_overloaded, 1);
        self.record_refusal(arrival, statement, (code::OVERLOADED, why));
        let (session, stream) = (arrival.session, arrival.header.stream);
        self.answer_error(session, stream, code::OVERLOADED, why);
    }

    pub(crate) fn answer_error(&mut self, session: SessionKey, stream: i16, code: i32, text: &str) {
        let (clients, cx) = (&mut self.clients, &mut self.cx);
        clients.answer_error(cx, session, stream, code, text, &[]);
    }

    /// Begins to carry out a request.
    pub(crate) fn start_now(&mut self, key: ClientRequestKey) {
        let Some(request) = self.requests.clients.get_mut(key) else {
            return;
        };
        let is_single = matches!(request.execution, Execution::Single(None));
        if is_single && !matches!(request.query.class, Class::Multi | Class::Scan) {
            let (owner, target) = (Owner::Whole(key), request.target.clone());
            // What it has waited for its turn counts.
            let since = request.caller.started;
            let mut node_request =
                NodeRequest::new(owner, Form::Own, Prediction::Learned, target, since);
            node_request.maybe_applied = matches!(request.merge, Merge::Parted);
            let node_request = self.requests.nodes.insert(&self.cx.memory, node_request);
            if let Some(request) = self.requests.clients.get_mut(key) {
                request.execution = Execution::Single(Some(node_request));
            }
            return self.route(node_request);
        }
        let step = self.advance(key, |execution, around| execution.begin(around));
        self.take_step(key, step, None);
    }

    /// Lets a request's execution do something, and then what it leaves to be done.
    fn advance<'a>(
        &mut self,
        key: ClientRequestKey,
        act: impl FnOnce(&mut Execution, &mut Surroundings<'_>) -> Step<'a>,
    ) -> Step<'a> {
        let is_wanted = self.is_wanted(key);
        self.rotation = self.rotation.wrapping_add(1);
        let Some(request) = self.requests.clients.get_mut(key) else {
            return Step::Wait;
        };
        let mut around = Surroundings {
            cx: &mut self.cx,
            key,
            query: &request.query,
            target: &request.target,
            queues: &self.queues,
            links: &self.links,
            requests: &mut self.requests.nodes,
            rotation: self.rotation,
            is_wanted,
            todo: Todo::default(),
        };
        let step = act(&mut request.execution, &mut around);
        let todo = around.todo;
        for node_request in todo.cancel {
            self.drop_node_request(node_request);
        }
        for (node_request, job) in todo.reprioritise {
            self.reprioritise(node_request, job);
        }
        for node_request in todo.route {
            self.route(node_request);
        }
        if let Some(prepare) = todo.prepare {
            self.prepare_over_range(key, &prepare);
        }
        step
    }

    /// A node has answered a node request that belongs to a client request. `link`: over which link.
    pub(crate) fn on_response(
        &mut self,
        key: NodeRequestKey,
        link: LinkKey,
        opcode: Opcode,
        response: Response<'_>,
        body: &[u8],
    ) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let untried = request.target.untried();
        match &request.owner {
            Owner::Whole(client) => {
                let client = *client;
                self.on_whole_response(client, key, link, opcode, response, body);
            }
            Owner::Part(client, part) => {
                let (client, part) = (*client, *part);
                if opcode == Opcode::Result && self.is_sampled() {
                    self.note_prediction(key, response.service_us);
                }
                let outcome = Outcome::of_response(response, untried);
                self.on_part_outcome(client, key, part, outcome);
            }
            Owner::Reprepare { .. } | Owner::InRange(_) => {}
        }
    }

    /// Whether an answer is one of those that are learned from.
    #[inline]
    fn is_sampled(&mut self) -> bool {
        self.cx.random().is_multiple_of(LEARNED_ONE_OF)
    }

    /// What became of a part.
    pub(crate) fn on_part_outcome(
        &mut self,
        client: ClientRequestKey,
        key: NodeRequestKey,
        part: u16,
        outcome: Outcome<'_>,
    ) {
        self.drop_node_request(key);
        let request = self.requests.clients.get(client);
        // It may have gone on without this one, or the part may be another one by now.
        if !request.is_some_and(|request| request.execution.awaits(part, key)) {
            return;
        }
        let step = self.advance(client, |execution, around| {
            execution.on_outcome(around, Some(part), outcome)
        });
        self.take_step(client, step, None);
    }

    /// A node request for the whole of a request has come to nothing.
    pub(crate) fn on_whole_failed(&mut self, client: ClientRequestKey, error: ErrorBody<'_>) {
        let step = self.advance(client, |execution, around| {
            execution.on_outcome(around, None, Outcome::of_proxy(error, None))
        });
        self.take_step(client, step, None);
    }

    fn on_whole_response(
        &mut self,
        client: ClientRequestKey,
        key: NodeRequestKey,
        link: LinkKey,
        opcode: Opcode,
        response: Response<'_>,
        body: &[u8],
    ) {
        // What a batch of several writes takes tells nothing of a single one.
        let merged = self.leads_batch(client);
        let sampled = self.is_sampled() && !merged;
        let Response {
            mut header,
            prelude,
            content,
            version,
            service_us,
        } = response;
        if opcode == Opcode::Error {
            if self.goes_on_without(client, key) {
                return self.drop_node_request(key);
            }
            let error = ErrorBody::parse(content).map(Tried::Answered);
            if error.is_ok_and(|tried| self.read_table_instead(client, key, &tried)) {
                return;
            }
            if merged {
                return self.on_batch_failed(client, key, &response);
            }
        }
        if sampled && opcode == Opcode::Result {
            self.note_prediction(key, service_us);
        }
        self.end_hedge(client, key);
        let Some(request) = self.requests.clients.get_mut(client) else {
            return self.drop_node_request(key);
        };
        debug_assert_eq!(request.execution.whole(), Some(key));
        let mut stripped: Option<JoinedBody> = None;
        let is_single = matches!(request.execution, Execution::Single(_));
        let on_layouts = request.layouts.is_some();
        let mut step = Step::AsItCame;
        if opcode == Opcode::Result {
            if header.flags & flags::WARNING != 0 && request.query.opcode == Opcode::Execute {
                stripped =
                    without_own_warnings(&mut header, prelude, content, merged).map(Into::into);
            }
            if let Some(statement) = &request.query.statement
                && request.query.opcode != Opcode::Prepare
                && !merged
                && (sampled || statement.learned.is_news(service_us))
            {
                statement.learned.note_answer(content.len(), service_us);
            }
            if merged {
                request.note_batch_done();
            }
            match result_kind(content) {
                Ok(ResultKind::Prepared) => self.on_prepared(key, (content, version)),
                Ok(ResultKind::Rows) if request.turn.is_some() => {
                    request.condition_failed = is_not_applied(content);
                }
                Ok(ResultKind::SetKeyspace) => {
                    self.on_keyspace_set(client, content);
                    self.links.quarantine(&mut self.cx, link);
                }
                Ok(ResultKind::SchemaChange) => {
                    let reply = Reply {
                        opcode,
                        header_flags: header.flags,
                        body: Body::Borrowed(body),
                        version,
                    };
                    return self.hold_for_agreement(client, key, reply);
                }
                _ => {}
            }
        }
        let node = self.requests.nodes.get(key);
        let untried = node.and_then(|node| node.target.untried());
        self.drop_node_request(key);
        if !is_single {
            let outcome = Outcome::of_response(Response { header, ..response }, untried);
            step = self.advance(client, |execution, around| {
                execution.on_outcome(around, None, outcome)
            });
        }
        let mut body = stripped.map_or(Body::Borrowed(body), Body::Joined);
        if on_layouts {
            if opcode == Opcode::Result {
                self.blame_layout(client);
            }
            match self.as_of_table(client, opcode, header.flags, &body) {
                Ok(AsOfTable::AsItCame) => {}
                Ok(AsOfTable::Body(renamed)) => body = Body::Joined(renamed.into()),
                Ok(AsOfTable::Unusable) => return,
                Err(e) => step = Step::Broken(e.to_string()),
            }
        }
        let reply = Reply {
            opcode,
            header_flags: header.flags,
            body,
            version,
        };
        self.take_step(client, step, Some(reply));
    }

    /// A node has accepted a client's USE.
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

    /// Does what is next for a request. `reply`: what a node has answered to the whole of it.
    pub(crate) fn take_step(
        &mut self,
        key: ClientRequestKey,
        step: Step<'_>,
        reply: Option<Reply<'_>>,
    ) {
        let version = reply.as_ref().map(|reply| reply.version);
        let version = version.unwrap_or(self.cx.snapshot.version);
        match step {
            Step::Wait | Step::Whole => {}
            Step::AsItCame => {
                if let Some(reply) = reply {
                    self.answer_clients(key, reply);
                }
            }
            Step::Done { header_flags, body } => {
                let reply = Reply {
                    opcode: Opcode::Result,
                    header_flags,
                    body: Body::Joined(body),
                    version,
                };
                self.answer_clients(key, reply);
            }
            Step::Failed(failure) => {
                let ErrorBody {
                    code,
                    message,
                    fields,
                } = failure.error;
                match failure.by {
                    FailedBy::Proxy => self.fail_client(key, code, message, fields),
                    FailedBy::Node(version) => self.answer_with_error(key, failure.error, version),
                }
            }
            Step::Broken(why) => {
                let text = format!("a node sent a malformed answer: {why}");
                self.fail_client(key, code::SERVER, &text, &[]);
            }
            Step::NoMemory => self.fail_client(key, code::OVERLOADED, NO_MEMORY, &[]),
            Step::Unwanted => self.end_request(key),
        }
    }

    /// What aggregates have asked the nodes to prepare is known by now, or refused.
    pub(crate) fn on_range_settled(&mut self, key: ClientRequestKey) {
        let step = self.advance(key, |execution, around| execution.on_range_settled(around));
        self.take_step(key, step, None);
    }
}
