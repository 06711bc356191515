//! Large answers: held once for all clients that get them, in the form that each client's version asks
//! for.

use std::rc::Rc;

use helenus_wire::{Compression, Converted, Opcode, Version, code, convert_response};

use crate::context::Context;
use crate::keys::SessionKey;
use crate::memory::{Body, Ledger, SharedBody};
use crate::session::answers::{KEPT_FLAGS, Pushed, may_be_refused};
use crate::session::clients::Clients;
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
    /// The bodies of these versions, compressed.
    compressed: Vec<((Version, Compression), Rc<SharedBody>)>,
}

/// Why a client does not get it.
enum Unshared {
    NoMemory,
    Malformed(String),
}

impl<'a> LargeAnswer<'a> {
    pub(crate) fn new(opcode: Opcode, header_flags: u8, body: Body<'a>, from: Version) -> Self {
        LargeAnswer {
            opcode,
            header_flags: header_flags & KEPT_FLAGS,
            from,
            body: Some(body),
            forms: Vec::new(),
            compressed: Vec::new(),
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
        let Some(session) = self.sessions.get(key).filter(|s| s.hears_answers()) else {
            return;
        };
        let of = (session.version, session.compression);
        let compress = |body: &[u8]| session.outbox.compressed(body);
        let made = large.form_of(session.version, &cx.memory);
        let made = made.and_then(|(flags, body)| {
            let compressed = large.compressed(of, &body, &cx.memory, compress)?;
            Ok((flags, Pushed::Shared(body, compressed)))
        });
        match made {
            Ok((header_flags, body)) => {
                self.push(cx, key, stream, large.opcode, header_flags, body);
            }
            Err(Unshared::NoMemory) => self.refuse_for_memory(cx, key, stream),
            Err(Unshared::Malformed(why)) => {
                add(&cx.shared.stats.global.requests_failed, 1);
                let text = format!("Helenus: a node sent an answer that cannot be read: {why}");
                self.answer_error(cx, key, stream, code::SERVER, &text, &[]);
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
    ) -> Result<(u8, Rc<SharedBody>), Unshared> {
        let known = self.forms.iter().find(|(of, ..)| *of == version);
        if let Some((_, flags, body)) = known {
            return Ok((*flags, body.clone()));
        }
        let same = self.forms.iter().find(|(of, ..)| *of == self.from);
        let original: &[u8] = match (&self.body, same) {
            (Some(body), _) => body,
            (None, Some((.., shared))) => shared,
            (None, None) => return Err(Unshared::NoMemory),
        };
        let (opcode, flags, from) = (self.opcode, self.header_flags, self.from);
        if ledger.is_full(original.len()) && may_be_refused(opcode, flags, original) {
            return Err(Unshared::NoMemory);
        }
        let mut converted = Vec::new();
        let form = match convert_response(opcode, flags, original, from, version, &mut converted) {
            Ok(Converted::Same) => match (self.body.take(), same) {
                (Some(body), _) => {
                    let body = body.share(ledger);
                    self.forms.push((from, flags, body.clone()));
                    (flags, body)
                }
                (None, Some((.., shared))) => (flags, shared.clone()),
                (None, None) => return Err(Unshared::NoMemory),
            },
            Ok(Converted::Rewritten { header_flags }) => {
                (header_flags, SharedBody::new(converted, ledger))
            }
            Err(e) => return Err(Unshared::Malformed(e.to_string())),
        };
        self.forms.push((version, form.0, form.1.clone()));
        Ok(form)
    }

    /// The body of a version as `compress` makes it for the first client with that compression; `None`: its
    /// clients get it as it is.
    fn compressed(
        &mut self,
        of: (Version, Compression),
        body: &[u8],
        ledger: &Rc<Ledger>,
        compress: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Option<Rc<SharedBody>>, Unshared> {
        // In later versions frames are compressed, not bodies.
        if of.1 == Compression::None || of.0 == Version::V5 {
            return Ok(None);
        }
        if let Some((_, known)) = self.compressed.iter().find(|(known, _)| *known == of) {
            return Ok(Some(known.clone()));
        }
        let (opcode, flags) = (self.opcode, self.header_flags);
        if ledger.is_full(body.len()) && may_be_refused(opcode, flags, body) {
            return Err(Unshared::NoMemory);
        }
        let Some(compressed) = compress(body) else {
            return Ok(None);
        };
        let shared = SharedBody::new(compressed, ledger);
        self.compressed.push((of, shared.clone()));
        Ok(Some(shared))
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
