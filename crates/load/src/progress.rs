//! Counters of a run that can be watched while it is in progress.

use crate::measure::{ErrorKind, LATENCY_US_MAX, Latency};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SHARDS: usize = 8;

#[derive(Debug, Default)]
pub struct Progress {
    pub done: AtomicU64,
    pub failed: AtomicU64,
    /// Latencies since they were last taken; empty if they are not recorded.
    recent: Vec<Mutex<Histogram<u64>>>,
    /// Measured latencies by kind of operation, since they were last taken; empty if they are not
    /// recorded.
    intervals: Vec<Mutex<Vec<Histogram<u64>>>>,
    /// The run ends once so many operations have failed, if it is not 0.
    failed_max: u64,
    is_stopped: AtomicBool,
    /// Operations that start now are measured, rather than part of a warm-up.
    is_measuring: AtomicBool,
}

/// Rates and latencies since the previous sample.
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
            recent: (0..SHARDS).map(|_| one()).collect(),
            ..Self::default()
        }
    }

    /// Ends the run once so many operations have failed, in warm-ups too.
    pub fn stop_after_failed(mut self, failed_max: u64) -> Self {
        self.failed_max = failed_max;
        self
    }

    /// Also records measured latencies by kind of operation, in nanoseconds and to three digits.
    pub fn with_intervals(mut self, kinds: usize) -> Self {
        let one = || Mutex::new((0..kinds).map(|_| interval()).collect());
        self.intervals = (0..SHARDS).map(|_| one()).collect();
        self
    }

    /// No operation starts from now on.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub fn set_measuring(&self, is_measuring: bool) {
        self.is_measuring.store(is_measuring, Ordering::Relaxed);
    }

    pub fn is_measuring(&self) -> bool {
        self.is_measuring.load(Ordering::Relaxed)
    }

    /// A successful operation that is not part of a warm-up.
    pub fn note_measured(&self, client: usize, kind: usize, latency: Duration) {
        if self.intervals.is_empty() {
            return;
        }
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let interval = &self.intervals[client % self.intervals.len()];
        let mut interval = interval.lock().unwrap_or_else(PoisonError::into_inner);
        interval[kind].saturating_record(latency_ns.max(1));
    }

    /// The measured latencies of each kind since the last call.
    pub fn take_intervals(&self) -> Vec<Histogram<u64>> {
        let mut all: Vec<Histogram<u64>> = Vec::new();
        for shard in &self.intervals {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            all.resize_with(shard.len(), interval);
            for (all, one) in all.iter_mut().zip(shard.iter_mut()) {
                all.add(&*one).expect("all have the same bounds");
                one.reset();
            }
        }
        all
    }

    pub fn note(&self, client: usize, latency: Duration, outcome: Result<(), ErrorKind>) {
        if outcome.is_err() {
            let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
            if failed == self.failed_max {
                self.stop();
            }
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
    fn take_latency(&self) -> Latency {
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

/// In nanoseconds, told apart by microseconds at least.
fn interval() -> Histogram<u64> {
    let histogram = Histogram::new_with_bounds(1_000, LATENCY_US_MAX * 1_000, 3);
    histogram.expect("the bounds are valid constants")
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
    #[test]
    fn intervals_hold_each_kind_once_and_only_what_was_measured() {
        let progress = Progress::default().with_intervals(2);
        for client in 0..20 {
            progress.note(client, Duration::from_secs(1), Ok(()));
            progress.note_measured(client, client % 2, Duration::from_micros(1500));
        }
        progress.note_measured(3, 1, Duration::from_secs(86_400));
        let taken = progress.take_intervals();
        assert_eq!((taken[0].len(), taken[1].len()), (10, 11));
        assert_eq!(taken[0].max() / 1_000, 1500);
        assert!(progress.take_intervals().iter().all(Histogram::is_empty));
        let without = Progress::default();
        without.note_measured(0, 5, Duration::ZERO);
        assert!(without.take_intervals().is_empty());
    }

    #[test]
    fn a_run_stops_at_its_number_of_failures() {
        let progress = Progress::default().stop_after_failed(2);
        progress.note(0, Duration::ZERO, Err("overloaded"));
        progress.note(0, Duration::ZERO, Ok(()));
        assert!(!progress.is_stopped());
        progress.note(1, Duration::ZERO, Err("unavailable"));
        assert!(progress.is_stopped());
        let endless = Progress::default();
        endless.note(0, Duration::ZERO, Err("overloaded"));
        assert!(!endless.is_stopped());
    }
}
