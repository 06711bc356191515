//! Which of many like things are looked at: a share of them, spread evenly.
//!
//! Which one it is follows from a sequence without a period, steps by the golden ratio: clients that ask their
//! statements in turn do not meet the same one again and again.

/// The bound below which a value of the sequence is looked at: this share of 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share(u64);

impl Share {
    /// One of so many.
    pub(crate) const fn one_of(number: u64) -> Share {
        Share(u64::MAX / number)
    }

    /// From 0 to 1.
    pub(crate) fn of(ratio: f64) -> Share {
        // The cast ends at the bounds.
        Share((ratio * u64::MAX as f64) as u64)
    }
}

/// Decides, one after the other, what is looked at.
#[derive(Debug, Default)]
pub(crate) struct Sampler(u64);

impl Sampler {
    /// True if the next one is.
    #[inline]
    pub(crate) fn takes(&mut self, share: Share) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0 < share.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_turn_is_looked_at_in_its_proportions() {
        for period in [1_u64, 2, 3, 4, 8, 16, 20, 32, 55, 64, 100] {
            let mut sampler = Sampler::default();
            let mut taken = vec![0_u64; period as usize];
            let rounds = 3_200;
            for n in 0..rounds * period {
                taken[(n % period) as usize] += u64::from(sampler.takes(Share::one_of(16)));
            }
            let expected = rounds / 16;
            for count in taken {
                assert!(
                    count.abs_diff(expected) <= expected / 10,
                    "period {period}: {count} of {expected}"
                );
            }
        }
    }

    #[test]
    fn none_and_all_are_none_and_all() {
        for (ratio, expected) in [(0.0, 0), (1.0, 10_000), (0.25, 2_500)] {
            let mut sampler = Sampler::default();
            let share = Share::of(ratio);
            let taken = (0..10_000).filter(|_| sampler.takes(share)).count() as u64;
            assert!(taken.abs_diff(expected) <= 2, "{ratio}: {taken}");
        }
    }
}
