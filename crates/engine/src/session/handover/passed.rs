//! A client's session as a value: for another process that goes on with it over the same socket.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use helenus_wire::{Compression, Version};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::session::connection::Traffic;
use crate::session::login::credentials::Credentials;
use crate::session::login::identity::Full;
use crate::session::names::ClientNames;
use crate::session::recent_events::Told;

/// Of [`PassedClient`] and of [`PassedStatement`](crate::statement::prepared::PassedStatement): processes
/// that write different ones do not understand each other. A field that may be missing needs no new number.
pub const STATE_VERSION: u32 = 2;

/// A client between two of its messages, with nothing in flight. It holds a secret and what the client has
/// sent, so nothing of it is shown.
#[derive(Deserialize, Serialize)]
pub struct PassedClient {
    pub(in crate::session) peer: SocketAddr,
    /// Number of the protocol's version.
    pub(in crate::session) version: u8,
    /// As STARTUP names it.
    pub(in crate::session) compression: Option<Box<str>>,
    pub(in crate::session) keyspace: Option<Box<str>>,
    /// Bits of [`crate::shared::EventKind`].
    pub(in crate::session) events: u8,
    /// The events of late that it has had, of these kinds.
    #[serde(default)]
    pub(in crate::session) told: Vec<Told>,
    /// As whom it has logged in, if it had to, and how long ago a node last accepted that.
    pub(in crate::session) login: Option<(Credentials, Duration)>,
    pub(in crate::session) names: ClientNames,
    pub(in crate::session) traffic: Traffic,
    /// Since it connected, and since it was last heard or answered.
    pub(in crate::session) age: Duration,
    pub(in crate::session) idle: Duration,
    /// Of a message that has come in part: bytes as they were received, and what was in frames before
    /// these.
    #[serde(with = "serde_bytes")]
    pub(in crate::session) pending: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub(in crate::session) partial: Vec<u8>,
    /// Answers that its connection has not taken yet, as they are to be written.
    #[serde(with = "serde_bytes")]
    pub(in crate::session) unsent: Vec<u8>,
}

/// Why a client that another process has had cannot be taken over.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum NotAdopted {
    #[error("limits.clients_max is reached")]
    TooMany,
    #[error("limits.memory_max is reached")]
    Memory,
    #[error("the nodes do not speak version {0} of the protocol")]
    Version(u8),
    #[error("its state is not understood")]
    State,
    #[error("it has not logged in, and the nodes want that by now")]
    NotLoggedIn,
    #[error("it has logged in, and the nodes do not want that any more")]
    LoggedIn,
    #[error("{0}")]
    Identities(String),
    #[error("it is not encrypted, and listen.tls is set")]
    NotEncrypted,
}

impl From<Full> for NotAdopted {
    fn from(full: Full) -> NotAdopted {
        NotAdopted::Identities(full.to_string())
    }
}

impl PassedClient {
    /// Bytes that it takes, roughly.
    pub fn byte_len(&self) -> usize {
        size_of::<PassedClient>()
            + self.pending.len()
            + self.partial.len()
            + self.unsent.len()
            + self.told.len() * size_of::<Told>()
    }

    /// As if it had logged in so long ago.
    #[cfg(test)]
    pub(crate) fn logged_in(mut self, credentials: Credentials, ago: Duration) -> PassedClient {
        self.login = Some((credentials, ago));
        self
    }

    /// True if it takes something along that is held here.
    pub(in crate::session) fn has_bytes(&self) -> bool {
        !self.pending.is_empty() || !self.partial.is_empty() || !self.unsent.is_empty()
    }

    pub(in crate::session) fn version(&self) -> Result<Version, NotAdopted> {
        Version::from_number(self.version).ok_or(NotAdopted::Version(self.version))
    }

    pub(in crate::session) fn compression(&self) -> Result<Compression, NotAdopted> {
        match self.compression.as_deref() {
            None => Ok(Compression::None),
            Some("lz4") => Ok(Compression::Lz4),
            Some("snappy") if self.version < Version::V5 as u8 => Ok(Compression::Snappy),
            Some(_) => Err(NotAdopted::State),
        }
    }
}

/// As STARTUP names it.
pub(in crate::session) fn name_of(compression: Compression) -> Option<Box<str>> {
    match compression {
        Compression::None => None,
        Compression::Lz4 => Some("lz4".into()),
        Compression::Snappy => Some("snappy".into()),
    }
}

impl fmt::Debug for PassedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PassedClient({}, ..)", self.peer)
    }
}
