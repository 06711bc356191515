//! Large answers: held once for all clients that get them, in the form that each client's version asks
//! for.

use std::rc::Rc;

use helenus_wire::{Converted, Opcode, Version, code, convert_response};

use crate::client::answers::KEPT_FLAGS;
use crate::client::clients::Clients;
use crate::context::Context;
use crate::keys::SessionKey;
use crate::memory::{Body, Ledger, NO_MEMORY, SharedBody};
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

    /// The body, in whichever form it is kept; empty if in none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match (&self.body, self.forms.first()) {
            (Some(body), _) => body,
            (None, Some((.., shared))) => shared,
            (None, None) => &[],
        }
    }
}

impl Clients {
    /// Puts a large answer in a client's outbox.
    pub(crate) fn answer_large(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        large: &mut LargeAnswer<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(key).filter(|s| s.hears_answers()) else {
            return;
        };
        match large.form_of(session.version, &cx.memory) {
            Ok((header_flags, body)) => {
                let header = session.answer_header(stream, large.opcode, header_flags);
                if large.opcode == Opcode::Error {
                    cx.shared.stats.errors.note(header_flags, &body);
                }
                cx.note_answer((key, stream), large.opcode, header_flags, &body);
                session.outbox.push_large(header, body, &cx.memory);
                self.on_pushed(cx, key);
            }
            Err((code, text)) => {
                let global = &cx.shared.stats.global;
                add(&global.requests_failed, 1);
                if code == code::OVERLOADED {
                    add(&global.requests_overloaded, 1);
                }
                self.answer_error(cx, key, stream, code, &text, &[]);
            }
        }
    }
}

impl LargeAnswer<'_> {
    /// The answer as clients of a version get it.
    fn form_of(
        &mut self,
        version: Version,
        ledger: &Rc<Ledger>,
    ) -> Result<(u8, Rc<SharedBody>), (i32, String)> {
        let known = self.forms.iter().find(|(of, ..)| *of == version);
        if let Some((_, flags, body)) = known {
            return Ok((*flags, body.clone()));
        }
        let no_memory = || (code::OVERLOADED, NO_MEMORY.to_owned());
        let same = self.forms.iter().find(|(of, ..)| *of == self.from);
        let original: &[u8] = match (&self.body, same) {
            (Some(body), _) => body,
            (None, Some((.., shared))) => shared,
            (None, None) => return Err(no_memory()),
        };
        if ledger.is_full(original.len()) {
            return Err(no_memory());
        }
        let mut converted = Vec::new();
        let (opcode, flags, from) = (self.opcode, self.header_flags, self.from);
        let form = match convert_response(opcode, flags, original, from, version, &mut converted) {
            Ok(Converted::Same) => match (self.body.take(), same) {
                (Some(body), _) => {
                    let body = body.share(ledger);
                    self.forms.push((from, flags, body.clone()));
                    (flags, body)
                }
                (None, Some((.., shared))) => (flags, shared.clone()),
                (None, None) => return Err(no_memory()),
            },
            Ok(Converted::Rewritten { header_flags }) => {
                (header_flags, SharedBody::new(converted, ledger))
            }
            Err(e) => {
                let text = format!("a node's answer could not be understood: {e}");
                return Err((code::SERVER, text));
            }
        };
        self.forms.push((version, form.0, form.1.clone()));
        Ok(form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::flags;

    #[test]
    fn of_the_flags_only_those_that_speak_of_the_body_are_passed_on() {
        let flags_of = |flags| {
            let body = Body::from(&[0; 4][..]);
            LargeAnswer::new(Opcode::Result, flags, body, Version::V4).header_flags
        };
        for passed in [flags::TRACING, flags::WARNING, flags::CUSTOM_PAYLOAD] {
            assert_eq!(flags_of(passed), passed);
        }
        assert_eq!(flags_of(flags::COMPRESSED), 0);
    }
}
