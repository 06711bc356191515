//! Answers to clients, in the version of each.

use std::rc::Rc;

use helenus_policy::turns::Condition;
use helenus_wire::{
    Converted, ErrorBody, Header, Opcode, ResultKind, code, convert_response, flags, result_kind,
    strip_prelude,
};

use crate::context::Context;
use crate::features;
use crate::keys::SessionKey;
use crate::memory::{Ledger, NO_MEMORY, SharedBody};
use crate::session::clients::Clients;
use crate::session::connection::Session;
use crate::session::node_answer::NodeAnswer;
use crate::statement::condition::condition_of;
use crate::stats::add;

/// Flags of a node's answer that its client gets to see.
pub(super) const KEPT_FLAGS: u8 = flags::TRACING | flags::WARNING | flags::CUSTOM_PAYLOAD;
/// A buffer that has grown larger is not kept.
const BUFFER_MAX: usize = 1 << 20;

/// Of what waits for a client that much may be counted late: once some of it has been written.
const UNCOUNTED_MAX: usize = 1024;
/// An answer that is not longer is never refused: the error in its place would be no shorter.
const REFUSED_MIN: usize = 256;

/// The body of an answer in the version of the client that gets it.
pub(super) enum Pushed<'a> {
    /// To be copied for this client.
    Copied(&'a [u8]),
    /// Held once for all that get it, and accounted for; also as it is written to this client, if its
    /// connection compresses bodies.
    Shared(Rc<SharedBody>, Option<Rc<SharedBody>>),
}

impl Session {
    /// The header of an answer.
    fn answer_header(&self, stream: i16, opcode: Opcode, header_flags: u8) -> Header {
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
        let body = Pushed::Copied(body);
        self.push(cx, key, stream, opcode, header_flags, body);
    }

    /// Puts an answer in a client's outbox, or, if there is no memory for it, an error: the only way there for
    /// answers of all kinds.
    pub(super) fn push(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        opcode: Opcode,
        header_flags: u8,
        body: Pushed<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(key).filter(|s| s.hears_answers()) else {
            return;
        };
        if let Pushed::Copied(body) = body
            && !may_be_copied(&cx.memory, opcode, header_flags, body)
        {
            return self.refuse_for_memory(cx, key, stream);
        }
        let header = session.answer_header(stream, opcode, header_flags);
        let plain: &[u8] = match &body {
            Pushed::Copied(body) => body,
            Pushed::Shared(body, _) => body,
        };
        if opcode == Opcode::Error {
            cx.shared.stats.errors.note(header_flags, plain);
        }
        features::on_sent(cx, (key, stream), opcode, header_flags, plain);
        match body {
            Pushed::Copied(body) => session.outbox.push(header, body),
            Pushed::Shared(body, None) => session.outbox.push_large(header, body),
            Pushed::Shared(_, Some(compressed)) => {
                let flags = header.flags | flags::COMPRESSED;
                session
                    .outbox
                    .push_large(Header { flags, ..header }, compressed);
            }
        }
        session.active = cx.now;
        // The next answers in the same event must know of it.
        let held = session.outbox.held_len();
        if held > session.backlog_held.bytes() + UNCOUNTED_MAX {
            session.backlog_held.set(held);
        }
        let backlog_max = cx.shared.client_backlog_max();
        if session.reads_too_little(backlog_max, cx.now) {
            self.kill_unread(cx, key, false);
        } else if session.becomes_dirty() {
            self.dirty.push(key);
        }
    }

    /// Answers with the error that there is no memory for the answer.
    pub(super) fn refuse_for_memory(&mut self, cx: &mut Context, key: SessionKey, stream: i16) {
        let global = &cx.shared.stats.global;
        add(&global.requests_failed, 1);
        add(&global.requests_overloaded, 1);
        self.answer_error(cx, key, stream, code::OVERLOADED, NO_MEMORY, &[]);
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
                let text = format!("Helenus: a node sent an answer that cannot be read: {e}");
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

/// True if an answer may be copied for its client.
fn may_be_copied(memory: &Ledger, opcode: Opcode, header_flags: u8, body: &[u8]) -> bool {
    let is_room = body.len() <= REFUSED_MIN || !memory.is_full(body.len());
    is_room || !may_be_refused(opcode, header_flags, body)
}

/// True if an error may stand in the place of an answer for which there is no memory: rows that were read. An answer
/// that says that something has been done is passed on, and a prepared statement, which its client is known to have.
#[cold]
pub(super) fn may_be_refused(opcode: Opcode, header_flags: u8, body: &[u8]) -> bool {
    if opcode != Opcode::Result {
        return false;
    }
    let Ok((_, content)) = strip_prelude(header_flags, body) else {
        return false;
    };
    result_kind(content) == Ok(ResultKind::Rows) && condition_of(content) == Condition::Unknown
}

#[cfg(test)]
mod tests;
