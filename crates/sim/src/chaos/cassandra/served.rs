//! What comes of a request.

use helenus_wire::{
    Consistency, ErrorBody, ExecuteView, Header, Opcode, QueryView, Version, code, write,
};

use super::Mutation;
use crate::chaos::coverage::{Failure, Kind};
use crate::chaos::cql;

/// What comes of a request.
pub(in crate::chaos) struct Served {
    pub opcode: Opcode,
    pub body: Vec<u8>,
    pub later: Vec<Mutation>,
    /// What was asked, where the model knows it.
    pub kind: Option<Kind>,
}

impl Served {
    /// The error that it is.
    pub(in crate::chaos) fn failure(&self) -> Option<Failure> {
        if self.opcode != Opcode::Error {
            return None;
        }
        match ErrorBody::parse(&self.body).map(|error| error.code) {
            Ok(code::OVERLOADED) => Some(Failure::Overloaded),
            Ok(code::UNAVAILABLE) => Some(Failure::Unavailable),
            Ok(code::IS_BOOTSTRAPPING) => Some(Failure::Bootstrapping),
            Ok(code::WRITE_TIMEOUT | code::READ_TIMEOUT) => Some(Failure::TimedOut),
            Ok(code::UNPREPARED) => Some(Failure::Unprepared),
            _ => None,
        }
    }
}

pub(in crate::chaos) fn result(body: Vec<u8>) -> Served {
    said(Opcode::Result, body)
}

pub(in crate::chaos) fn said(opcode: Opcode, body: Vec<u8>) -> Served {
    Served {
        opcode,
        body,
        later: Vec::new(),
        kind: None,
    }
}

/// What nodes say that cannot prepare anything now.
pub(super) const NOT_PREPARED: &str = "so the model, of a PREPARE";

pub(in crate::chaos) fn error(code: i32, fields: &[u8]) -> Served {
    error_saying(code, "so the model", fields)
}

pub(in crate::chaos) fn error_saying(code: i32, message: &str, fields: &[u8]) -> Served {
    let mut body = Vec::new();
    ErrorBody {
        code,
        message,
        fields,
    }
    .write(&mut body);
    Served {
        opcode: Opcode::Error,
        body,
        later: Vec::new(),
        kind: None,
    }
}

/// What a node says on stream 0 of what it drops.
pub(in crate::chaos) fn dropped() -> Served {
    error_saying(
        code::OVERLOADED,
        "Query timed out before it could start",
        &[],
    )
}

/// What a message asks a node for.
pub(in crate::chaos) fn kind_of(header: &Header, body: &[u8]) -> Option<Kind> {
    match Opcode::from_number(header.opcode)? {
        Opcode::Prepare => Some(Kind::Prepare),
        Opcode::Batch => Some(Kind::Batch),
        _ => asked_of(header, body).map(|asked| asked.kind()),
    }
}

/// The statement in a message that has one.
pub(in crate::chaos) fn asked_of(header: &Header, body: &[u8]) -> Option<cql::Asked> {
    let version = Version::from_number(header.version)?;
    match Opcode::from_number(header.opcode)? {
        Opcode::Query => {
            let view = QueryView::parse(body, version).ok()?;
            cql::read(view.text, &view.options.values)
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(body, version).ok()?;
            cql::read(std::str::from_utf8(view.id).ok()?, &view.options.values)
        }
        _ => None,
    }
}

pub(in crate::chaos) fn unavailable(level: Consistency, required: usize, alive: usize) -> Served {
    let mut fields = Vec::new();
    write::u16(&mut fields, level.0);
    write::i32(&mut fields, required as i32);
    write::i32(&mut fields, alive as i32);
    error(code::UNAVAILABLE, &fields)
}
