//! Predicts how many rows have given values in a set of columns, from a sample of all rows.
//!
//! A value that is frequent in the sample is as frequent in the table: k · N ÷ n. For rare ones that
//! is wrong: of a column without duplicates, each value that was drawn was drawn once, and would be
//! taken for N ÷ n rows. There the Good-Turing estimator says how often such values are on average:
//! (k + 1) · F(k+1) ÷ F(k), where F(k) values were drawn k times.
//!
//! Source: Good, "The population frequencies of species and the estimation of population parameters"
//! (1953), with Katz's limit of 5 (1987); Chao, "Nonparametric estimation of the number of classes in
//! a population" (1984).

use crate::statistics::hyper_log_log::HyperLogLog;
use crate::statistics::space_saving::SpaceSaving;

/// Values drawn more often than this are as frequent as they seem.
const RARE_MAX: usize = 5;
/// Fewer values than this of one frequency say nothing about the next.
const KINDS_MIN: f64 = 10.0;
/// A counter of [`SpaceSaving`] counts if it may be wrong by this share at most.
const ERROR_SHARE_MAX: f64 = 0.1;

/// Sketches of all rows, besides the sample.
#[derive(Clone, Debug)]
pub(crate) struct Sketches {
    pub distinct: HyperLogLog,
    pub frequent: SpaceSaving,
}

/// The frequencies of the values of some columns.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    /// Keys of the sample and how often each comes, sorted by key.
    counts: Vec<(u64, u32)>,
    /// How many keys come k times, at place k.
    kinds: [f64; RARE_MAX + 2],
    sampled: f64,
    total: f64,
    distinct: f64,
    /// Rows that were looked at, and what was seen, if more than the sample.
    looked_at: f64,
    frequent: Option<SpaceSaving>,
}

impl Prefix {
    /// From the keys of a sample's rows. The table has `total` rows, and sketches are of `looked_at`
    /// of them.
    pub(crate) fn new(
        mut keys: Vec<u64>,
        total: f64,
        looked_at: f64,
        sketches: Option<Sketches>,
    ) -> Self {
        let sampled = keys.len() as f64;
        keys.sort_unstable();
        let runs = keys.chunk_by(|a, b| a == b);
        let counts: Vec<(u64, u32)> = runs.map(|run| (run[0], run.len() as u32)).collect();
        let mut kinds = [0.0; RARE_MAX + 2];
        for (_, count) in &counts {
            if let Some(kind) = kinds.get_mut(*count as usize) {
                *kind += 1.0;
            }
        }
        let mut distinct = counts.len() as f64;
        if sampled < total {
            let unseen = match kinds[2] {
                0.0 => kinds[1] * (kinds[1] - 1.0) / 2.0,
                twice => kinds[1] * kinds[1] / (2.0 * twice),
            };
            let by_sketch = sketches.as_ref().map(|s| s.distinct.estimate());
            distinct = match by_sketch {
                Some(all) if looked_at >= total => all.max(distinct),
                Some(some) => (distinct + unseen).max(some),
                None => distinct + unseen,
            };
        }
        Prefix {
            counts,
            kinds,
            sampled,
            total,
            distinct: distinct.min(total),
            looked_at,
            frequent: sketches.map(|s| s.frequent),
        }
    }

    /// Distinct values in the table.
    pub(crate) fn distinct(&self) -> f64 {
        self.distinct
    }

    /// Rows of the table with this key.
    pub(crate) fn rows_of(&self, key: u64) -> f64 {
        if self.sampled == 0.0 {
            return self.total;
        }
        if let Some(count) = self.frequent_count(key) {
            return count;
        }
        let seen = self.counts.binary_search_by_key(&key, |(k, _)| *k);
        let count = seen.map_or(0, |at| self.counts[at].1 as usize);
        let scale = self.total / self.sampled;
        if scale <= 1.0 {
            return count as f64;
        }
        let (kinds, more) = (self.kinds.get(count), self.kinds.get(count + 1));
        match (count, kinds, more) {
            (0, ..) => {
                let unseen = (self.distinct - self.counts.len() as f64).max(1.0);
                let mass = self.total * self.kinds[1] / self.sampled;
                (mass / unseen).min(RARE_MAX as f64 * scale)
            }
            (1..=RARE_MAX, Some(kinds), Some(more)) if *kinds >= KINDS_MIN => {
                let typical = (count + 1) as f64 * more / kinds;
                (typical * scale).max(count as f64)
            }
            _ => count as f64 * scale,
        }
    }

    fn frequent_count(&self, key: u64) -> Option<f64> {
        let (least, most) = self.frequent.as_ref()?.count(key)?;
        let exact = (most - least) as f64 <= ERROR_SHARE_MAX * most as f64;
        let middle = (most + least) as f64 / 2.0;
        exact.then(|| middle * self.total / self.looked_at.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, mix};

    #[test]
    fn a_unique_value_is_not_scaled_and_a_frequent_one_is() {
        let unique = Prefix::new((0..1_000).map(mix).collect(), 1e6, 1e3, None);
        assert_eq!(unique.rows_of(mix(5)), 1.0);
        // All that is known is that there are many.
        assert_eq!(unique.distinct(), 500_500.0);
        let ten = Prefix::new((0..1_000).map(|n| mix(n % 10)).collect(), 1e6, 1e3, None);
        assert_eq!(ten.rows_of(mix(5)), 1e5);
        assert_eq!(ten.distinct(), 10.0);
        assert_eq!(ten.rows_of(mix(77)), 0.0);
    }

    #[test]
    fn rare_values_are_predicted_within_a_third() {
        let seed = 11;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        // 100,000 values of 20 rows each; one row in 20 is in the sample.
        let keys = (0..100_000)
            .map(|_| mix(rng.below(100_000) as u64))
            .collect();
        let prefix = Prefix::new(keys, 2e6, 1e5, None);
        for count in 1..=3 {
            let known = prefix.counts.iter().find(|(_, c)| *c == count);
            let rows = prefix.rows_of(known.expect("there are some").0);
            assert!((13.0..27.0).contains(&rows), "drawn {count} times: {rows}");
        }
        assert!((90_000.0..110_000.0).contains(&prefix.distinct()));
        let unseen = prefix.rows_of(1);
        assert!((13.0..27.0).contains(&unseen), "{unseen}");
    }

    #[test]
    fn a_complete_sample_is_exact() {
        let prefix = Prefix::new(vec![1, 2, 2, 3, 3, 3], 6.0, 6.0, None);
        assert_eq!(
            (0..4).map(|k| prefix.rows_of(k)).collect::<Vec<_>>(),
            [0.0, 1.0, 2.0, 3.0]
        );
        assert_eq!(prefix.distinct(), 3.0);
    }
}
