//! Virtual time: what happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by time; those of one instant in the order in which they were planned.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<(u64, u64, Slot<E>)>>,
    planned: u64,
    now_us: u64,
}

/// Takes no part in the comparison, which is over before it.
#[derive(Debug)]
struct Slot<E>(E);

impl<E> PartialEq for Slot<E> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<E> Eq for Slot<E> {}
impl<E> PartialOrd for Slot<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Slot<E> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Events {
            heap: BinaryHeap::new(),
            planned: 0,
            now_us: 0,
        }
    }
}

impl<E> Events<E> {
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    pub fn plan(&mut self, in_us: u64, event: E) {
        let at = self.now_us + in_us;
        self.heap.push(Reverse((at, self.planned, Slot(event))));
        self.planned += 1;
    }

    /// Goes on to the next event.
    pub fn poll_next(&mut self) -> Option<E> {
        let Reverse((at, _, Slot(event))) = self.heap.pop()?;
        debug_assert!(at >= self.now_us, "time goes on");
        self.now_us = at;
        Some(event)
    }
}
