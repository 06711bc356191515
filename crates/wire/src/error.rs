//! ERROR bodies that the proxy writes itself, and the codes it checks in those of nodes.

use crate::envelope::Opcode;
use crate::reader::{Malformed, Reader};
use crate::write;

/// Error codes of the native protocol.
pub mod code {
    pub const SERVER: i32 = 0x0000;
    pub const PROTOCOL: i32 = 0x000A;
    pub const BAD_CREDENTIALS: i32 = 0x0100;
    pub const UNAVAILABLE: i32 = 0x1000;
    pub const OVERLOADED: i32 = 0x1001;
    pub const IS_BOOTSTRAPPING: i32 = 0x1002;
    pub const TRUNCATE: i32 = 0x1003;
    pub const WRITE_TIMEOUT: i32 = 0x1100;
    pub const READ_TIMEOUT: i32 = 0x1200;
    pub const READ_FAILURE: i32 = 0x1300;
    pub const FUNCTION_FAILURE: i32 = 0x1400;
    pub const WRITE_FAILURE: i32 = 0x1500;
    pub const CDC_WRITE_FAILURE: i32 = 0x1600;
    pub const CAS_WRITE_UNKNOWN: i32 = 0x1700;
    pub const SYNTAX: i32 = 0x2000;
    pub const UNAUTHORIZED: i32 = 0x2100;
    pub const INVALID: i32 = 0x2200;
    pub const CONFIG: i32 = 0x2300;
    pub const ALREADY_EXISTS: i32 = 0x2400;
    pub const UNPREPARED: i32 = 0x2500;

    /// All of them.
    pub const ALL: [i32; 20] = [
        SERVER,
        PROTOCOL,
        BAD_CREDENTIALS,
        UNAVAILABLE,
        OVERLOADED,
        IS_BOOTSTRAPPING,
        TRUNCATE,
        WRITE_TIMEOUT,
        READ_TIMEOUT,
        READ_FAILURE,
        FUNCTION_FAILURE,
        WRITE_FAILURE,
        CDC_WRITE_FAILURE,
        CAS_WRITE_UNKNOWN,
        SYNTAX,
        UNAUTHORIZED,
        INVALID,
        CONFIG,
        ALREADY_EXISTS,
        UNPREPARED,
    ];

    /// The name of a code, for people.
    pub fn name(code: i32) -> &'static str {
        match code {
            SERVER => "SERVER_ERROR",
            PROTOCOL => "PROTOCOL_ERROR",
            BAD_CREDENTIALS => "BAD_CREDENTIALS",
            UNAVAILABLE => "UNAVAILABLE",
            OVERLOADED => "OVERLOADED",
            IS_BOOTSTRAPPING => "IS_BOOTSTRAPPING",
            TRUNCATE => "TRUNCATE_ERROR",
            WRITE_TIMEOUT => "WRITE_TIMEOUT",
            READ_TIMEOUT => "READ_TIMEOUT",
            READ_FAILURE => "READ_FAILURE",
            FUNCTION_FAILURE => "FUNCTION_FAILURE",
            WRITE_FAILURE => "WRITE_FAILURE",
            CDC_WRITE_FAILURE => "CDC_WRITE_FAILURE",
            CAS_WRITE_UNKNOWN => "CAS_WRITE_UNKNOWN",
            SYNTAX => "SYNTAX_ERROR",
            UNAUTHORIZED => "UNAUTHORIZED",
            INVALID => "INVALID",
            CONFIG => "CONFIG_ERROR",
            ALREADY_EXISTS => "ALREADY_EXISTS",
            UNPREPARED => "UNPREPARED",
            _ => "OTHER",
        }
    }
}

/// An error: code and message, without the fields that some codes add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody<'a> {
    pub code: i32,
    pub message: &'a str,
    /// The fields after the message, in wire encoding.
    pub fields: &'a [u8],
}

impl<'a> ErrorBody<'a> {
    /// Parses a body whose prelude has been stripped.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let code = reader.i32()?;
        let message = reader.string()?;
        Ok(ErrorBody {
            code,
            message,
            fields: reader.rest(),
        })
    }

    /// The error as an envelope of version 1 or 2, whose header has one-byte stream ids, for
    /// clients that cannot read any other. Its stream id is 0.
    pub fn old_envelope(&self, version: u8) -> Vec<u8> {
        let mut body = Vec::new();
        self.write(&mut body);
        let mut out = vec![version | 0x80, 0, 0, Opcode::Error as u8];
        write::u32(&mut out, body.len() as u32);
        out.extend_from_slice(&body);
        out
    }

    /// Appends an error body.
    pub fn write(&self, out: &mut Vec<u8>) {
        write::i32(out, self.code);
        write::string(out, self.message);
        out.extend_from_slice(self.fields);
    }
}
