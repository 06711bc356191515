//! Requests that have waited for the end of a pause begin their way anew, or have waited for too long.

use crate::engine::Engine;
use crate::features::pause::held::HeldRequest;
use crate::session::clients::Terms;
use crate::stats::add;

impl Engine {
    /// Carries out a request that has waited, unless its client has left.
    pub(crate) fn on_released(&mut self, held: &HeldRequest) {
        let session = held.session;
        self.clients.in_flight_ended(session);
        let Some(Terms { version, pool, .. }) = self.clients.terms_of(session) else {
            return;
        };
        let arrival = held.arrival(version, pool);
        let (content, of) = (arrival.content, held.keyspace.as_deref());
        let cx = &self.cx;
        // It was counted when it came.
        let analysis = self
            .statements
            .analyze_again(cx, held.opcode, content, version, of);
        match analysis {
            Ok(analysis) => self.take_in(arrival, analysis, true),
            Err(e) => self.refuse_unread(&arrival, &e),
        }
    }

    /// Answers what has waited for too long, and forgets what nobody waits for any more.
    pub(crate) fn refuse_late_held(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        let clients = &self.clients;
        let late = self
            .holds
            .take_late(self.cx.now, |session| clients.is_there(session));
        for (hold, held) in late {
            self.clients.in_flight_ended(held.session);
            add(&hold.refused, 1);
            let Some(terms) = self.clients.terms_of(held.session) else {
                continue;
            };
            let why = hold.too_long(self.wait_max());
            let arrival = held.arrival(terms.version, terms.pool);
            self.refuse(&arrival, None, &why);
        }
    }
}
