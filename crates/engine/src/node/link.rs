//! One shared connection to a node: envelopes of many clients leave packed together, answers come
//! back by stream id.

use std::rc::Rc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Decoder, Encoder, Flow, Header, Opcode, Version};
use thiserror::Error;

use crate::engine::{Engine, LinkKey, NodeRequestKey, PoolKey};
use crate::memory::Held;
use crate::output::{Output, Sent, Then};
use crate::stats::{add, sub};

/// What a link is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// One of the shared links, at this place.
    Shared(usize),
    /// For statements without a keyspace of their own, to nodes whose protocol cannot carry one.
    Keyspace(Rc<str>),
    /// For `USE` itself: a node judges it, and no other request sees its effect.
    Use,
    /// For large requests and answers, which small ones would have to wait behind.
    Bulk,
    /// None at all: only to see whether a role's credentials still hold.
    Check,
}

/// A connection to a node that is ready for requests.
pub struct OpenedLink {
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub version: Version,
}

/// Why a connection to a node could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The node has judged the credentials.
    #[error("{0}")]
    BadCredentials(String),
    /// It is about the credentials, or their absence, and tells nothing of the node.
    #[error("{0}")]
    OfCredentials(String),
    /// The node has answered with this error.
    #[error("{message} (code 0x{code:04X})")]
    Node { code: i32, message: String },
    #[error("{0}")]
    Other(String),
}

impl OpenError {
    pub(crate) fn is_of_credentials(&self) -> bool {
        matches!(
            self,
            OpenError::BadCredentials(_) | OpenError::OfCredentials(_)
        )
    }
}

/// What a stream id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Free,
    Busy(NodeRequestKey),
    /// Its request has been given up, its answer may still come: not to be used again before.
    Orphan,
    Probe,
}

/// An open connection to a node.
pub(crate) struct Link {
    pub node: NodeIndex,
    pub pool: PoolKey,
    pub kind: LinkKind,
    pub version: Version,
    pub decoder: Decoder,
    pub encoder: Encoder,
    /// Index 0 is never used: a Cassandra node that drops a queued request answers with stream 0.
    pub streams: Vec<Stream>,
    pub free: Vec<u16>,
    pub in_flight: usize,
    pub orphans: usize,
    /// Its connection takes no more for now; what waits is written as soon as it does.
    pub write_blocked: bool,
    pub dirty: bool,
    /// When the first of the queries came that wait here.
    pub dirty_since: Instant,
    /// Writes that have taken bytes: a query leaves with the next one.
    pub writes: u64,
    pub dead: bool,
    pub last_heard: Instant,
    pub probed: Option<Instant>,
    frames_counted: u64,
    /// Bytes of answers that have come in part, and of requests that wait to be written.
    held: Held,
}

impl Link {
    /// Bytes of it that are in the account.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    fn note_held(&mut self) {
        let bytes = self.decoder.buffered_len() + self.encoder.pending_len();
        self.held.set(bytes);
    }

    /// Whether another request fits.
    pub(crate) fn has_room(&self, in_flight_max: usize) -> bool {
        !self.dead && (!self.free.is_empty() || self.streams.len() <= in_flight_max)
    }

    /// Takes a stream id; call only with room.
    pub(crate) fn take_stream(&mut self, stream: Stream) -> i16 {
        // A probe that is never answered must not keep the link from being idle.
        self.in_flight += usize::from(stream != Stream::Probe);
        match self.free.pop() {
            Some(id) => {
                self.streams[id as usize] = stream;
                id as i16
            }
            None => {
                self.streams.push(stream);
                (self.streams.len() - 1) as i16
            }
        }
    }

    pub(crate) fn release_stream(&mut self, id: i16) -> Stream {
        let Some(slot) = usize::try_from(id)
            .ok()
            .filter(|i| *i > 0)
            .and_then(|i| self.streams.get_mut(i))
        else {
            return Stream::Free;
        };
        let was = std::mem::replace(slot, Stream::Free);
        match was {
            Stream::Free => {}
            Stream::Orphan => {
                self.orphans -= 1;
                self.free.push(id as u16);
            }
            Stream::Probe => self.free.push(id as u16),
            Stream::Busy(_) => {
                self.in_flight -= 1;
                self.free.push(id as u16);
            }
        }
        was
    }

    /// Gives up on a stream whose answer has not come.
    pub(crate) fn orphan(&mut self, id: i16) {
        if let Some(slot) = self.streams.get_mut(id as usize) {
            *slot = Stream::Orphan;
            self.in_flight -= 1;
            self.orphans += 1;
        }
    }
}

impl Engine {
    /// Takes over a connection that has been opened.
    pub(crate) fn insert_link(
        &mut self,
        pool: PoolKey,
        node: NodeIndex,
        kind: LinkKind,
        opened: OpenedLink,
    ) -> LinkKey {
        let key = self.links.insert(Link {
            node,
            pool,
            kind,
            version: opened.version,
            decoder: opened.decoder,
            encoder: opened.encoder,
            streams: vec![Stream::Orphan],
            free: Vec::new(),
            in_flight: 0,
            orphans: 0,
            write_blocked: false,
            dirty: false,
            dirty_since: self.cx.now,
            writes: 0,
            dead: false,
            last_heard: self.cx.now,
            probed: None,
            frames_counted: 0,
            held: Held::new(&self.cx.memory, 0),
        });
        add(&self.nodes[node.as_usize()].stats.links_up, 1);
        key
    }

    /// Whether there is still something to be read from a link or written to it; if not, its
    /// connection is to be closed.
    pub fn is_link_open(&mut self, key: LinkKey) -> bool {
        if self.links.get(key).is_some_and(|link| link.dead) {
            self.on_link_lost(key, "the connection broke");
            self.settle();
        }
        self.links.contains_key(key)
    }

    /// Bytes have come from a node.
    pub fn on_link_bytes(&mut self, now: Instant, key: LinkKey, bytes: &[u8]) {
        self.set_now(now);
        let Some(link) = self.links.get(key) else {
            return;
        };
        let counters = &self.nodes[link.node.as_usize()].stats.counters;
        add(&counters.reads, 1);
        add(&counters.bytes_in, bytes.len() as u64);
        if let Err(why) = self.feed_link(key, bytes) {
            self.on_link_lost(key, &why);
            self.settle();
        }
    }

    /// A node has closed its end, or the connection has broken.
    pub fn on_link_closed(&mut self, now: Instant, key: LinkKey, why: &str) {
        self.set_now(now);
        self.on_link_lost(key, why);
        self.settle();
    }

    /// Whether the connection of a link waits to take more bytes.
    pub fn is_link_blocked(&self, key: LinkKey) -> bool {
        self.links.get(key).is_some_and(|link| link.write_blocked)
    }

    /// What is to be written to a link, to be followed by [`Engine::on_link_sent`].
    pub fn link_bytes(&mut self, key: LinkKey) -> Option<&mut Encoder> {
        let link = self.links.get_mut(key)?;
        link.dirty = false;
        Some(&mut link.encoder)
    }

    /// What became of an attempt to write a link's bytes.
    pub fn on_link_sent(&mut self, key: LinkKey, sent: Sent) {
        let Some(link) = self.links.get_mut(key) else {
            return;
        };
        let stats = &self.nodes[link.node.as_usize()].stats;
        link.writes += sent.writes;
        add(&stats.counters.writes, sent.writes);
        add(&stats.counters.bytes_out, sent.bytes);
        link.write_blocked = sent.then == Then::Blocked;
        link.note_held();
        add(
            &stats.counters.frames_out,
            link.encoder.frames() - link.frames_counted,
        );
        link.frames_counted = link.encoder.frames();
        stats.packed_out.add(link.encoder.packed());
        if sent.then == Then::Broken {
            link.dead = true;
            self.cx.ask(Output::Link(key));
        }
    }

    fn feed_link(&mut self, key: LinkKey, input: &[u8]) -> Result<(), String> {
        let now = self.cx.now;
        let Some(link) = self.links.get_mut(key) else {
            return Ok(());
        };
        let node = link.node;
        link.last_heard = now;
        let probed = link.probed.take().is_some();
        let mut decoder = std::mem::replace(&mut link.decoder, Decoder::new(0));
        if probed {
            self.on_probe_answered(node);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = decoder.feed(input, &mut scratch, |header, body| {
            self.on_node_envelope(key, header, body);
            self.settle();
            Flow::Continue
        });
        self.scratch = scratch;
        let packed = decoder.packed();
        self.nodes[node.as_usize()].stats.packed_in.add(packed);
        if let Some(link) = self.links.get_mut(key) {
            link.decoder = decoder;
            link.note_held();
        }
        result.map(|_| ()).map_err(|e| e.to_string())
    }

    pub(crate) fn mark_link(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else {
            return;
        };
        if !link.dirty && !link.write_blocked {
            link.dirty = true;
            link.dirty_since = self.cx.now;
            self.dirty_links.push(key);
        }
    }

    /// Closes a link on purpose.
    pub(crate) fn kill_link(&mut self, key: LinkKey) {
        if let Some(link) = self.links.get_mut(key) {
            link.dead = true;
            self.cx.ask(Output::Link(key));
        }
    }

    fn on_link_lost(&mut self, key: LinkKey, why: &str) {
        let Some(link) = self.links.remove(key) else {
            return;
        };
        self.cx.ask(Output::Link(key));
        let address = self.cx.snapshot.nodes[link.node.as_usize()].address;
        tracing::info!(node = %address, in_flight = link.in_flight, "link lost: {why}");
        sub(&self.nodes[link.node.as_usize()].stats.links_up, 1);
        self.empty_slot(key, &link);
        if matches!(link.kind, LinkKind::Shared(_)) {
            let state = &mut self.nodes[link.node.as_usize()];
            state.suspect_until = Some(self.cx.now + Duration::from_secs(1));
        }
        for stream in &link.streams {
            if let Stream::Busy(request) = stream {
                self.on_message_lost(*request, link.writes, why);
            }
        }
    }

    /// Probes links that have gone silent, and closes those that stay so.
    pub(crate) fn check_links(&mut self) {
        let silence = Duration::from_millis(self.cx.shared.config.links.silence_ms);
        let patience = Duration::from_millis(self.cx.shared.config.links.probe_timeout_ms);
        let in_flight_max = self.cx.shared.config.links.in_flight_max;
        let idle_probe = Duration::from_secs(30);
        let now = self.cx.now;
        let mut silent = Vec::new();
        let mut lost = Vec::new();
        let mut stuck = Vec::new();
        for (key, link) in self.links.iter() {
            let quiet = now.saturating_duration_since(link.last_heard);
            let limit = if link.in_flight > 0 {
                silence
            } else {
                idle_probe
            };
            match link.probed {
                Some(since) if now.saturating_duration_since(since) > patience => {
                    lost.push((key, "no sign of life from the node"));
                }
                Some(since) if now.saturating_duration_since(since) > silence => {
                    stuck.push(key);
                }
                None if quiet > limit => silent.push(key),
                _ if link.orphans > in_flight_max / 2 => {
                    lost.push((key, "too many answers never came"));
                }
                _ => {}
            }
        }
        for key in silent {
            let Some(link) = self.links.get_mut(key) else {
                continue;
            };
            // The probe has a stream of its own even if the link is full.
            let stream = link.take_stream(Stream::Probe);
            let header = Header {
                version: link.version as u8,
                response: false,
                flags: 0,
                stream,
                opcode: Opcode::Options as u8,
                body_len: 0,
            };
            link.encoder.push_slice(header, &[]);
            link.probed = Some(now);
            let node = link.node;
            self.mark_link(key);
            self.on_probe_sent(node);
        }
        for key in stuck {
            self.rescue_requests(key);
        }
        for (key, why) in lost {
            let Some(link) = self.links.get(key) else {
                continue;
            };
            let address = self.cx.snapshot.nodes[link.node.as_usize()].address;
            tracing::warn!(node = %address, "closing a link: {why}");
            self.on_link_lost(key, why);
        }
    }
}
