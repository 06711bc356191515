//! One client connection: what is known of it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use helenus_wire::{Compression, Decoder, Version};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::features;
use crate::keys::PoolKey;
use crate::memory::Held;
use crate::session::login::identity::Member;
use crate::session::names::{ClientNames, CountedClient};
use crate::session::outbox::Outbox;
use crate::shared::ClientPermit;

/// The longest message of a client that nobody knows yet: a STARTUP, or a token.
const HANDSHAKE_BODY_MAX: usize = 16 * 1024;

/// One client connection.
pub(super) struct Session {
    pub _permit: ClientPermit,
    pub decoder: Decoder,
    pub outbox: Outbox,
    /// Bytes of messages that have come in part.
    pub partial_held: Held,
    /// Bytes that wait to be written, less those that it shares with others.
    pub backlog_held: Held,
    pub version: Version,
    pub phase: Phase,
    pub peer: SocketAddr,
    /// The links of its role.
    pub pool: Option<PoolKey>,
    /// As whom it has logged in, if it had to.
    pub member: Option<Member>,
    /// The names that it gives itself.
    pub names: Box<ClientNames>,
    /// Set while it is ready.
    pub counted: Option<CountedClient>,
    pub keyspace: Option<Rc<str>>,
    pub features: features::InSession,
    /// Bits of [`crate::shared::EventKind`].
    pub events: u8,
    pub in_flight: usize,
    /// So far.
    pub traffic: Traffic,
    /// As its STARTUP asked.
    pub compression: Compression,
    pub accepted: Instant,
    /// Messages that have come before it was ready.
    pub early_messages: u32,
    /// When bytes last came, or were last to be sent.
    pub active: Instant,
    /// Its connection takes no more for now; what waits is written as soon as it does.
    pub write_blocked: bool,
    /// When the socket last took bytes, or a client came.
    pub wrote: Instant,
    /// It is among those with something to be written.
    pub dirty: bool,
    pub life: Life,
    /// Mode of the decoder from the next byte on.
    pub next_mode: Option<(bool, Compression)>,
    /// Set while its bytes wait because it has too much in flight.
    pub paused: bool,
    pub passing: Passing,
}

/// Requests and bytes of a client.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Traffic {
    /// Requests that waited for nodes: not what the proxy answers itself.
    pub requests: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Where a client is in its handshake.
pub(super) enum Phase {
    /// Nothing agreed yet.
    Fresh,
    /// The client was sent this AUTHENTICATE.
    Asked(Vec<u8>),
    /// A node judges its token, or will.
    LoggingIn,
    Ready,
}

/// How a client connection comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// The proxy stops and nothing is left to be answered, unless something has come meanwhile; since
    /// this instant.
    Leaving(Instant),
    /// Nothing more is read, but what has been answered still leaves; since this instant.
    Finishing(Instant),
    /// Everything has left and the client knows it; its own end is awaited, since this instant.
    Lingering(Instant),
    /// To be closed as it is.
    Dead,
}

/// Where a client is on its way to another process, if the proxy makes way for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// It has no such way.
    Stays,
    /// It is to be held, from this instant on.
    Due(Instant),
    /// Nothing is read from it, since this instant.
    Held(Instant),
    /// The other process may have it, since this instant.
    Offered(Instant),
}

/// The next step for a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To read from it. If nothing is there while it is `leaving`, its last answer is to leave.
    Read { leaving: bool },
    /// Nothing, until [`Output::Client`] names it or bytes that waited for it have been written.
    ///
    /// [`Output::Client`]: crate::output::Output::Client
    Wait,
    /// To be told that nothing more comes.
    ShutDown,
    /// To throw away what it still sends until it closes its end.
    Linger,
    /// To be closed as it is.
    Close,
}

impl Session {
    pub(super) fn new(
        cx: &Context,
        peer: SocketAddr,
        accepted: Instant,
        permit: ClientPermit,
    ) -> Session {
        let mut decoder = Decoder::new(HANDSHAKE_BODY_MAX);
        decoder.set_version_max(cx.snapshot.version());
        Session {
            _permit: permit,
            decoder,
            outbox: Outbox::new(),
            partial_held: Held::new(&cx.memory, 0),
            backlog_held: Held::new(&cx.memory, 0),
            version: cx.snapshot.version(),
            phase: Phase::Fresh,
            peer,
            pool: None,
            member: None,
            names: Box::default(),
            counted: None,
            keyspace: None,
            features: features::InSession::default(),
            events: 0,
            in_flight: 0,
            traffic: Traffic::default(),
            compression: Compression::None,
            accepted,
            early_messages: 0,
            active: accepted,
            wrote: accepted,
            write_blocked: false,
            dirty: false,
            life: Life::Open,
            next_mode: None,
            paused: false,
            passing: Passing::Stays,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.life, Life::Open | Life::Leaving(_))
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// True if nothing is read from it for the sake of its way to another process.
    pub(super) fn is_held_back(&self) -> bool {
        matches!(self.passing, Passing::Held(_) | Passing::Offered(_))
    }

    /// True if another process may have it.
    pub(super) fn is_offered(&self) -> bool {
        matches!(self.passing, Passing::Offered(_))
    }

    /// True if it is closed when it is quiet, if the proxy stops.
    pub(super) fn stays(&self) -> bool {
        self.passing == Passing::Stays || !self.is_ready()
    }

    /// True if an answer can still reach it: one after the last would only break the connection.
    pub(super) fn hears_answers(&self) -> bool {
        !matches!(self.life, Life::Lingering(_) | Life::Dead)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.write_blocked || !self.outbox.is_empty()
    }
}
