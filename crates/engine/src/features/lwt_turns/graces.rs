//! The short time after a conditional write in which its client may go on with the same partition before
//! others get their turn: when it ends, for each partition that has one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Graces {
    by_end: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Graces {
    pub(crate) fn begin(&mut self, end: Instant, partition: u64) {
        self.by_end.push(Reverse((end, partition)));
    }

    /// When the next one ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.by_end.peek().map(|Reverse((end, _))| *end)
    }

    /// A partition whose grace is over.
    pub(crate) fn take_over(&mut self, now: Instant) -> Option<u64> {
        self.next_end().filter(|end| *end <= now)?;
        let Reverse((_, partition)) = self.by_end.pop()?;
        Some(partition)
    }
}
