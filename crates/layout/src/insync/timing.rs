//! How long what is relied on, and how long everybody else waits for that to end.

/// All proxies of a cluster must agree on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For how long a proxy relies on what it has read of the catalogue, by its own clock, from when it
    /// sent the read.
    pub lease_us: u64,
    /// By how much a clock may be fast or slow, in millionths of real time; less than a million.
    pub drift_ppm: u64,
    /// When the lease of a proxy has run out, how long what it has sent may still take to be applied: in a
    /// socket, in a node's queue, as a hint.
    pub late_us: u64,
    /// For how long a write waits for a member before the member is evicted.
    pub patience_us: u64,
}

impl Timing {
    /// Easy to count with.
    #[cfg(test)]
    pub(super) const TESTED: Timing = Timing {
        lease_us: 1_000,
        drift_ppm: 0,
        late_us: 0,
        patience_us: 100,
    };

    /// After this time by any clock, a lease that was taken before has run out by every clock: the slowest
    /// clock makes a lease last `lease / (1 - drift)`, the fastest shortens a wait to `wait / (1 + drift)`.
    pub fn outlast_us(&self) -> u64 {
        let slow = 1_000_000u64.saturating_sub(self.drift_ppm).max(1);
        let wait = u128::from(self.lease_us) * u128::from(1_000_000 + self.drift_ppm);
        saturated(wait.div_ceil(u128::from(slow)))
    }

    /// The same for [`Timing::late_us`], which is real time.
    pub fn late_outlast_us(&self) -> u64 {
        let wait = u128::from(self.late_us) * u128::from(1_000_000 + self.drift_ppm);
        saturated(wait.div_ceil(1_000_000))
    }
}

fn saturated(us: u128) -> u64 {
    u64::try_from(us).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_clock_outlasts_a_lease_by_the_slowest() {
        for drift_ppm in [0, 1, 500, 20_000, 900_000, 999_999] {
            let timing = Timing {
                lease_us: 1_000_000,
                drift_ppm,
                late_us: 0,
                patience_us: 0,
            };
            let drift = drift_ppm as f64 / 1e6;
            let lease_s = 1.0 / (1.0 - drift);
            let wait_s = timing.outlast_us() as f64 / 1e6 / (1.0 + drift);
            assert!(
                wait_s >= lease_s * (1.0 - 1e-6),
                "{drift_ppm}: {wait_s} {lease_s}"
            );
            assert!(
                wait_s <= lease_s * (1.0 + 1e-6) + 1e-6,
                "{drift_ppm}: {wait_s} {lease_s}"
            );
        }
    }
}
