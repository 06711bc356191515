//! Counters of a run that can be watched while it is in progress.

use crate::measure::{ErrorKind, LATENCY_US_MAX, Latency};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Progress {
    pub done: AtomicU64,
    pub failed: AtomicU64,
    /// Latencies since they were last taken; empty if they are not recorded.
    recent: Vec<Mutex<Histogram<u64>>>,
}

/// What happened since the previous sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalStats {
    /// Seconds since the run began.
    pub at_seconds: f64,
    pub ops_per_second: f64,
    pub errors_per_second: f64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
}

impl Progress {
    /// Also records latencies.
    pub fn with_latencies() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_US_MAX, 2);
        let one = || Mutex::new(histogram().expect("the bounds are valid constants"));
        Self {
            recent: (0..8).map(|_| one()).collect(),
            ..Self::default()
        }
    }

    pub fn note(&self, client: usize, latency: Duration, outcome: Result<(), ErrorKind>) {
        if outcome.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        if !self.recent.is_empty() {
            let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
            let recent = &self.recent[client % self.recent.len()];
            let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.saturating_record(latency_us.max(1));
        }
    }

    /// Latencies since the last call.
    pub fn take_latency(&self) -> Latency {
        let mut all: Option<Histogram<u64>> = None;
        for recent in &self.recent {
            let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut all {
                Some(all) => all.add(&*recent).expect("all have the same bounds"),
                None => all = Some(recent.clone()),
            }
            recent.reset();
        }
        all.map_or_else(Latency::default, |all| Latency::of(&all))
    }
}

/// Turns the counters of a [`Progress`] into rates.
#[derive(Debug, Default)]
pub struct IntervalMeter {
    done: u64,
    failed: u64,
}

impl IntervalMeter {
    /// `passed`: time since the previous call.
    pub fn sample(&mut self, progress: &Progress, at: Duration, passed: Duration) -> IntervalStats {
        let done = progress.done.load(Ordering::Relaxed);
        let failed = progress.failed.load(Ordering::Relaxed);
        let seconds = passed.as_secs_f64().max(1e-9);
        let latency = progress.take_latency();
        let stats = IntervalStats {
            at_seconds: at.as_secs_f64(),
            ops_per_second: (done - self.done) as f64 / seconds,
            errors_per_second: (failed - self.failed) as f64 / seconds,
            latency_us_p50: latency.us_p50,
            latency_us_p99: latency.us_p99,
        };
        (self.done, self.failed) = (done, failed);
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_covers_the_time_since_the_previous_one() {
        let progress = Progress::with_latencies();
        let mut meter = IntervalMeter::default();
        for client in 0..100 {
            progress.note(client, Duration::from_micros(100), Ok(()));
        }
        progress.note(0, Duration::from_secs(9), Err("overloaded"));
        let (first, second) = (Duration::from_secs(2), Duration::from_secs(3));
        let stats = meter.sample(&progress, first, first);
        assert_eq!((stats.ops_per_second, stats.errors_per_second), (50.0, 0.5));
        assert_eq!((stats.latency_us_p50, stats.latency_us_p99), (100, 100));
        progress.note(3, Duration::from_micros(200), Ok(()));
        let stats = meter.sample(&progress, second, second - first);
        assert_eq!((stats.ops_per_second, stats.errors_per_second), (1.0, 0.0));
        // Two significant digits.
        assert!((199..=201).contains(&stats.latency_us_p99), "{stats:?}");
        let silent = meter.sample(&progress, second, Duration::ZERO);
        assert_eq!((silent.ops_per_second, silent.latency_us_p99), (0.0, 0));
    }
}
