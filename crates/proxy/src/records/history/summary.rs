//! The sum of several steps.

use helenus_engine::stats::bucket_bound_us;

use super::codec;
use super::detail::DetailSum;
use super::sample::{Counted, CountedValues};
use super::series::{COARSE, Kept};

/// Sums of some time.
#[derive(Debug)]
pub(crate) struct Summary {
    asked_ms: (u64, u64),
    covered_ms: Option<(u64, u64)>,
    /// How long its steps have lasted together.
    pub lasted_ms: u64,
    counted: Vec<u64>,
    /// By node, table and layout.
    pub detail: DetailSum,
    /// How long the steps of each part have lasted.
    pub parts_ms: Vec<u64>,
}

impl Summary {
    /// Of nothing yet. `points`: in how many parts nodes' requests are shown.
    pub(super) fn of(from_ms: u64, to_ms: u64, points: usize, numbers: usize) -> Summary {
        // A part in which no step ends would look like a pause.
        let steps = to_ms.saturating_sub(from_ms) / COARSE.step_ms;
        let parts = points.min(steps as usize).max(1);
        Summary {
            asked_ms: (from_ms, to_ms),
            covered_ms: None,
            lasted_ms: 0,
            counted: vec![0; numbers],
            detail: DetailSum::default(),
            parts_ms: vec![0; parts],
        }
    }

    pub(super) fn add(&mut self, step: &Kept) {
        let (from_ms, to_ms) = self.asked_ms;
        let parts = self.parts_ms.len();
        let since_ms = step.end_ms.saturating_sub(from_ms + 1);
        let part = since_ms * parts as u64 / to_ms.saturating_sub(from_ms).max(1);
        let part = (part as usize).min(parts - 1);
        self.parts_ms[part] += step.lasted_ms;
        self.lasted_ms += step.lasted_ms;
        let begin_ms = step.end_ms.saturating_sub(step.lasted_ms);
        let (first_ms, last_ms) = self.covered_ms.unwrap_or((begin_ms, step.end_ms));
        self.covered_ms = Some((first_ms.min(begin_ms), last_ms.max(step.end_ms)));
        codec::add(&step.counted, &mut self.counted);
        self.detail.add(&step.detail, part, parts);
    }

    /// From when to when, in milliseconds since recording began.
    pub(crate) fn covered_ms(&self) -> (u64, u64) {
        self.covered_ms.unwrap_or(self.asked_ms)
    }

    pub(crate) fn counted(&self) -> Counted<'_> {
        Counted(&self.counted)
    }

    /// How often that is in a second.
    pub(crate) fn per_s(&self, count: u64) -> f64 {
        rate(count, self.lasted_ms)
    }
}

/// Per second; 0 in no time.
pub(crate) fn rate(count: u64, lasted_ms: u64) -> f64 {
    match lasted_ms {
        0 => 0.0,
        ms => count as f64 * 1e3 / ms as f64,
    }
}

impl CountedValues<'_> {
    pub(crate) fn count(self) -> u64 {
        self.buckets().iter().sum()
    }

    /// None if there are no values.
    pub(crate) fn mean_us(self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_us() as f64 / count as f64)
    }

    /// Values are taken to be spread evenly within their bucket. None if there are no values.
    pub(crate) fn quantile_us(self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let mut wanted = share * count as f64;
        for (at, n) in self.buckets().iter().enumerate() {
            let n = *n as f64;
            if n > 0.0 && wanted <= n {
                let low = at.checked_sub(1).map_or(0, bucket_bound_us) as f64;
                let high = bucket_bound_us(at) as f64;
                return Some(low + (high - low) * wanted / n);
            }
            wanted -= n;
        }
        let last = self.buckets().iter().rposition(|n| *n > 0)?;
        Some(bucket_bound_us(last) as f64)
    }
}
