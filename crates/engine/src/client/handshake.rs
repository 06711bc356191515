//! How a client becomes ready, and what it may ask for then: STARTUP, REGISTER.

use helenus_wire::{Compression, Flow, Opcode, Reader, Version};

use crate::client::clients::Clients;
use crate::client::names::ClientNames;
use crate::client::session::Phase;
use crate::client::step::Step;
use crate::context::Context;
use crate::keys::{PoolKey, SessionKey};
use crate::shared::EventKind;

impl Clients {
    /// A STARTUP. The error is what the client is told, as with REGISTER.
    pub(super) fn on_startup(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        body: &[u8],
    ) -> Result<Step<'static>, String> {
        let Ok(options) = Reader::new(body).string_map() else {
            return Err("the STARTUP message is malformed".to_owned());
        };
        let Some(session) = self.sessions.get_mut(key) else {
            return Ok(Step::Nothing(Flow::Pause));
        };
        let framed = session.version == Version::V5;
        let compression = compression_of(&options, framed)?;
        session.next_mode = Some((framed, compression));
        session.compression = compression;
        *session.names = ClientNames::of(&options);
        let asked = cx.snapshot.authenticate.clone();
        match &asked {
            None => self.answer(cx, key, stream, Opcode::Ready, 0, &[]),
            Some(body) => self.answer(cx, key, stream, Opcode::Authenticate, 0, body),
        }
        let Some(session) = self.sessions.get_mut(key) else {
            return Ok(Step::Nothing(Flow::Pause));
        };
        // What follows is framed (v5) or compressed.
        session.outbox.set_mode(framed, compression);
        match asked {
            None => Ok(Step::Admit),
            Some(asked) => {
                session.phase = Phase::Asked(asked);
                Ok(Step::Nothing(Flow::Pause))
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

    pub(super) fn on_register(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        body: &[u8],
    ) -> Result<Step<'static>, String> {
        let Ok(kinds) = Reader::new(body).string_list() else {
            return Err("the REGISTER message is malformed".to_owned());
        };
        let mut mask = 0;
        for kind in kinds {
            let Some(kind) = EventKind::parse(&kind.to_ascii_uppercase()) else {
                return Err(format!("Invalid value '{kind}' for Type"));
            };
            mask |= kind as u8;
        }
        if let Some(session) = self.sessions.get_mut(key) {
            session.events |= mask;
        }
        self.answer(cx, key, stream, Opcode::Ready, 0, &[]);
        Ok(Step::Nothing(Flow::Continue))
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
