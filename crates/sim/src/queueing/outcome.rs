//! The results of a run.

use crate::times::Times;

/// The requests that count.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub times: Times,
    /// Of all keys but the hot one.
    pub others: Times,
    /// Requests for the hot key, by the node that a proxy has asked.
    pub hot_at: Vec<u64>,
    pub timed_out: u64,
    pub seconds: f64,
    /// Most requests that any node had at a time.
    pub present_max: usize,
    /// Node requests of the busiest node over the mean of all.
    pub busiest_vs_mean: f64,
    /// How even what a node gets is over time: variance over mean of the requests in short windows, the
    /// mean of all nodes. 1 as if at random; above, proxies crowd onto the same nodes at the same time;
    /// below, they avoid each other.
    pub herding: f64,
}

impl Outcome {
    /// Requests answered per second.
    pub fn throughput(&self) -> f64 {
        self.times.count() as f64 / self.seconds.max(1e-9)
    }

    /// Of those that have ended, from 0 to 1.
    pub fn timed_out_share(&self) -> f64 {
        let all = self.times.count() as u64 + self.timed_out;
        self.timed_out as f64 / all.max(1) as f64
    }
}

/// Sums over the windows of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windows {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Windows {
    pub(super) fn add(&mut self, came: u64) {
        let came = came as f64;
        self.count += 1.0;
        self.sum += came;
        self.squares += came * came;
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }

    /// Variance over mean; None if nothing came.
    pub(super) fn dispersion(&self) -> Option<f64> {
        let mean = self.sum / self.count;
        let variance = (self.squares - self.sum * mean) / (self.count - 1.0);
        (self.count > 1.0 && mean > 0.0).then(|| variance / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_vary_more_are_more_dispersed() {
        let of = |counts: &[u64]| {
            let mut windows = Windows::default();
            counts.iter().for_each(|&came| windows.add(came));
            windows.dispersion()
        };
        assert_eq!(of(&[4, 4, 4, 4]), Some(0.0));
        assert_eq!(of(&[0, 8, 0, 8]), Some(64.0 / 12.0));
        assert_eq!(of(&[0, 0]), None);
        assert_eq!(of(&[]), None);
    }
}
