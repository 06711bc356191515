//! A sample of what one worker is asked, while somebody wants it: whole connections, chosen by a hash.
//!
//! Bounded, for each worker: [`PENDING_BYTES_MAX`] of requests whose answers are awaited, [`SHOWN_BYTES_MAX`] of
//! texts, and a chunk of [`CHUNK_BYTES`] and one request. Requests that do not fit are counted as lost, and
//! nobody waits.

mod recording;

pub(super) use recording::{on_message, on_read, on_sent, on_tick};

use std::hash::Hasher;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use helenus_capture::{Answer, Bound, Chunk, RECORD_BYTES_MAX, Request, Statement, kinds};
use helenus_cql::first_words;
use helenus_wire::Opcode;
use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher24;
use slotmap::Key;

use crate::keys::SessionKey;
use crate::statement::digest::is_not_understood;
use crate::statement::prepared;

/// Requests whose answers are awaited, in bytes.
const PENDING_BYTES_MAX: usize = 8 << 20;
/// Texts of statements that are remembered as they are recorded, in bytes.
const SHOWN_BYTES_MAX: usize = 1 << 20;
/// From this size on a chunk is handed over.
const CHUNK_BYTES: usize = 64 * 1024;
/// From this age on as well.
const CHUNK_AGE: Duration = Duration::from_millis(500);
const PPM: u64 = 1_000_000;

/// A worker's capture under way, if one is wanted.
pub(crate) type State = Option<Box<Capture>>;
/// A message to a worker: record this capture, or none any more.
pub type Message = Option<Arc<Wanted>>;

/// A capture as it was asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Tells this capture from others.
    pub ticket: u64,
    pub began: Instant,
    pub until: Instant,
    /// Share of the connections, in parts per million.
    pub share_ppm: u32,
    pub has_values: bool,
    /// Keys of partitions are hashed with it. It must be random, and leave the process with nobody.
    pub salt: [u8; 16],
}

/// Some of what was recorded.
#[derive(Debug)]
pub struct Captured {
    pub ticket: u64,
    /// A block of the capture's file; empty if there is nothing but losses.
    pub block: Vec<u8>,
    pub records: u64,
    /// Requests that did not fit since the last block.
    pub lost: u64,
}

/// A statement of a request, and its values as a chunk takes them.
#[derive(Debug)]
pub(crate) struct Part {
    pub statement: Statement,
    pub count: usize,
    pub values: Vec<u8>,
    /// The values have their bytes.
    pub with_bytes: bool,
}

/// A request whose answer is awaited.
#[derive(Debug)]
struct Pending {
    request: Request,
    parts: Vec<Part>,
    arrived: Instant,
}

/// A statement's text as it is recorded, and its [kinds] wherever it is sent.
#[derive(Debug)]
struct Shown {
    /// Nothing else takes its place in memory.
    _of: Weak<prepared::Statement>,
    text: String,
    kinds: u8,
}

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture {
    wanted: Arc<Wanted>,
    worker: usize,
    pending: FxHashMap<(SessionKey, i16), Pending>,
    pending_bytes: usize,
    /// By place in memory.
    shown: FxHashMap<usize, Shown>,
    shown_bytes: usize,
    chunk: Chunk,
    /// The statements that the chunk defines.
    known: FxHashMap<Statement, u32>,
    chunk_began: Instant,
    lost: u64,
}

impl Capture {
    pub(crate) fn new(wanted: Arc<Wanted>, worker: usize, now: Instant) -> Capture {
        Capture {
            wanted,
            worker,
            pending: FxHashMap::default(),
            pending_bytes: 0,
            shown: FxHashMap::default(),
            shown_bytes: 0,
            chunk: Chunk::new(worker),
            known: FxHashMap::default(),
            chunk_began: now,
            lost: 0,
        }
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// True if requests of a connection are recorded.
    pub(crate) fn takes(&self, session: SessionKey, now: Instant) -> bool {
        if self.is_over(now) {
            return false;
        }
        if u64::from(self.wanted.share_ppm) >= PPM {
            return true;
        }
        let mut hasher = SipHasher24::new_with_key(&self.wanted.salt);
        hasher.write_u64(self.worker as u64);
        hasher.write_u64(session.data().as_ffi());
        hasher.finish() % PPM < self.wanted.share_ppm.into()
    }

    /// The hash that stands for a partition's key.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.wanted.salt);
        hasher.write(key);
        hasher.finish()
    }

    /// A statement's text as it is recorded, and its kinds wherever it is sent: worked out once, if it is one that
    /// comes again with other values.
    pub(crate) fn shown(
        &mut self,
        statement: &Arc<prepared::Statement>,
        work_out: impl FnOnce() -> (String, u8),
    ) -> (String, u8) {
        if statement.facts.markers == 0 {
            return work_out();
        }
        let place = Arc::as_ptr(statement) as usize;
        if let Some(shown) = self.shown.get(&place) {
            return (shown.text.clone(), shown.kinds);
        }
        let (text, kinds) = work_out();
        // Of a statement that nobody else has any more, its place stays.
        let bytes = size_of::<(usize, Shown, prepared::Statement)>() + text.len();
        if self.shown_bytes + bytes > SHOWN_BYTES_MAX {
            self.shown.clear();
            self.shown_bytes = 0;
        }
        if bytes <= SHOWN_BYTES_MAX {
            self.shown_bytes += bytes;
            let shown = Shown {
                _of: Arc::downgrade(statement),
                text: text.clone(),
                kinds,
            };
            self.shown.insert(place, shown);
        }
        (text, kinds)
    }

    /// A request has arrived. `parts`: None if it is too large.
    pub(crate) fn on_request(
        &mut self,
        session: SessionKey,
        stream: i16,
        mut request: Request,
        parts: Option<Vec<Part>>,
        now: Instant,
    ) {
        // Names of connections are an index and a version, which is odd.
        let name = session.data().as_ffi();
        let (index, version) = (name & u64::from(u32::MAX), name >> 33);
        request.connection = version << 20 | index & 0xF_FFFF;
        let since = now.saturating_duration_since(self.wanted.began);
        request.arrived_us = since.as_micros() as u64;
        // A client that uses a stream again before its answer has come.
        if let Some(earlier) = self.pending.remove(&(session, stream)) {
            self.pending_bytes -= byte_len(&earlier);
            self.lost += 1;
        }
        let Some(parts) = parts else {
            self.lost += 1;
            return;
        };
        let pending = Pending {
            request,
            parts,
            arrived: now,
        };
        let bytes = byte_len(&pending);
        if bytes > RECORD_BYTES_MAX || self.pending_bytes + bytes > PENDING_BYTES_MAX {
            self.lost += 1;
            return;
        }
        self.pending_bytes += bytes;
        self.pending.insert((session, stream), pending);
    }

    /// A client is answered. A block, if one is full.
    pub(crate) fn on_answer(
        &mut self,
        of: (SessionKey, i16),
        bytes: usize,
        error: impl FnOnce() -> Option<u32>,
        now: Instant,
    ) -> Option<Captured> {
        let mut pending = self.pending.remove(&of)?;
        self.pending_bytes -= byte_len(&pending);
        let error = error();
        let code = error.map(|code| code as i32);
        let opcode = Opcode::from_number(pending.request.opcode);
        if opcode.is_some_and(|opcode| is_not_understood(opcode, code)) {
            for part in &mut pending.parts {
                part.statement.text = first_words(&part.statement.text);
                part.statement.kinds &= !kinds::WHOLE;
                part.statement.sent = None;
            }
        }
        let took = now.saturating_duration_since(pending.arrived);
        let answer = Answer {
            took_us: took.as_micros() as u64,
            bytes: bytes as u64,
            error,
        };
        self.write(pending, Some(&answer));
        (self.chunk.byte_len() >= CHUNK_BYTES).then(|| self.hand_over(now))
    }

    /// A block, if one has waited long enough. Requests of those that have left get no answer.
    pub(crate) fn on_tick(
        &mut self,
        now: Instant,
        is_there: impl Fn(SessionKey) -> bool,
    ) -> Option<Captured> {
        if now.saturating_duration_since(self.chunk_began) < CHUNK_AGE {
            return None;
        }
        let ended = self
            .pending
            .extract_if(|(session, _), _| !is_there(*session));
        let ended: Vec<_> = ended.map(|(_, pending)| pending).collect();
        for pending in ended {
            self.pending_bytes -= byte_len(&pending);
            // Each may be as large as a chunk: what is too much is lost.
            match self.chunk.byte_len() < CHUNK_BYTES {
                true => self.write(pending, None),
                false => self.lost += 1,
            }
        }
        let is_empty = self.chunk.records() == 0 && self.lost == 0;
        (!is_empty).then(|| self.hand_over(now))
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.wanted.until
    }

    /// All that is left, block by block: what has not been answered comes without an answer.
    pub(crate) fn end(mut self, now: Instant) -> Vec<Captured> {
        let mut blocks = Vec::new();
        for (_, pending) in std::mem::take(&mut self.pending) {
            self.write(pending, None);
            if self.chunk.byte_len() >= CHUNK_BYTES {
                blocks.push(self.hand_over(now));
            }
        }
        blocks.push(self.hand_over(now));
        blocks
    }

    fn write(&mut self, pending: Pending, answer: Option<&Answer>) {
        let Pending { request, parts, .. } = pending;
        let mut numbered = Vec::with_capacity(parts.len());
        for part in parts {
            let number = match self.known.get(&part.statement) {
                Some(number) => *number,
                None => {
                    let number = self.chunk.define(&part.statement);
                    self.known.insert(part.statement, number);
                    number
                }
            };
            numbered.push((number, part.count, part.values, part.with_bytes));
        }
        let parts = numbered.iter();
        let parts = parts.map(|(statement, count, values, with_bytes)| Bound {
            statement: *statement,
            count: *count,
            values,
            with_bytes: *with_bytes,
        });
        self.chunk.record(&request, answer, parts);
    }

    /// The chunk, in whose place a new one begins.
    fn hand_over(&mut self, now: Instant) -> Captured {
        let chunk = std::mem::replace(&mut self.chunk, Chunk::new(self.worker));
        self.known.clear();
        self.chunk_began = now;
        let records = u64::from(chunk.records());
        Captured {
            ticket: self.wanted.ticket,
            block: match records {
                0 => Vec::new(),
                _ => chunk.into_bytes(),
            },
            records,
            lost: std::mem::take(&mut self.lost),
        }
    }
}

/// Bytes that a pending request takes, about.
fn byte_len(pending: &Pending) -> usize {
    let of_part = |part: &Part| {
        let Statement {
            text,
            keyspace,
            sent,
            ..
        } = &part.statement;
        let texts = [Some(text), keyspace.as_ref(), sent.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        size_of::<Part>() + texts + part.values.len()
    };
    size_of::<Pending>() + pending.parts.iter().map(of_part).sum::<usize>()
}
