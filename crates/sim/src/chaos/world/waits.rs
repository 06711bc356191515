//! How long clients wait: for an answer, or for the end of their connection.

use std::sync::atomic::Ordering;

use super::World;
use crate::chaos::client::{InFlight, Purpose};
use crate::chaos::coverage::Check;
use crate::chaos::proxy::At;

/// For schema agreement (`cluster.schema_agreement_max_ms`).
const AGREEMENT_MS: u64 = 5_000;
/// For pauses while coordinators miss replicas of a ring that moves: no time at a node (`engine/pauses.rs`).
const PAUSES_MS: u64 = 5_000;
/// A write of a table with derived layouts goes to the table, and to each layout by as many requests at most, one after the
/// other (`features/layouts/derived/followed_write.rs`).
const REQUESTS_DERIVED: u64 = 1 + 3;
/// For ticks, the network, and the shell's own steps.
const SLACK_MS: u64 = 1_000;
/// From an answer to the request that follows it. What has been sent earlier to a proxy that closes the
/// connection has reached it.
const UNDER_WAY_US: u64 = 50_000;

impl World {
    /// The longest that a request may take: the time-out at its node, and a wait in a node's queue that
    /// has begun before; for a page of a scan, the time-out of pages. What else consists of many requests to
    /// nodes has a bound for each of these only; and so has what a proxy does not read before other answers
    /// have left (`limits.client_in_flight_max`). The settings are those that were in force while it was under way.
    fn wait_max_us(&self, at: At, request: &InFlight) -> Option<u64> {
        let history = &self.proxies[at.proxy].terms;
        let waits = history.during(request.begun_us, self.now_us());
        if request.behind > waits.reads_ahead_least {
            return None;
        }
        let queue_ms = match request.purpose {
            Purpose::Startup | Purpose::Login => return None,
            Purpose::Count | Purpose::Many(_) => return None,
            Purpose::Scan(..) => waits
                .scan_ms
                .max(waits.page_ms.saturating_sub(waits.node_ms)),
            Purpose::Read(_) | Purpose::ReadCas(_) => waits.read_ms,
            Purpose::ReadList(_) | Purpose::Who => waits.read_ms,
            Purpose::Write(..) | Purpose::Add(_) => waits.write_ms,
            Purpose::Cas(..) | Purpose::List(_) => waits.write_ms,
            Purpose::Rows(_) => waits.read_ms.max(waits.other_ms),
            Purpose::Batch(_) | Purpose::RowWrite(_) => waits.write_ms.max(waits.other_ms),
            Purpose::Alter => waits.other_ms + AGREEMENT_MS,
            Purpose::Prepare(_) | Purpose::Use => waits.other_ms,
        };
        let paused = &self.proxies[at.proxy].common.stats.global.requests_paused;
        let pauses_ms = match paused.load(Ordering::Relaxed) {
            0 => 0,
            _ => PAUSES_MS,
        };
        let requests = match request.purpose {
            Purpose::RowWrite(_) if self.derived.is_some() => REQUESTS_DERIVED,
            _ => 1,
        };
        Some(((waits.node_ms + queue_ms) * requests + pauses_ms + SLACK_MS) * 1_000)
    }

    /// A request has its answer, or its connection has ended.
    pub(super) fn judge_wait(&mut self, client: usize, at: At, request: &InFlight) {
        let waited_us = self.now_us().saturating_sub(request.begun_us);
        self.longest_wait_us = self.longest_wait_us.max(waited_us);
        let most_us = self.wait_max_us(at, request);
        let Some(most_us) = most_us.filter(|_| !self.is_aggressor(client)) else {
            return;
        };
        self.checked(Check::Wait, waited_us > most_us / 2);
        if waited_us > most_us {
            let what = format!("client {client} has waited {waited_us} us for {request:?}");
            self.violate(what);
        }
    }

    /// A connection ends before a client has had all answers.
    pub(super) fn judge_end(&mut self, client: usize, number: usize) {
        let connection = &self.connections[number];
        let at = connection.at;
        let drained_us = connection.drained_us.filter(|_| !connection.broken);
        let in_flight: Vec<InFlight> = self.clients[client].in_flight.values().cloned().collect();
        for request in &in_flight {
            self.judge_wait(client, at, request);
        }
        // Clients that have logged in may also lose their connections with their roles.
        let is_anonymous = !self.authenticated;
        if drained_us.is_some() && is_anonymous {
            self.checked(Check::Drained, true);
        }
        if let Some(drained_us) = drained_us
            && let Some(lost) = in_flight
                .iter()
                .find(|request| request.begun_us + UNDER_WAY_US < drained_us)
            && is_anonymous
        {
            let what = format!("client {client} was sent away while it waited for {lost:?}");
            self.violate(what);
        }
    }
}
