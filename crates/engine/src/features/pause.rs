//! Requests that wait because an operator has paused their role or keyspace, and go on when that is over.

pub(crate) mod held;
pub mod operator_pause;
pub(crate) mod resume;

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_cql::Kind;
use helenus_wire::Opcode;

use crate::backlog::Work;
use crate::engine::Engine;
use crate::features::pause::held::HeldRequest;
use crate::features::pause::operator_pause::{Hold, MEMORY_SHARE, Paused};
use crate::memory::{Held, NO_MEMORY};
use crate::pipeline::arrival::Arrival;
use crate::snapshot::timeouts::{Timed, Timeouts};
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;
use crate::stats::add;

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
        has_waited: bool,
    ) -> HeldBack {
        let Some(hold) = self.hold_of(arrival, analysis, statement, has_waited) else {
            return HeldBack::No;
        };
        let bytes = size_of::<HeldRequest>() + arrival.body.len();
        let bytes_max = self.cx.shared.memory_max() / MEMORY_SHARE;
        if self.cx.memory.is_full(bytes) {
            add(&hold.refused, 1);
            return HeldBack::Refused(NO_MEMORY.to_owned());
        }
        let place = match hold.admit(bytes, bytes_max) {
            Ok(place) => place,
            // It would only have kept the order.
            Err(_) if hold.is_over(self.cx.now) => return HeldBack::No,
            Err(why) => return HeldBack::Refused(why),
        };
        let request = HeldRequest {
            session: arrival.session,
            keyspace: arrival.keyspace.cloned(),
            until: self.cx.now + self.wait_max(),
            header: arrival.header,
            opcode: arrival.opcode,
            body: arrival.body.to_vec(),
            content_at: arrival.payload().len(),
            _bytes: Held::new(&self.cx.memory, bytes),
            _place: place,
        };
        self.holds.push(&hold, request);
        self.clients.in_flight_began(arrival.session);
        HeldBack::Waits
    }

    /// The pause that a request is under. What drivers ask to connect and what nodes prepare changes nothing
    /// and does not wait.
    fn hold_of(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
        has_waited: bool,
    ) -> Option<Arc<Hold>> {
        let passes =
            |of: &Statement| of.facts.kind == Kind::Use || of.is_node_local(analysis.keyspace);
        if arrival.opcode == Opcode::Prepare || statement.is_some_and(passes) {
            return None;
        }
        let asked = (arrival.opcode, arrival.content, arrival.version);
        let keyspaces = self.statements.keyspaces(&self.cx, asked, analysis);
        let identity = self.links.identity_of(arrival.pool);
        let role = identity.and_then(|identity| identity.role().map(|role| &**role));
        self.holds.of(self.cx.now, has_waited, |of| match of {
            Paused::Role(of) => role == Some(of),
            Paused::Keyspace(of) => keyspaces.may_have(of),
        })
    }

    /// How long a request waits at most: as long as it might be at a node.
    pub(crate) fn wait_max(&self) -> Duration {
        let nodes = self.cx.snapshot.nodes.iter();
        let of_nodes = nodes.map(|node| node.timeouts.unwrap_or_default().limit(Timed::Read));
        let set = self.cx.shared.config.request_timeout();
        let longest = set.or_else(|| of_nodes.max());
        longest.unwrap_or_else(|| Timeouts::default().limit(Timed::Read))
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
        self.holds.next_end(self.cx.now)
    }
}

#[cfg(test)]
mod tests;
