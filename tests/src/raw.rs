//! A blocking client that shows every byte of the native protocol, and bytes that no client would send.

use std::io::{Error, ErrorKind, Result};

use helenus_wire::{Header, Malformed, Reader, ValueRef};

pub use helenus_client::auth_response as value;
pub use helenus_client::{Answer, Client, Column, Fault, PATIENCE, Prepared, Row};

pub mod op {
    use helenus_wire::Opcode;

    pub const ERROR: u8 = Opcode::Error as u8;
    pub const STARTUP: u8 = Opcode::Startup as u8;
    pub const READY: u8 = Opcode::Ready as u8;
    pub const AUTHENTICATE: u8 = Opcode::Authenticate as u8;
    pub const OPTIONS: u8 = Opcode::Options as u8;
    pub const SUPPORTED: u8 = Opcode::Supported as u8;
    pub const QUERY: u8 = Opcode::Query as u8;
    pub const RESULT: u8 = Opcode::Result as u8;
    pub const EXECUTE: u8 = Opcode::Execute as u8;
    pub const REGISTER: u8 = Opcode::Register as u8;
    pub const EVENT: u8 = Opcode::Event as u8;
    pub const BATCH: u8 = Opcode::Batch as u8;
    pub const AUTH_CHALLENGE: u8 = Opcode::AuthChallenge as u8;
    pub const AUTH_RESPONSE: u8 = Opcode::AuthResponse as u8;
    pub const AUTH_SUCCESS: u8 = Opcode::AuthSuccess as u8;
}

pub const ONE: u16 = 1;
pub const QUORUM: u16 = 4;

/// An envelope, header and body.
pub fn envelope(version: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let header = Header {
        version,
        response: false,
        flags: 0,
        stream,
        opcode,
        body_len: body.len() as u32,
    };
    let mut out = Vec::new();
    header.write(&mut out);
    out.extend(body);
    out
}

/// Uncompressed, self-contained frame of version 5.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    use helenus_wire::frame::{PAYLOAD_MAX, crc32, header};
    assert!(payload.len() <= PAYLOAD_MAX, "one frame only");
    let mut out = header(payload.len(), true).to_vec();
    out.extend(payload);
    out.extend(crc32(payload).to_le_bytes());
    out
}

/// Names `m0`, `m1` and so on for values, which come in reverse from then on, as do their names.
pub fn names_in_reverse(values: &mut [ValueRef<'_>]) -> Vec<String> {
    values.reverse();
    let places = (0..values.len()).rev();
    places.map(|at| format!("m{at}")).collect()
}

/// The elements of a cell that is a list or set.
pub fn elements(cell: &[u8]) -> Result<Vec<Vec<u8>>> {
    let malformed = |error: Malformed| Error::new(ErrorKind::InvalidData, error);
    let mut at = Reader::new(cell);
    let count = at.i32().map_err(malformed)?;
    (0..count)
        .map(|_| Ok(at.bytes().map_err(malformed)?.unwrap_or_default().to_vec()))
        .collect()
}
