//! What a client's envelopes mean before and while it is ready: version, STARTUP, REGISTER.

use helenus_wire::{
    Compression, Flow, Header, Opcode, Reader, Version, code, strip_payload, write,
};

use crate::client::names::ClientNames;
use crate::engine::{Engine, PoolKey, SessionKey};
use crate::shared::EventKind;

/// Messages of a client before it is ready. Drivers send two to five; whoever asks for OPTIONS without
/// end has a worker answer without end.
const EARLY_MESSAGES_MAX: u32 = 64;

/// Where a client is in its handshake.
pub(crate) enum Phase {
    /// Nothing agreed yet.
    Fresh,
    /// The client was sent this AUTHENTICATE.
    Asked(Vec<u8>),
    /// A node judges its token, or will.
    LoggingIn,
    Ready,
}

impl Engine {
    /// A client's envelope.
    pub(crate) fn on_client_envelope(
        &mut self,
        key: SessionKey,
        header: Header,
        body: &[u8],
    ) -> Flow {
        let snapshot_version = self.cx.snapshot.version;
        let Some(session) = self.session(key) else {
            return Flow::Pause;
        };
        if !session.is_open() {
            return Flow::Pause;
        }
        if !matches!(session.phase, Phase::Ready) {
            session.early_messages += 1;
            if session.early_messages > EARLY_MESSAGES_MAX {
                let text = format!(
                    "more than {EARLY_MESSAGES_MAX} messages before the connection is ready"
                );
                self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
                self.finish(key);
                return Flow::Pause;
            }
        }
        let fresh = matches!(session.phase, Phase::Fresh);
        let version = Version::from_number(header.version).filter(|v| *v <= snapshot_version);
        let Some(version) = version else {
            let text = unsupported_version(header.version, snapshot_version);
            self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
            return Flow::Continue;
        };
        if fresh {
            session.version = version;
        } else if session.version != version {
            let text = format!(
                "Invalid message version. Got {0}/v{0} but previous messages on this connection had version {1}/v{1}",
                version as u8, session.version as u8
            );
            self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
            return Flow::Continue;
        }
        let opcode = Opcode::from_number(header.opcode).filter(|o| o.is_request());
        let Some(opcode) = opcode.filter(|_| !header.response) else {
            let text = format!("Unknown opcode {} or wrong direction", header.opcode);
            self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
            return Flow::Continue;
        };
        let content = match strip_payload(header.flags, version, body) {
            Ok(content) => content,
            Err(e) => {
                self.answer_error(key, header.stream, code::PROTOCOL, &e.to_string(), &[]);
                return Flow::Continue;
            }
        };
        match opcode {
            Opcode::Options => {
                let supported = self.supported();
                self.answer(key, header.stream, Opcode::Supported, 0, &supported);
                return Flow::Continue;
            }
            Opcode::Startup if fresh => return self.on_startup(key, header, content),
            _ => {}
        }
        let Some(session) = self.session(key) else {
            return Flow::Pause;
        };
        match &session.phase {
            Phase::Fresh => {
                let text = format!(
                    "Unexpected message {}, expecting STARTUP or OPTIONS",
                    opcode.name()
                );
                self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
            }
            Phase::Asked(asked) if opcode == Opcode::AuthResponse => {
                let asked = asked.clone();
                match Reader::new(content).bytes() {
                    Ok(Some(token)) => self.start_login(key, header.stream, asked, token),
                    _ => {
                        let text = "the AUTH_RESPONSE message is malformed";
                        self.answer_error(key, header.stream, code::PROTOCOL, text, &[]);
                    }
                }
            }
            Phase::Asked(_) | Phase::LoggingIn => {
                let text = match opcode {
                    Opcode::AuthResponse => "a login is under way on this connection".to_owned(),
                    other => format!(
                        "Unexpected message {}, expecting SASL_RESPONSE",
                        other.name()
                    ),
                };
                self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
            }
            Phase::Ready => match opcode {
                Opcode::Startup | Opcode::AuthResponse => {
                    let text = format!(
                        "Unexpected message {}, connection is already ready",
                        opcode.name()
                    );
                    self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
                }
                Opcode::Register => self.on_register(key, header, content),
                _ => self.on_request(key, header, opcode, body, content),
            },
        }
        Flow::Continue
    }

    fn on_startup(&mut self, key: SessionKey, header: Header, body: &[u8]) -> Flow {
        let refuse = |state: &mut Engine, text: &str| {
            state.answer_error(key, header.stream, code::PROTOCOL, text, &[]);
            Flow::Continue
        };
        let Ok(options) = Reader::new(body).string_map() else {
            return refuse(self, "the STARTUP message is malformed");
        };
        let option = |name: &str| {
            options
                .iter()
                .find(|(k, _)| k.eq_ignore_ascii_case(name))
                .map(|(_, v)| *v)
        };
        if option("CQL_VERSION").is_none() {
            return refuse(self, "Missing value CQL_VERSION in STARTUP message");
        }
        let Some(session) = self.session(key) else {
            return Flow::Pause;
        };
        let framed = session.version == Version::V5;
        let compression = match option("COMPRESSION")
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            None | Some("") => Compression::None,
            Some("lz4") => Compression::Lz4,
            Some("snappy") if framed => {
                return refuse(self, "Snappy compression is not supported in protocol V5");
            }
            Some("snappy") => Compression::Snappy,
            Some(other) => {
                let text = format!("Unknown compression algorithm: {other}");
                return refuse(self, &text);
            }
        };
        session.next_mode = Some((framed, compression));
        *session.names = ClientNames::of(&options);
        let asked = self.cx.snapshot.authenticate.clone();
        match &asked {
            None => self.answer(key, header.stream, Opcode::Ready, 0, &[]),
            Some(body) => self.answer(key, header.stream, Opcode::Authenticate, 0, body),
        }
        if let Some(session) = self.session(key) {
            // What follows is framed (v5) or compressed.
            session.outbox.set_mode(framed, compression);
        }
        match asked {
            None => {
                let pool = self.anonymous_pool();
                self.make_ready(key, pool);
            }
            Some(asked) => {
                if let Some(session) = self.session(key) {
                    session.phase = Phase::Asked(asked);
                }
            }
        }
        Flow::Pause
    }

    /// Lets a client query over these links.
    pub(crate) fn make_ready(&mut self, key: SessionKey, pool: PoolKey) {
        let body_len_max = self.cx.shared.config.limits.request_bytes_max;
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let counted = self.cx.shared.stats.clients.enter(&session.names.kind);
        session.counted = Some(counted);
        tracing::debug!(peer = %session.peer, names = ?session.names, "a client is ready");
        session.phase = Phase::Ready;
        session.pool = Some(pool);
        session.decoder.set_body_len_max(body_len_max);
        self.enter_pool(pool);
    }

    fn on_register(&mut self, key: SessionKey, header: Header, body: &[u8]) {
        let Ok(kinds) = Reader::new(body).string_list() else {
            let text = "the REGISTER message is malformed";
            self.answer_error(key, header.stream, code::PROTOCOL, text, &[]);
            return;
        };
        let mut mask = 0;
        for kind in kinds {
            let Some(kind) = EventKind::parse(&kind.to_ascii_uppercase()) else {
                let text = format!("Invalid value '{kind}' for Type");
                self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
                return;
            };
            mask |= kind as u8;
        }
        if let Some(session) = self.session(key) {
            session.events |= mask;
        }
        self.answer(key, header.stream, Opcode::Ready, 0, &[]);
    }

    /// SUPPORTED as the nodes say it, less the versions that the proxy does not speak.
    fn supported(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let Ok(options) = Reader::new(&self.cx.snapshot.supported).string_multimap() else {
            return self.cx.snapshot.supported.clone();
        };
        write::u16(&mut body, options.len() as u16);
        for (name, values) in options {
            write::string(&mut body, name);
            if name == "PROTOCOL_VERSIONS" {
                write::string_list(&mut body, &versions_up_to(self.cx.snapshot.version));
            } else {
                write::string_list(&mut body, &values);
            }
        }
        body
    }
}

/// What Cassandra says to a client of another version.
pub(crate) fn unsupported_version(number: u8, version_max: Version) -> String {
    let supported = versions_up_to(version_max).join(", ");
    format!(
        "Invalid or unsupported protocol version ({number}); supported versions are ({supported})"
    )
}

fn versions_up_to(version_max: Version) -> Vec<String> {
    (Version::V3 as u8..=version_max as u8)
        .map(|v| format!("{v}/v{v}"))
        .collect()
}
