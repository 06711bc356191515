//! Clients that go on with another process over the same sockets: away from here, and here from another one.

use std::time::Instant;

use crate::engine::Engine;
use crate::keys::SessionKey;
use crate::session::clients::Clients;
use crate::session::drain::Timetable;
use crate::session::handover::passed::{NotAdopted, PassedClient};
use crate::shared::ClientPermit;
use crate::upstream::connect::checks::check_every;

impl Engine {
    /// Another process takes over the clients of this worker, as far as their connections allow it.
    pub fn begin_passing(&mut self, now: Instant, may_be_passed: impl Fn(SessionKey) -> bool) {
        self.set_now(now);
        self.clients.begin_passing(&self.cx, may_be_passed);
    }

    /// True if there are clients that may still be passed on.
    pub fn is_passing(&self) -> bool {
        self.clients.is_passing()
    }

    /// Holds some of the clients that are to be passed on: nothing is read from them until they are, or until
    /// it has taken too long to answer them.
    pub fn hold_clients(&mut self, now: Instant, timetable: &Timetable) {
        self.set_now(now);
        self.clients.hold(&mut self.cx, timetable);
    }

    /// The next client that can be passed on. Its connection is not touched any more until
    /// [`Engine::keep_client`]; if the other process has it, [`Engine::close_session`] forgets it.
    pub fn next_to_pass(&mut self, now: Instant) -> Option<(SessionKey, PassedClient)> {
        self.set_now(now);
        self.clients.next_to_pass(&self.cx)
    }

    /// A client could not be passed on: it is served here.
    pub fn keep_client(&mut self, now: Instant, key: SessionKey) {
        self.set_now(now);
        self.clients.keep(&mut self.cx, key);
    }

    /// No further clients are passed on: those that are there are served here.
    pub fn end_passing(&mut self, now: Instant) {
        self.set_now(now);
        self.clients.end_passing(&mut self.cx);
    }

    /// Takes over a client that another process has had. Whoever says so is believed that a node has accepted
    /// the client's credentials; its links log in with them.
    ///
    /// # Errors
    /// Why it cannot be served here.
    pub fn adopt_session(
        &mut self,
        now: Instant,
        passed: PassedClient,
        permit: ClientPermit,
    ) -> Result<SessionKey, NotAdopted> {
        self.set_now(now);
        let member = Clients::member_of(&self.cx, &passed, check_every(&self.cx))?;
        let pool = match &member {
            Some(member) => self.links.pool_of(&mut self.cx, member.identity()),
            None => self.links.anonymous_pool(&mut self.cx),
        };
        let adopted = self
            .clients
            .adopt(&mut self.cx, passed, member, pool, permit)?;
        self.links.enter_pool(pool);
        self.settle();
        Ok(adopted)
    }
}

#[cfg(test)]
mod tests;
