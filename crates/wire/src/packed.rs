//! How many envelopes travel together.

/// Buckets of [`Packed`]: 1, 2, up to 4, up to 8, … up to 1,024, more.
pub const PACKED_BUCKETS: usize = 12;

/// Counts units (frames, or what one write or read carries without frames) by their envelopes.
#[derive(Debug, Default)]
pub struct Packed {
    units: [u32; PACKED_BUCKETS],
    envelopes: u64,
}

impl Packed {
    /// Upper bound of a bucket; the last has none.
    pub fn bound(bucket: usize) -> Option<u32> {
        (bucket + 1 < PACKED_BUCKETS).then(|| 1 << bucket)
    }

    pub(crate) fn record(&mut self, envelopes: u32) {
        if envelopes > 0 {
            let power = (u32::BITS - (envelopes - 1).leading_zeros()) as usize;
            self.units[power.min(PACKED_BUCKETS - 1)] += 1;
            self.envelopes += u64::from(envelopes);
        }
    }

    /// Returns what was counted since the last call: units by bucket, then the total of envelopes.
    pub fn drain(&mut self, mut units: impl FnMut(usize, u32)) -> u64 {
        if self.envelopes == 0 {
            return 0;
        }
        for (bucket, count) in self.units.iter_mut().enumerate() {
            if *count > 0 {
                units(bucket, std::mem::take(count));
            }
        }
        std::mem::take(&mut self.envelopes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_fall_into_the_buckets_whose_bounds_hold_them() {
        for (envelopes, bucket) in [
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (1_024, 10),
            (1_025, 11),
            (u32::MAX, 11),
        ] {
            let mut packed = Packed::default();
            packed.record(envelopes);
            let mut seen = Vec::new();
            let total = packed.drain(|bucket, units| seen.push((bucket, units)));
            assert_eq!((seen, total), (vec![(bucket, 1)], u64::from(envelopes)));
            assert!(Packed::bound(bucket).is_none_or(|b| envelopes <= b));
            assert_eq!(packed.drain(|_, _| panic!("drained twice")), 0);
        }
    }
}
