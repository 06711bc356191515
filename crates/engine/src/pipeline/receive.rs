//! The whole way of a request.
//!
//! ```text
//! on_request   a client asks: statement → features
//! start_now    exec makes node requests
//! route_now    route → scheduler → upstream                       (route.rs)
//! on_response  a node answers: exec says what is next             (respond.rs)
//! take_step    more node requests, or the answer: exec → session  (step.rs)
//! ```
//!
//! Between these a request waits in `backlog.rs`, in a node's queue, or for a node.

use std::sync::Arc;
use std::time::Instant;

use helenus_policy::schedule::Class;
use helenus_wire::{ExecuteView, Header, Opcode, code};

use crate::features::{self, Arrived, Slot, Verdict};
use crate::keys::{ClientRequestKey, SessionKey};
use crate::memory::NO_MEMORY;
use crate::output::Output;
use crate::pipeline::arrival::{Arrival, bytes_read};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{Form, NodeRequest, Owner, Prediction};
use crate::rewrite::rewritten::{INVALID_STATE, Instead};
use crate::session::clients::Terms;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;
use crate::statement::unread::Unread;

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
        let (cx, of) = (&self.cx, keyspace.as_deref());
        let analysis = self.statements.analyze(cx, opcode, content, version, of);
        let analysis = match analysis {
            Ok(analysis) => analysis,
            Err(e) => return self.refuse_unread(&arrival, &e),
        };
        if opcode == Opcode::Execute && analysis.prepared.is_none() {
            self.recall(&arrival);
        }
        features::on_read(self, &arrival, &analysis);
        if self.refuse_outdated(&arrival, &analysis) {
            return;
        }
        let Some(with_columns) = self.with_unknown_columns(&arrival, &analysis) else {
            return self.after_system(arrival, analysis, false);
        };
        let arrival = Arrival {
            body: &with_columns,
            content: &with_columns[arrival.payload().len()..],
            ..arrival
        };
        self.after_system(arrival, analysis, false);
    }

    /// Has an unknown prepared statement looked up, if it has not been of late.
    #[cold]
    fn recall(&mut self, arrival: &Arrival<'_>) {
        let Ok(view) = ExecuteView::parse(arrival.content, arrival.version) else {
            return;
        };
        let address = self.clients.peer_of(arrival.session);
        let asker = (
            self.links.role_number(arrival.pool),
            address.map(|address| address.ip()),
        );
        if self.cx.shared.wants_recall(view.id, asker, self.cx.now) {
            self.cx.ask(Output::Recall(view.id.into()));
        }
    }

    /// Takes in a request whose body has been read; it may have waited for the end of a pause.
    #[inline]
    pub(crate) fn after_system(
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
        let arrived = Arrived {
            arrival: &arrival,
            analysis: &analysis,
            statement: statement.as_deref(),
        };
        let mut slot = Slot::default();
        match features::on_request(self, &arrived, has_waited, &mut slot) {
            Verdict::GoOn => self.after_rules(arrival, analysis, statement, &mut slot),
            Verdict::Waits | Verdict::Answered => {}
            Verdict::Refused(why) => self.refuse(&arrival, statement.as_deref(), &why),
            Verdict::Instead(body) => self.go_on_with(arrival, &body, &mut slot),
        }
    }

    /// Goes on with another body than the client's.
    #[inline(never)]
    fn go_on_with(&mut self, arrival: Arrival<'_>, body: &[u8], slot: &mut Slot) {
        let (opcode, version) = (arrival.opcode, arrival.version);
        let content = body.get(arrival.payload().len()..).unwrap_or_default();
        let (cx, of) = (&self.cx, arrival.keyspace.map(|of| &**of));
        let analysis = self
            .statements
            .analyze_again(cx, opcode, content, version, of);
        let analysis = match analysis {
            Ok(analysis) => analysis,
            Err(e) => return self.refuse_unread(&arrival, &e),
        };
        let arrival = Arrival {
            body,
            content,
            ..arrival
        };
        let statement = analysis.of_one(opcode);
        self.after_rules(arrival, analysis, statement, slot);
    }

    /// Goes on with a request that has passed what it had to pass.
    #[inline]
    fn after_rules(
        &mut self,
        arrival: Arrival<'_>,
        analysis: Analysis<'_>,
        statement: Option<Arc<Statement>>,
        slot: &mut Slot,
    ) {
        let admitted = Arrived {
            arrival: &arrival,
            analysis: &analysis,
            statement: statement.as_deref(),
        };
        let instead = match features::on_admitted(self, &admitted, slot) {
            Ok(instead) => instead,
            Err(refusal) => return self.refuse_rewriting(&arrival, &refusal),
        };
        if instead.sent.is_some() {
            return self.carry_out_instead(arrival, instead, slot);
        }
        self.submit(arrival, analysis, statement, instead.until, slot);
    }

    /// Carries out what is sent in place of a client's request.
    #[inline(never)]
    fn carry_out_instead(
        &mut self,
        arrival: Arrival<'_>,
        Instead { until, sent }: Instead,
        slot: &mut Slot,
    ) {
        let Some((opcode, body)) = sent else {
            return;
        };
        let content = body.get(arrival.payload().len()..).unwrap_or_default();
        let (cx, of) = (&self.cx, arrival.keyspace.map(|of| &**of));
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
            Err(Unread::Malformed(e)) => {
                let text = format!(
                    "Helenus: this request became malformed when it was rewritten ({e}): please report this"
                );
                return self.refuse_with(&arrival, None, code::SERVER, &text);
            }
            Err(e) => return self.refuse_unread(&arrival, &e),
        };
        let statement = analysis.of_one(opcode);
        self.submit(arrival, analysis, statement, until, slot);
    }

    /// Carries out a request that the proxy does not answer itself.
    fn submit(
        &mut self,
        arrival: Arrival<'_>,
        analysis: Analysis<'_>,
        statement: Option<Arc<Statement>>,
        until: Option<Instant>,
        slot: &mut Slot,
    ) {
        let Arrival {
            session,
            opcode,
            body,
            ..
        } = arrival;
        let arrived = Arrived {
            arrival: &arrival,
            analysis: &analysis,
            statement: statement.as_deref(),
        };
        let joined = match slot.goes_alone() {
            true => None,
            false => features::join(self, &arrived, slot),
        };
        features::on_shared(self, &arrived, joined.is_some());
        if let Some(key) = joined {
            return features::on_follower(self, key, slot);
        }
        let read_bytes = bytes_read(opcode, statement.as_deref());
        if self.cx.memory.is_full(body.len() + read_bytes) {
            return self.refuse(&arrival, statement.as_deref(), NO_MEMORY);
        }
        let rewritten = match self.rewrite(&arrived, slot) {
            Ok(rewritten) => rewritten,
            Err(refusal) => return self.refuse_rewriting(&arrival, &refusal),
        };
        if !rewritten.may_be_sent_with(analysis.paging_state) {
            let statement = statement.as_deref();
            return self.refuse_with(&arrival, statement, code::PROTOCOL, INVALID_STATE);
        }
        features::on_keep(self, &arrived, slot);
        let made = self.make_request(arrival, analysis, statement, slot);
        let key = match made {
            Ok(mut request) => {
                request.adopt(rewritten, until);
                self.requests.insert(&self.cx.memory, request)
            }
            Err(why) => return self.refuse(&arrival, None, &why),
        };
        self.clients.in_flight_began(session);
        if !features::waits(self, key) {
            self.start(key);
        }
    }

    /// Begins to carry out a request.
    pub(crate) fn start_now(&mut self, key: ClientRequestKey) {
        let Some(request) = self.requests.clients.get_mut(key) else {
            return;
        };
        let is_single = request.execution.has_not_begun();
        if is_single && !matches!(request.query.class, Class::Multi | Class::Scan) {
            let (owner, target) = (Owner::Whole(key), request.target().clone());
            // Its wait for its turn counts.
            let since = request.caller().started;
            let mut node_request =
                NodeRequest::new(owner, Form::Own, Prediction::Learned, target, since);
            if request.features.may_be_applied() {
                node_request.note_in_doubt();
            }
            let node_request = self.requests.nodes.insert(&self.cx.memory, node_request);
            if let Some(request) = self.requests.clients.get_mut(key) {
                request.execution.sent(node_request);
            }
            return self.route(node_request);
        }
        let step = self.advance(key, |execution, cx| execution.begin(cx));
        self.take_step(key, step, None);
    }
}
