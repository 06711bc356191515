//! What a client request is answered with.

use helenus_wire::{Opcode, Version};

use crate::memory::Body;

/// A node's answer to a client request, or what the proxy makes of it.
pub(crate) struct Reply<'a> {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: Body<'a>,
    pub version: Version,
}
