//! Counters of a run that someone may watch while it goes on.

use crate::measure::{ErrorKind, LATENCY_US_MAX, Latency};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Progress {
    pub done: AtomicU64,
    pub failed: AtomicU64,
    /// Latencies since someone last looked; empty if nobody wants them.
    recent: Vec<Mutex<Histogram<u64>>>,
}

/// What happened since someone last looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lately {
    /// Of the whole run, in seconds since it began.
    pub at_seconds: f64,
    pub ops_per_second: f64,
    pub errors_per_second: f64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
}

impl Progress {
    /// Remembers latencies too.
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
pub struct Watch {
    done: u64,
    failed: u64,
}

impl Watch {
    /// `passed`: since the last call.
    pub fn look(&mut self, progress: &Progress, at: Duration, passed: Duration) -> Lately {
        let done = progress.done.load(Ordering::Relaxed);
        let failed = progress.failed.load(Ordering::Relaxed);
        let seconds = passed.as_secs_f64().max(1e-9);
        let latency = progress.take_latency();
        let lately = Lately {
            at_seconds: at.as_secs_f64(),
            ops_per_second: (done - self.done) as f64 / seconds,
            errors_per_second: (failed - self.failed) as f64 / seconds,
            latency_us_p50: latency.us_p50,
            latency_us_p99: latency.us_p99,
        };
        (self.done, self.failed) = (done, failed);
        lately
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_tells_of_the_time_since_the_last() {
        let progress = Progress::with_latencies();
        let mut watch = Watch::default();
        for client in 0..100 {
            progress.note(client, Duration::from_micros(100), Ok(()));
        }
        progress.note(0, Duration::from_secs(9), Err("overloaded"));
        let (first, second) = (Duration::from_secs(2), Duration::from_secs(3));
        let lately = watch.look(&progress, first, first);
        assert_eq!(
            (lately.ops_per_second, lately.errors_per_second),
            (50.0, 0.5)
        );
        assert_eq!((lately.latency_us_p50, lately.latency_us_p99), (100, 100));
        progress.note(3, Duration::from_micros(200), Ok(()));
        let lately = watch.look(&progress, second, second - first);
        assert_eq!(
            (lately.ops_per_second, lately.errors_per_second),
            (1.0, 0.0)
        );
        // Two significant digits.
        assert!((199..=201).contains(&lately.latency_us_p99), "{lately:?}");
        let silent = watch.look(&progress, second, Duration::ZERO);
        assert_eq!((silent.ops_per_second, silent.latency_us_p99), (0.0, 0));
    }
}
