//! How much the proxy holds for others, in bytes, against one bound over all workers.
//!
//! Counted is whatever peers can make it hold: requests that have not been answered, pages that are
//! being put together, answers that clients have not read yet, and messages that have come in part.
//! Each worker counts for itself and tells the others in steps, so that the count costs nothing on the
//! path of a query.

use std::cell::Cell;
use std::rc::Rc;

use helenus_wire::JoinedBody;

use crate::support::sync::Arc;
use crate::support::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A worker tells the others when it holds so much more or less than they know.
const STEP: usize = 64 * 1024;
/// The error's text for clients when the bound is reached.
pub(crate) const NO_MEMORY: &str = "Helenus: this proxy holds as much as it may for its clients \
    (limits.memory_max): read answers sooner, ask for smaller pages, or have fewer requests in flight";

/// Bytes that all workers of a proxy hold, as far as they have told.
#[derive(Debug, Default)]
pub struct Memory {
    held: AtomicUsize,
    /// How often something was too much.
    refusals: AtomicU64,
}

impl Memory {
    /// Bytes held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Bytes that one worker holds.
#[derive(Debug)]
pub(crate) struct Ledger {
    memory: Arc<Memory>,
    held: Cell<usize>,
    told: Cell<usize>,
    max: Cell<usize>,
    /// Of [`Memory::refusals`], those that have been seen.
    seen: Cell<u64>,
}

impl Ledger {
    pub(crate) fn new(memory: Arc<Memory>, max: usize) -> Rc<Ledger> {
        Rc::new(Ledger {
            memory,
            held: Cell::new(0),
            told: Cell::new(0),
            max: Cell::new(max),
            seen: Cell::new(0),
        })
    }

    pub(crate) fn set_max(&self, max: usize) {
        self.max.set(max);
    }

    /// Counts bytes that are held from now on.
    pub(crate) fn add(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes);
        self.tell();
    }

    /// Counts bytes that are let go.
    pub(crate) fn sub(&self, bytes: usize) {
        debug_assert!(bytes <= self.held.get(), "more let go than was held");
        self.held.set(self.held.get().saturating_sub(bytes));
        self.tell();
    }

    /// True if so much more would be too much, over all workers.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        let untold = self.held.get().saturating_sub(self.told.get());
        let full = self.memory.held() + untold + more > self.max.get();
        if full {
            self.memory.refusals.fetch_add(1, Ordering::Relaxed);
        }
        full
    }

    /// Bytes that may still be held, over all workers.
    pub(crate) fn left(&self) -> usize {
        let untold = self.held.get().saturating_sub(self.told.get());
        let max = self.max.get();
        max.saturating_sub(self.memory.held() + untold)
    }

    /// True if something was too much, for any worker, since this was last asked.
    pub(crate) fn was_full(&self) -> bool {
        let refusals = self.memory.refusals.load(Ordering::Relaxed);
        self.seen.replace(refusals) != refusals
    }

    /// Bytes that this worker holds.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    fn tell(&self) {
        let (held, told) = (self.held.get(), self.told.get());
        if held == told || held.abs_diff(told) < STEP && held > 0 {
            return;
        }
        match held.checked_sub(told) {
            Some(more) => self.memory.held.fetch_add(more, Ordering::Relaxed),
            None => self.memory.held.fetch_sub(told - held, Ordering::Relaxed),
        };
        self.told.set(held);
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.memory
            .held
            .fetch_sub(self.told.get(), Ordering::Relaxed);
    }
}

/// Bytes that something holds; let go with it.
#[derive(Debug)]
pub(crate) struct Held {
    ledger: Rc<Ledger>,
    bytes: usize,
}

impl Held {
    pub(crate) fn new(ledger: &Rc<Ledger>, bytes: usize) -> Held {
        ledger.add(bytes);
        Held {
            ledger: ledger.clone(),
            bytes,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// It holds so many bytes now.
    pub(crate) fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => return,
            Some(more) => self.ledger.add(more),
            None => self.ledger.sub(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.sub(self.bytes);
    }
}

/// A body that several clients wait for, held once.
#[derive(Debug)]
pub(crate) struct SharedBody {
    body: JoinedBody,
    _held: Held,
}

impl SharedBody {
    pub(crate) fn new(body: impl Into<JoinedBody>, ledger: &Rc<Ledger>) -> Rc<SharedBody> {
        let mut body: JoinedBody = body.into();
        body.shrink();
        let held = Held::new(ledger, body.held_len());
        Rc::new(SharedBody { body, _held: held })
    }
}

impl std::ops::Deref for SharedBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.body
    }
}

/// The body of an answer, as it lies in the buffer of a connection or as it was put together.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    Borrowed(&'a [u8]),
    Joined(JoinedBody),
}

impl Body<'_> {
    /// The body as one that clients share.
    pub(crate) fn share(self, ledger: &Rc<Ledger>) -> Rc<SharedBody> {
        match self {
            Body::Borrowed(bytes) => SharedBody::new(bytes.to_vec(), ledger),
            Body::Joined(body) => SharedBody::new(body, ledger),
        }
    }
}

impl std::ops::Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Borrowed(bytes) => bytes,
            Body::Joined(body) => body,
        }
    }
}

impl<'a> From<&'a [u8]> for Body<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Body::Borrowed(bytes)
    }
}

impl From<JoinedBody> for Body<'_> {
    fn from(body: JoinedBody) -> Self {
        Body::Joined(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_tell_in_steps_and_all_of_it_is_let_go() {
        let memory = Arc::new(Memory::default());
        let ledger = Ledger::new(memory.clone(), 10 * STEP);
        let small = Held::new(&ledger, 10);
        assert_eq!((ledger.held(), memory.held()), (10, 0));
        let mut large = Held::new(&ledger, STEP);
        assert_eq!(memory.held(), STEP + 10);
        large.set(3 * STEP);
        let other = Ledger::new(memory.clone(), 10 * STEP);
        assert!(!other.is_full(6 * STEP));
        assert!(other.is_full(7 * STEP), "over all workers");
        let body = SharedBody::new(vec![7; 2 * STEP], &other);
        let clients = [body.clone(), body];
        assert_eq!(other.held(), 2 * STEP, "held once for all");
        drop(clients);
        drop((small, large));
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn a_worker_that_ends_takes_its_part_with_it() {
        let memory = Arc::new(Memory::default());
        let ledger = Ledger::new(memory.clone(), STEP);
        ledger.add(5 * STEP);
        drop(ledger);
        assert_eq!(memory.held(), 0);
    }
}
