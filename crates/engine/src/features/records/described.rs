//! A request and its client, as they may be shown to people: without values.

use std::net::SocketAddr;
use std::sync::Arc;

use helenus_wire::Opcode;

/// A request, and its client.
#[derive(Clone, Debug)]
pub struct Described {
    /// With `?` in place of values; None if it is not known, or none was asked.
    pub statement: Option<Arc<str>>,
    /// In force where the text does not name it.
    pub keyspace: Option<Arc<str>>,
    /// Where it can be told.
    pub role: Option<Arc<str>>,
    /// None if it has left.
    pub client: Option<SocketAddr>,
    pub opcode: Opcode,
}

impl Described {
    /// Bytes that it takes. Texts that it shares with others count in full.
    pub(super) fn byte_len(&self) -> usize {
        let texts = [&self.statement, &self.keyspace, &self.role];
        texts.into_iter().flatten().map(|text| text.len()).sum()
    }
}
