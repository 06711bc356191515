//! What a run has shown.

/// The requests that arrived after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Sorted, in microseconds.
    times_us: Vec<u32>,
    pub timed_out: u64,
    pub seconds: f64,
    /// Most requests that any node had at a time.
    pub queue_max: usize,
}

impl Outcome {
    pub(super) fn note(&mut self, us: u64) {
        self.times_us.push(u32::try_from(us).unwrap_or(u32::MAX));
    }

    pub(super) fn sort(&mut self) {
        self.times_us.sort_unstable();
    }

    /// Requests answered per second.
    pub fn throughput(&self) -> f64 {
        self.times_us.len() as f64 / self.seconds.max(1e-9)
    }

    pub fn mean_us(&self) -> f64 {
        let sum: u64 = self.times_us.iter().map(|us| u64::from(*us)).sum();
        sum as f64 / self.times_us.len().max(1) as f64
    }

    /// `share`: 0.99 for the 99th percentile.
    pub fn quantile_us(&self, share: f64) -> u32 {
        let last = self.times_us.len().saturating_sub(1);
        let at = (share * self.times_us.len() as f64) as usize;
        self.times_us.get(at.min(last)).copied().unwrap_or(0)
    }
}
