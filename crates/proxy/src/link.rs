//! One shared connection to a node: envelopes of many clients leave packed together, answers come
//! back by stream id.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Decoder, Encoder, Flow, Header, Opcode, Version};

use crate::conn::Conn;
use crate::pool::Slot;
use crate::stats::{add, sub};
use crate::transport::Transport;
use crate::worker::{Key, State};

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

/// What a stream id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Free,
    Busy(Key),
    /// Its request has been given up, its answer may still come: not to be used again before.
    Orphan,
    Probe,
}

/// An open connection to a node.
pub struct Link {
    pub generation: u32,
    pub node: NodeIndex,
    pub pool: usize,
    pub kind: LinkKind,
    pub version: Version,
    pub transport: Transport,
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub waker: Option<Waker>,
    /// Index 0 is never used: a Cassandra node that drops a queued request answers with stream 0.
    pub streams: Vec<Stream>,
    pub free: Vec<u16>,
    pub in_flight: usize,
    pub orphans: usize,
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
}

impl Link {
    /// Whether another request fits.
    pub fn has_room(&self, in_flight_max: usize) -> bool {
        !self.dead && (!self.free.is_empty() || self.streams.len() <= in_flight_max)
    }

    /// Takes a stream id; call only with room.
    pub fn take_stream(&mut self, stream: Stream) -> i16 {
        self.in_flight += 1;
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

    pub fn release_stream(&mut self, id: i16) -> Stream {
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
            Stream::Busy(_) | Stream::Probe => {
                self.in_flight -= 1;
                self.free.push(id as u16);
            }
        }
        was
    }

    /// Gives up on a stream whose answer has not come.
    pub fn orphan(&mut self, id: i16) {
        if let Some(slot) = self.streams.get_mut(id as usize) {
            *slot = Stream::Orphan;
            self.in_flight -= 1;
            self.orphans += 1;
        }
    }
}

impl State {
    /// Takes over a connection that has been opened; returns the link's index.
    pub fn insert_link(&mut self, pool: usize, node: NodeIndex, kind: LinkKind, conn: Conn) -> u32 {
        let generation = self.next_generation();
        let index = self.links.insert(Link {
            generation,
            node,
            pool,
            kind,
            version: conn.version,
            transport: conn.transport,
            decoder: conn.decoder,
            encoder: conn.encoder,
            waker: None,
            streams: vec![Stream::Orphan],
            free: Vec::new(),
            in_flight: 0,
            orphans: 0,
            write_blocked: false,
            dirty: false,
            dirty_since: Instant::now(),
            writes: 0,
            dead: false,
            last_heard: Instant::now(),
            probed: None,
            frames_counted: 0,
        }) as u32;
        add(&self.nodes[node.as_usize()].stats.links_up, 1);
        if let Some(me) = self.me.upgrade() {
            let key = Key { index, generation };
            tokio::task::spawn_local(std::future::poll_fn(move |cx| {
                me.borrow_mut().poll_link(key, cx)
            }));
        }
        index
    }

    fn link_of(&mut self, key: Key) -> Option<&mut Link> {
        self.links
            .get_mut(key.index as usize)
            .filter(|l| l.generation == key.generation)
    }

    fn poll_link(&mut self, key: Key, cx: &mut Context<'_>) -> Poll<()> {
        let index = key.index as usize;
        let Some(link) = self.link_of(key) else {
            return Poll::Ready(());
        };
        match &link.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => link.waker = Some(cx.waker().clone()),
        }
        if link.write_blocked || link.transport.wants_write() {
            match link.transport.poll_write_ready(cx) {
                Poll::Ready(Ok(())) => self.flush_link(index),
                Poll::Ready(Err(_)) => link.dead = true,
                Poll::Pending => {}
            }
        }
        self.now = Instant::now();
        for _ in 0..4 {
            let Some(link) = self.link_of(key) else {
                return Poll::Ready(());
            };
            if link.dead {
                self.on_link_lost(index, "the connection broke");
                return Poll::Ready(());
            }
            let mut buf = std::mem::take(&mut self.read_buf);
            let read = self.links[index].transport.poll_read(cx, &mut buf);
            let lost = match read {
                Poll::Pending => {
                    self.read_buf = buf;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => Some("the node closed the connection".to_owned()),
                Poll::Ready(Ok(n)) => {
                    let node = self.links[index].node.as_usize();
                    add(&self.nodes[node].stats.counters.reads, 1);
                    add(&self.nodes[node].stats.counters.bytes_in, n as u64);
                    let result = self.feed_link(key, &buf[..n]);
                    self.flush_if_immediate();
                    result.err()
                }
                Poll::Ready(Err(e)) => Some(e.to_string()),
            };
            self.read_buf = buf;
            if let Some(why) = lost {
                self.on_link_lost(index, &why);
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn feed_link(&mut self, key: Key, input: &[u8]) -> Result<(), String> {
        let now = self.now;
        let Some(link) = self.link_of(key) else {
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
            Flow::Continue
        });
        self.scratch = scratch;
        let packed = decoder.packed();
        self.nodes[node.as_usize()].stats.packed_in.add(packed);
        if let Some(link) = self.link_of(key) {
            link.decoder = decoder;
        }
        result.map(|_| ()).map_err(|e| e.to_string())
    }

    pub fn mark_link(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        if !link.dirty && !link.write_blocked {
            link.dirty = true;
            link.dirty_since = self.now;
            self.dirty_links.push(index);
            self.wake_flusher();
        }
    }

    pub fn flush_link(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        link.dirty = false;
        link.write_blocked = false;
        let stats = &self.nodes[link.node.as_usize()].stats.counters;
        loop {
            let pending = link.encoder.pending();
            let result = if pending.is_empty() {
                if !link.transport.wants_write() {
                    break;
                }
                link.transport.try_flush().map(|()| 0)
            } else {
                link.transport.try_write(pending)
            };
            match result {
                Ok(n) => {
                    link.encoder.advance(n);
                    link.writes += u64::from(n > 0);
                    add(&stats.writes, 1);
                    add(&stats.bytes_out, n as u64);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    link.write_blocked = true;
                    break;
                }
                Err(_) => {
                    link.dead = true;
                    break;
                }
            }
        }
        add(
            &stats.frames_out,
            link.encoder.frames() - link.frames_counted,
        );
        link.frames_counted = link.encoder.frames();
        let packed = &self.nodes[link.node.as_usize()].stats.packed_out;
        packed.add(link.encoder.packed());
        if (link.write_blocked || link.dead)
            && let Some(waker) = &link.waker
        {
            waker.wake_by_ref();
        }
    }

    /// Closes a link on purpose.
    pub fn kill_link(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            link.dead = true;
            if let Some(waker) = &link.waker {
                waker.wake_by_ref();
            }
        }
    }

    fn on_link_lost(&mut self, index: usize, why: &str) {
        let Some(link) = self.links.try_remove(index) else {
            return;
        };
        let address = self.snapshot.nodes[link.node.as_usize()].address;
        tracing::info!(node = %address, in_flight = link.in_flight, "link lost: {why}");
        sub(&self.nodes[link.node.as_usize()].stats.links_up, 1);
        self.set_slot(link.pool, link.node, &link.kind, Slot::Empty);
        if let Some(pool) = self.pools.get_mut(link.pool) {
            let kind = &link.kind;
            pool.special
                .retain(|s| !(s.kind == *kind && s.node == link.node && s.waiting.is_empty()));
        }
        if matches!(link.kind, LinkKind::Shared(_)) {
            let state = &mut self.nodes[link.node.as_usize()];
            state.suspect_until = Some(self.now + Duration::from_secs(1));
        }
        for stream in &link.streams {
            if let Stream::Busy(request) = stream {
                self.on_request_lost(*request, why);
            }
        }
    }

    /// Probes links that have gone silent, and closes those that stay so.
    pub fn check_links(&mut self) {
        let silence = Duration::from_millis(self.shared.config.links.silence_ms);
        let patience = Duration::from_millis(self.shared.config.links.probe_timeout_ms);
        let in_flight_max = self.shared.config.links.in_flight_max;
        let idle_probe = Duration::from_secs(30);
        let now = self.now;
        let mut silent = Vec::new();
        let mut lost = Vec::new();
        let mut stuck = Vec::new();
        for (index, link) in self.links.iter() {
            let quiet = now.saturating_duration_since(link.last_heard);
            let limit = if link.in_flight > 0 {
                silence
            } else {
                idle_probe
            };
            match link.probed {
                Some(since) if now.saturating_duration_since(since) > patience => {
                    lost.push((index, "no sign of life from the node"));
                }
                Some(since) if now.saturating_duration_since(since) > silence => {
                    stuck.push(index);
                }
                None if quiet > limit => silent.push(index),
                _ if link.orphans > in_flight_max / 2 => {
                    lost.push((index, "too many answers never came"));
                }
                _ => {}
            }
        }
        for index in silent {
            let link = &mut self.links[index];
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
            self.mark_link(index as u32);
            self.on_probe_sent(node);
        }
        for index in stuck {
            self.rescue_requests(index);
        }
        for (index, why) in lost {
            let node = self.links[index].node;
            tracing::warn!(node = %self.snapshot.nodes[node.as_usize()].address, "closing a link: {why}");
            self.on_link_lost(index, why);
        }
    }
}
