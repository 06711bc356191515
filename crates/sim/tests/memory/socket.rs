//! A connection with a window: so much at a time, in each direction.

use std::collections::VecDeque;

use helenus_engine::output::{Outgoing, Sent, Then};
use helenus_sim::dice::Dice;

/// The windows of sockets, in bytes: from the least to the most.
const WINDOW: std::ops::Range<u64> = 4 << 10..64 << 10;

pub(crate) struct Socket {
    /// Bytes for the engine.
    to_engine: VecDeque<u8>,
    /// How many of them it may read now.
    readable: usize,
    /// How many it may write now.
    writable: usize,
    window: usize,
    /// True if the engine is to look at it.
    pub(crate) woken: bool,
}

impl Default for Socket {
    fn default() -> Socket {
        Socket {
            to_engine: VecDeque::new(),
            readable: 0,
            writable: WINDOW.end as usize,
            window: WINDOW.end as usize,
            woken: true,
        }
    }
}

impl Socket {
    pub(crate) fn with_window(dice: &mut Dice) -> Socket {
        let window = WINDOW.start + dice.below(WINDOW.end - WINDOW.start);
        Socket {
            window: window as usize,
            ..Socket::default()
        }
    }

    /// The network carries one more window in each direction, or in none.
    pub(crate) fn carry(&mut self, to_engine: bool, from_engine: bool) {
        if to_engine && !self.to_engine.is_empty() {
            self.readable = self.window;
            self.woken = true;
        }
        if from_engine && self.writable < self.window {
            self.writable = self.window;
            self.woken = true;
        }
    }

    /// Bytes that the engine has not read.
    pub(crate) fn unread(&self) -> usize {
        self.to_engine.len()
    }

    pub(crate) fn write_all(&mut self, outgoing: &mut impl Outgoing) {
        loop {
            let bytes = outgoing.pending();
            let len = bytes.len();
            if len == 0 {
                return;
            }
            self.to_engine.extend(bytes);
            outgoing.advance(len);
        }
    }

    /// The bytes that the engine reads at once: at most a window.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        let len = self.to_engine.len().min(self.readable);
        self.readable -= len;
        self.to_engine.drain(..len).collect()
    }

    /// The engine writes into a buffer, which has room for a window.
    pub(crate) fn take(&mut self, outgoing: &mut impl Outgoing, buffer: &mut Vec<u8>) -> Sent {
        let (mut writes, before) = (0, buffer.len());
        let then = loop {
            let pending = outgoing.pending();
            let len = pending.len().min(self.writable);
            if pending.is_empty() {
                break Then::Done;
            } else if len == 0 {
                break Then::Blocked;
            }
            buffer.extend_from_slice(&pending[..len]);
            outgoing.advance(len);
            self.writable -= len;
            writes += 1;
        };
        Sent {
            writes,
            bytes: (buffer.len() - before) as u64,
            then,
        }
    }

    /// A buffer for [`Socket::take`], which does not grow while the engine writes into it.
    pub(crate) fn buffer() -> Vec<u8> {
        Vec::with_capacity(WINDOW.end as usize)
    }
}
