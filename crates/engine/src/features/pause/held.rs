//! Requests of one worker that wait because an operator has paused their role or keyspace.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_wire::{Header, Opcode, Version};

use crate::features::pause::operator_pause::{HeldPlace, Hold, Paused};
use crate::keys::{PoolKey, SessionKey};
use crate::memory::Held;
use crate::pipeline::arrival::Arrival;

/// A request as it came.
#[derive(Debug)]
pub(crate) struct HeldRequest {
    pub session: SessionKey,
    /// That its session was in; USE does not wait.
    pub keyspace: Option<Rc<str>>,
    /// It does not wait for longer.
    pub until: Instant,
    pub header: Header,
    pub opcode: Opcode,
    pub body: Vec<u8>,
    /// Where what is behind its custom payload begins.
    pub content_at: usize,
    pub _bytes: Held,
    pub _place: HeldPlace,
}

impl HeldRequest {
    /// The request as it came.
    pub(crate) fn arrival(&self, version: Version, pool: PoolKey) -> Arrival<'_> {
        Arrival {
            session: self.session,
            header: self.header,
            opcode: self.opcode,
            version,
            pool,
            keyspace: self.keyspace.as_ref(),
            body: &self.body,
            content: self.body.get(self.content_at..).unwrap_or_default(),
        }
    }
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

    /// The pause that a request has to wait for: one in force or, unless it has waited for that already, one
    /// that is over while others that came before still wait for it.
    pub(crate) fn of(
        &self,
        now: Instant,
        has_waited: bool,
        is_of: impl Fn(&Paused) -> bool,
    ) -> Option<Arc<Hold>> {
        let mut holds = self.holds.iter();
        let found = holds.find(|(hold, waiting)| {
            let holds_back = !hold.is_over(now) || !has_waited && !waiting.is_empty();
            holds_back && is_of(&hold.of)
        });
        found.map(|(hold, _)| hold.clone())
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

    /// When the next pause with requests is over, if it does not end before: now if it is.
    #[inline]
    pub(crate) fn next_end(&self, now: Instant) -> Option<Instant> {
        let holds = self.holds.iter().filter(|(_, waiting)| !waiting.is_empty());
        let ends = holds.map(|(hold, _)| match hold.is_over(now) {
            true => now,
            false => hold.until,
        });
        ends.min()
    }

    /// Takes out the requests that have waited for as long as they may, with what they waited for, and those
    /// of clients that have left, which nobody is to answer.
    pub(crate) fn take_late(
        &mut self,
        now: Instant,
        is_there: impl Fn(SessionKey) -> bool,
    ) -> Vec<(Arc<Hold>, HeldRequest)> {
        let mut late = Vec::new();
        for (hold, waiting) in &mut self.holds {
            waiting.retain(|request| is_there(request.session));
            if hold.is_over(now) || waiting.iter().all(|request| now < request.until) {
                continue;
            }
            for request in std::mem::take(waiting) {
                match now < request.until {
                    true => waiting.push_back(request),
                    false => late.push((hold.clone(), request)),
                }
            }
        }
        late
    }

    /// The clients of the requests that wait.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionKey> + '_ {
        let requests = self.holds.iter().flat_map(|(_, waiting)| waiting);
        requests.map(|request| request.session)
    }
}
