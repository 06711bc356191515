//! The last hour as a proxy remembers it, for the dashboard and whoever else asks: two rows of steps, short ones of
//! the last minutes and long ones of the whole hour. A step holds differences, so any time is the sum of its steps,
//! and its p99 that of the sum of their histograms.
//!
//! Bounded in steps and in bytes ([`FINE`], [`COARSE`]); beside these it holds each counter once or twice, which is
//! 60 KiB for the proxy and 2 KiB for each node and table. Time is that of a clock that only goes forward, so the
//! past stays as it is when the wall clock is set; it goes on while the machine sleeps.

mod codec;
mod detail;
mod recorded;
mod sample;
mod series;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helenus_engine::stats::Stats;

pub(crate) use self::detail::{Standing, TableSum};
pub(crate) use self::recorded::{Resolution, Seen, Step};
pub(crate) use self::sample::{CountedClass, CountedFrames, CountedValues, Gauges};
pub(crate) use self::series::{Bounds, COARSE, FINE};
pub(crate) use self::summary::{Summary, rate};

use self::recorded::Recorded;

/// The last hour.
#[derive(Debug)]
pub(crate) struct History {
    began: Duration,
    kept: Mutex<Recorded>,
}

impl History {
    pub(crate) fn new(began: Duration) -> History {
        History {
            began,
            kept: Mutex::default(),
        }
    }

    /// Ends a step, by [`crate::system::boot_time`]. Called once a second, or later if that is not possible.
    pub(crate) fn record(&self, now: Duration, seen: &Seen<'_>) {
        let now_ms = self.ms_at(now);
        self.lock().record(now_ms, seen);
    }

    /// Milliseconds since recording began.
    pub(crate) fn ms_at(&self, now: Duration) -> u64 {
        now.saturating_sub(self.began).as_millis() as u64
    }

    /// The number of the next step.
    pub(crate) fn next(&self, resolution: Resolution) -> u64 {
        self.lock().next(resolution)
    }

    /// Results of `each` for the steps from a number on, oldest first; for all, if there has never been such a one.
    pub(crate) fn steps<T>(
        &self,
        resolution: Resolution,
        from: u64,
        each: impl FnMut(Step<'_>) -> T,
    ) -> Vec<T> {
        self.lock().steps(resolution, from, each)
    }

    /// Adds up the long steps that share some time (in milliseconds since recording began) and what has come
    /// since the last of them, if that is part of it. `points`: in how many parts nodes' requests are shown.
    pub(crate) fn summary(
        &self,
        now: Duration,
        from_ms: u64,
        to_ms: u64,
        points: usize,
        stats: &Stats,
    ) -> Summary {
        let now_ms = self.ms_at(now);
        let nodes = stats.nodes();
        self.lock()
            .summary(now_ms, from_ms, to_ms, points, stats, &nodes)
    }

    /// Bytes that steps take.
    #[cfg(test)]
    fn byte_len(&self) -> usize {
        self.lock().byte_len()
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
