//! All clients of a worker: who is there, and what others may know of one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use helenus_wire::Version;

use crate::context::Context;
use crate::features;
use crate::keys::{PoolKey, SessionKey};
use crate::session::connection::Session;
use crate::session::handover::leaving::Leavers;
use crate::session::login::attempt::Login;
use crate::session::names::Kind;
use crate::session::recent_events::{RecentEvents, ToldElsewhere};
use crate::shared::ClientPermit;
use crate::support::registry::Registry;

/// The clients of a worker.
#[derive(Default)]
pub(crate) struct Clients {
    pub(super) sessions: Registry<SessionKey, Session>,
    /// Logins that have not ended, one of a client at most. One that is being judged outlives its client.
    pub(super) logins: BTreeMap<SessionKey, Login>,
    /// Those with something to be written that is not under way.
    pub(super) dirty: Vec<SessionKey>,
    /// Some have left with requests in flight since this was last asked.
    have_left: bool,
    /// An answer while it is converted to its client's version.
    pub(super) convert_buf: Vec<u8>,
    /// Events that clients were told of late.
    pub(super) events: RecentEvents,
    pub(super) told_elsewhere: ToldElsewhere,
    /// Those that another process takes over.
    pub(super) leavers: Leavers,
}

/// The terms of all requests of a client that is ready.
pub(crate) struct Terms {
    pub version: Version,
    pub keyspace: Option<Rc<str>>,
    /// The links of its role.
    pub pool: PoolKey,
}

impl Clients {
    /// Takes in a new client whose connection is established.
    pub(crate) fn open(
        &mut self,
        cx: &Context,
        peer: SocketAddr,
        accepted: Instant,
        permit: ClientPermit,
    ) -> SessionKey {
        self.sessions
            .insert(Session::new(cx, peer, accepted, permit))
    }

    /// Forgets a client whose connection is closed. The links that it used, if it was ready.
    pub(crate) fn close(&mut self, cx: &Context, key: SessionKey) -> Option<PoolKey> {
        let session = self.sessions.remove(key)?;
        self.leavers.note_end(&session);
        self.have_left |= session.in_flight > 0;
        if let Some(member) = session.member {
            member.leave(cx.now);
        }
        session.pool
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(crate) fn is_there(&self, key: SessionKey) -> bool {
        self.sessions.contains_key(key)
    }

    /// Where a client is.
    pub(crate) fn peer_of(&self, key: SessionKey) -> Option<SocketAddr> {
        Some(self.sessions.get(key)?.peer)
    }

    /// A client's driver and application, as it names them.
    pub(crate) fn kind_of(&self, key: SessionKey) -> Option<&Kind> {
        Some(&self.sessions.get(key)?.names.kind)
    }

    /// State of features of a client's connection.
    #[inline]
    pub(crate) fn features_of(&mut self, key: SessionKey) -> Option<&mut features::InSession> {
        Some(&mut self.sessions.get_mut(key)?.features)
    }

    pub(crate) fn version_of(&self, key: SessionKey) -> Option<Version> {
        Some(self.sessions.get(key)?.version)
    }

    /// `None` if the client is gone or not ready.
    pub(crate) fn terms_of(&self, key: SessionKey) -> Option<Terms> {
        let session = self.sessions.get(key)?;
        Some(Terms {
            version: session.version,
            keyspace: session.keyspace.clone(),
            pool: session.pool?,
        })
    }

    /// A node has accepted a client's USE.
    pub(crate) fn set_keyspace(&mut self, key: SessionKey, keyspace: Rc<str>) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.keyspace = Some(keyspace);
        }
    }

    /// A client waits for one more answer.
    pub(crate) fn in_flight_began(&mut self, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.in_flight += 1;
            session.traffic.requests += 1;
        }
    }

    /// One of the answers that a client waits for is there, or never comes.
    pub(crate) fn in_flight_ended(&mut self, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.in_flight -= 1;
        }
    }

    /// Answers that each client waits for.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (SessionKey, usize)> {
        let sessions = self.sessions.iter();
        sessions.map(|(key, session)| (key, session.in_flight))
    }

    /// True if clients have left with requests in flight since this was last asked.
    pub(crate) fn take_have_left(&mut self) -> bool {
        std::mem::take(&mut self.have_left)
    }
}
