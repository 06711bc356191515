//! A client's request, as bytes that have been told apart.

use std::rc::Rc;

use helenus_wire::{Header, Opcode, Version};

use crate::keys::{PoolKey, SessionKey};

/// A client's request as it came.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) session: SessionKey,
    pub(crate) header: Header,
    pub(crate) opcode: Opcode,
    pub(crate) version: Version,
    pub(crate) pool: PoolKey,
    pub(crate) keyspace: Option<&'a Rc<str>>,
    pub(crate) body: &'a [u8],
    /// The body behind its custom payload.
    pub(crate) content: &'a [u8],
}

impl<'a> Arrival<'a> {
    /// The custom payload that comes first in the body, if there is one.
    pub(crate) fn payload(&self) -> &'a [u8] {
        let len = self.body.len().saturating_sub(self.content.len());
        self.body.get(..len).unwrap_or_default()
    }
}
