//! What clients are answered, in the version of each.

use helenus_wire::{Converted, ErrorBody, Header, Opcode, Version, code, convert_response, flags};

use crate::client::clients::Clients;
use crate::client::session::Session;
use crate::context::Context;
use crate::keys::SessionKey;
use crate::stats::add;

/// Flags of a node's answer that its client gets to see.
pub(super) const KEPT_FLAGS: u8 = flags::TRACING | flags::WARNING | flags::CUSTOM_PAYLOAD;
/// A buffer that has grown larger is not kept.
const BUFFER_MAX: usize = 1 << 20;

/// What a node has said, in the version in which it speaks.
#[derive(Clone, Copy)]
pub(crate) struct NodeAnswer<'a> {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: &'a [u8],
    pub version: Version,
}

impl Session {
    /// The header of an answer.
    pub(super) fn answer_header(&self, stream: i16, opcode: Opcode, header_flags: u8) -> Header {
        Header {
            version: self.version as u8,
            response: true,
            flags: header_flags,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        }
    }
}

impl Clients {
    /// Puts an envelope in a client's outbox. `body` is already in the client's version.
    pub(crate) fn answer(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        opcode: Opcode,
        header_flags: u8,
        body: &[u8],
    ) {
        let Some(session) = self.sessions.get_mut(key).filter(|s| s.hears_answers()) else {
            return;
        };
        let header = session.answer_header(stream, opcode, header_flags);
        session.outbox.push(header, body);
        if opcode == Opcode::Error {
            cx.shared.stats.errors.note(header_flags, body);
        }
        cx.note_answer((key, stream), opcode, header_flags, body);
        self.on_pushed(cx, key);
    }

    /// Has an answer written, unless its client does not read.
    pub(super) fn on_pushed(&mut self, cx: &mut Context, key: SessionKey) {
        let backlog_max = cx.shared.config.limits.client_backlog_bytes_max;
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        session.active = cx.now;
        if session.write_blocked {
            // It will not be looked at before the client reads.
            session.backlog_held.set(session.outbox.copied_len());
        }
        if session.outbox.len() > backlog_max {
            return self.kill_unread(cx, key, false);
        }
        self.mark(key);
    }

    /// Puts a node's answer in a client's outbox, converted to the client's version.
    pub(crate) fn answer_converted(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        answer: NodeAnswer<'_>,
    ) {
        let Some(version) = self.version_of(key) else {
            return;
        };
        let NodeAnswer {
            opcode,
            header_flags,
            body,
            version: from,
        } = answer;
        let header_flags = header_flags & KEPT_FLAGS;
        if version == from {
            self.answer(cx, key, stream, opcode, header_flags, body);
            return;
        }
        let mut converted = std::mem::take(&mut self.convert_buf);
        converted.clear();
        match convert_response(opcode, header_flags, body, from, version, &mut converted) {
            Ok(Converted::Same) => self.answer(cx, key, stream, opcode, header_flags, body),
            Ok(Converted::Rewritten { header_flags }) => {
                self.answer(cx, key, stream, opcode, header_flags, &converted);
            }
            Err(e) => {
                let is_asked = stream >= 0;
                add(&cx.shared.stats.global.requests_failed, is_asked.into());
                let text = format!("a node's answer could not be understood: {e}");
                self.answer_error(cx, key, stream, code::SERVER, &text, &[]);
            }
        }
        if converted.capacity() <= BUFFER_MAX {
            self.convert_buf = converted;
        }
    }

    pub(crate) fn answer_error(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        code: i32,
        message: &str,
        fields: &[u8],
    ) {
        let mut body = Vec::with_capacity(message.len() + fields.len() + 8);
        ErrorBody {
            code,
            message,
            fields,
        }
        .write(&mut body);
        self.answer(cx, key, stream, Opcode::Error, 0, &body);
    }
}
