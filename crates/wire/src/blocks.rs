//! Blocks of bytes that wait to be written, in their order.

use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: VecDeque<Vec<u8>>,
    len: usize,
    room: usize,
}

impl Blocks {
    /// Bytes in all of them.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that they take.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// The first one: nearly always there is none.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Vec<u8>> {
        match self.len {
            0 => None,
            _ => self.blocks.front(),
        }
    }

    /// Adds one behind the others.
    pub(crate) fn push(&mut self, block: Vec<u8>) {
        debug_assert!(!block.is_empty());
        self.len += block.len();
        self.room += block.capacity();
        self.blocks.push_back(block);
    }

    /// Frees the first one, all of which has been written.
    pub(crate) fn free_first(&mut self) {
        if let Some(block) = self.blocks.pop_front() {
            self.len -= block.len();
            self.room -= block.capacity();
        }
        if self.blocks.is_empty() {
            *self = Blocks::default();
        }
    }
}
