//! The pace of requests: whether they left when they were due. A request that leaves late was not offered at the
//! recorded rate, and percentiles of a load that was never offered say nothing.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::play::Sample;
use super::tally::{histogram, ms};
use super::traffic::Traffic;

/// Below this share of the recorded rate, or with requests later than this, the load was not what was wanted.
const RATE_MIN: f64 = 0.97;
const LATE_MS_MAX: f64 = 20.0;

/// When requests left for one endpoint.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Requests per second as recorded, times the speed.
    pub wanted_per_s: f64,
    pub reached_per_s: f64,
    /// How much later than due they left.
    pub late_p99_ms: f64,
    pub late_max_ms: f64,
}

impl Pace {
    /// True if the endpoint got another load than the recorded one.
    pub fn fell_behind(&self) -> bool {
        self.reached_per_s < RATE_MIN * self.wanted_per_s || self.late_p99_ms > LATE_MS_MAX
    }
}

/// Delays and rates of one endpoint.
pub(super) struct Paced {
    late_us: Histogram<u64>,
    requests: usize,
    wanted: Duration,
    reached: Duration,
}

impl Paced {
    pub(super) fn new(digits: u8) -> Paced {
        Paced {
            late_us: histogram(digits),
            requests: 0,
            wanted: Duration::ZERO,
            reached: Duration::ZERO,
        }
    }

    /// Takes what was played of a piece, at a multiple of the recorded rate.
    pub(super) fn add(&mut self, traffic: &Traffic, samples: &[Sample], speed: f64) {
        let due = |sample: &Sample| traffic.steps[sample.step].due.div_f64(speed);
        let first = samples.iter().map(due).min().unwrap_or_default();
        let (mut wanted, mut reached) = (Duration::ZERO, Duration::ZERO);
        for sample in samples {
            let Some(late) = sample.late else { continue };
            let since = due(sample) - first;
            wanted = wanted.max(since);
            reached = reached.max(since + late);
            self.late_us.saturating_record(late.as_micros() as u64);
            self.requests += 1;
        }
        self.wanted += wanted;
        self.reached += reached;
    }

    /// None in a closed loop, or if there was one request only.
    pub(super) fn pace(&self) -> Option<Pace> {
        let per_s = |time: Duration| self.requests as f64 / time.as_secs_f64();
        (!self.wanted.is_zero()).then(|| Pace {
            wanted_per_s: per_s(self.wanted),
            reached_per_s: per_s(self.reached),
            late_p99_ms: ms(&self.late_us, 0.99).unwrap_or_default(),
            late_max_ms: ms(&self.late_us, 1.0).unwrap_or_default(),
        })
    }
}
