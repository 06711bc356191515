//! Decides whether an agent sends more than it can have to say: a token bucket.
//!
//! Formula: what may come = [`AT_ONCE_MAX`] reports, refilled by [`PER_SECOND_MAX`] a second. All reports have
//! the same length, so this bounds bytes as well: 6 KB a second for each node.
//!
//! An agent sends at most 20 reports a second (`helenus.agent.report_interval_ms` is 50 or more), and those
//! that a network or this process has held up come all at once: those of ten seconds may.

use std::time::Instant;

pub(super) const PER_SECOND_MAX: f64 = 40.0;
pub(super) const AT_ONCE_MAX: f64 = 200.0;

/// Number of reports that one connection may still send, as of a time.
pub(super) struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Allowance {
        Allowance {
            left: AT_ONCE_MAX,
            at: now,
        }
    }

    /// True if one more report may come now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.left = (self.left + passed * PER_SECOND_MAX).min(AT_ONCE_MAX);
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fastest_agent_and_what_was_held_up_for_ten_seconds_may_come() {
        let began = Instant::now();
        let mut allowance = Allowance::new(began);
        let mut now = began;
        for _ in 0..100_000 {
            now += Duration::from_millis(50);
            assert!(allowance.take(now));
        }
        now += Duration::from_secs(10);
        for report in 0..200 {
            assert!(allowance.take(now), "report {report}");
        }
    }

    #[test]
    fn a_flood_ends_soon_and_silence_is_not_saved_up() {
        let began = Instant::now();
        let mut allowance = Allowance::new(began);
        let later = began + Duration::from_secs(3600);
        let taken = (0..10_000).filter(|_| allowance.take(later)).count();
        assert_eq!(taken, 200);
        // 100 a second, for a minute: 40 of them.
        let mut taken = 0;
        for n in 1..=6_000 {
            taken += u32::from(allowance.take(later + Duration::from_millis(10 * n)));
        }
        assert!((2_390..=2_400).contains(&taken), "{taken}");
    }
}
