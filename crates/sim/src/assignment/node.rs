//! A node that serves a few requests at a time.

use std::collections::VecDeque;

/// A number for a request.
pub(super) type RequestId = usize;

pub(super) struct Node {
    lanes: usize,
    /// Service times as multiples of what they should be.
    pub(super) factor: f64,
    pub(super) frozen_until_us: u64,
    serving: usize,
    waiting: VecDeque<RequestId>,
    /// Lanes busy, summed over time, up to `counted_us`.
    busy_us: u64,
    counted_us: u64,
    longest: usize,
}

impl Node {
    pub(super) fn new(lanes: usize, factor: f64) -> Node {
        Node {
            lanes,
            factor,
            frozen_until_us: 0,
            serving: 0,
            waiting: VecDeque::new(),
            busy_us: 0,
            counted_us: 0,
            longest: 0,
        }
    }

    fn count(&mut self, now_us: u64) {
        self.busy_us += self.serving as u64 * (now_us - self.counted_us);
        self.counted_us = now_us;
    }

    /// A request has come; true if it is served at once.
    pub(super) fn on_request(&mut self, now_us: u64, request: RequestId) -> bool {
        self.count(now_us);
        let is_served = self.serving < self.lanes;
        match is_served {
            true => self.serving += 1,
            false => self.waiting.push_back(request),
        }
        self.longest = self.longest.max(self.serving + self.waiting.len());
        is_served
    }

    /// A request has been served; the next one, if there is one.
    pub(super) fn on_served(&mut self, now_us: u64) -> Option<RequestId> {
        self.count(now_us);
        let next = self.waiting.pop_front();
        self.serving -= usize::from(next.is_none());
        next
    }

    /// The share of its lanes that was busy since this was asked last.
    pub(super) fn take_use(&mut self, now_us: u64, since_us: u64) -> f32 {
        self.count(now_us);
        let busy_us = std::mem::take(&mut self.busy_us);
        let all_us = self.lanes as u64 * now_us.saturating_sub(since_us).max(1);
        (busy_us as f64 / all_us as f64) as f32
    }

    /// Most requests that it has had at a time since this was asked last.
    pub(super) fn take_longest(&mut self) -> usize {
        std::mem::replace(&mut self.longest, self.serving + self.waiting.len())
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
