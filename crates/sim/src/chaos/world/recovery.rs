//! Life after trouble: whoever comes some time after the last fault is served, at each worker.

use super::network::End;
use super::{Event, World};
use crate::chaos::client::{Answer, Client, InFlight, Purpose, TEXTS};
use crate::chaos::coverage;
use crate::chaos::proxy::At;

/// So long after trouble has ended everything works. The last frozen node thaws, and the last partition ends, after seven
/// seconds; a node that could not be reached just before is tried again after ten (`links.backoff_max_ms`).
pub(super) const RECOVERED_AFTER_US: u64 = 20_000_000;
/// So long after it a proxy has connections of the roles of those that come then to all nodes.
pub(super) const CONNECTED_AFTER_US: u64 = RECOVERED_AFTER_US + 1_000_000;
/// What each client asks for, one after the other, by the numbers of `begin_request`: reads of a key, an addition, a
/// conditional write, pages, a count, several keys.
const ASKS: [u64; 8] = [0, 10, 12, 15, 16, 17, 26, 0];

impl World {
    /// A new client comes to each worker.
    pub(super) fn begin_recovered(&mut self) {
        self.is_calm = true;
        for proxy in self.proxies_running() {
            for worker in 0..self.proxies[proxy].workers.len() {
                let at = At { proxy, worker };
                let number = self.clients.len();
                let mut client = Client::new(worker % 2, self.version, 0);
                client.asks_left = Some(ASKS.len());
                self.clients.push(client);
                self.connect_to(number, at);
            }
        }
    }

    /// The next request of such a client, once it has the answer to the one before.
    pub(super) fn ask_after_trouble(&mut self, number: usize) {
        let now_us = self.now_us();
        let client = &mut self.clients[number];
        let (Some(left), true) = (client.asks_left, client.in_flight.is_empty()) else {
            return;
        };
        // Half of them ask at once, over whichever connection is there first; the others when all are.
        let connected_us = self.trouble_us + CONNECTED_AFTER_US;
        if number.is_multiple_of(2) && now_us < connected_us {
            let wait_us = connected_us - now_us;
            return self.events.plan(wait_us, Event::Act(number));
        }
        let Some(rest) = left.checked_sub(1) else {
            if let Some(connection) = client.connection.take() {
                self.leave(connection, End::Peer);
            }
            return;
        };
        client.asks_left = Some(rest);
        let which = ASKS[rest];
        let key = self.dice.below(self.keys as u64) as i64;
        let least = self.cluster.nodes.iter().map(|node| node.schema).min();
        let begun = match which {
            10 | 12 => self.begin_write(number, which, key),
            _ => Some(self.begin_read(number, which, key)),
        };
        if let Some(stream) = begun {
            self.note_begun(number, stream, least);
        }
        self.write_of_client(number);
    }

    /// None of its requests fails, but for what the settings mean.
    pub(super) fn judge_recovered(
        &mut self,
        number: usize,
        at: At,
        request: &InFlight,
        answer: &Answer,
    ) {
        if self.clients[number].asks_left.is_none() {
            return;
        }
        self.count(coverage::ASKED_AFTER_TROUBLE);
        self.checked(coverage::Check::Recovered, true);
        let purpose = &request.purpose;
        // The parts of one scan fill a queue for two.
        let in_parts = matches!(
            purpose,
            Purpose::Scan(..) | Purpose::Count | Purpose::Many(_)
        );
        // What a node is taught takes all of the only link for a moment, if it is for four.
        let is_narrow = self.proxies[at.proxy]
            .terms
            .during(request.begun_us, self.now_us())
            .link_room_least
            < TEXTS.len();
        // Where nodes take milliseconds for anything, a page that filters is not read in stretches of `piece_ms` in
        // time.
        let is_busy = !self.loads.is_empty();
        let is_meant = |text: &str| {
            text.contains("Helenus: rule ")
                || is_busy && text.contains("the page was not complete within")
                || in_parts && text.contains("too many requests of this kind wait")
                || is_narrow && text.contains("no Cassandra node can be reached now")
        };
        if let Answer::Error(code, text) = answer
            && !is_meant(text)
        {
            self.violate(format!(
                "after trouble, at {at:?}, client {number} is told {code:#06x} {text}, to {purpose:?}"
            ));
        }
    }

    /// Each of them has asked for all that it wanted.
    pub(super) fn judge_unserved(&mut self) {
        let unserved = |client: &Client| client.asks_left.is_some_and(|left| left > 0);
        if let Some(number) = self.clients.iter().position(unserved) {
            let left = self.clients[number].asks_left.unwrap_or_default();
            self.violate(format!(
                "after trouble, client {number} has not been able to ask for {left} things"
            ));
        }
    }
}
