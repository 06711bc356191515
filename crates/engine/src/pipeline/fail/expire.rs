//! Requests that are given up: they have waited for too long, or nobody waits for them.

use std::time::Duration;

use helenus_policy::ring::NodeIndex;

use crate::exec::attempt_end::AttemptEnd;
use crate::exec::outcome::Step;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::fail::timed_out::timed_out;
use crate::snapshot::timeouts::Timed;
use crate::stats::add;

#[cfg(test)]
mod tests;

/// No request has a shorter time-out.
const LIMIT_MIN: Duration = Duration::from_millis(100);

impl Engine {
    /// Gives up on what has waited for too long.
    pub(crate) fn expire_requests(&mut self) {
        let now = self.cx.now;
        let mut late: Vec<(NodeRequestKey, Duration)> = Vec::new();
        for (key, request) in self.requests.nodes.iter() {
            // In a node's queue and in a pause it has another bound.
            let age = now.saturating_duration_since(request.time_runs_since());
            if request.is_queued() || request.is_pausing() || age <= LIMIT_MIN {
                continue;
            }
            let Some(query) = self.requests.query_of(request) else {
                continue;
            };
            let timed = match self.is_cut(request, query) {
                true => Timed::Range,
                false => query.timed(),
            };
            let limit = self.limit_of(timed, request.node());
            if age > limit {
                late.push((key, limit));
            }
        }
        let page_limit = self.page_limit();
        let mut never_begun: Vec<(ClientRequestKey, Duration)> = Vec::new();
        let mut pages: Vec<ClientRequestKey> = Vec::new();
        let mut by_features: Vec<(ClientRequestKey, String)> = Vec::new();
        for (key, request) in self.requests.clients.iter() {
            let age = now.saturating_duration_since(request.caller().started);
            if age <= LIMIT_MIN {
                continue;
            }
            if let Some(text) = request.features.why_late(age) {
                by_features.push((key, text));
            } else if request.is_waiting_to_begin() {
                let limit = self.limit_of(request.query.timed(), None);
                if age > limit {
                    never_begun.push((key, limit));
                }
            } else if age > page_limit && request.execution.is_page() {
                pages.push(key);
            }
        }
        for (key, limit) in late {
            self.on_node_request_expired(key, limit);
        }
        for (key, limit) in never_begun {
            self.on_request_expired(key, &no_node_within(limit));
        }
        for (key, text) in by_features {
            self.on_request_expired(key, &text);
        }
        for key in pages {
            let text = format!(
                "Helenus: the page was not complete within {page_limit:?} (limits.page_timeout_ms)"
            );
            self.on_request_expired(key, &text);
        }
    }

    /// How long a page of a scan may take, with all its requests to nodes. Its client would have waited for
    /// as long as a node has for one page, which counts if it is longer.
    fn page_limit(&self) -> Duration {
        let nodes = self.cx.snapshot.nodes().all().iter();
        let of_nodes = nodes.map(|node| node.timeouts().limit(Timed::Range));
        let config = &self.cx.shared.config;
        let of_node = config.request_timeout().or_else(|| of_nodes.max());
        config.page_timeout().max(of_node.unwrap_or_default())
    }

    /// How long a node request may be at its node.
    fn limit_of(&self, timed: Timed, node: Option<NodeIndex>) -> Duration {
        let set = self.cx.shared.config.request_timeout();
        set.unwrap_or_else(|| self.timeouts_of(node).limit(timed))
    }

    fn on_node_request_expired(&mut self, key: NodeRequestKey, limit: Duration) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let node = request.node();
        // Waiting elsewhere, it may have been on a node before.
        let mut silent = None;
        if let Some(landed) = self.give_up(key) {
            silent = node;
            self.note_attempt(key, landed.us, AttemptEnd::TimedOut);
            if let Some(node) = silent {
                add(&self.links.stats(node).counters.timeouts, 1);
                self.queues.note_failure(&self.cx, node);
            }
        }
        add(&self.cx.shared.stats.global.requests_timed_out, 1);
        if self.on_errand_lost(key) {
            return;
        }
        let text = match silent.and_then(|n| self.cx.snapshot.nodes().get(n)) {
            Some(node) => format!(
                "Helenus: {} did not answer within {limit:?}",
                node.address()
            ),
            None => no_node_within(limit),
        };
        self.fail_timeout(key, &text);
    }

    fn on_request_expired(&mut self, key: ClientRequestKey, text: &str) {
        self.advance(key, |execution, cx| {
            execution.on_cut_short(cx);
            Step::Wait
        });
        let Some(request) = self.requests.clients.get(key) else {
            return;
        };
        add(&self.cx.shared.stats.global.requests_timed_out, 1);
        let (code, fields) = timed_out(&request.query, self.is_newest(Some(key)));
        self.fail_client(key, code, text, &fields);
    }

    /// Forgets a node request that nobody waits for, and the client request if that was all of it.
    pub(crate) fn cancel(&mut self, key: NodeRequestKey) {
        let request = self.requests.nodes.get(key);
        match request.and_then(|request| request.whole()) {
            Some(client) => self.end_request(client),
            None => self.drop_node_request(key),
        }
    }

    /// Forgets reads that wait for a node, or for parts of their page, and whose clients have left.
    pub(crate) fn cancel_unwanted(&mut self) {
        if !self.clients.take_have_left() {
            return;
        }
        let in_flight = |node_request: NodeRequestKey| {
            let request = self.requests.nodes.get(node_request);
            request.is_some_and(|request| request.flight().is_some())
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
}

fn no_node_within(limit: Duration) -> String {
    format!("Helenus: no node took the request within {limit:?}")
}
