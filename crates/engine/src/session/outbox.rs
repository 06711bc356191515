//! Answers that wait to be written to one client, and the order in which they leave.
//!
//! Small answers are copied behind each other and leave in few frames. A large one is kept as it is,
//! shared with the other clients that get it, and copied part by part as the client reads. The protocol
//! wants the parts of one answer together, but no order of answers: small ones go before large ones that
//! have not been begun, and of those the smallest goes first. Each can be overtaken by as many bytes as
//! it has itself ([`OVERTAKE_MIN`] at least) and is overdue then; the one that is overdue first goes next,
//! in turns with the small answers that have come meanwhile.

use std::rc::Rc;

use helenus_wire::{Compression, Encoder, HEADER_LEN, Header};

use crate::memory::SharedBody;
use crate::output::Outgoing;

/// From so many bytes on an answer is large.
pub(crate) const LARGE: usize = 32 * 1024;
/// Bytes of later answers that may go before a large one, even if it is smaller than that.
const OVERTAKE_MIN: usize = 256 * 1024;

/// A large answer of which nothing has been copied.
#[derive(Debug)]
struct Large {
    header: Header,
    body: Rc<SharedBody>,
    /// Value of [`Outbox::passed`] from which on it is overdue.
    due: u64,
}

/// A large answer that is being copied.
#[derive(Debug)]
struct Begun {
    large: Large,
    /// Where its next part begins.
    next: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Outbox {
    encoder: Encoder,
    /// Small answers that must not go into the encoder yet: a large one is being copied, or one is
    /// overdue.
    behind: Option<Box<Encoder>>,
    begun: Option<Begun>,
    /// Those that have not been begun, as they came.
    large: Vec<Large>,
    /// Bytes of large answers that have not been copied.
    large_bytes: usize,
    /// Bytes of all answers that have been begun or copied so far.
    passed: u64,
    /// The smallest [`Large::due`].
    first_due: u64,
    /// The last answer begun was a large one.
    was_large: bool,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Outbox {
            encoder: Encoder::new(),
            behind: None,
            begun: None,
            large: Vec::new(),
            large_bytes: 0,
            passed: 0,
            first_due: u64::MAX,
            was_large: false,
        }
    }

    /// Sets what STARTUP agreed on, from the next answer on.
    pub(crate) fn set_mode(&mut self, framed: bool, compression: Compression) {
        self.encoder.set_mode(framed, compression);
    }

    /// Bytes that wait, shared ones included.
    pub(crate) fn len(&self) -> usize {
        self.copied_len() + self.large_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that wait and are held for this client alone.
    pub(crate) fn copied_len(&self) -> usize {
        let behind = self.behind.as_ref();
        self.encoder.pending_len() + behind.map_or(0, |behind| behind.pending_len())
    }

    /// Bytes of memory that are held for this client alone because something waits.
    pub(crate) fn held_len(&self) -> usize {
        let behind = self.behind.as_ref();
        self.encoder.held_len() + behind.map_or(0, |behind| behind.held_len())
    }

    /// Adds an answer, copying it.
    pub(crate) fn push(&mut self, header: Header, body: &[u8]) {
        self.for_small(body.len()).push_slice(header, body);
    }

    /// Adds an answer in the envelope of a version with another header. Only without frames.
    pub(crate) fn push_foreign(&mut self, envelope: &[u8]) {
        self.for_small(envelope.len()).push_foreign(envelope);
    }

    /// Where a small answer goes.
    fn for_small(&mut self, bytes: usize) -> &mut Encoder {
        self.passed += bytes as u64;
        let behind = self.behind.as_ref();
        let others_wait = behind.is_some_and(|behind| behind.pending_len() > 0);
        if self.begun.is_none() && !self.is_overdue() && !others_wait {
            return &mut self.encoder;
        }
        let like = || Box::new(self.encoder.like());
        self.behind.get_or_insert_with(like)
    }

    /// True if a large answer has been overtaken enough.
    fn is_overdue(&self) -> bool {
        self.passed >= self.first_due
    }

    /// The body as a large answer has to have it on this connection; `None`: unchanged.
    pub(crate) fn compressed(&self, body: &[u8]) -> Option<Vec<u8>> {
        self.encoder.compressed(body)
    }

    /// Adds a large answer without copying it, compressed already if it has to be ([`Outbox::compressed`]).
    pub(crate) fn push_large(&mut self, header: Header, body: Rc<SharedBody>) {
        // Answers that have come before do not overtake it.
        let before: usize = self.large.iter().map(|large| large.body.len()).sum();
        let due = self.passed + (before + body.len().max(OVERTAKE_MIN)) as u64;
        self.large_bytes += body.len();
        self.first_due = self.first_due.min(due);
        self.large.push(Large { header, body, due });
    }

    /// All that waits, as it is to be written: for another outbox of the same connection, or to be put back.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut taken = Vec::with_capacity(self.len());
        loop {
            let pending = self.pending();
            if pending.is_empty() {
                return taken;
            }
            taken.extend_from_slice(pending);
            let len = pending.len();
            self.advance(len);
        }
    }

    /// Goes on with what another outbox of the same connection has left. Only while nothing waits.
    pub(crate) fn resume(&mut self, bytes: Vec<u8>) {
        self.encoder.resume(bytes);
    }

    /// Frees the buffers of a connection that has gone quiet.
    pub(crate) fn shrink(&mut self) {
        self.encoder.shrink();
        self.behind = None;
        if self.large.is_empty() {
            self.large = Vec::new();
        }
    }

    /// Copies what is to be written next, if all before it has been written.
    fn refill(&mut self) {
        while self.encoder.pending_len() == 0 {
            if let Some(begun) = &mut self.begun {
                let Begun { large, next } = begun;
                let copied = next.saturating_sub(HEADER_LEN);
                let then = self.encoder.push_part(large.header, &large.body, *next);
                let end = large.body.len();
                // The header stands in front of the body.
                self.large_bytes -= then.map_or(end, |at| at.saturating_sub(HEADER_LEN)) - copied;
                match then {
                    Some(then) => *next = then,
                    None => self.begun = None,
                }
                continue;
            }
            let behind = self.behind.as_mut();
            let behind = behind.filter(|behind| behind.pending_len() > 0);
            if let Some(behind) = behind
                && (self.was_large || self.passed < self.first_due)
            {
                std::mem::swap(&mut self.encoder, behind);
                self.was_large = false;
                return;
            }
            let Some(large) = self.take_next_large() else {
                return;
            };
            self.passed += large.body.len() as u64;
            self.was_large = true;
            self.begun = Some(Begun { large, next: 0 });
        }
    }

    /// The large answer to be begun next: the one that is overdue first, or the smallest.
    fn take_next_large(&mut self) -> Option<Large> {
        let overdue = self.is_overdue();
        let waiting = self.large.iter().enumerate();
        let (at, _) = waiting.min_by_key(|(_, large)| match overdue {
            true => large.due,
            false => large.body.len() as u64,
        })?;
        let large = self.large.remove(at);
        let dues = self.large.iter().map(|large| large.due);
        self.first_due = dues.min().unwrap_or(u64::MAX);
        Some(large)
    }
}

impl Outgoing for Outbox {
    fn pending(&mut self) -> &[u8] {
        self.refill();
        self.encoder.pending()
    }

    fn advance(&mut self, bytes: usize) {
        self.encoder.advance(bytes);
    }
}

#[cfg(test)]
mod tests;
