//! One client connection: bytes in, bytes out, events.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use helenus_wire::{
    Compression, Converted, DecodeError, Decoder, ErrorBody, Header, Opcode, Version, code,
    convert_response, flags,
};

use crate::client::handshake::{Phase, unsupported_version};
use crate::client::identity::Member;
use crate::client::names::{ClientNames, CountedClient};
use crate::client::outbox::Outbox;
use crate::engine::{Engine, PoolKey, SessionKey};
use crate::memory::{Held, NO_MEMORY};
use crate::output::{Output, Sent, Then};
use crate::shared::{ClientPermit, EventKind};
use crate::stats::add;

/// Flags of a node's answer that its client gets to see.
pub(crate) const KEPT_FLAGS: u8 = flags::TRACING | flags::WARNING | flags::CUSTOM_PAYLOAD;

/// The longest message of a client that nobody knows yet: a STARTUP, or a token.
const HANDSHAKE_BODY_MAX: usize = 16 * 1024;

/// How long a client that has been told the end may go on sending.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// How long a client that is being disconnected may take to read what it has been answered.
const FINISH_MAX: Duration = Duration::from_secs(30);

/// When the memory is full, only who has sent more than this of an incomplete message is disconnected,
/// or has more than that to read.
const PARTIAL_MIN: usize = 64 * 1024;
/// A client that has neither read nor sent anything for longer stands still.
const STALL_MAX: Duration = Duration::from_secs(5);
const NOT_READ: &str = "a client does not read its answers: disconnecting it";
const BACKLOG_MIN: usize = 1 << 20;

/// One client connection.
pub(crate) struct Session {
    pub _permit: ClientPermit,
    pub decoder: Decoder,
    pub outbox: Outbox,
    /// Bytes of messages that have come in part.
    partial_held: Held,
    /// Bytes that wait to be written, less those that it shares with others.
    backlog_held: Held,
    pub version: Version,
    pub phase: Phase,
    pub peer: SocketAddr,
    /// The links of its role.
    pub pool: Option<PoolKey>,
    /// As whom it has logged in, if it had to.
    pub member: Option<Member>,
    /// What it calls itself.
    pub names: Box<ClientNames>,
    /// Set while it is ready.
    pub counted: Option<CountedClient>,
    pub keyspace: Option<Rc<str>>,
    /// Bits of [`EventKind`].
    pub events: u8,
    pub in_flight: usize,
    pub accepted: Instant,
    /// Messages that have come before it was ready.
    pub early_messages: u32,
    /// When bytes last came, or were last to be sent.
    pub active: Instant,
    /// Its connection takes no more for now; what waits is written as soon as it does.
    pub write_blocked: bool,
    /// When the socket last took bytes, or a client came.
    pub wrote: Instant,
    pub dirty: bool,
    pub life: Life,
    /// Mode of the decoder from the next byte on.
    pub next_mode: Option<(bool, Compression)>,
    /// Set while its bytes wait because it has too much in flight.
    pub paused: bool,
}

/// How a client connection comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Open,
    /// The proxy stops and nothing is left to be answered, unless something has come meanwhile; since
    /// this instant.
    Leaving(Instant),
    /// Nothing more is read, but what has been answered still leaves; since this instant.
    Finishing(Instant),
    /// Everything has left and the client knows it; its own end is awaited, since this instant.
    Lingering(Instant),
    /// To be closed as it is.
    Dead,
}

/// What is to be done next for a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To read from it. If nothing is there while it is `leaving`, its last answer is to leave.
    Read { leaving: bool },
    /// Nothing, until [`Output::Client`] names it or bytes that waited for it have been written.
    Wait,
    /// To be told that nothing more comes.
    ShutDown,
    /// What it still sends until it closes its end is to be thrown away.
    Linger,
    /// To be closed as it is.
    Close,
}

impl Session {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.life, Life::Open | Life::Leaving(_))
    }

    /// Whether it has answers that its client has not begun to read for a while.
    fn keeps_memory_busy(&self, stalled: impl Fn(Instant) -> bool) -> bool {
        self.write_blocked && self.outbox.len() > BACKLOG_MIN && stalled(self.wrote)
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.write_blocked || !self.outbox.is_empty()
    }
}

impl Engine {
    /// Takes in a new client whose connection is established.
    pub fn open_session(
        &mut self,
        peer: SocketAddr,
        accepted: Instant,
        permit: ClientPermit,
    ) -> SessionKey {
        let mut decoder = Decoder::new(HANDSHAKE_BODY_MAX);
        decoder.set_version_max(self.cx.snapshot.version);
        self.sessions.insert(Session {
            _permit: permit,
            decoder,
            outbox: Outbox::new(),
            partial_held: Held::new(&self.cx.memory, 0),
            backlog_held: Held::new(&self.cx.memory, 0),
            version: self.cx.snapshot.version,
            phase: Phase::Fresh,
            peer,
            pool: None,
            member: None,
            names: Box::default(),
            counted: None,
            keyspace: None,
            events: 0,
            in_flight: 0,
            accepted,
            early_messages: 0,
            active: accepted,
            wrote: accepted,
            write_blocked: false,
            dirty: false,
            life: Life::Open,
            next_mode: None,
            paused: false,
        })
    }

    /// Where a client is.
    pub fn peer_of(&self, key: SessionKey) -> Option<SocketAddr> {
        Some(self.sessions.get(key)?.peer)
    }

    pub(crate) fn session(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.sessions.get_mut(key)
    }

    /// What is to be done next for a client's connection; `None` if there is none any more.
    pub fn next_for_client(&mut self, key: SessionKey) -> Option<Next> {
        let in_flight_max = self.cx.shared.config.limits.client_in_flight_max;
        let session = self.sessions.get_mut(key)?;
        let leaving = match session.life {
            Life::Open => false,
            Life::Leaving(_) => true,
            Life::Finishing(_) if session.has_unsent() => return Some(Next::Wait),
            Life::Finishing(_) => return Some(Next::ShutDown),
            Life::Lingering(_) => return Some(Next::Linger),
            Life::Dead => return Some(Next::Close),
        };
        session.paused = session.in_flight >= in_flight_max
            || session.write_blocked && session.outbox.len() > 1 << 20;
        Some(match session.paused {
            true => Next::Wait,
            false => Next::Read { leaving },
        })
    }

    /// Bytes have come from a client.
    pub fn on_client_bytes(&mut self, now: Instant, key: SessionKey, bytes: &[u8]) {
        self.set_now(now);
        let Some(session) = self.sessions.get_mut(key).filter(|s| s.is_open()) else {
            return;
        };
        session.life = Life::Open;
        session.active = now;
        add(&self.cx.shared.stats.global.client_reads, 1);
        add(
            &self.cx.shared.stats.global.client_bytes_in,
            bytes.len() as u64,
        );
        self.feed_session(key, bytes);
    }

    /// A client has closed its side, or the connection has broken.
    pub fn on_client_end(&mut self, now: Instant, key: SessionKey, broken: bool) {
        self.set_now(now);
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        session.life = match broken {
            false if session.has_unsent() => Life::Finishing(self.cx.now),
            _ => Life::Dead,
        };
    }

    /// A client has been told that nothing more comes.
    pub fn on_client_shut_down(&mut self, key: SessionKey) {
        let now = self.cx.now;
        if let Some(session) = self.session(key) {
            session.life = Life::Lingering(now);
        }
    }

    /// Whether a client's connection waits to take more bytes.
    pub fn is_client_blocked(&self, key: SessionKey) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|session| session.write_blocked)
    }

    /// Whether nothing is read from a client's connection for now.
    pub fn is_client_held(&self, key: SessionKey) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|session| session.paused || !session.is_open())
    }

    /// What is to be written to a client, to be followed by [`Engine::on_client_sent`].
    pub fn client_bytes(&mut self, key: SessionKey) -> Option<&mut Outbox> {
        let session = self.sessions.get_mut(key)?;
        session.dirty = false;
        Some(&mut session.outbox)
    }

    /// What became of an attempt to write a client's bytes.
    pub fn on_client_sent(&mut self, key: SessionKey, sent: Sent) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let stats = &self.cx.shared.stats.global;
        if sent.writes > 0 {
            session.wrote = self.cx.now;
            add(&stats.client_writes, sent.writes);
            add(&stats.client_bytes_out, sent.bytes);
        }
        session.write_blocked = sent.then == Then::Blocked;
        session.backlog_held.set(session.outbox.copied_len());
        if sent.then == Then::Broken {
            session.life = Life::Dead;
        }
        if session.in_flight == 0 && session.outbox.is_empty() {
            session.outbox.shrink();
        }
        if session.write_blocked
            && session.outbox.copied_len() > BACKLOG_MIN
            && self.cx.memory.is_full(0)
        {
            tracing::warn!(peer = %session.peer, "limits.memory_max is reached and {NOT_READ}");
            self.kill(key);
        }
    }

    fn feed_session(&mut self, key: SessionKey, mut input: &[u8]) {
        let Some(session) = self.session(key) else {
            return;
        };
        let mut decoder = std::mem::replace(&mut session.decoder, Decoder::new(0));
        let request_bytes_max = self.cx.shared.config.limits.request_bytes_max;
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = loop {
            match decoder.feed(input, &mut scratch, |header, body| {
                let flow = self.on_client_envelope(key, header, body);
                self.settle();
                flow
            }) {
                Ok(used) => {
                    let Some(session) = self.session(key) else {
                        break Ok(());
                    };
                    if let Some((framed, compression)) = session.next_mode.take() {
                        decoder.set_mode(framed, compression);
                        if matches!(session.phase, Phase::Ready) {
                            decoder.set_body_len_max(request_bytes_max);
                        }
                    }
                    if used >= input.len() || !session.is_open() {
                        break Ok(());
                    }
                    input = &input[used..];
                }
                Err(e) => break Err(e),
            }
        };
        self.scratch = scratch;
        if self.scratch.capacity() > 1 << 20 {
            self.scratch = Vec::new();
        }
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        session.decoder = decoder;
        let partial = session.decoder.buffered_len();
        session.partial_held.set(partial);
        if partial > PARTIAL_MIN && self.cx.memory.is_full(0) {
            self.answer_error(key, 0, code::OVERLOADED, NO_MEMORY, &[]);
            return self.finish(key);
        }
        if let Err(e) = result {
            tracing::debug!(peer = %session.peer, "closing a client: {e}");
            add(&self.cx.shared.stats.global.clients_protocol_errors, 1);
            match e {
                DecodeError::Version(number) => self.refuse_version(key, number),
                e => self.answer_error(key, 0, code::PROTOCOL, &e.to_string(), &[]),
            }
            self.finish(key);
        }
    }

    /// Puts an envelope in a client's encoder. `body` is already in the client's version.
    pub(crate) fn answer(
        &mut self,
        key: SessionKey,
        stream: i16,
        opcode: Opcode,
        header_flags: u8,
        body: &[u8],
    ) {
        let Some(session) = self.session(key) else {
            return;
        };
        // An answer that comes after the last one would only break the connection.
        if matches!(session.life, Life::Lingering(_) | Life::Dead) {
            return;
        }
        let header = Header {
            version: session.version as u8,
            response: true,
            flags: header_flags,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        session.outbox.push(header, body);
        self.on_answer_pushed(key);
    }

    /// Has an answer written, unless its client does not read.
    pub(crate) fn on_answer_pushed(&mut self, key: SessionKey) {
        let backlog_max = self.cx.shared.config.limits.client_backlog_bytes_max;
        let now = self.cx.now;
        let Some(session) = self.session(key) else {
            return;
        };
        session.active = now;
        if session.write_blocked {
            // It will not be looked at before the client reads.
            session.backlog_held.set(session.outbox.copied_len());
        }
        if session.outbox.len() > backlog_max {
            tracing::warn!(peer = %session.peer, "a client does not read its answers: disconnecting it");
            return self.kill(key);
        }
        self.mark_session(key);
    }

    /// Puts a node's answer in a client's encoder, converted to the client's version.
    pub(crate) fn answer_converted(
        &mut self,
        key: SessionKey,
        stream: i16,
        opcode: Opcode,
        header_flags: u8,
        body: &[u8],
        from: Version,
    ) {
        let Some(session) = self.session(key) else {
            return;
        };
        let version = session.version;
        let header_flags = header_flags & KEPT_FLAGS;
        if version == from {
            self.answer(key, stream, opcode, header_flags, body);
            return;
        }
        let mut converted = std::mem::take(&mut self.convert_buf);
        converted.clear();
        match convert_response(opcode, header_flags, body, from, version, &mut converted) {
            Ok(Converted::Same) => self.answer(key, stream, opcode, header_flags, body),
            Ok(Converted::Rewritten { header_flags }) => {
                self.answer(key, stream, opcode, header_flags, &converted);
            }
            Err(e) => {
                let text = format!("a node's answer could not be understood: {e}");
                self.answer_error(key, stream, code::SERVER, &text, &[]);
            }
        }
        if converted.capacity() <= 1 << 20 {
            self.convert_buf = converted;
        }
    }

    pub(crate) fn answer_error(
        &mut self,
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
        self.answer(key, stream, Opcode::Error, 0, &body);
    }

    /// Tells a client that its version is not spoken: in the envelope of that version if it is an old
    /// one, else in that of the connection, or of the latest before there is one.
    fn refuse_version(&mut self, key: SessionKey, number: u8) {
        let message = &unsupported_version(number, self.cx.snapshot.version);
        if !matches!(number, 1 | 2) {
            return self.answer_error(key, 0, code::PROTOCOL, message, &[]);
        }
        let error = ErrorBody {
            code: code::PROTOCOL,
            message,
            fields: &[],
        };
        if let Some(session) = self.session(key) {
            session.outbox.push_foreign(&error.old_envelope(number));
            self.mark_session(key);
        }
    }

    /// Sends an event to the clients that asked for its kind.
    pub(crate) fn emit(&mut self, kind: EventKind, body: &[u8]) {
        let from = self.cx.snapshot.version;
        let keys: Vec<SessionKey> = self
            .sessions
            .iter()
            .filter(|(_, s)| s.events & kind as u8 != 0)
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            self.answer_converted(key, -1, Opcode::Event, 0, body, from);
        }
    }

    /// Closes a client once its last answer has left.
    pub fn finish(&mut self, key: SessionKey) {
        let now = self.cx.now;
        if let Some(session) = self.session(key)
            && session.is_open()
        {
            session.life = Life::Finishing(now);
            self.cx.ask(Output::Client(key));
        }
    }

    /// Closes a client, unless there is still something to read.
    pub(crate) fn leave(&mut self, key: SessionKey) {
        let now = self.cx.now;
        if let Some(session) = self.session(key)
            && session.life == Life::Open
        {
            session.life = Life::Leaving(now);
            self.cx.ask(Output::Client(key));
        }
    }

    /// Closes a client at once.
    fn kill(&mut self, key: SessionKey) {
        if let Some(session) = self.session(key) {
            session.life = Life::Dead;
            self.cx.ask(Output::Client(key));
        }
    }

    fn mark_session(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        if !session.dirty && !session.write_blocked {
            session.dirty = true;
            self.dirty_sessions.push(key);
        }
    }

    pub fn close_session(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.remove(key) else {
            return;
        };
        self.sessions_left |= session.in_flight > 0;
        if let Some(member) = session.member {
            member.leave(self.cx.now);
        }
        if let Some(pool) = session.pool {
            self.links.leave_pool(pool, self.cx.now);
        }
    }

    /// Closes clients that do not finish their handshake, do not go when they should, or keep memory
    /// busy when it is full.
    pub(crate) fn check_sessions(&mut self) {
        let handshake_max =
            Duration::from_millis(self.cx.shared.config.limits.handshake_timeout_ms);
        let full = self.cx.memory.was_full();
        let (mut unfinished, mut ended) = (Vec::new(), Vec::new());
        for (key, session) in &self.sessions {
            let stalled = |since: Instant| self.cx.now.saturating_duration_since(since) > STALL_MAX;
            if full && session.keeps_memory_busy(stalled) {
                tracing::warn!(peer = %session.peer, "limits.memory_max is reached and {NOT_READ}");
                ended.push(key);
                continue;
            }
            let partial = session.decoder.buffered_len();
            if full && session.is_open() && partial > PARTIAL_MIN && stalled(session.active) {
                unfinished.push(key);
            }
            let (since, limit) = match (session.life, &session.phase) {
                (Life::Leaving(since) | Life::Finishing(since), _) => (since, FINISH_MAX),
                (Life::Lingering(since), _) => (since, LINGER_MAX),
                // A login has its own time, as it waits for others and for nodes.
                (Life::Dead, _) | (Life::Open, Phase::Ready | Phase::LoggingIn) => continue,
                (Life::Open, Phase::Fresh | Phase::Asked(_)) => (session.accepted, handshake_max),
            };
            if self.cx.now.saturating_duration_since(since) > limit {
                ended.push(key);
            }
        }
        for key in ended {
            self.kill(key);
        }
        for key in unfinished {
            self.answer_error(key, 0, code::OVERLOADED, NO_MEMORY, &[]);
            self.finish(key);
        }
    }
}
