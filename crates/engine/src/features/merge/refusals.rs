//! Batches that nodes have refused.

use std::sync::atomic::{AtomicU32, Ordering};

/// After a batch that a node has refused, so many writes of the same statement go by themselves.
const ALONE_AFTER_REFUSAL: u32 = 256;
/// So often that number is doubled at most.
const DOUBLED_MAX: u32 = 8;

/// Of the batches of a statement.
#[derive(Debug, Default)]
pub(in crate::features) struct Refusals {
    /// So many go by themselves first.
    alone: AtomicU32,
    /// Batches that were refused since the last one that was not.
    refused: AtomicU32,
}

impl Refusals {
    /// A node has refused a batch of it: the next ones go by themselves, twice as many with each refusal in
    /// a row.
    pub(super) fn note_refused(&self) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        let alone = ALONE_AFTER_REFUSAL << before.min(DOUBLED_MAX);
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// A node has carried out a batch of it.
    pub(super) fn note_done(&self) {
        if self.refused.load(Ordering::Relaxed) > 0 {
            self.refused.store(0, Ordering::Relaxed);
        }
    }

    /// True if the next one goes by itself because of that.
    pub(super) fn goes_alone(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let alone = &self.alone;
        alone.load(Ordering::Relaxed) > 0
            && alone
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .is_ok()
    }
}
