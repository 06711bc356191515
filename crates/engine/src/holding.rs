//! Requests that wait because an operator has paused their role or keyspace, and go on when that is over.

use std::sync::Arc;
use std::time::Instant;

use helenus_wire::Opcode;

use crate::arrival::Arrival;
use crate::backlog::Work;
use crate::engine::Engine;
use crate::gates::holding::HeldRequest;
use crate::holds::Hold;
use crate::memory::{Held, NO_MEMORY};
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// Requests that go on at a time; others come in between.
const RELEASED_AT_ONCE: usize = 256;

/// What a pause does to a request.
pub(crate) enum HeldBack {
    /// There is none.
    No,
    Waits,
    /// Too much waits.
    Refused(String),
}

impl Engine {
    /// Lets a request wait if it is paused.
    #[inline(never)]
    pub(crate) fn hold_back(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
    ) -> HeldBack {
        let Some(hold) = self.hold_of(arrival, analysis, statement) else {
            return HeldBack::No;
        };
        let place = match hold.admit() {
            Ok(_) if self.cx.memory.is_full(arrival.body.len()) => {
                return HeldBack::Refused(NO_MEMORY.to_owned());
            }
            Ok(place) => place,
            Err(why) => return HeldBack::Refused(why),
        };
        let request = HeldRequest {
            session: arrival.session,
            header: arrival.header,
            opcode: arrival.opcode,
            body: arrival.body.to_vec(),
            content_at: arrival.payload().len(),
            _bytes: Held::new(&self.cx.memory, arrival.body.len()),
            _place: place,
        };
        self.holds.push(&hold, request);
        self.clients.in_flight_began(arrival.session);
        HeldBack::Waits
    }

    /// The pause that a request is under. What drivers ask to connect and what nodes prepare changes nothing
    /// and does not wait.
    fn hold_of(
        &self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
    ) -> Option<Arc<Hold>> {
        let is_local = |of: &Statement| of.is_node_local(analysis.keyspace);
        if arrival.opcode == Opcode::Prepare || statement.is_some_and(is_local) {
            return None;
        }
        let table = analysis.table(statement);
        let keyspace = table.map(|(keyspace, _)| keyspace).or(analysis.keyspace);
        let identity = self.links.identity_of(arrival.pool);
        let role = identity.and_then(|identity| identity.role().map(|role| &**role));
        self.holds.of(self.cx.now, role, keyspace)
    }

    /// Takes over what has been paused and resumed.
    pub(crate) fn adopt_holds(&mut self) {
        self.holds.adopt(self.cx.shared.holds.list(self.cx.now));
        self.release_held();
    }

    /// Lets requests go on whose pause is over, a number of them at a time.
    pub(crate) fn release_held(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        for _ in 0..RELEASED_AT_ONCE {
            let Some(held) = self.holds.next(self.cx.now) else {
                return;
            };
            self.backlog.push(Work::Released(Box::new(held)));
        }
    }

    /// When requests are to go on next.
    #[inline]
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.holds.next_end()
    }
}
