//! When collected bytes leave: at once behind everything that is ready, or after a waiting window.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_policy::window::{Observed, Window};

use crate::config::{Aggregation, AggregationMode};
use crate::node::links::Links;
use crate::stats::Stats;

const ADAPTIVE_STEP_US: u64 = 10;

/// How long links collect queries.
#[derive(Debug)]
pub(super) enum Pace {
    /// Until everything that has come together has been handed over.
    Timerless,
    /// No longer than one client's packet takes.
    Immediate,
    Fixed(Duration),
    Adaptive(Window),
}

impl Pace {
    pub(super) fn new(settings: &Aggregation) -> Pace {
        match settings.mode {
            AggregationMode::Timerless => Pace::Timerless,
            AggregationMode::Window if settings.window_us == 0 => Pace::Immediate,
            AggregationMode::Window => Pace::Fixed(Duration::from_micros(settings.window_us)),
            AggregationMode::Adaptive => {
                Pace::Adaptive(Window::new(ADAPTIVE_STEP_US, settings.latency_budget_us))
            }
        }
    }

    /// The window in force.
    pub(super) fn window(&self) -> Duration {
        match self {
            Pace::Timerless | Pace::Immediate => Duration::ZERO,
            Pace::Fixed(window) => *window,
            Pace::Adaptive(window) => Duration::from_micros(window.us()),
        }
    }

    pub(super) fn publish(&self, stats: &Stats) {
        let window_us = self.window().as_micros() as u64;
        stats.window_us.store(window_us, Ordering::Relaxed);
    }
}

/// What a worker has completed, for the adaptive window.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    pub queries: u64,
    pub latency_sum_us: u64,
    pub since: Option<Instant>,
}

impl Links {
    /// Takes over settings that have changed.
    pub(crate) fn adopt_window(&mut self, settings: &Aggregation) {
        self.pace = Pace::new(settings);
    }

    /// Whether queries wait for others that come a little later.
    pub(super) fn has_window(&self) -> bool {
        !self.pace.window().is_zero()
    }

    /// Whether everything leaves behind one connection's bytes.
    pub(super) fn is_immediate(&self) -> bool {
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
