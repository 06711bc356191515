//! One client connection: bytes in, bytes out, events.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use helenus_wire::{
    Compression, Converted, Decoder, Encoder, ErrorBody, Header, Opcode, Version, code,
    convert_response, flags,
};

use crate::handshake::Phase;
use crate::shared::EventKind;
use crate::stats::add;
use crate::transport::Transport;
use crate::worker::{Key, State};

/// One client connection.
pub struct Session {
    pub generation: u32,
    pub transport: Transport,
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub waker: Option<Waker>,
    pub version: Version,
    pub phase: Phase,
    pub peer: SocketAddr,
    /// Index of the pool of its role.
    pub pool: Option<usize>,
    pub keyspace: Option<Rc<str>>,
    /// Bits of [`EventKind`].
    pub events: u8,
    pub in_flight: usize,
    pub opened: Instant,
    pub write_blocked: bool,
    pub dirty: bool,
    /// Close as soon as everything has been written.
    pub closing: bool,
    pub dead: bool,
    /// Mode of the decoder from the next byte on.
    pub next_mode: Option<(bool, Compression)>,
    /// Set while its bytes wait because it has too much in flight.
    pub paused: bool,
}

impl State {
    /// Takes in a new client, or refuses it.
    pub fn open_session(&mut self, socket: tokio::net::TcpStream, peer: SocketAddr) -> Option<Key> {
        let limits = &self.shared.config.limits;
        let body_max = limits.request_bytes_max;
        if self.shared.clients.fetch_add(1, Ordering::Relaxed) >= limits.clients_max {
            self.shared.clients.fetch_sub(1, Ordering::Relaxed);
            add(&self.shared.stats.global.clients_refused, 1);
            return None;
        }
        add(&self.shared.stats.global.clients_accepted, 1);
        let _ = socket.set_nodelay(true);
        let tls = self.shared.server_tls.load();
        let transport = match Transport::server(socket, tls.as_ref()) {
            Ok(transport) => transport,
            Err(e) => {
                tracing::warn!(%peer, "TLS could not start: {e}");
                self.shared.clients.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
        };
        let generation = self.next_generation();
        let index = self.sessions.insert(Session {
            generation,
            transport,
            decoder: Decoder::new(body_max),
            encoder: Encoder::new(),
            waker: None,
            version: self.snapshot.version,
            phase: Phase::Fresh,
            peer,
            pool: None,
            keyspace: None,
            events: 0,
            in_flight: 0,
            opened: Instant::now(),
            write_blocked: false,
            dirty: false,
            closing: false,
            dead: false,
            next_mode: None,
            paused: false,
        });
        Some(Key {
            index: index as u32,
            generation,
        })
    }

    pub fn session(&mut self, key: Key) -> Option<&mut Session> {
        self.sessions
            .get_mut(key.index as usize)
            .filter(|s| s.generation == key.generation)
    }

    /// One turn of a client's task.
    pub fn poll_session(&mut self, key: Key, cx: &mut Context<'_>) -> Poll<()> {
        let index = key.index as usize;
        let Some(session) = self.session(key) else {
            return Poll::Ready(());
        };
        match &session.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => session.waker = Some(cx.waker().clone()),
        }
        if session.write_blocked || session.transport.wants_write() {
            match session.transport.poll_write_ready(cx) {
                Poll::Ready(Ok(())) => self.flush_session(index),
                Poll::Ready(Err(_)) => session.dead = true,
                Poll::Pending => {}
            }
        }
        self.now = Instant::now();
        let in_flight_max = self.shared.config.limits.client_in_flight_max;
        for _ in 0..4 {
            let Some(session) = self.session(key) else {
                return Poll::Ready(());
            };
            if session.dead || session.closing && session.encoder.pending_len() == 0 {
                self.close_session(index);
                return Poll::Ready(());
            }
            session.paused = session.in_flight >= in_flight_max
                || session.closing
                || session.write_blocked && session.encoder.pending_len() > 1 << 20;
            if session.paused {
                return Poll::Pending;
            }
            let mut buf = std::mem::take(&mut self.read_buf);
            let read = self.sessions[index].transport.poll_read(cx, &mut buf);
            let outcome = match read {
                Poll::Pending => {
                    self.read_buf = buf;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => Err(()),
                Poll::Ready(Ok(n)) => {
                    add(&self.shared.stats.global.client_reads, 1);
                    add(&self.shared.stats.global.client_bytes_in, n as u64);
                    self.feed_session(key, &buf[..n]);
                    self.flush_if_immediate();
                    Ok(())
                }
                Poll::Ready(Err(e)) => {
                    if e.kind() == io::ErrorKind::InvalidData {
                        tracing::info!(peer = %self.sessions[index].peer, "TLS with a client failed: {e}");
                        add(&self.shared.stats.global.clients_protocol_errors, 1);
                    }
                    Err(())
                }
            };
            self.read_buf = buf;
            if outcome.is_err() {
                self.close_session(index);
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn feed_session(&mut self, key: Key, mut input: &[u8]) {
        let Some(session) = self.session(key) else {
            return;
        };
        let mut decoder = std::mem::replace(&mut session.decoder, Decoder::new(0));
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = loop {
            match decoder.feed(input, &mut scratch, |header, body| {
                self.on_client_envelope(key, header, body)
            }) {
                Ok(used) => {
                    let Some(session) = self.session(key) else {
                        break Ok(());
                    };
                    if let Some((framed, compression)) = session.next_mode.take() {
                        decoder.set_mode(framed, compression);
                    }
                    if used >= input.len() || session.closing {
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
        let Some(session) = self.session(key) else {
            return;
        };
        session.decoder = decoder;
        if let Err(e) = result {
            tracing::debug!(peer = %session.peer, "closing a client: {e}");
            add(&self.shared.stats.global.clients_protocol_errors, 1);
            self.answer_error(key, 0, code::PROTOCOL, &e.to_string(), &[]);
            if let Some(session) = self.session(key) {
                session.closing = true;
            }
        }
    }

    /// Puts an envelope in a client's encoder. `body` is already in the client's version.
    pub fn answer(&mut self, key: Key, stream: i16, opcode: Opcode, header_flags: u8, body: &[u8]) {
        let backlog_max = self.shared.config.limits.client_backlog_bytes_max;
        let Some(session) = self.session(key) else {
            return;
        };
        let header = Header {
            version: session.version as u8,
            response: true,
            flags: header_flags,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        session.encoder.push_slice(header, body);
        if session.encoder.pending_len() > backlog_max {
            tracing::warn!(peer = %session.peer, "a client does not read its answers: disconnecting it");
            session.dead = true;
            if let Some(waker) = &session.waker {
                waker.wake_by_ref();
            }
            return;
        }
        self.mark_session(key.index);
    }

    /// Puts a node's answer in a client's encoder, converted to the client's version.
    pub fn answer_converted(
        &mut self,
        key: Key,
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
        let keep = flags::TRACING | flags::WARNING | flags::CUSTOM_PAYLOAD;
        let header_flags = header_flags & keep;
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

    pub fn answer_error(&mut self, key: Key, stream: i16, code: i32, message: &str, fields: &[u8]) {
        let mut body = Vec::with_capacity(message.len() + fields.len() + 8);
        ErrorBody {
            code,
            message,
            fields,
        }
        .write(&mut body);
        self.answer(key, stream, Opcode::Error, 0, &body);
    }

    /// Sends an event to the clients that asked for its kind.
    pub fn emit(&mut self, kind: EventKind, body: &[u8]) {
        let from = self.snapshot.version;
        let keys: Vec<Key> = self
            .sessions
            .iter()
            .filter(|(_, s)| s.events & kind as u8 != 0)
            .map(|(i, s)| Key {
                index: i as u32,
                generation: s.generation,
            })
            .collect();
        for key in keys {
            self.answer_converted(key, -1, Opcode::Event, 0, body, from);
        }
    }

    /// Closes a client once its last answer has left.
    pub fn finish(&mut self, key: Key) {
        if let Some(session) = self.session(key) {
            session.closing = true;
            self.mark_session(key.index);
        }
    }

    fn mark_session(&mut self, index: u32) {
        let session = &mut self.sessions[index as usize];
        if !session.dirty && !session.write_blocked {
            session.dirty = true;
            self.dirty_sessions.push(index);
            self.wake_flusher();
        }
    }

    pub fn flush_session(&mut self, index: usize) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.dirty = false;
        session.write_blocked = false;
        let mut wake = session.closing;
        loop {
            let pending = session.encoder.pending();
            let result = if pending.is_empty() {
                if !session.transport.wants_write() {
                    break;
                }
                session.transport.try_flush().map(|()| 0)
            } else {
                session.transport.try_write(pending)
            };
            match result {
                Ok(n) => {
                    session.encoder.advance(n);
                    add(&self.shared.stats.global.client_writes, 1);
                    add(&self.shared.stats.global.client_bytes_out, n as u64);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    session.write_blocked = true;
                    wake = true;
                    break;
                }
                Err(_) => {
                    session.dead = true;
                    wake = true;
                    break;
                }
            }
        }
        if session.in_flight == 0 && session.encoder.pending_len() == 0 {
            session.encoder.shrink();
        }
        if (wake || session.paused)
            && let Some(waker) = &session.waker
        {
            waker.wake_by_ref();
        }
    }

    pub fn close_session(&mut self, index: usize) {
        let Some(session) = self.sessions.try_remove(index) else {
            return;
        };
        sub_clients(&self.shared.clients);
        if let Some(pool) = session.pool
            && let Some(pool) = self.pools.get_mut(pool)
        {
            pool.sessions = pool.sessions.saturating_sub(1);
            pool.idle_since = self.now;
        }
    }

    /// Closes clients with nothing in flight (while draining).
    pub fn close_idle_sessions(&mut self) {
        for (_, session) in self.sessions.iter_mut() {
            if session.in_flight == 0 {
                session.closing = true;
                if let Some(waker) = &session.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }

    /// Closes clients that do not finish their handshake.
    pub fn check_sessions(&mut self) {
        let limit = Duration::from_millis(self.shared.config.limits.handshake_timeout_ms);
        let now = self.now;
        for (_, session) in self.sessions.iter_mut() {
            let opening = !matches!(session.phase, Phase::Ready);
            if opening && now.saturating_duration_since(session.opened) > limit {
                session.dead = true;
                if let Some(waker) = &session.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }
}

fn sub_clients(clients: &std::sync::atomic::AtomicUsize) {
    clients.fetch_sub(1, Ordering::Relaxed);
}
