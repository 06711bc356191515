//! Changes to a prepared statement since a node has described it.

use crate::support::sync::atomic::{AtomicU8, Ordering};

/// Shared by all workers that have the statement.
#[derive(Debug, Default)]
pub(crate) struct Standing(AtomicU8);

/// Nothing has, for most: their requests look no further.
const PLAIN: u8 = 0;
/// It has lost its place in the table that all workers share, where another description may have taken it.
const REPLACED: u8 = 1;
/// It was described otherwise before: clients may know it so.
const CHANGED: u8 = 2;
/// It was described otherwise before, and no client has been told yet.
const UNTOLD: u8 = 4;
/// The schema has changed since: a node may describe it otherwise by now.
const DOUBTED: u8 = 8;

impl Standing {
    pub(crate) fn passed(changed: bool, untold: bool) -> Standing {
        let set = |on, bit| if on { bit } else { PLAIN };
        Standing(AtomicU8::new(set(changed, CHANGED) | set(untold, UNTOLD)))
    }

    fn has(&self, bits: u8) -> bool {
        self.0.load(Ordering::Acquire) & bits != 0
    }

    fn add(&self, bits: u8) {
        self.0.fetch_or(bits, Ordering::AcqRel);
    }

    fn remove(&self, bits: u8) {
        self.0.fetch_and(!bits, Ordering::AcqRel);
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.0.load(Ordering::Acquire) == PLAIN
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.has(REPLACED)
    }

    /// True if clients may know it by another description.
    pub(crate) fn may_have_changed(&self) -> bool {
        self.has(REPLACED | CHANGED)
    }

    /// True if no client knows it by this description.
    pub(crate) fn is_untold(&self) -> bool {
        self.has(UNTOLD)
    }

    /// True if a node has to be asked before it is used again.
    pub(crate) fn is_doubted(&self) -> bool {
        self.has(DOUBTED)
    }

    pub(crate) fn note_replaced(&self) {
        self.add(REPLACED);
    }

    /// It has its place again. It has missed notes that were made meanwhile, of those that had one.
    pub(crate) fn come_back(&self) {
        self.add(CHANGED | DOUBTED);
        self.remove(REPLACED);
    }

    pub(crate) fn note_changed(&self) {
        self.add(CHANGED);
    }

    pub(crate) fn note_untold(&self) {
        self.add(CHANGED | UNTOLD);
    }

    /// A client has been told.
    pub(crate) fn note_told(&self) {
        self.remove(UNTOLD);
    }

    pub(crate) fn doubt(&self) {
        self.add(DOUBTED);
    }

    /// A node describes it as it is known.
    pub(crate) fn confirm(&self) {
        self.remove(DOUBTED);
    }
}
