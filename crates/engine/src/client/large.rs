//! Large answers: held once for all clients that get them, in the form that each client's version asks
//! for.

use std::rc::Rc;

use helenus_wire::{Converted, Header, Opcode, Version, code, convert_response};

use crate::client::session::{KEPT_FLAGS, Life};
use crate::engine::{Engine, SessionKey};
use crate::memory::{Body, NO_MEMORY, SharedBody};
use crate::stats::add;

/// An answer on its way to several clients.
pub(crate) struct LargeAnswer<'a> {
    opcode: Opcode,
    header_flags: u8,
    from: Version,
    /// As it came; taken by the first client that gets it so.
    body: Option<Body<'a>>,
    /// The flags and the body of each version that was asked for.
    forms: Vec<(Version, u8, Rc<SharedBody>)>,
}

impl<'a> LargeAnswer<'a> {
    pub(crate) fn new(opcode: Opcode, header_flags: u8, body: Body<'a>, from: Version) -> Self {
        LargeAnswer {
            opcode,
            header_flags: header_flags & KEPT_FLAGS,
            from,
            body: Some(body),
            forms: Vec::new(),
        }
    }
}

impl Engine {
    /// Puts a large answer in a client's outbox.
    pub(crate) fn answer_large(
        &mut self,
        key: SessionKey,
        stream: i16,
        large: &mut LargeAnswer<'_>,
    ) {
        let Some(session) = self.session(key) else {
            return;
        };
        // An answer that comes after the last one would only break the connection.
        if matches!(session.life, Life::Lingering(_) | Life::Dead) {
            return;
        }
        let version = session.version;
        let form = match self.form_of(large, version) {
            Ok(form) => form,
            Err((code, text)) => {
                if code == code::OVERLOADED {
                    add(&self.cx.shared.stats.global.requests_overloaded, 1);
                }
                return self.answer_error(key, stream, code, &text, &[]);
            }
        };
        let (header_flags, body) = form;
        let header = Header {
            version: version as u8,
            response: true,
            flags: header_flags,
            stream,
            opcode: large.opcode as u8,
            body_len: 0,
        };
        let ledger = self.cx.memory.clone();
        if let Some(session) = self.session(key) {
            session.outbox.push_large(header, body, &ledger);
        }
        self.on_answer_pushed(key);
    }

    /// The answer as clients of a version get it.
    fn form_of(
        &self,
        large: &mut LargeAnswer<'_>,
        version: Version,
    ) -> Result<(u8, Rc<SharedBody>), (i32, String)> {
        let known = large.forms.iter().find(|(of, ..)| *of == version);
        if let Some((_, flags, body)) = known {
            return Ok((*flags, body.clone()));
        }
        let no_memory = || (code::OVERLOADED, NO_MEMORY.to_owned());
        let same = large.forms.iter().find(|(of, ..)| *of == large.from);
        let original: &[u8] = match (&large.body, same) {
            (Some(body), _) => body,
            (None, Some((.., shared))) => shared,
            (None, None) => return Err(no_memory()),
        };
        if self.cx.memory.is_full(original.len()) {
            return Err(no_memory());
        }
        let mut converted = Vec::new();
        let (opcode, flags, from) = (large.opcode, large.header_flags, large.from);
        let form = match convert_response(opcode, flags, original, from, version, &mut converted) {
            Ok(Converted::Same) => match (large.body.take(), same) {
                (Some(body), _) => {
                    let body = body.share(&self.cx.memory);
                    large.forms.push((from, flags, body.clone()));
                    (flags, body)
                }
                (None, Some((.., shared))) => (flags, shared.clone()),
                (None, None) => return Err(no_memory()),
            },
            Ok(Converted::Rewritten { header_flags }) => {
                (header_flags, SharedBody::new(converted, &self.cx.memory))
            }
            Err(e) => {
                let text = format!("a node's answer could not be understood: {e}");
                return Err((code::SERVER, text));
            }
        };
        large.forms.push((version, form.0, form.1.clone()));
        Ok(form)
    }
}
