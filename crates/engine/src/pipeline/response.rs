//! A node's answer: whose it is, and what of it is the proxy's own business.

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Header, MAX_RESPONSE_BODY, Opcode, Reader, code, strip_prelude};

use crate::exec::attempt_end::AttemptEnd;
use crate::exec::outcome::Response;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::memory::NO_MEMORY;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::Landed;
use crate::pipeline::query::Query;
use crate::scheduler::Served;
use crate::stats::add;

impl Engine {
    /// An envelope from a node.
    pub(crate) fn on_node_envelope(&mut self, link_key: LinkKey, header: Header, body: &[u8]) {
        if header.stream <= 0 {
            return self.on_stream_zero(link_key, header, body);
        }
        let Some((node, key)) = self.links.release(link_key, header.stream) else {
            // Nobody waits for it any more.
            return self
                .queues
                .on_late_answer(&mut self.cx, link_key, header.stream);
        };
        self.on_answer(link_key, node, key, header, body);
    }

    /// A node request is answered.
    pub(crate) fn on_answer(
        &mut self,
        link_key: LinkKey,
        node: NodeIndex,
        key: NodeRequestKey,
        header: Header,
        body: &[u8],
    ) {
        let now = self.cx.now;
        let landed = self.requests.nodes.get_mut(key).and_then(|r| r.land(now));
        let Some(Landed { us, .. }) = landed else {
            return;
        };
        self.links.stats(node).latency.record(us);
        let service_us = u32::try_from(us).unwrap_or(u32::MAX);
        let served = Served {
            service_us,
            is_error: header.opcode == Opcode::Error as u8,
        };
        self.leave_queue(key, Some(served));
        if header.is_skipped(body) {
            return self.on_answer_skipped(key, us, header.body_len as usize);
        }
        let Some(opcode) = Opcode::from_number(header.opcode) else {
            return self.fail(
                key,
                code::SERVER,
                "Helenus: a node sent an unknown opcode",
                &[],
            );
        };
        let Ok((prelude, content)) = strip_prelude(header.flags, body) else {
            return self.fail(
                key,
                code::SERVER,
                "Helenus: a node sent an answer that cannot be read",
                &[],
            );
        };
        if opcode == Opcode::Error && self.on_node_error(key, node, us, content) {
            return;
        }
        let version = self.links.version_of(link_key);
        let version = version.unwrap_or(self.cx.snapshot.version());
        let response = Response {
            header,
            prelude,
            content,
            version,
            service_us,
            link: link_key,
        };
        self.on_response(key, node, opcode, response, body);
    }

    /// An answer of which the link has taken the header alone.
    fn on_answer_skipped(&mut self, key: NodeRequestKey, us: u64, body_len: usize) {
        let (code, text) = match body_len > MAX_RESPONSE_BODY {
            true => (
                code::INVALID,
                format!(
                    "Helenus: the answer has {body_len} bytes, and an answer may have {MAX_RESPONSE_BODY}: \
                     ask for smaller pages, or for fewer columns"
                ),
            ),
            false => (code::OVERLOADED, NO_MEMORY.to_owned()),
        };
        self.note_attempt(key, us, AttemptEnd::Answered);
        match self.requests.query(key).is_some_and(Query::is_write) {
            // It may have taken effect.
            true => self.fail_timeout(key, &text),
            false => self.fail(key, code, &text, &[]),
        }
    }

    /// Handles errors that the client need not see; true if this was one.
    fn on_node_error(
        &mut self,
        key: NodeRequestKey,
        node: NodeIndex,
        us: u64,
        content: &[u8],
    ) -> bool {
        let error = ErrorBody::parse(content);
        if let Ok(error) = &error {
            self.note_attempt(key, us, AttemptEnd::Error(error.code));
            // It is taught what it has forgotten, or never knew: there is nothing wrong with it.
            if error.code == code::UNPREPARED
                && let Ok(id) = Reader::new(error.fields).short_bytes()
                && self.reprepare(key, node, id)
            {
                return true;
            }
        }
        add(&self.links.stats(node).counters.errors, 1);
        let Ok(error) = error else {
            return false;
        };
        if is_of_node(error.code) {
            self.queues.note_failure(&self.cx, node);
        }
        match error.code {
            code::READ_TIMEOUT => {
                self.note_read_timeout(key);
                false
            }
            _ if says_not_begun(&error) => {
                add(&self.cx.shared.stats.global.requests_retried, 1);
                self.route(key);
                true
            }
            code::INVALID if self.others_may_know_more(key, error.message) => {
                add(&self.cx.shared.stats.global.requests_retried, 1);
                self.route(key);
                true
            }
            code::UNAVAILABLE if self.try_unavailable_again(key, error.fields) => true,
            // This node has not; one before it may have.
            code::UNAVAILABLE | code::OVERLOADED if self.may_have_written(key) => {
                self.fail_untried(key, error.code, error.message, error.fields);
                true
            }
            _ => false,
        }
    }

    /// True if a node may lack a change of the schema that others have, while they do not agree.
    fn others_may_know_more(&self, key: NodeRequestKey, message: &str) -> bool {
        if self.cx.snapshot.schema().other_version().is_none() || !is_about_what_is_missing(message)
        {
            return false;
        }
        let request = self.requests.nodes.get(key);
        let untried = request.and_then(|request| request.untried());
        untried.is_some_and(|plan| !plan.is_empty())
    }
}

/// True if a node objects to a statement because it does not know something that the statement names.
fn is_about_what_is_missing(message: &str) -> bool {
    message.ends_with("does not exist") || message.starts_with("Undefined column name")
}

/// The words of a node that has been told to end, before it begins with a request (5.0: `transport.Dispatcher`).
const ENDING: &str = "Server is shutting down";

/// True if a node says that it did not even try: others may.
fn says_not_begun(error: &ErrorBody<'_>) -> bool {
    let is_ending = error.code == code::OVERLOADED && error.message == ENDING;
    is_ending || error.code == code::IS_BOOTSTRAPPING
}

/// True if an error tells that the node is in trouble. Most are the query's fault; time-outs and failures
/// of replicas are told by a coordinator that did its part.
fn is_of_node(error: i32) -> bool {
    matches!(
        error,
        code::SERVER | code::OVERLOADED | code::IS_BOOTSTRAPPING
    )
}
