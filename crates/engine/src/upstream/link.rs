//! One shared connection to a node: envelopes of many clients leave packed together, answers come
//! back by stream id.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Decoder, Encoder, Header, Opcode, Version};

use crate::context::Context;
use crate::keys::{NodeRequestKey, PoolKey};
use crate::memory::{Held, Ledger};
use crate::output::{Sent, Then};
use crate::stats::{NodeStats, add};
use crate::upstream::busy::Busy;
use crate::upstream::connect::greeting;
use crate::upstream::connect::kind::{LinkKind, OpenedLink};
use crate::upstream::dropped::Dropped;

/// Streams that no request gets: 0, with which a Cassandra node speaks of requests that it has dropped,
/// and those with which the connection was set up, as a node may answer twice.
pub(crate) const RESERVED: usize = 1 + greeting::STREAMS;

/// The use of a stream id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Free,
    Busy(NodeRequestKey),
    /// Its request has been given up, its answer may still come: not to be used again before. At this instant its node
    /// is done with it, by its own time-outs.
    Orphan(Instant),
    /// By all that is known its node will not answer: as long as it does not, it is not used again all the same.
    Dropped,
    Probe,
}

impl Stream {
    /// The node request that waits for its answer.
    #[inline]
    pub(super) fn node_request(self) -> Option<NodeRequestKey> {
        match self {
            Stream::Busy(request) => Some(request),
            Stream::Free | Stream::Orphan(_) | Stream::Dropped | Stream::Probe => None,
        }
    }
}

/// A link's tenure of its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tenure {
    #[default]
    Stays,
    /// An operator wants another one in its place. Before this instant none is opened.
    Ends { from: Instant },
    /// It has given up its place, and is closed once all that it carries is answered.
    Over,
}

/// Bytes allowed for a request that others can still join, together with these.
const OPEN_REQUEST_BYTES: usize = 512;

/// When the memory is full, an answer of which more has come than this is not waited for.
const ANSWER_PART_MIN: usize = 1 << 20;

/// Requests that others may still join, and their stream ids.
pub(crate) type OpenRequests = Vec<(NodeRequestKey, i16)>;

/// An open connection to a node.
pub(crate) struct Link {
    pub(super) node: NodeIndex,
    pub(super) pool: PoolKey,
    pub(super) kind: LinkKind,
    pub(super) version: Version,
    decoder: Decoder,
    pub(super) encoder: Encoder,
    /// Requests that others may still join, and their stream ids: they are put behind the others when those
    /// leave.
    pub(super) open_requests: OpenRequests,
    /// By stream id; the first [`RESERVED`] are never used.
    pub(super) streams: Vec<Stream>,
    pub(super) free: Vec<u16>,
    /// Those of them on which an answer is waited for.
    busy: Busy,
    pub(super) orphans: usize,
    /// Requests that the node has dropped without saying which.
    pub(super) dropped: Dropped,
    /// Its connection takes no more for now; what waits is written as soon as it does.
    pub(super) write_blocked: bool,
    pub(super) dirty: bool,
    /// When the first of the queries came that wait here.
    pub(super) dirty_since: Instant,
    /// Writes that have taken bytes: a query leaves with the next one.
    pub(super) writes: u64,
    /// It is of no use any more, and waits to be closed.
    pub(super) closing: Option<Closing>,
    pub(super) tenure: Tenure,
    pub(super) last_heard: Instant,
    pub(super) probed: Option<Instant>,
    frames_counted: u64,
    /// Bytes of answers that have come in part, and of requests that wait to be written.
    held: Held,
}

/// Why this side closes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Its connection takes no bytes any more.
    Broken,
    /// Nobody has wanted it for a while, another one is there in its place, or its node is not to serve.
    NotNeeded,
    /// Its role's credentials do not stand any more.
    Credentials,
    Keyspace,
}

impl Closing {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Closing::Broken => "the connection broke",
            Closing::NotNeeded => "it is not needed any more",
            Closing::Credentials => "the credentials of its role are not valid any more",
            Closing::Keyspace => "its keyspace has changed",
        }
    }
}

impl Link {
    pub(super) fn new(
        cx: &Context,
        pool: PoolKey,
        node: NodeIndex,
        kind: LinkKind,
        opened: OpenedLink,
    ) -> Link {
        Link {
            node,
            pool,
            kind,
            version: opened.version,
            decoder: opened.decoder,
            encoder: opened.encoder,
            open_requests: OpenRequests::new(),
            streams: vec![Stream::Dropped; RESERVED],
            free: Vec::new(),
            busy: Busy::default(),
            orphans: 0,
            dropped: Dropped::default(),
            write_blocked: false,
            dirty: false,
            dirty_since: cx.now,
            writes: 0,
            closing: None,
            tenure: Tenure::default(),
            last_heard: cx.now,
            probed: None,
            frames_counted: 0,
            held: Held::new(&cx.memory, 0),
        }
    }

    /// Bytes of it that are in the account.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    fn note_held(&mut self) {
        let bytes = self.decoder.buffered_len() + self.encoder.held_len();
        self.held.set(bytes);
    }

    /// About the bytes that wait to be written.
    pub(super) fn pending_len(&self) -> usize {
        self.encoder.pending_len() + self.open_requests.len() * OPEN_REQUEST_BYTES
    }

    /// True if another request fits.
    #[inline]
    pub(super) fn has_room(&self, in_flight_max: usize) -> bool {
        self.closing.is_none()
            && (!self.free.is_empty() || self.streams.len() < RESERVED + in_flight_max)
    }

    /// Takes a stream id; call only with room.
    #[inline]
    pub(super) fn take_stream(&mut self, stream: Stream) -> i16 {
        let id = match self.free.pop() {
            Some(id) => {
                self.streams[id as usize] = stream;
                id
            }
            None => {
                self.streams.push(stream);
                (self.streams.len() - 1) as u16
            }
        };
        // A probe that is never answered must not keep the link from being idle.
        if stream != Stream::Probe {
            self.busy.insert(id);
        }
        id as i16
    }

    /// How many answers are waited for.
    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.busy.len()
    }

    #[inline]
    pub(super) fn release_stream(&mut self, id: i16) -> Stream {
        let Some(slot) = usize::try_from(id)
            .ok()
            .filter(|i| *i >= RESERVED)
            .and_then(|i| self.streams.get_mut(i))
        else {
            return Stream::Free;
        };
        let was = std::mem::replace(slot, Stream::Free);
        match was {
            Stream::Free => {}
            Stream::Orphan(_) | Stream::Dropped => {
                self.orphans -= 1;
                self.free.push(id as u16);
            }
            Stream::Probe => self.free.push(id as u16),
            Stream::Busy(_) => {
                self.busy.remove(id as u16);
                self.free.push(id as u16);
            }
        }
        was
    }

    /// Gives up on a stream whose answer has not come, and with which its node is done then.
    pub(super) fn orphan(&mut self, id: i16, done_by: Instant) {
        if let Some(slot) = self.streams.get_mut(id as usize) {
            *slot = Stream::Orphan(done_by);
            self.busy.remove(id as u16);
            self.orphans += 1;
        }
    }

    /// The node will not answer on a stream.
    pub(super) fn drop_stream(&mut self, id: i16) {
        let Some(slot) = self.streams.get_mut(id as usize) else {
            return;
        };
        let was = std::mem::replace(slot, Stream::Dropped);
        self.dropped.end_one();
        self.orphans += usize::from(!matches!(was, Stream::Orphan(_)));
        if was.node_request().is_some() {
            self.busy.remove(id as u16);
        }
    }

    /// The node requests that wait for an answer.
    pub(super) fn node_requests(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        let streams = self.busy.iter();
        streams.filter_map(|id| self.streams.get(id)?.node_request())
    }

    /// Asks the node for a sign of life.
    pub(super) fn probe(&mut self, now: Instant) {
        // The probe has a stream of its own even if the link is full.
        let stream = self.take_stream(Stream::Probe);
        let header = Header {
            version: self.version as u8,
            response: false,
            flags: 0,
            stream,
            opcode: Opcode::Options as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, &[]);
        self.probed = Some(now);
    }

    /// True if it has to be noted that something is to be written.
    #[inline]
    pub(super) fn mark(&mut self, now: Instant) -> bool {
        let is_news = !self.dirty && !self.write_blocked;
        if is_news {
            self.dirty = true;
            self.dirty_since = now;
        } else if self.write_blocked {
            // Nothing is written that would say so.
            self.note_held();
        }
        is_news
    }

    /// Notes the result of an attempt to write its bytes.
    #[inline]
    pub(super) fn note_sent(&mut self, sent: &Sent, stats: &NodeStats) {
        self.writes += sent.writes;
        add(&stats.counters.writes, sent.writes);
        add(&stats.counters.bytes_out, sent.bytes);
        self.write_blocked = sent.then == Then::Blocked;
        self.note_held();
        let frames = self.encoder.frames();
        add(&stats.counters.frames_out, frames - self.frames_counted);
        self.frames_counted = frames;
        stats.packed_out.add(self.encoder.packed());
    }

    /// Lends its decoder, to be brought back.
    #[inline]
    pub(super) fn lend_decoder(&mut self) -> Decoder {
        std::mem::replace(&mut self.decoder, Decoder::new(0))
    }

    #[inline]
    pub(super) fn bring_back(&mut self, memory: &Ledger, decoder: Decoder) -> Option<Header> {
        self.decoder = decoder;
        self.note_held();
        if self.decoder.buffered_len() <= ANSWER_PART_MIN || !memory.is_full(0) {
            return None;
        }
        let skipped = self.decoder.skip_unfinished(ANSWER_PART_MIN);
        self.note_held();
        skipped
    }
}
