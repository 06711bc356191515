//! Opens the window of a node that has joined little by little.
//!
//! Formula: with `full` the window that would be in force, and `t` of `T` microseconds gone since the node
//! joined,
//!
//! window = min(full, low + (full − low) · t ÷ T)
//!
//! Its process is cold: until its compiler has seen its code for a while it is several times slower, and
//! all that it holds waits in its own queues, where nothing can overtake it and time-outs run. Time, rather
//! than what it answers, opens the window, so that a node which is slow for good gets what it is asked for
//! in the end; its share is left to [`crate::choice`].
//!
//! Limits: requests that no other node can serve wait for it in the proxy meanwhile.
//!
//! Source: slow start as in Envoy; here for the window, not for the share.

/// A window that opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ramp {
    begin_us: u64,
    for_us: u64,
}

impl Ramp {
    /// From now on, for so long.
    pub(super) fn new(begin_us: u64, for_us: u64) -> Ramp {
        Ramp {
            begin_us,
            for_us: for_us.max(1),
        }
    }

    /// True if the window is open by now.
    pub(super) fn is_over(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.begin_us) >= self.for_us
    }

    /// The window in force, of one of `full` that begins with `low`.
    pub(super) fn window(&self, now_us: u64, low: u32, full: u32) -> u32 {
        let low = low.max(1).min(full);
        let gone_us = now_us.saturating_sub(self.begin_us).min(self.for_us);
        let more = u128::from(full - low) * u128::from(gone_us) / u128::from(self.for_us);
        low + more as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_in_proportion_to_time() {
        let ramp = Ramp::new(1_000, 100);
        let at = |now_us| ramp.window(now_us, 8, 108);
        assert_eq!(
            [at(0), at(1_000), at(1_050), at(1_100), at(9_999)],
            [8, 8, 58, 108, 108]
        );
        assert!(!ramp.is_over(1_099) && ramp.is_over(1_100));
    }

    #[test]
    fn it_is_never_closed_nor_wider_than_the_full_one() {
        let ramp = Ramp::new(0, 0);
        assert_eq!(ramp.window(0, 0, 4), 1);
        assert_eq!(Ramp::new(0, 10).window(0, 8, 4), 4);
        let long = Ramp::new(0, u64::MAX);
        assert_eq!(long.window(u64::MAX, 1, u32::MAX), u32::MAX);
    }
}
