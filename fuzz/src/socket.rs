//! The socket between an engine and a peer that are both values in this process.

use helenus_engine::output::{Outgoing, Sent, Then};

/// Bytes on their way in both directions.
pub struct Socket {
    /// Bytes for the engine.
    to_engine: Vec<u8>,
    /// How many of them the engine gets at a time, at most.
    pub portion: usize,
    /// Bytes from the engine that the peer has not looked at.
    pub from_engine: Vec<u8>,
    /// How many more of them it can take.
    pub room: usize,
    /// Whatever the engine writes fails.
    pub broken: bool,
    /// The engine is to look at it.
    pub woken: bool,
}

impl Default for Socket {
    fn default() -> Self {
        Socket {
            to_engine: Vec::new(),
            portion: usize::MAX,
            from_engine: Vec::new(),
            room: usize::MAX,
            broken: false,
            woken: true,
        }
    }
}

impl Socket {
    /// The peer writes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.to_engine.extend_from_slice(bytes);
        self.woken = true;
    }

    /// The peer writes all that it has.
    pub fn write_all(&mut self, outgoing: &mut impl Outgoing) {
        loop {
            let bytes = outgoing.pending();
            let len = bytes.len();
            if len == 0 {
                return;
            }
            self.write(bytes);
            outgoing.advance(len);
        }
    }

    /// The engine reads.
    pub fn read(&mut self) -> Vec<u8> {
        let len = self.to_engine.len().min(self.portion);
        self.to_engine.drain(..len).collect()
    }

    /// True if the engine could read something.
    pub fn has_some(&self) -> bool {
        self.portion > 0 && !self.is_drained()
    }

    /// True if the engine has read everything.
    pub fn is_drained(&self) -> bool {
        self.to_engine.is_empty()
    }

    /// The engine writes.
    pub fn send(&mut self, outgoing: &mut impl Outgoing) -> Sent {
        let (mut writes, mut bytes) = (0, 0);
        let then = loop {
            let pending = outgoing.pending();
            let len = pending.len().min(self.room);
            if pending.is_empty() {
                break Then::Done;
            } else if self.broken {
                break Then::Broken;
            } else if len == 0 {
                break Then::Blocked;
            }
            self.from_engine.extend_from_slice(&pending[..len]);
            outgoing.advance(len);
            self.room -= len;
            writes += 1;
            bytes += len as u64;
        };
        Sent {
            writes,
            bytes,
            then,
        }
    }

    /// From now on the engine gets as many bytes at a time as this says: 0 means none, 255 all.
    pub fn set_portion(&mut self, choice: u8) {
        self.portion = match choice {
            u8::MAX => usize::MAX,
            portion => portion.into(),
        };
        self.woken = true;
    }

    /// The peer reads as much as this says: 0 nothing more for now, 255 everything from now on.
    pub fn set_room(&mut self, choice: u8) {
        self.room = match choice {
            u8::MAX => usize::MAX,
            room => usize::from(room) * 64,
        };
        self.woken = true;
    }

    /// Everything goes on as fast as it can.
    pub fn unblock(&mut self) {
        self.set_portion(u8::MAX);
        self.set_room(u8::MAX);
    }
}
