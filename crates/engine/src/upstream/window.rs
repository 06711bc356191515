//! When collected bytes leave: at once behind everything that is ready, or after a waiting window.

use std::time::Instant;

use helenus_policy::window::Observed;

use crate::config::Aggregation;
use crate::upstream::links::Links;
use crate::upstream::pace::{Completed, Pace};

impl Links {
    /// Takes over settings that have changed.
    pub(crate) fn adopt_window(&mut self, settings: &Aggregation) {
        self.pace = Pace::new(settings);
    }

    /// True if queries wait for others that come a little later.
    pub(crate) fn has_window(&self) -> bool {
        !self.pace.window().is_zero()
    }

    /// True if everything leaves behind one connection's bytes.
    pub(crate) fn is_immediate(&self) -> bool {
        matches!(self.pace, Pace::Immediate)
    }

    /// Adapts the window to what has been completed since the last tick.
    pub(crate) fn adapt_window(&mut self, now: Instant, done: &Completed) {
        let Pace::Adaptive(window) = &mut self.pace else {
            return;
        };
        if let Some(since) = done.since {
            window.observe(Observed {
                queries: done.queries,
                latency_sum_us: done.latency_sum_us,
                interval_us: now.saturating_duration_since(since).as_micros() as u64,
                links: self.open.len() as u64,
            });
        }
    }
}
