//! Node requests that have come to nothing: who hears of it, and what.

pub(crate) mod expire;
pub(crate) mod give_up;
pub(crate) mod refuse;
pub(crate) mod timed_out;

use helenus_wire::{ErrorBody, code};

use crate::backlog::{Failed, How};
use crate::exec::outcome::Outcome;
use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::fail::timed_out::timed_out;
use crate::pipeline::node_request::Owner;
use crate::rewrite::rewritten::Tried;

impl Engine {
    /// Tells whoever waits for a node request why it has come to nothing.
    pub(crate) fn on_failed(&mut self, key: NodeRequestKey, ended: &Failed) {
        let request = self.requests.nodes.get(key);
        if request.is_some_and(|request| request.is_queued() || request.is_in_flight()) {
            // It has found another node meanwhile.
            return;
        }
        if ended.how == How::Unsendable && self.try_otherwise(key, ended) {
            return;
        }
        let is_retried = ended.how == How::Unsendable && ended.code == code::UNPREPARED;
        match ended.how {
            How::Untried | How::Unsendable if self.may_have_written(key) && !is_retried => {
                let text = format!(
                    "Helenus: it is not known whether an earlier attempt at this write took effect, and \
                     then no node could take it ({})",
                    ended.text
                );
                self.end_in_doubt(key, &text);
            }
            How::TimedOut => self.end_in_doubt(key, &ended.text),
            How::Answered | How::Untried | How::Unsendable => {
                let error = ErrorBody {
                    code: ended.code,
                    message: &ended.text,
                    fields: &ended.fields,
                };
                self.end_node_request(key, error);
            }
        }
    }

    /// Nobody knows what became of a node request.
    fn end_in_doubt(&mut self, key: NodeRequestKey, text: &str) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let Some(query) = self.requests.query_of(request) else {
            return;
        };
        let newest = self.is_newest(request.client());
        let (code, fields) = timed_out(query, newest);
        self.note_read_timeout(key);
        let error = ErrorBody {
            code,
            message: text,
            fields: &fields,
        };
        self.end_node_request(key, error);
    }

    /// A page that was read in parts may go on without a node request for the rest of it, and what
    /// was rewritten as its client has asked; false if it is something else.
    fn try_otherwise(&mut self, key: NodeRequestKey, ended: &Failed) -> bool {
        let Some(client) = self.whole_of_scan(key) else {
            return self.try_as_asked(key, ended.code);
        };
        self.drop_node_request(key);
        let error = ErrorBody {
            code: ended.code,
            message: &ended.text,
            fields: &ended.fields,
        };
        self.on_whole_failed(client, error, false);
        true
    }

    /// Carries out in another way what was rewritten as its client has asked; false if it was not.
    pub(in crate::pipeline) fn try_as_asked(&mut self, key: NodeRequestKey, code: i32) -> bool {
        let request = self.requests.nodes.get(key);
        let Some(client) = request.and_then(|request| request.whole()) else {
            return false;
        };
        let request = self.requests.clients.get(client);
        let is_hedged = request.is_some_and(|request| request.execution.is_hedged());
        !is_hedged && features::on_tried(self, client, key, &Tried::No(code))
    }

    /// The scan that a node request is for the whole of.
    fn whole_of_scan(&self, key: NodeRequestKey) -> Option<ClientRequestKey> {
        let client = self.requests.nodes.get(key)?.whole()?;
        let execution = &self.requests.clients.get(client)?.execution;
        execution.is_page().then_some(client)
    }

    fn end_node_request(&mut self, key: NodeRequestKey, error: ErrorBody<'_>) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let untried = request.untried();
        match request.owner() {
            Owner::Whole(client) => {
                let (client, in_doubt) = (*client, request.is_in_doubt());
                let goes_on = self.goes_on_without(client, key);
                self.drop_node_request(key);
                if goes_on || features::on_failed(self, client, &error, in_doubt) {
                    return;
                }
                self.fail_client(client, error.code, error.message, error.fields);
            }
            Owner::Part(client, part) => {
                let (client, part) = (*client, *part);
                let outcome = Outcome::of_proxy(error, untried, request.is_in_doubt());
                self.on_part_outcome(client, key, part, outcome);
            }
            Owner::Errand(_) => self.on_errand_failed(key, error),
        }
    }
}
