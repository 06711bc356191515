//! One message of a server.

use helenus_wire::{ErrorBody, Opcode, strip_prelude};

#[derive(Debug)]
pub(in crate::client) struct Envelope {
    pub(in crate::client) opcode: u8,
    pub(in crate::client) flags: u8,
    pub(in crate::client) body: Vec<u8>,
}

pub(in crate::client) fn error_code(envelope: &Envelope) -> Option<i32> {
    if envelope.opcode != Opcode::Error as u8 {
        return None;
    }
    let (_, body) = strip_prelude(envelope.flags, &envelope.body).ok()?;
    Some(ErrorBody::parse(body).ok()?.code)
}

pub(in crate::client) fn error_text(envelope: &Envelope) -> String {
    let parsed = strip_prelude(envelope.flags, &envelope.body)
        .and_then(|(_, body)| Ok(ErrorBody::parse(body)?.message.to_owned()));
    parsed.unwrap_or_else(|_| format!("unexpected answer, opcode {:#04x}", envelope.opcode))
}
