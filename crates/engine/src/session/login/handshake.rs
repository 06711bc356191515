//! How a client becomes ready, and what it may ask for then: STARTUP, REGISTER.

use helenus_wire::{Compression, Flow, Opcode, Reader, Version};

use crate::context::Context;
use crate::keys::{PoolKey, SessionKey};
use crate::session::clients::Clients;
use crate::session::connection::Phase;
use crate::session::names::ClientNames;
use crate::session::step::Step;
use crate::shared::EventKind;

impl Clients {
    /// A STARTUP. The error is what the client is told, as with REGISTER.
    pub(in crate::session) fn on_startup(
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
        check_cql_version(&options)?;
        let compression = compression_of(&options, framed)?;
        session.next_mode = Some((framed, compression));
        session.compression = compression;
        *session.names = ClientNames::of(&options);
        let asked = cx.snapshot.protocol().authenticate().map(<[u8]>::to_vec);
        match &asked {
            None => self.answer(cx, key, stream, Opcode::Ready, 0, &[]),
            Some(body) => self.answer(cx, key, stream, Opcode::Authenticate, 0, body),
        }
        let Some(session) = self.sessions.get_mut(key) else {
            return Ok(Step::Nothing(Flow::Pause));
        };
        // All bytes from here on are framed (v5) or compressed.
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
        session.decoder.skip_longer_than(body_len_max);
        true
    }

    pub(in crate::session) fn on_register(
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

fn option<'a>(options: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    let found = options.iter().find(|(k, _)| k.eq_ignore_ascii_case(name));
    found.map(|(_, value)| *value)
}

/// An error, in the nodes' words, if a STARTUP asks for another CQL than theirs.
fn check_cql_version(options: &[(&str, &str)]) -> Result<(), String> {
    let Some(wanted) = option(options, "CQL_VERSION") else {
        return Err("Missing value CQL_VERSION in STARTUP message".to_owned());
    };
    match cql_version(wanted) {
        None => Err(format!("Invalid version value: {wanted}")),
        Some(version) if version < CQL_VERSION_MIN => Err(format!(
            "CQL version {wanted} is not supported by the binary protocol (supported version are >= 3.0.0)"
        )),
        Some(_) => Ok(()),
    }
}

/// Major and minor number of the first version that nodes take.
const CQL_VERSION_MIN: (u32, u32) = (2, 99);

/// The major and minor number of a version like 3.4.7 or 3.0.0-beta1.
fn cql_version(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.split_once('.')?;
    let minor_len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (minor, rest) = rest.split_at(minor_len);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(behind) = rest.strip_prefix('.') {
        let patch = behind.split(|c| !is_word(c)).next()?;
        patch.parse::<u32>().ok()?;
    }
    let is_known = |c: char| is_word(c) || matches!(c, '.' | '-' | '+');
    let has_end = rest.is_empty() || rest.starts_with(['.', '-', '+']) && rest.len() > 1;
    let is_version = has_end && rest.chars().all(is_known);
    let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
    is_version.then_some((number(major)?, number(minor)?))
}

/// The compression that a STARTUP asks for, or why it cannot be had.
fn compression_of(options: &[(&str, &str)], framed: bool) -> Result<Compression, String> {
    let wanted = option(options, "COMPRESSION").map(str::to_ascii_lowercase);
    match wanted.as_deref() {
        None | Some("") => Ok(Compression::None),
        Some("lz4") => Ok(Compression::Lz4),
        Some("snappy") if framed => {
            Err("Snappy compression is not supported in protocol V5".to_owned())
        }
        Some("snappy") => Ok(Compression::Snappy),
        Some(other) => Err(format!("Unknown compression algorithm: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_cql_are_those_that_nodes_take() {
        for taken in [
            "3.0.0",
            "3.4.7",
            "3.0",
            "4.0.0-beta1",
            "2.99.0",
            "3.0.0.1",
            "3.0.0+b",
        ] {
            assert_eq!(
                check_cql_version(&[("CQL_VERSION", taken)]),
                Ok(()),
                "{taken}"
            );
        }
        for refused in [
            "2.0.0", "1.0", "abc", "", "3", "3.", "3.x.0", "3.0.x", "+3.0.0", "3.0 ",
        ] {
            assert!(
                check_cql_version(&[("CQL_VERSION", refused)]).is_err(),
                "{refused}"
            );
        }
        assert!(check_cql_version(&[]).is_err());
    }
}
