//! Threads of a node with a queue before them, first come first served.

use std::collections::VecDeque;

/// Threads with a queue.
#[derive(Debug)]
pub(crate) struct Threads<T> {
    most: u32,
    busy: u32,
    queue: VecDeque<T>,
    queue_most: usize,
}

impl<T> Threads<T> {
    pub(crate) fn new(most: u32) -> Self {
        Threads {
            most,
            busy: 0,
            queue: VecDeque::new(),
            queue_most: 0,
        }
    }

    /// Something is to be done: it is returned if a thread takes it at once.
    pub(crate) fn enter(&mut self, what: T) -> Option<T> {
        if self.busy < self.most {
            self.busy += 1;
            return Some(what);
        }
        self.queue.push_back(what);
        self.queue_most = self.queue_most.max(self.queue.len());
        None
    }

    /// A thread is done: what it takes next.
    pub(crate) fn leave(&mut self) -> Option<T> {
        debug_assert!(self.busy > 0, "nobody was at work");
        let next = self.queue.pop_front();
        self.busy -= u32::from(next.is_none());
        next
    }

    /// The share of the threads that are at work.
    pub(crate) fn used(&self) -> f64 {
        f64::from(self.busy) / f64::from(self.most)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// At work and waiting.
    pub(crate) fn len(&self) -> usize {
        self.busy as usize + self.queue.len()
    }

    /// Most that ever waited.
    pub(crate) fn queue_most(&self) -> usize {
        self.queue_most
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_first_is_served_first() {
        let mut threads = Threads::new(2);
        assert_eq!(
            [1, 2, 3, 4].map(|n| threads.enter(n)),
            [Some(1), Some(2), None, None]
        );
        assert_eq!(threads.queue_most(), 2);
        let next: Vec<Option<i32>> = (0..4).map(|_| threads.leave()).collect();
        assert_eq!(next, [Some(3), Some(4), None, None]);
        assert!(threads.is_idle());
    }
}
