//! Virtual time: what happens next.

use std::collections::BTreeMap;

/// Events by time; those of one instant in the order in which they were planned.
#[derive(Debug)]
pub struct Events<E> {
    /// By time, and how many were planned before.
    planned: BTreeMap<(u64, u64), E>,
    count: u64,
    now_us: u64,
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Events {
            planned: BTreeMap::new(),
            count: 0,
            now_us: 0,
        }
    }
}

impl<E> Events<E> {
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    pub fn plan(&mut self, in_us: u64, event: E) {
        self.planned
            .insert((self.now_us + in_us, self.count), event);
        self.count += 1;
    }

    /// Goes on to the next event.
    pub fn poll_next(&mut self) -> Option<E> {
        let ((at, _), event) = self.planned.pop_first()?;
        debug_assert!(at >= self.now_us, "time goes on");
        self.now_us = at;
        Some(event)
    }
}
