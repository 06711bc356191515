//! What a client's envelopes mean before and while it is ready: version, STARTUP, REGISTER.

use helenus_wire::{Compression, Flow, Header, Opcode, Reader, Version, code, strip_payload};

use crate::client::clients::Clients;
use crate::client::names::ClientNames;
use crate::client::session::{Phase, Session};
use crate::client::versions::{supported, unsupported_version};
use crate::context::Context;
use crate::keys::{PoolKey, SessionKey};
use crate::shared::EventKind;

/// Messages of a client before it is ready. Drivers send two to five; whoever asks for OPTIONS without
/// end has a worker answer without end.
const EARLY_MESSAGES_MAX: u32 = 64;

/// What a client's envelope leaves to be done by others.
pub(crate) enum Step<'a> {
    /// Nothing: it has been answered, or nobody would hear the answer.
    Nothing(Flow),
    /// The client needs no login: it wants the links that all such clients share, and is ready then.
    /// What follows in its bytes may be in another mode.
    Admit,
    /// A node is to judge this token. `asked` is the body of the AUTHENTICATE that it answers.
    LogIn {
        stream: i16,
        asked: Vec<u8>,
        token: &'a [u8],
    },
    /// A request of a client that is ready. `content` is the body behind its custom payload.
    Request {
        header: Header,
        opcode: Opcode,
        body: &'a [u8],
        content: &'a [u8],
    },
}

impl Session {
    /// What an envelope is and what is in it, or why it cannot be taken.
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
                self.refuse(cx, key, header, &text);
                self.finish(cx, key);
                return Step::Nothing(Flow::Pause);
            }
        }
        match session.open_envelope(header, body, cx.snapshot.version) {
            Err(text) => self.refuse(cx, key, header, &text),
            Ok((Opcode::Options, _)) => {
                let supported = supported(&cx.snapshot);
                self.answer(cx, key, header.stream, Opcode::Supported, 0, &supported);
                Step::Nothing(Flow::Continue)
            }
            Ok((opcode, content)) if session.is_ready() => match opcode {
                Opcode::Startup | Opcode::AuthResponse => {
                    let name = opcode.name();
                    let text = format!("Unexpected message {name}, connection is already ready");
                    self.refuse(cx, key, header, &text)
                }
                Opcode::Register => self.on_register(cx, key, header, content),
                _ => Step::Request {
                    header,
                    opcode,
                    body,
                    content,
                },
            },
            Ok((opcode, content)) => self.on_early_envelope(cx, key, header, opcode, content),
        }
    }

    /// An envelope of a client that is not ready.
    fn on_early_envelope<'a>(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        header: Header,
        opcode: Opcode,
        content: &'a [u8],
    ) -> Step<'a> {
        let Some(session) = self.sessions.get(key) else {
            return Step::Nothing(Flow::Pause);
        };
        let name = opcode.name();
        match (&session.phase, opcode) {
            (Phase::Fresh, Opcode::Startup) => self.on_startup(cx, key, header, content),
            (Phase::Fresh, _) => {
                let text = format!("Unexpected message {name}, expecting STARTUP or OPTIONS");
                self.refuse(cx, key, header, &text)
            }
            (Phase::Asked(asked), Opcode::AuthResponse) => match Reader::new(content).bytes() {
                Ok(Some(token)) => Step::LogIn {
                    stream: header.stream,
                    asked: asked.clone(),
                    token,
                },
                _ => self.refuse(cx, key, header, "the AUTH_RESPONSE message is malformed"),
            },
            (_, Opcode::AuthResponse) => {
                let text = "a login is under way on this connection";
                self.refuse(cx, key, header, text)
            }
            _ => {
                let text = format!("Unexpected message {name}, expecting SASL_RESPONSE");
                self.refuse(cx, key, header, &text)
            }
        }
    }

    /// Answers what breaks the protocol.
    fn refuse(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        header: Header,
        text: &str,
    ) -> Step<'static> {
        self.answer_error(cx, key, header.stream, code::PROTOCOL, text, &[]);
        Step::Nothing(Flow::Continue)
    }

    fn on_startup(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        header: Header,
        body: &[u8],
    ) -> Step<'static> {
        let Ok(options) = Reader::new(body).string_map() else {
            return self.refuse(cx, key, header, "the STARTUP message is malformed");
        };
        let Some(session) = self.sessions.get_mut(key) else {
            return Step::Nothing(Flow::Pause);
        };
        let framed = session.version == Version::V5;
        let compression = match compression_of(&options, framed) {
            Ok(compression) => compression,
            Err(text) => return self.refuse(cx, key, header, &text),
        };
        session.next_mode = Some((framed, compression));
        *session.names = ClientNames::of(&options);
        let asked = cx.snapshot.authenticate.clone();
        match &asked {
            None => self.answer(cx, key, header.stream, Opcode::Ready, 0, &[]),
            Some(body) => self.answer(cx, key, header.stream, Opcode::Authenticate, 0, body),
        }
        let Some(session) = self.sessions.get_mut(key) else {
            return Step::Nothing(Flow::Pause);
        };
        // What follows is framed (v5) or compressed.
        session.outbox.set_mode(framed, compression);
        match asked {
            None => Step::Admit,
            Some(asked) => {
                session.phase = Phase::Asked(asked);
                Step::Nothing(Flow::Pause)
            }
        }
    }

    /// Lets a client query over these links; false if it has left.
    pub(crate) fn make_ready(&mut self, cx: &Context, key: SessionKey, pool: PoolKey) -> bool {
        let Some(session) = self.sessions.get_mut(key) else {
            return false;
        };
        let counted = cx.shared.stats.clients.enter(&session.names.kind);
        session.counted = Some(counted);
        tracing::debug!(peer = %session.peer, names = ?session.names, "a client is ready");
        session.phase = Phase::Ready;
        session.pool = Some(pool);
        let body_len_max = cx.shared.config.limits.request_bytes_max;
        session.decoder.set_body_len_max(body_len_max);
        true
    }

    fn on_register(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        header: Header,
        body: &[u8],
    ) -> Step<'static> {
        let Ok(kinds) = Reader::new(body).string_list() else {
            return self.refuse(cx, key, header, "the REGISTER message is malformed");
        };
        let mut mask = 0;
        for kind in kinds {
            let Some(kind) = EventKind::parse(&kind.to_ascii_uppercase()) else {
                let text = format!("Invalid value '{kind}' for Type");
                return self.refuse(cx, key, header, &text);
            };
            mask |= kind as u8;
        }
        if let Some(session) = self.sessions.get_mut(key) {
            session.events |= mask;
        }
        self.answer(cx, key, header.stream, Opcode::Ready, 0, &[]);
        Step::Nothing(Flow::Continue)
    }
}

/// The compression that a STARTUP asks for, or why it cannot be had.
fn compression_of(options: &[(&str, &str)], framed: bool) -> Result<Compression, String> {
    let option = |name: &str| {
        let found = options.iter().find(|(k, _)| k.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_ascii_lowercase())
    };
    if option("CQL_VERSION").is_none() {
        return Err("Missing value CQL_VERSION in STARTUP message".to_owned());
    }
    match option("COMPRESSION").as_deref() {
        None | Some("") => Ok(Compression::None),
        Some("lz4") => Ok(Compression::Lz4),
        Some("snappy") if framed => {
            Err("Snappy compression is not supported in protocol V5".to_owned())
        }
        Some("snappy") => Ok(Compression::Snappy),
        Some(other) => Err(format!("Unknown compression algorithm: {other}")),
    }
}
