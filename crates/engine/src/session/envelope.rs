//! The meaning of a client's envelopes before and while it is ready.

use helenus_wire::{Flow, Header, Opcode, Reader, Version, code, strip_payload};

use crate::context::Context;
use crate::keys::SessionKey;
use crate::session::clients::Clients;
use crate::session::connection::{Phase, Session};
use crate::session::step::Step;
use crate::session::versions::{supported, unsupported_version};

/// Messages of a client before it is ready. Drivers send two to five; whoever asks for OPTIONS without
/// end has a worker answer without end.
const EARLY_MESSAGES_MAX: u32 = 64;

impl Session {
    /// An envelope's opcode and content, or why it cannot be taken.
    fn open_envelope<'a>(
        &mut self,
        header: Header,
        body: &'a [u8],
        version_max: Version,
    ) -> Result<(Opcode, &'a [u8]), String> {
        let version = Version::from_number(header.version).filter(|v| *v <= version_max);
        let Some(version) = version else {
            return Err(unsupported_version(header.version, version_max));
        };
        if matches!(self.phase, Phase::Fresh) {
            self.version = version;
        } else if self.version != version {
            return Err(format!(
                "Invalid message version. Got {0}/v{0} but previous messages on this connection had version {1}/v{1}",
                version as u8, self.version as u8
            ));
        }
        let opcode = Opcode::from_number(header.opcode).filter(|o| o.is_request());
        let Some(opcode) = opcode.filter(|_| !header.response) else {
            let number = header.opcode;
            return Err(format!("Unknown opcode {number} or wrong direction"));
        };
        let content = strip_payload(header.flags, version, body).map_err(|e| e.to_string())?;
        Ok((opcode, content))
    }
}

impl Clients {
    /// A client's envelope.
    pub(crate) fn on_envelope<'a>(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        header: Header,
        body: &'a [u8],
    ) -> Step<'a> {
        let Some(session) = self.sessions.get_mut(key).filter(|s| s.is_open()) else {
            return Step::Nothing(Flow::Pause);
        };
        if !session.is_ready() {
            session.early_messages += 1;
            if session.early_messages > EARLY_MESSAGES_MAX {
                let text = format!(
                    "more than {EARLY_MESSAGES_MAX} messages before the connection is ready"
                );
                self.answer_error(cx, key, header.stream, code::PROTOCOL, &text, &[]);
                self.finish(cx, key);
                return Step::Nothing(Flow::Pause);
            }
        }
        let is_ready = session.is_ready();
        if header.is_skipped(body) {
            let text = format!(
                "Helenus: the request has {} bytes, more than {} (limits.request_bytes_max)",
                header.body_len, cx.shared.config.limits.request_bytes_max
            );
            self.answer_error(cx, key, header.stream, code::INVALID, &text, &[]);
            return Step::Nothing(Flow::Continue);
        }
        let opened = session.open_envelope(header, body, cx.snapshot.version());
        let step = opened.and_then(|(opcode, content)| match opcode {
            Opcode::Options => {
                let supported = supported(&cx.snapshot);
                self.answer(cx, key, header.stream, Opcode::Supported, 0, &supported);
                Ok(Step::Nothing(Flow::Continue))
            }
            Opcode::Startup | Opcode::AuthResponse if is_ready => {
                let name = opcode.name();
                Err(format!(
                    "Unexpected message {name}, connection is already ready"
                ))
            }
            Opcode::Register if is_ready => self.on_register(cx, key, header.stream, content),
            _ if is_ready => Ok(Step::Request { opcode, content }),
            _ => self.on_early_envelope(cx, key, header.stream, opcode, content),
        });
        step.unwrap_or_else(|text| {
            self.answer_error(cx, key, header.stream, code::PROTOCOL, &text, &[]);
            Step::Nothing(Flow::Continue)
        })
    }

    /// An envelope of a client that is not ready; the error is for the client.
    fn on_early_envelope<'a>(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        opcode: Opcode,
        content: &'a [u8],
    ) -> Result<Step<'a>, String> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(Step::Nothing(Flow::Pause));
        };
        let name = opcode.name();
        match (&session.phase, opcode) {
            (Phase::Fresh, Opcode::Startup) => self.on_startup(cx, key, stream, content),
            (Phase::Fresh, _) => Err(format!(
                "Unexpected message {name}, expecting STARTUP or OPTIONS"
            )),
            (Phase::Asked(_), Opcode::AuthResponse) => match Reader::new(content).bytes() {
                Ok(Some(token)) => Ok(Step::LogIn { token }),
                _ => Err("the AUTH_RESPONSE message is malformed".to_owned()),
            },
            (_, Opcode::AuthResponse) => Err("a login is under way on this connection".to_owned()),
            _ => Err(format!(
                "Unexpected message {name}, expecting SASL_RESPONSE"
            )),
        }
    }
}

#[cfg(test)]
mod tests;
