//! Blocks that say how far a capture has come.

use crate::framing::{HEAD, complete};
use crate::limits::{END, MAGIC, MARK, START, VERSION};
use crate::numbers::{text, varint};

/// How a capture began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// Version of the proxy.
    pub proxy: String,
    /// Microseconds since the beginning of 1970.
    pub began_us: u64,
    /// How long it was to last.
    pub wanted_us: u64,
    /// Share of the connections, in parts per million.
    pub share_ppm: u32,
    pub has_values: bool,
    /// Names of the classes that requests name by number.
    pub classes: Vec<String>,
}

/// How far a capture has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Microseconds since it began.
    pub at_us: u64,
    /// Requests of chosen connections that are missing.
    pub lost: u64,
}

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    Time = 1,
    Size = 2,
    /// It had values, and they are not to be shown any more.
    ValuesHidden = 3,
}

/// How a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub reason: Reason,
    pub mark: Mark,
}

impl Start {
    /// The beginning of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        block(&mut out, START, |out| {
            text(out, &self.proxy);
            varint(out, self.began_us);
            varint(out, self.wanted_us);
            varint(out, self.share_ppm.into());
            out.push(u8::from(self.has_values));
            varint(out, self.classes.len() as u64);
            self.classes.iter().for_each(|class| text(out, class));
        });
        out
    }
}

impl Mark {
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        block(&mut out, MARK, |out| self.write(out));
        out
    }

    fn write(self, out: &mut Vec<u8>) {
        varint(out, self.at_us);
        varint(out, self.lost);
    }
}

impl End {
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        block(&mut out, END, |out| {
            out.push(self.reason as u8);
            self.mark.write(out);
        });
        out
    }
}

/// Appends a block.
fn block(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; HEAD]);
    write(out);
    if let Some(block) = out.get_mut(at..) {
        complete(block, kind);
    }
}
