//! The options of requests of tests.

use helenus_wire::{Version, write};

/// The table that clients of tests ask.
pub(crate) const TABLE: &str = "orders";

pub(crate) fn metadata_id(table: &str) -> [u8; 16] {
    let mut id = [0; 16];
    for (byte, of) in table.bytes().zip(&mut id) {
        *of = byte;
    }
    id[15] = table.len() as u8;
    id
}

/// Options of QUERY and EXECUTE: values, skipped metadata, page size and paging state, serial consistency
/// and timestamp.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asking<'a> {
    pub values: &'a [&'a [u8]],
    pub names: &'a [&'a str],
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub state: Option<&'a [u8]>,
    pub serial: Option<u16>,
    pub timestamp: Option<i64>,
    /// Consistency level; `None`: LOCAL_QUORUM.
    pub level: Option<u16>,
}

impl Asking<'_> {
    pub(crate) fn write(&self, version: Version, body: &mut Vec<u8>) {
        let set = |on: bool, bit: u32| if on { bit } else { 0 };
        let flags = set(!self.values.is_empty(), 1)
            | set(self.skip_metadata, 2)
            | set(self.page_size.is_some(), 4)
            | set(self.state.is_some(), 8)
            | set(self.serial.is_some(), 0x10)
            | set(self.timestamp.is_some(), 0x20)
            | set(!self.names.is_empty(), 0x40);
        write::u16(body, self.level.unwrap_or(6));
        match version {
            Version::V5 => write::u32(body, flags),
            _ => body.push(flags as u8),
        }
        if !self.values.is_empty() {
            write::u16(body, self.values.len() as u16);
            for (at, value) in self.values.iter().enumerate() {
                if let Some(name) = self.names.get(at) {
                    write::string(body, name);
                }
                write::bytes(body, Some(value));
            }
        }
        if let Some(size) = self.page_size {
            write::i32(body, size);
        }
        if let Some(state) = self.state {
            write::bytes(body, Some(state));
        }
        if let Some(serial) = self.serial {
            write::u16(body, serial);
        }
        if let Some(timestamp) = self.timestamp {
            write::i64(body, timestamp);
        }
    }

    pub(crate) fn query(&self, version: Version, text: &str) -> Vec<u8> {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        self.write(version, &mut body);
        body
    }

    pub(crate) fn execute(&self, version: Version, id: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        write::short_bytes(&mut body, id);
        if version == Version::V5 {
            write::short_bytes(&mut body, &metadata_id(TABLE));
        }
        self.write(version, &mut body);
        body
    }
}
