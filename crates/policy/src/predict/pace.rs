//! Decides how long a stretch of the ring to read next, in a scan whose rows say nothing of its work
//! because it filters them.
//!
//! Formula: the time of a stretch of n tokens is base + slope · n, fitted to the statement's stretches so
//! far (exponentially weighted least squares; one that took longer than that is weighted with
//! [`super::SLOW_SHARE`]). The next one has (target − base) ÷ slope tokens, but at least so many that
//! they take as long as the base, which is what each costs beside them, up to [`BASE_MAX`] times the
//! target; and at least as many as the last one in proportion, so that one that was late does not keep
//! the others short. From one to the next it at most doubles, or grows [`GROWTH_MAX`] times while
//! stretches take less than an eighth of the target, and shrinks to no less than 1 ÷ [`SHRINK_MAX`].
//! Without a fit the first one is 1 ÷ [`FIRST_SHARE`] of the ring. One in [`PROBES`] is twice as long as
//! the one before it at least: stretches of one length would not show that shorter ones are no use.
//!
//! Evidence: the tests below. A table that takes a minute is read in stretches near the target from the
//! sixth on; one that takes 5 ms costs six requests the first time, and later one. Where every
//! request takes 20 ms, whatever its length, stretches grow instead of shrinking without end.
//!
//! Limits: a table whose rows are far from evenly spread is fitted by its mean; what a node makes wait
//! counts as base.
//!
//! Source: as [`super`].

use super::SLOW_SHARE;

/// The first stretch of what nothing is known of: the ring divided by this.
const FIRST_SHARE: u64 = 1_024;
const GROWTH_MAX: f64 = 16.0;
const SHRINK_MAX: f64 = 4.0;
const BASE_MAX: f64 = 4.0;
/// Number of stretches after which an old one is mostly forgotten.
const MEMORY: f64 = 32.0;
const PROBES: u32 = 8;
/// The first stretches all have full weight.
const LEARNING: u32 = 8;

/// Tokens of the whole ring.
pub const RING: u64 = u64::MAX;

fn share_of(tokens: u64) -> f64 {
    tokens.max(1) as f64 / RING as f64
}

/// How long reading over the ring takes. The caller keeps one per statement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    weight: f64,
    us: f64,
    /// Of the ring.
    share: f64,
    variance: f64,
    covariance: f64,
    samples: u32,
}

impl Pace {
    /// A stretch of `tokens` tokens took `us` from sending the query.
    pub fn note(&mut self, tokens: u64, us: u32) {
        let (x, y) = (share_of(tokens), f64::from(us));
        let is_slow = self.samples >= LEARNING && y > self.predict_us(x);
        let weight = if is_slow { f64::from(SLOW_SHARE) } else { 1.0 };
        self.weight = (self.weight + weight).min(MEMORY);
        let gain = weight / self.weight;
        let (dx, dy) = (x - self.share, y - self.us);
        self.share += gain * dx;
        self.us += gain * dy;
        let keep = 1.0 - gain;
        self.variance = keep * (self.variance + gain * dx * dx);
        self.covariance = keep * (self.covariance + gain * dx * dy);
        self.samples = self.samples.saturating_add(1);
    }

    /// The predicted time to read so many tokens, in microseconds; `None` before the first stretch.
    pub fn us_of(&self, tokens: u64) -> Option<u32> {
        (self.samples > 0).then(|| self.predict_us(share_of(tokens)) as u32)
    }

    /// The length of a stretch that takes about so long; at least 1.
    pub fn tokens_in(&self, us: u32) -> u64 {
        if self.samples == 0 {
            return RING / FIRST_SHARE;
        }
        let (base, slope) = self.line();
        let target = f64::from(us);
        let read_us = (target - base).max(base.min(BASE_MAX * target));
        ((read_us / slope * RING as f64) as u64).max(1)
    }

    /// The length of the stretch behind one of `tokens` tokens that took `took_us`; at least 1.
    pub fn next(&self, tokens: u64, took_us: u32, target_us: u32) -> u64 {
        let growth = match took_us < target_us / 8 {
            true => GROWTH_MAX,
            false => 2.0,
        };
        let tokens = tokens.max(1) as f64;
        // Whatever the fit says: less than this would take less than the target.
        let least = tokens * f64::from(target_us) / f64::from(took_us.max(1));
        let next = least.max(self.tokens_in(target_us) as f64);
        if self.samples.is_multiple_of(PROBES) {
            return (next.max(tokens * 2.0).min(tokens * growth)) as u64;
        }
        next.clamp(tokens / SHRINK_MAX, tokens * growth).max(1.0) as u64
    }

    /// The cost of a stretch beside its tokens, and of the whole ring, in microseconds.
    fn line(&self) -> (f64, f64) {
        let enough = 0.1 * self.share;
        let varies = self.samples >= 3 && self.variance >= enough * enough;
        let slope = match varies {
            true => self.covariance / self.variance,
            // Stretches of one length do not tell what one without tokens would cost.
            false => self.us / self.share,
        };
        let slope = slope.clamp(1.0, (self.us / self.share).max(1.0));
        ((self.us - slope * self.share).max(0.0), slope)
    }

    fn predict_us(&self, share: f64) -> f64 {
        let (base, slope) = self.line();
        (base + slope * share).max(1.0)
    }
}

/// The time of the slowest of several statements over the ring: rises at once, falls slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlowestPace {
    ring_us: f64,
}

impl SlowestPace {
    /// A scan over so many tokens took so long in all.
    pub fn note(&mut self, tokens: u64, us: u32) {
        let seen = f64::from(us) / share_of(tokens);
        self.ring_us = seen.max(self.ring_us * (1.0 - 1.0 / MEMORY)).max(1.0);
    }

    /// See [`Pace::us_of`].
    pub fn us_of(&self, tokens: u64) -> Option<u32> {
        (self.ring_us > 0.0).then(|| (self.ring_us * share_of(tokens)) as u32)
    }

    /// See [`Pace::tokens_in`].
    pub fn tokens_in(&self, us: u32) -> u64 {
        match self.ring_us > 0.0 {
            true => ((f64::from(us) / self.ring_us * RING as f64) as u64).max(1),
            false => RING / FIRST_SHARE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::for_seeds;

    const TARGET_US: u32 = 10_000;

    /// The times of the stretches of a ring that takes this long to read, and each request this much
    /// besides.
    fn read(pace: &mut Pace, ring_us: f64, base_us: f64) -> Vec<u32> {
        let mut times = Vec::new();
        let mut left = RING;
        let mut next = pace.tokens_in(TARGET_US);
        while left > 0 {
            let tokens = next.min(left);
            left -= tokens;
            let us = (base_us + ring_us * share_of(tokens)) as u32;
            pace.note(tokens, us);
            times.push(us);
            next = pace.next(tokens, us, TARGET_US);
        }
        times
    }

    #[test]
    fn stretches_of_a_large_table_take_about_the_target() {
        let mut pace = Pace::default();
        let first = read(&mut pace, 60e6, 500.0);
        let late = first.iter().skip(5).filter(|us| **us > 2 * TARGET_US);
        assert_eq!(late.count(), 0, "{:?}", &first[..9]);
        assert!(first.len() < 7_000, "{}", first.len());
        assert!(first[0] < 70_000, "{}", first[0]);
        let again = read(&mut pace, 60e6, 500.0);
        assert!(again[0] < 2 * TARGET_US, "{}", again[0]);
    }

    #[test]
    fn a_small_table_costs_few_requests_once() {
        let mut pace = Pace::default();
        assert_eq!(pace.us_of(RING), None);
        let first = read(&mut pace, 5_000.0, 500.0);
        assert!(first.len() <= 6, "{first:?}");
        let whole = pace.us_of(RING).expect("known");
        assert!((4_000..7_000).contains(&whole), "{whole}");
    }

    /// Shrinking would not help: a remote node, or one that makes everything wait.
    #[test]
    fn what_takes_long_whatever_its_length_is_not_read_in_ever_smaller_stretches() {
        for base_us in [20_000.0, 200_000.0] {
            let mut pace = Pace::default();
            let first = read(&mut pace, 5_000.0, base_us);
            assert!(first.len() <= 16, "{} of {base_us}", first.len());
            // Most of a large table's time is reading.
            let mut pace = Pace::default();
            let large = read(&mut pace, 10e6, base_us);
            let most = 10e6 / f64::from(TARGET_US) + 40.0;
            assert!((large.len() as f64) < most, "{} of {base_us}", large.len());
        }
    }

    #[test]
    fn late_answers_do_not_lead_to_ever_smaller_stretches() {
        for_seeds(20, |seed, rng| {
            let mut pace = Pace::default();
            for _ in 0..10 {
                let (mut left, mut count) = (RING, 0);
                let mut next = pace.tokens_in(1_000);
                while left > 0 {
                    let tokens = next.min(left).max(RING / 4_096).min(left);
                    left -= tokens;
                    let stands_still = rng.below(30) == 0;
                    let late = if stands_still {
                        300_000
                    } else {
                        rng.below(1_500)
                    };
                    let us = 1_200 + late as u32 + (1_000.0 * share_of(tokens)) as u32;
                    pace.note(tokens, us);
                    next = pace.next(tokens, us, 1_000);
                    count += 1;
                }
                assert!(count < 400, "seed {seed}: {count}");
            }
        });
    }

    #[test]
    fn a_node_that_has_stood_still_once_costs_few_requests() {
        let mut pace = Pace::default();
        for _ in 0..20 {
            read(&mut pace, 1_000.0, 1_500.0);
        }
        pace.note(RING, 500_000);
        let after = read(&mut pace, 1_000.0, 1_500.0);
        assert!(after.len() <= 6, "{after:?}");
    }

    #[test]
    fn waiting_hardly_raises_the_pace() {
        let mut pace = Pace::default();
        let tokens = RING / 100;
        for turn in 0..400 {
            pace.note(tokens, if turn % 2 == 0 { 1_000 } else { 3_000 });
        }
        let us = pace.us_of(tokens).expect("known");
        assert!((1_000..1_700).contains(&us), "{us}");
        for _ in 0..400 {
            pace.note(tokens, 3_000);
        }
        let us = pace.us_of(tokens).expect("known");
        assert!((2_500..3_100).contains(&us), "a table has grown: {us}");
    }

    #[test]
    fn the_slowest_of_several_statements_is_remembered_for_a_while() {
        let mut pace = SlowestPace::default();
        assert_eq!(pace.us_of(RING), None);
        pace.note(RING / 4, 1_000_000);
        let slow = pace.us_of(RING).expect("known");
        assert!(slow.abs_diff(4_000_000) < 1_000, "{slow}");
        pace.note(RING, 1_000);
        assert!(pace.us_of(RING) > Some(3_500_000));
        for _ in 0..1_000 {
            pace.note(RING, 1_000);
        }
        assert_eq!(pace.us_of(RING), Some(1_000));
    }

    #[test]
    fn a_stretch_has_a_token_whatever_it_takes() {
        let mut pace = Pace::default();
        pace.note(0, u32::MAX);
        assert_eq!(pace.tokens_in(1), 1);
        assert_eq!(pace.us_of(RING), Some(u32::MAX));
        assert_eq!(pace.next(1, u32::MAX, 1), 1);
        let mut pace = Pace::default();
        pace.note(RING, 0);
        assert_eq!(pace.next(RING, 0, u32::MAX), RING);
    }
}
