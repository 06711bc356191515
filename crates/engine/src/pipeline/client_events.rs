//! Clients' connections: their bytes and logins, and what these ask of the other stations.

use std::net::SocketAddr;
use std::time::Instant;

use helenus_wire::{Flow, Header};

use crate::keys::SessionKey;
use crate::output::Sent;
use crate::pipeline::engine::Engine;
use crate::session::connection::Next;
use crate::session::drain::Timetable;
use crate::session::outbox::Outbox;
use crate::session::step::Step;
use crate::shared::ClientPermit;

/// A buffer that has grown larger is not kept.
const SCRATCH_MAX: usize = 1 << 20;

/// A client's connection, for whoever moves its bytes.
impl Engine {
    /// Takes in a new client whose connection is established.
    pub fn open_session(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        accepted: Instant,
        permit: ClientPermit,
    ) -> SessionKey {
        self.set_now(now);
        self.clients.open(&self.cx, peer, accepted, permit)
    }

    /// Where a client is.
    pub fn peer_of(&self, key: SessionKey) -> Option<SocketAddr> {
        self.clients.peer_of(key)
    }

    /// The next step of a client's connection; `None` if there is none any more.
    pub fn next_for_client(&mut self, now: Instant, key: SessionKey) -> Option<Next> {
        self.set_now(now);
        self.clients.next_for(&self.cx, key)
    }

    /// Bytes have come from a client.
    pub fn on_client_bytes(&mut self, now: Instant, key: SessionKey, bytes: &[u8]) {
        self.set_now(now);
        let mut reading = self.clients.begin_reading(&self.cx, key, bytes);
        // Not moved: a decoder is large.
        let Some(reading) = &mut reading else {
            return;
        };
        let mut scratch = self.take_scratch();
        loop {
            reading.feed(&mut scratch, |header, body| {
                let flow = self.on_client_envelope(key, header, body);
                self.settle();
                flow
            });
            if !self.clients.reads_on(&self.cx, reading) {
                break;
            }
        }
        if scratch.capacity() <= SCRATCH_MAX {
            self.give_back_scratch(scratch);
        }
        self.clients.end_reading(&mut self.cx, reading);
    }

    /// A client has closed its side, or the connection has broken.
    pub fn on_client_end(&mut self, now: Instant, key: SessionKey, broken: bool) {
        self.set_now(now);
        self.clients.on_end(&self.cx, key, broken);
    }

    /// A client has been told that nothing more comes.
    pub fn on_client_shut_down(&mut self, now: Instant, key: SessionKey) {
        self.set_now(now);
        self.clients.on_shut_down(&self.cx, key);
    }

    /// True if a client's connection waits to take more bytes.
    pub fn is_client_blocked(&self, key: SessionKey) -> bool {
        self.clients.is_blocked(key)
    }

    /// True if nothing is read from a client's connection for now.
    pub fn is_client_held(&self, key: SessionKey) -> bool {
        self.clients.is_held(key)
    }

    /// The bytes to be written to a client, to be followed by [`Engine::on_client_sent`].
    pub fn client_bytes(&mut self, key: SessionKey) -> Option<&mut Outbox> {
        self.clients.bytes(key)
    }

    /// An attempt to write a client's bytes has ended.
    pub fn on_client_sent(&mut self, now: Instant, key: SessionKey, sent: Sent) {
        self.set_now(now);
        self.clients.on_sent(&mut self.cx, key, sent);
    }

    /// Closes a client once its last answer has left.
    pub fn finish(&mut self, now: Instant, key: SessionKey) {
        self.set_now(now);
        self.clients.finish(&mut self.cx, key);
    }

    /// Closes clients that are quiet, as far as it is their time.
    pub fn close_quiet_sessions(&mut self, now: Instant, timetable: &Timetable) {
        self.set_now(now);
        self.clients.close_quiet(&mut self.cx, timetable);
    }

    /// A client's connection is closed.
    pub fn close_session(&mut self, now: Instant, key: SessionKey) {
        self.set_now(now);
        self.leave_login(key);
        if let Some(pool) = self.clients.close(&self.cx, key) {
            self.links.leave_pool(pool, self.cx.now);
        }
        self.settle();
    }
}

/// Clients' requests to the other stations.
impl Engine {
    fn on_client_envelope(&mut self, key: SessionKey, header: Header, body: &[u8]) -> Flow {
        match self.clients.on_envelope(&mut self.cx, key, header, body) {
            Step::Nothing(flow) => return flow,
            Step::Admit => {
                let pool = self.links.anonymous_pool(&mut self.cx);
                if self.clients.make_ready(&self.cx, key, pool) {
                    self.links.enter_pool(pool);
                }
                return Flow::Pause;
            }
            Step::LogIn { token } => self.start_login(key, header.stream, token),
            Step::Request { opcode, content } => {
                self.on_request(key, header, opcode, body, content)
            }
        }
        Flow::Continue
    }
}
