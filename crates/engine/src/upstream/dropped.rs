//! How many requests of a link its node has dropped without saying which.

use std::time::Instant;

/// Requests sent over a link that its node has dropped, as long as it is not known which.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    number: usize,
    /// The last of them was sent before.
    sent_before: Option<Instant>,
}

impl Dropped {
    /// One more, of those that were sent before.
    pub(super) fn note(&mut self, sent_before: Instant) {
        self.number += 1;
        self.sent_before = Some(sent_before);
    }

    /// Before when all of them were sent, if there are any.
    pub(super) fn sent_before(&self) -> Option<Instant> {
        self.sent_before
    }

    /// So many that were sent before are not answered. True if all of them are dropped, which are known then, and count
    /// until they are [ended](Self::end_one).
    pub(super) fn are_known(&mut self, unanswered: usize) -> bool {
        let are_known = unanswered <= self.number;
        if are_known {
            self.set(unanswered);
        }
        are_known
    }

    /// Nobody waits for one of them any more.
    pub(super) fn end_one(&mut self) {
        self.set(self.number.saturating_sub(1));
    }

    fn set(&mut self, number: usize) {
        self.number = number;
        if number == 0 {
            self.sent_before = None;
        }
    }
}
