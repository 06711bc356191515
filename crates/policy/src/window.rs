//! How long a link waits for more queries before it sends those it has.
//!
//! Picture: a ferry that may wait at the pier for a few more cars. Waiting a little fills it; waiting
//! long makes everybody late, and on an empty road nobody comes anyway.
//!
//! Formula: additive increase, multiplicative decrease. Once an interval, with `latency` the mean
//! latency of the interval and `base` the least of the last [`BASE_INTERVALS`] intervals' means:
//!
//! - if `latency > base + budget`: window ← window / 2;
//! - else, if in one step more than one query would have come (`rate · step > 1`): window ← window +
//!   step, up to the budget;
//! - else: window ← window − step. Waiting has nothing to collect.
//!
//! Source: D. Chiu and R. Jain, "Analysis of the increase and decrease algorithms for congestion
//! avoidance in computer networks" (1989); the same shape as the adaptive batching of D. Crankshaw
//! et al., "Clipper" (NSDI 2017).

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Intervals whose least latency is the base.
pub const BASE_INTERVALS: usize = 100;

/// The adaptive waiting window of one worker.
#[derive(Debug)]
pub struct Window {
    window_us: u64,
    step_us: u64,
    budget_us: u64,
    means_us: VecDeque<u64>,
}

/// What an interval has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub queries: u64,
    /// Sum of their latencies, from arrival at the proxy to the answer, in microseconds.
    pub latency_sum_us: u64,
    pub interval_us: u64,
    /// Links that shared the queries.
    pub links: u64,
}

impl Window {
    /// `budget_us`: how much latency packing may cost at most.
    pub fn new(step_us: u64, budget_us: u64) -> Self {
        Window {
            window_us: 0,
            step_us: step_us.max(1),
            budget_us,
            means_us: VecDeque::with_capacity(BASE_INTERVALS),
        }
    }

    /// The window in force, in microseconds; 0: do not wait.
    pub fn us(&self) -> u64 {
        self.window_us
    }

    /// Adapts the window to what the last interval has shown.
    pub fn observe(&mut self, seen: Observed) {
        if seen.queries == 0 || seen.interval_us == 0 {
            self.window_us = 0;
            return;
        }
        let mean = seen.latency_sum_us / seen.queries;
        if self.means_us.len() == BASE_INTERVALS {
            self.means_us.pop_front();
        }
        self.means_us.push_back(mean);
        let base = self.means_us.iter().min().copied().unwrap_or(mean);
        let per_link = seen.queries / seen.links.max(1);
        let collects = per_link.saturating_mul(self.step_us) > seen.interval_us;
        self.window_us = if mean > base + self.budget_us {
            self.window_us / 2
        } else if collects {
            (self.window_us + self.step_us).min(self.budget_us)
        } else {
            self.window_us.saturating_sub(self.step_us)
        };
    }
}
