//! How long links collect queries before these leave.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_policy::window::Window;

use crate::config::{Aggregation, AggregationMode};
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

/// Queries that a worker has completed, for the adaptive window.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    pub queries: u64,
    pub latency_sum_us: u64,
    pub since: Option<Instant>,
}
