//! Requests of one worker that wait because an operator has paused their role or keyspace.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use helenus_wire::{Header, Opcode};

use crate::holds::{HeldPlace, Hold, Paused};
use crate::keys::SessionKey;
use crate::memory::Held;

/// A request as it came.
#[derive(Debug)]
pub(crate) struct HeldRequest {
    pub session: SessionKey,
    pub header: Header,
    pub opcode: Opcode,
    pub body: Vec<u8>,
    /// Where what is behind its custom payload begins.
    pub content_at: usize,
    pub _bytes: Held,
    pub _place: HeldPlace,
}

/// The pauses in force, as one worker knows them, and what waits because of each.
#[derive(Default)]
pub(crate) struct HoldGate {
    holds: Vec<(Arc<Hold>, VecDeque<HeldRequest>)>,
}

impl HoldGate {
    /// Puts pauses in force that are new. Those that are over stay until nothing waits for them.
    pub(crate) fn adopt(&mut self, active: Vec<Arc<Hold>>) {
        for hold in active {
            if !self
                .holds
                .iter()
                .any(|(known, _)| Arc::ptr_eq(known, &hold))
            {
                self.holds.push((hold, VecDeque::new()));
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// The pause that a request has to wait for.
    pub(crate) fn of(
        &self,
        now: Instant,
        role: Option<&str>,
        keyspace: Option<&str>,
    ) -> Option<Arc<Hold>> {
        let is_of = |hold: &Hold| match &hold.of {
            Paused::Role(of) => role == Some(of),
            Paused::Keyspace(of) => keyspace == Some(of),
        };
        let mut holds = self.holds.iter().map(|(hold, _)| hold);
        holds
            .find(|hold| is_of(hold) && !hold.is_over(now))
            .cloned()
    }

    /// Lets a request wait until a pause is over.
    pub(crate) fn push(&mut self, hold: &Arc<Hold>, request: HeldRequest) {
        let mut holds = self.holds.iter_mut();
        if let Some((_, waiting)) = holds.find(|(known, _)| Arc::ptr_eq(known, hold)) {
            waiting.push_back(request);
        }
    }

    /// A request whose pause is over, in the order in which they came.
    pub(crate) fn next(&mut self, now: Instant) -> Option<HeldRequest> {
        self.holds
            .retain(|(hold, waiting)| !waiting.is_empty() || !hold.is_over(now));
        let mut holds = self.holds.iter_mut();
        let (_, waiting) = holds.find(|(hold, _)| hold.is_over(now))?;
        waiting.pop_front()
    }

    /// When the next pause with requests is over, if it does not end before.
    #[inline]
    pub(crate) fn next_end(&self) -> Option<Instant> {
        let holds = self.holds.iter().filter(|(_, waiting)| !waiting.is_empty());
        holds.map(|(hold, _)| hold.until).min()
    }

    /// The clients of the requests that wait.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionKey> + '_ {
        let requests = self.holds.iter().flat_map(|(_, waiting)| waiting);
        requests.map(|request| request.session)
    }
}
