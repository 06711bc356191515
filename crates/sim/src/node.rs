//! A node's READ stage: a fixed number of threads behind one queue, first come first served.

use std::collections::VecDeque;

#[derive(Debug)]
pub struct Node {
    threads: u32,
    busy: u32,
    queue: VecDeque<u32>,
    queue_most: usize,
}

impl Node {
    pub fn new(threads: u32) -> Self {
        Node {
            threads,
            busy: 0,
            queue: VecDeque::new(),
            queue_most: 0,
        }
    }

    /// A read has come: true if it runs at once.
    #[must_use]
    pub fn handle_read(&mut self, read: u32) -> bool {
        if self.busy < self.threads {
            self.busy += 1;
            return true;
        }
        self.queue.push_back(read);
        self.queue_most = self.queue_most.max(self.queue.len());
        false
    }

    /// A read has ended: the one that runs in its place.
    #[must_use]
    pub fn handle_end(&mut self) -> Option<u32> {
        debug_assert!(self.busy > 0, "a read ended that never began");
        let next = self.queue.pop_front();
        self.busy -= u32::from(next.is_none());
        next
    }

    pub fn is_idle(&self) -> bool {
        self.busy == 0 && self.queue.is_empty()
    }

    /// Most reads that ever waited in here.
    pub fn queue_most(&self) -> usize {
        self.queue_most
    }
}
