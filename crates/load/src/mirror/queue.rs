//! Requests that wait to be sent: in the order of their times, and never more than is wanted.
//!
//! A request is *early* until its time has come, and *behind* from then on. Excess requests, and those that
//! have waited too long, are dropped and counted: the oldest first, so that the requests sent are those that
//! clients make now.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Bounds of what waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that are behind.
    pub behind_max: usize,
    /// Bytes of all requests, those that are early and those under way among them.
    pub bytes_max: usize,
    /// How long after its answer by the proxy a request may still be sent.
    pub lag_max: Duration,
}

/// Requests that were dropped, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Too many were behind.
    pub behind: u64,
    /// They would have taken too much memory.
    pub bytes: u64,
    /// They were too old.
    pub late: u64,
}

impl Dropped {
    pub(crate) fn all(&self) -> u64 {
        self.behind + self.bytes + self.late
    }
}

struct Waiting<T> {
    /// When it was answered.
    answered: Instant,
    bytes: usize,
    item: T,
}

pub(crate) struct Queue<T> {
    limits: Limits,
    /// By their times; the number tells those of one time apart.
    early: BTreeMap<(Instant, u64), Waiting<T>>,
    behind: VecDeque<(Instant, Waiting<T>)>,
    next_number: u64,
    bytes: usize,
    dropped: Dropped,
}

impl<T> Queue<T> {
    pub(crate) fn new(limits: Limits) -> Queue<T> {
        Queue {
            limits,
            early: BTreeMap::new(),
            behind: VecDeque::new(),
            next_number: 0,
            bytes: 0,
            dropped: Dropped::default(),
        }
    }

    /// Takes a request that is to be sent at `due`, or when its turn comes after that.
    pub(crate) fn push(&mut self, item: T, due: Instant, answered: Instant, bytes: usize) {
        if self.bytes + bytes > self.limits.bytes_max {
            self.dropped.bytes += 1;
            return;
        }
        self.bytes += bytes;
        let waiting = Waiting {
            answered,
            bytes,
            item,
        };
        self.early.insert((due, self.next_number), waiting);
        self.next_number += 1;
    }

    /// Finds out what is behind by now.
    fn on_time(&mut self, now: Instant) {
        while let Some(first) = self.early.first_entry().filter(|of| of.key().0 <= now) {
            let ((due, _), waiting) = first.remove_entry();
            self.behind.push_back((due, waiting));
        }
    }

    /// Drops what is behind and too much. Call it when no more can be sent now.
    pub(crate) fn drop_surplus(&mut self, now: Instant) {
        self.on_time(now);
        while self.behind.len() > self.limits.behind_max {
            if let Some((_, waiting)) = self.behind.pop_front() {
                self.dropped.behind += 1;
                self.bytes -= waiting.bytes;
            }
        }
    }

    /// The next request whose time has come, and its bytes, which count until [`Queue::release`].
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(T, usize)> {
        self.on_time(now);
        while let Some((_, waiting)) = self.behind.pop_front() {
            if now.saturating_duration_since(waiting.answered) <= self.limits.lag_max {
                return Some((waiting.item, waiting.bytes));
            }
            self.dropped.late += 1;
            self.bytes -= waiting.bytes;
        }
        None
    }

    /// A request that was taken has ended.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// When the next request's time comes.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let behind = self.behind.front().map(|(due, _)| *due);
        behind.or_else(|| self.early.first_key_value().map(|((due, _), _)| *due))
    }

    /// For how long the first request has been behind.
    pub(crate) fn lag(&self, now: Instant) -> Duration {
        let first = self.behind.front();
        first.map_or(Duration::ZERO, |(due, _)| {
            now.saturating_duration_since(*due)
        })
    }

    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.behind.is_empty()
    }

    /// Forgets what waits; how much that is.
    pub(crate) fn clear(&mut self) -> u64 {
        let early = std::mem::take(&mut self.early);
        let behind = std::mem::take(&mut self.behind);
        let waiting = early.values().chain(behind.iter().map(|(_, of)| of));
        self.bytes -= waiting.map(|of| of.bytes).sum::<usize>();
        (early.len() + behind.len()) as u64
    }
}
