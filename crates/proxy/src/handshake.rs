//! What a client's envelopes mean before and while it is ready: version, STARTUP, REGISTER.

use helenus_wire::{Compression, Flow, Header, Opcode, Reader, Version, code, write};
use tokio::sync::mpsc;

use crate::shared::EventKind;
use crate::worker::{Key, State};

/// Where a client is in its handshake.
pub enum Phase {
    /// Nothing agreed yet.
    Fresh,
    /// A node judges the client's credentials; its AUTH_RESPONSEs go there.
    Authenticating(mpsc::Sender<(i16, Vec<u8>)>),
    Ready,
}

impl State {
    /// A client's envelope.
    pub fn on_client_envelope(&mut self, key: Key, header: Header, body: &[u8]) -> Flow {
        let snapshot_version = self.snapshot.version;
        let Some(session) = self.session(key) else {
            return Flow::Pause;
        };
        if session.closing {
            return Flow::Pause;
        }
        let fresh = matches!(session.phase, Phase::Fresh);
        let version = Version::from_number(header.version).filter(|v| *v <= snapshot_version);
        let Some(version) = version else {
            let supported: Vec<String> = (3..=snapshot_version as u8)
                .map(|v| format!("{v}/v{v}"))
                .collect();
            let text = format!(
                "Invalid or unsupported protocol version ({}); supported versions are ({})",
                header.version,
                supported.join(", ")
            );
            self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
            self.finish(key);
            return Flow::Pause;
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
        match opcode {
            Opcode::Options => {
                let supported = self.supported();
                self.answer(key, header.stream, Opcode::Supported, 0, &supported);
                return Flow::Continue;
            }
            Opcode::Startup if fresh => return self.on_startup(key, header, body),
            _ => {}
        }
        match &session.phase {
            Phase::Fresh => {
                let text = format!(
                    "Unexpected message {}, expecting STARTUP or OPTIONS",
                    opcode.name()
                );
                self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
            }
            Phase::Authenticating(node) => {
                if opcode != Opcode::AuthResponse {
                    let text = format!(
                        "Unexpected message {}, expecting SASL_RESPONSE",
                        opcode.name()
                    );
                    self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
                } else if node.try_send((header.stream, body.to_vec())).is_err() {
                    self.finish(key);
                }
            }
            Phase::Ready => match opcode {
                Opcode::Startup | Opcode::AuthResponse => {
                    let text = format!(
                        "Unexpected message {}, connection is already ready",
                        opcode.name()
                    );
                    self.answer_error(key, header.stream, code::PROTOCOL, &text, &[]);
                }
                Opcode::Register => self.on_register(key, header, body),
                _ => self.on_request(key, header, opcode, body),
            },
        }
        Flow::Continue
    }

    fn on_startup(&mut self, key: Key, header: Header, body: &[u8]) -> Flow {
        let refuse = |state: &mut State, text: &str| {
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
        match self.snapshot.authenticate.clone() {
            None => {
                self.answer(key, header.stream, Opcode::Ready, 0, &[]);
                let pool = self.anonymous_pool();
                if let Some(session) = self.session(key) {
                    session.phase = Phase::Ready;
                    session.encoder.set_mode(framed, compression);
                    session.pool = Some(pool);
                }
                self.pools[pool].sessions += 1;
            }
            Some(_) => {
                let (sender, receiver) = mpsc::channel(4);
                if let Some(session) = self.session(key) {
                    session.phase = Phase::Authenticating(sender);
                }
                let mode = (framed, compression);
                self.start_authentication(key, header.stream, mode, receiver);
            }
        }
        Flow::Pause
    }

    fn on_register(&mut self, key: Key, header: Header, body: &[u8]) {
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
        let Ok(options) = Reader::new(&self.snapshot.supported).string_multimap() else {
            return self.snapshot.supported.clone();
        };
        write::u16(&mut body, options.len() as u16);
        for (name, values) in options {
            write::string(&mut body, name);
            if name == "PROTOCOL_VERSIONS" {
                let versions: Vec<String> = (3..=self.snapshot.version as u8)
                    .map(|v| format!("{v}/v{v}"))
                    .collect();
                write::string_list(&mut body, &versions);
            } else {
                write::string_list(&mut body, &values);
            }
        }
        body
    }
}
