//! The nine-byte envelope header that starts every message in every version.

use crate::reader::Malformed;

/// Bytes of an envelope header.
pub const HEADER_LEN: usize = 9;

/// A protocol version that Helenus supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    V3 = 3,
    V4 = 4,
    V5 = 5,
}

impl Version {
    /// The version with this number, if Helenus supports it.
    pub fn from_number(number: u8) -> Option<Version> {
        match number {
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            5 => Some(Version::V5),
            _ => None,
        }
    }
}

/// Bits of the flags byte of an envelope.
pub mod flags {
    pub const COMPRESSED: u8 = 0x01;
    pub const TRACING: u8 = 0x02;
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    pub const WARNING: u8 = 0x08;
    pub const USE_BETA: u8 = 0x10;
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0A,
    Register = 0x0B,
    Event = 0x0C,
    Batch = 0x0D,
    AuthChallenge = 0x0E,
    AuthResponse = 0x0F,
    AuthSuccess = 0x10,
}

impl Opcode {
    /// The opcode with this number.
    pub fn from_number(number: u8) -> Option<Opcode> {
        use Opcode::*;
        Some(match number {
            0x00 => Error,
            0x01 => Startup,
            0x02 => Ready,
            0x03 => Authenticate,
            0x05 => Options,
            0x06 => Supported,
            0x07 => Query,
            0x08 => Result,
            0x09 => Prepare,
            0x0A => Execute,
            0x0B => Register,
            0x0C => Event,
            0x0D => Batch,
            0x0E => AuthChallenge,
            0x0F => AuthResponse,
            0x10 => AuthSuccess,
            _ => return None,
        })
    }

    /// True if clients may send it.
    pub fn is_request(self) -> bool {
        use Opcode::*;
        matches!(
            self,
            Startup | Options | Query | Prepare | Execute | Register | Batch | AuthResponse
        )
    }

    /// The name that Cassandra uses in its messages.
    pub fn name(self) -> &'static str {
        use Opcode::*;
        match self {
            Error => "ERROR",
            Startup => "STARTUP",
            Ready => "READY",
            Authenticate => "AUTHENTICATE",
            Options => "OPTIONS",
            Supported => "SUPPORTED",
            Query => "QUERY",
            Result => "RESULT",
            Prepare => "PREPARE",
            Execute => "EXECUTE",
            Register => "REGISTER",
            Event => "EVENT",
            Batch => "BATCH",
            AuthChallenge => "AUTH_CHALLENGE",
            AuthResponse => "AUTH_RESPONSE",
            AuthSuccess => "AUTH_SUCCESS",
        }
    }
}

/// An envelope's header as on the wire, not validated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version number without the direction bit.
    pub version: u8,
    /// Set on messages from a server.
    pub response: bool,
    /// See [`flags`].
    pub flags: u8,
    /// Chosen by the requester; −1 on events.
    pub stream: i16,
    /// See [`Opcode`].
    pub opcode: u8,
    /// Length of the body in bytes.
    pub body_len: u32,
}

impl Header {
    /// Reads a header from the first [`HEADER_LEN`] bytes.
    pub fn parse(bytes: &[u8]) -> Result<Header, Malformed> {
        let bytes: &[u8; HEADER_LEN] = bytes
            .first_chunk()
            .ok_or(Malformed("envelope header is truncated"))?;
        Ok(Header {
            version: bytes[0] & 0x7F,
            response: bytes[0] & 0x80 != 0,
            flags: bytes[1],
            stream: i16::from_be_bytes([bytes[2], bytes[3]]),
            opcode: bytes[4],
            body_len: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]),
        })
    }

    /// True if its body was longer than the decoder takes, and is not there
    /// ([`Decoder::skip_longer_than`](crate::Decoder::skip_longer_than)).
    pub fn is_skipped(&self, body: &[u8]) -> bool {
        self.body_len as usize > body.len()
    }

    /// Appends the header to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let direction = if self.response { 0x80 } else { 0 };
        let stream = self.stream.to_be_bytes();
        let len = self.body_len.to_be_bytes();
        out.extend_from_slice(&[
            self.version | direction,
            self.flags,
            stream[0],
            stream[1],
            self.opcode,
            len[0],
            len[1],
            len[2],
            len[3],
        ]);
    }
}
