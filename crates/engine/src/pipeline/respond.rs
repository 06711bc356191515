//! Nodes' answers, and their effects on the client requests that they are for.

use std::rc::Rc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, Reader, ResultKind, flags, result_kind};

use crate::exec::attempt_end::AttemptEnd;
use crate::exec::outcome::{Outcome, Response, Step};
use crate::exec::scan::warnings::without_own_warnings;
use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::memory::Body;
use crate::pipeline::engine::Engine;
use crate::pipeline::finish::Reply;
use crate::pipeline::node_request::Owner;
use crate::pipeline::nodes::errands::ErrandAnswer;
use crate::rewrite::rewritten::{AsAsked, Tried};

/// One of so many answers is learned from: workers share what they learn, and would take its memory
/// from each other with every answer.
const LEARNED_ONE_OF: u64 = 16;

impl Engine {
    /// A node has answered a node request.
    pub(crate) fn on_response(
        &mut self,
        key: NodeRequestKey,
        node: NodeIndex,
        opcode: Opcode,
        response: Response<'_>,
        body: &[u8],
    ) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let (untried, in_doubt) = (request.untried(), request.is_in_doubt());
        match request.owner() {
            Owner::Whole(client) => {
                let client = *client;
                self.on_whole_response(client, key, opcode, response, body);
            }
            Owner::Part(client, part) => {
                let (client, part) = (*client, *part);
                if opcode == Opcode::Result {
                    self.note_attempt(key, response.service_us.into(), AttemptEnd::Answered);
                    if self.is_sampled() {
                        self.note_prediction(key, response.service_us);
                    }
                }
                let outcome = Outcome::of_response(response, untried, in_doubt);
                self.on_part_outcome(client, key, part, outcome);
            }
            Owner::Errand(_) => {
                let answer = ErrandAnswer {
                    node,
                    opcode,
                    content: response.content,
                    version: response.version,
                };
                self.on_errand_answered(key, &answer);
            }
        }
    }

    /// True if an answer is one of those that are learned from.
    #[inline]
    fn is_sampled(&mut self) -> bool {
        self.cx.random().is_multiple_of(LEARNED_ONE_OF)
    }

    /// A part has ended.
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
        let step = self.advance(client, |execution, cx| {
            execution.on_outcome(cx, Some(part), outcome)
        });
        self.take_step(client, step, None);
    }

    /// A node request for the whole of a request has come to nothing.
    pub(crate) fn on_whole_failed(
        &mut self,
        client: ClientRequestKey,
        error: ErrorBody<'_>,
        in_doubt: bool,
    ) {
        let step = self.advance(client, |execution, cx| {
            execution.on_outcome(cx, None, Outcome::of_proxy(error, None, in_doubt))
        });
        self.take_step(client, step, None);
    }

    fn on_whole_response(
        &mut self,
        client: ClientRequestKey,
        key: NodeRequestKey,
        opcode: Opcode,
        response: Response<'_>,
        body: &[u8],
    ) {
        // The time of a request for several tells nothing of a single one.
        let request = self.requests.clients.get(client);
        let of_several = request.is_some_and(|request| request.features.is_of_several());
        let sampled = self.is_sampled() && !of_several;
        let Response {
            mut header,
            prelude,
            content,
            version,
            service_us,
            link,
        } = response;
        if opcode == Opcode::Error {
            if self.goes_on_without(client, key) {
                return self.drop_node_request(key);
            }
            let error = ErrorBody::parse(content).map(Tried::Answered);
            if error.is_ok_and(|tried| features::on_tried(self, client, key, &tried)) {
                return;
            }
            if features::on_error(self, client, key, &response) {
                return;
            }
        }
        if sampled && opcode == Opcode::Result {
            self.note_prediction(key, service_us);
        }
        features::on_answered(self, client, key, service_us, content.len());
        let Some(request) = self.requests.clients.get_mut(client) else {
            return self.drop_node_request(key);
        };
        debug_assert_eq!(request.execution.whole(), Some(key));
        let mut stripped: Option<Vec<u8>> = None;
        let is_single = request.execution.is_single();
        let is_rewritten = request.is_rewritten();
        let mut step = Step::PassThrough;
        if opcode == Opcode::Result {
            if header.flags & flags::WARNING != 0 && request.query.opcode == Opcode::Execute {
                stripped = without_own_warnings(&mut header, prelude, of_several);
            }
            if of_several {
                features::on_several_done(request);
            } else if let Some(statement) = &request.query.statement
                && request.query.opcode != Opcode::Prepare
                && (sampled || statement.learned.is_news(service_us))
            {
                self.statements.learn(&request.query, content, service_us);
            }
            match result_kind(content) {
                Ok(ResultKind::Prepared) => self.on_prepared(key, content, version),
                Ok(ResultKind::Rows) => request.features.on_rows(content),
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
                    self.note_attempt(key, service_us.into(), AttemptEnd::Answered);
                    return self.hold_for_agreement(client, key, reply);
                }
                _ => {}
            }
        }
        let node = self.requests.nodes.get(key);
        let untried = node.and_then(|node| node.untried());
        let in_doubt = node.is_some_and(|node| node.is_in_doubt());
        if !is_single && opcode == Opcode::Result {
            self.note_attempt(key, service_us.into(), AttemptEnd::Answered);
        }
        self.drop_node_request(key);
        if !is_single {
            let prelude = stripped.as_deref().unwrap_or(prelude);
            let outcome = Outcome::of_response(response.with(header, prelude), untried, in_doubt);
            step = self.advance(client, |execution, cx| {
                execution.on_outcome(cx, None, outcome)
            });
        }
        let mut body = match &stripped {
            Some(prelude) => Body::Joined([prelude, content].concat().into()),
            None => Body::Borrowed(body),
        };
        if is_rewritten {
            match self.as_asked(client, opcode, header.flags, version, &body) {
                Ok(AsAsked::PassThrough) => {}
                Ok(AsAsked::Body(changed)) => body = Body::Joined(changed.into()),
                Ok(AsAsked::Unusable) => return,
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
    fn on_keyspace_set(&mut self, key: ClientRequestKey, content: &[u8]) {
        let mut reader = Reader::new(content);
        let Ok(keyspace) = reader.i32().and_then(|_| reader.string()) else {
            return;
        };
        let keyspace: Rc<str> = keyspace.into();
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        let session = request.caller().session;
        self.clients.set_keyspace(session, keyspace);
    }
}

#[cfg(test)]
mod tests;
