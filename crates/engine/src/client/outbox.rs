//! What waits to be written to one client.
//!
//! Small answers are copied behind each other and leave in few frames. A large one is kept as it is,
//! shared with the other clients that get it, and copied part by part as the client reads. Until its
//! first part has been copied small ones go before it, for a while: the protocol wants the parts of
//! one answer together, but no order of answers.

use std::collections::VecDeque;
use std::rc::Rc;

use helenus_wire::{Compression, Encoder, Header, flags};

use crate::memory::{Ledger, SharedBody};
use crate::output::Outgoing;

/// From so many bytes on an answer is large.
pub(crate) const LARGE: usize = 32 * 1024;
/// Bytes of small answers that may go before a large one that has come earlier.
const OVERTAKE_MAX: usize = 256 * 1024;

#[derive(Debug)]
struct Large {
    header: Header,
    body: Rc<SharedBody>,
    /// Where its next part begins; 0: nothing of it has been copied.
    next: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Outbox {
    encoder: Encoder,
    /// Small answers that come while a large one is being written.
    behind: Option<Box<Encoder>>,
    large: VecDeque<Large>,
    /// Bytes of `large` that have not been copied.
    large_bytes: usize,
    /// Bytes that went before the first of `large` since it was the first.
    overtaken: usize,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Outbox {
            encoder: Encoder::new(),
            behind: None,
            large: VecDeque::new(),
            large_bytes: 0,
            overtaken: 0,
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
        let Some(first) = self.large.front() else {
            return &mut self.encoder;
        };
        if first.next == 0 && self.overtaken < OVERTAKE_MAX {
            self.overtaken += bytes;
            return &mut self.encoder;
        }
        let like = || Box::new(self.encoder.like());
        self.behind.get_or_insert_with(like)
    }

    /// Adds a large answer without copying it.
    pub(crate) fn push_large(&mut self, header: Header, body: Rc<SharedBody>, ledger: &Rc<Ledger>) {
        let (header, body) = match self.encoder.compressed(&body) {
            None => (header, body),
            Some(compressed) => {
                let flags = header.flags | flags::COMPRESSED;
                let body = SharedBody::new(compressed, ledger);
                (Header { flags, ..header }, body)
            }
        };
        self.large_bytes += body.len();
        self.large.push_back(Large {
            header,
            body,
            next: 0,
        });
    }

    /// Frees the buffers of a connection that has gone quiet.
    pub(crate) fn shrink(&mut self) {
        self.encoder.shrink();
        self.behind = None;
        if self.large.is_empty() {
            self.large = VecDeque::new();
        }
    }

    /// Copies what is to be written next, if all before it has been written.
    fn refill(&mut self) {
        while self.encoder.pending_len() == 0 {
            let first = self.large.front();
            let begun = first.is_some_and(|l| l.next > 0 || self.overtaken >= OVERTAKE_MAX);
            let behind = self.behind.as_ref();
            if !begun && behind.is_some_and(|behind| behind.pending_len() > 0) {
                if let Some(behind) = &mut self.behind {
                    std::mem::swap(&mut self.encoder, behind);
                }
                return;
            }
            let Some(large) = self.large.front_mut() else {
                return;
            };
            let before = large.next;
            let next = self
                .encoder
                .push_part(large.header, &large.body, large.next);
            let end = large.body.len();
            // The header stands in front of the body.
            let copied = |at: usize| at.saturating_sub(helenus_wire::HEADER_LEN);
            self.large_bytes -= next.map_or(end, copied) - copied(before);
            match next {
                Some(next) => large.next = next,
                None => {
                    self.large.pop_front();
                    self.overtaken = 0;
                }
            }
        }
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
