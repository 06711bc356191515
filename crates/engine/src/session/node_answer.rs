//! An answer of a node.

use helenus_wire::{Opcode, Version};

/// A node's answer, in the version in which it speaks.
#[derive(Clone, Copy)]
pub(crate) struct NodeAnswer<'a> {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: &'a [u8],
    pub version: Version,
}
