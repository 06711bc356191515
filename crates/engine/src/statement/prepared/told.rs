//! Descriptions that connections have been told of statements that they have prepared themselves.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::keys::SessionKey;
use crate::statement::prepared::Prepared;
use crate::statement::prepared::description::Description;
use crate::support::recent::Recent;

/// How a client knows a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// As it is: its connection has been told so.
    AsItIs,
    /// By another description.
    Otherwise,
    /// Its connection has not prepared it, or long ago: nobody here knows what it was told elsewhere.
    Unclear,
}

/// A statement of a connection, by a hash of its id.
type Key = (SessionKey, u64);

/// The last descriptions that the connections of a worker were sent, up to a bound in bytes.
pub(in crate::statement) struct Told(Recent<Key, Description>);

impl Told {
    pub(in crate::statement) fn new(bytes_max: usize) -> Told {
        Told(Recent::new(bytes_max))
    }

    pub(in crate::statement) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.0.set_bytes_max(bytes_max);
    }

    pub(in crate::statement) fn note(&mut self, session: SessionKey, prepared: &Prepared) {
        let key = key(session, &prepared.id);
        let weight = size_of::<Key>() + size_of::<Description>();
        self.0.insert(key, prepared.description, weight);
    }

    pub(in crate::statement) fn knows(
        &mut self,
        session: SessionKey,
        prepared: &Prepared,
    ) -> Known {
        match self.0.get(&key(session, &prepared.id)) {
            None => Known::Unclear,
            Some(told) if told == prepared.description => Known::AsItIs,
            Some(_) => Known::Otherwise,
        }
    }
}

/// Ids are digests, so their hashes hardly collide.
fn key(session: SessionKey, id: &[u8]) -> Key {
    let mut hasher = FxHasher::default();
    hasher.write(id);
    (session, hasher.finish())
}
