//! Sets how long a link collects queries before sending them (aggregation mode `adaptive`).
//!
//! Formula: additive increase, multiplicative decrease. Once per interval, with `latency` the mean
//! latency of the interval and `base` the minimum of the last [`BASE_INTERVALS`] intervals' means:
//!
//! - if `latency > base + budget`: window ← window / 2;
//! - else, if more than one query per link arrives within a step (`rate · step > 1`):
//!   window ← window + step, up to the budget;
//! - else: window ← window − step, because there is nothing to collect.
//!
//! Evidence: `window/tests.rs` checks growth, back-off and idleness; `helenus bench aggregation`
//! measures windows against sending without a timer, which is the default.
//!
//! Limits: one window per worker, for all its links.
//!
//! Source: D. Chiu and R. Jain, "Analysis of the increase and decrease algorithms for congestion
//! avoidance in computer networks" (1989); the same shape as the adaptive batching of D. Crankshaw
//! et al., "Clipper" (NSDI 2017).

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Number of intervals whose minimum latency is the base.
pub const BASE_INTERVALS: usize = 100;

/// The adaptive window of one worker.
#[derive(Debug)]
pub struct Window {
    window_us: u64,
    step_us: u64,
    budget_us: u64,
    means_us: VecDeque<u64>,
}

/// Measurements of one interval.
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
    /// `budget_us`: the most latency that packing may add.
    pub fn new(step_us: u64, budget_us: u64) -> Self {
        Window {
            window_us: 0,
            step_us: step_us.max(1),
            budget_us,
            means_us: VecDeque::with_capacity(BASE_INTERVALS),
        }
    }

    /// The current window, in microseconds; 0: do not wait.
    pub fn us(&self) -> u64 {
        self.window_us
    }

    /// Adapts the window to the measurements of the last interval.
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
