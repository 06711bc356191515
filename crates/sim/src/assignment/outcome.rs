//! The results of a run.

/// The requests that arrived after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Sorted, in microseconds.
    times_us: Vec<u32>,
    /// The latencies of all keys but the hot one.
    others_us: Vec<u32>,
    /// Requests for the hot key, by node.
    pub hot_at: Vec<u64>,
    pub timed_out: u64,
    pub seconds: f64,
    /// Most requests that any node had at a time.
    pub queue_max: usize,
}

impl Outcome {
    /// Before anything has happened.
    pub(super) fn of_nodes(nodes: usize) -> Outcome {
        Outcome {
            hot_at: vec![0; nodes],
            ..Outcome::default()
        }
    }

    pub(super) fn note(&mut self, us: u64, is_hot: bool) {
        let us = u32::try_from(us).unwrap_or(u32::MAX);
        self.times_us.push(us);
        if !is_hot {
            self.others_us.push(us);
        }
    }

    pub(super) fn sort(&mut self) {
        self.times_us.sort_unstable();
        self.others_us.sort_unstable();
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
        quantile(&self.times_us, share)
    }

    /// A quantile of the latencies of all keys but the hot one.
    pub fn others_quantile_us(&self, share: f64) -> u32 {
        quantile(&self.others_us, share)
    }
}

fn quantile(sorted: &[u32], share: f64) -> u32 {
    let last = sorted.len().saturating_sub(1);
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(last)).copied().unwrap_or(0)
}
