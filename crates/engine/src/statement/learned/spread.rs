//! How the rows that a statement reads lie on the ring: how many to each token, and how far from even.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Assumed while partitions have been seen, but no stretch of the ring has been compared with what was
/// expected of it; in thousandths of the root of the rows.
const ERROR_AT_FIRST: u32 = 3_000;
/// Older rows than the last so many are forgotten: tables grow.
const ROWS_REMEMBERED: u32 = 50_000;
/// Hashed keys lie at random, so the number of rows of a stretch, n on average and in partitions of w
/// rows, has a standard deviation of √(n · w). This many of them are allowed for.
const DEVIATIONS: f64 = 1.5;
/// One page in this many is examined for the partitions that its rows are in.
const PARTITIONS_LOOKED_AT: u64 = 16;
/// Partitions are wide for a page that has room for fewer of them than this.
const WIDE: usize = 16;

/// Learned from the pages of scans.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// Rows for each token of the ring that scans went over, as the bits of an f64; 0: not known.
    density: AtomicU64,
    /// How many rows that comes from.
    rows_seen: AtomicU32,
    /// How far the rows of a stretch were from what was expected, in thousandths of its root: keys are
    /// spread by their hashes, so that larger stretches are known better. 0: not known.
    error: AtomicU32,
    /// Rows of the partition that a row is in, on average; 0: not known.
    partition_rows: AtomicU32,
}

impl Spread {
    /// Notes that a scan found so many rows on a stretch of so many tokens.
    pub(crate) fn note_density(&self, rows: usize, tokens: u64) {
        let seen = (rows as f64).max(0.5) / tokens.max(1) as f64;
        let before = self.rows_seen.load(Ordering::Relaxed);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
        let (density, rows_seen) = match self.rows_per_token() {
            // Every row says as much as any other, while they tell of the same.
            Some(known) if seen < known * 2.0 && known < seen * 2.0 => {
                let all = f64::from(rows) + f64::from(before);
                let density = known + (seen - known) * f64::from(rows) / all;
                (density, before.saturating_add(rows).min(ROWS_REMEMBERED))
            }
            Some(known) => ((known + seen) / 2.0, before / 2),
            None => (seen, rows.min(ROWS_REMEMBERED)),
        };
        self.density.store(density.to_bits(), Ordering::Relaxed);
        self.rows_seen.store(rows_seen, Ordering::Relaxed);
    }

    /// Forgets how many rows lie where, until a scan tells again.
    pub(crate) fn forget_density(&self) {
        self.density.store(0, Ordering::Relaxed);
        self.rows_seen.store(0, Ordering::Relaxed);
    }

    /// Notes that a stretch had `rows` rows where `expected` had been expected.
    pub(crate) fn note_expected(&self, rows: usize, expected: f64) {
        let rows = rows as f64;
        // More than 100 % off says no more than that: the expectation was far too low.
        let most = rows.max(expected).max(1.0).sqrt();
        let off = ((rows - expected).abs() / expected.max(1.0).sqrt()).min(most);
        let off = (off * 1_000.0) as u32;
        let known = self.error.load(Ordering::Relaxed);
        // Wide at once, narrow slowly.
        let error = off.max(known - known.div_ceil(8)).max(1);
        self.error.store(error, Ordering::Relaxed);
    }

    /// True if a page of `rows` rows is worth examining for its partitions: they are not known yet, or were wide
    /// lately, or it is this page's turn.
    pub(crate) fn wants_partitions(&self, rows: usize, random: u64) -> bool {
        let known = self.partition_rows.load(Ordering::Relaxed) as usize;
        known == 0
            || known.saturating_mul(WIDE) > rows
            || random.is_multiple_of(PARTITIONS_LOOKED_AT)
    }

    /// Notes how many rows the partition of a row has, on average over the rows.
    pub(crate) fn note_partition_rows(&self, rows: f64) {
        let seen = (rows.ceil() as u32).max(1);
        let known = self.partition_rows.load(Ordering::Relaxed);
        // Wide at once, narrow slowly.
        let rows = seen.max(known / 2);
        self.partition_rows.store(rows, Ordering::Relaxed);
    }

    /// Notes that a page whose rows do not show their partitions went on from one into another. So wide
    /// partitions are forgotten in time.
    pub(crate) fn note_partition_passed(&self) {
        let known = self.partition_rows.load(Ordering::Relaxed);
        if known > 1 {
            self.partition_rows.store(known / 2, Ordering::Relaxed);
        }
    }

    /// Rows for each token of the ring, if a scan has been seen.
    pub(crate) fn rows_per_token(&self) -> Option<f64> {
        let density = f64::from_bits(self.density.load(Ordering::Relaxed));
        (density > 0.0).then_some(density)
    }

    /// How far a stretch of `rows` expected rows may be off, as a share of them. `None` until there is
    /// evidence.
    pub(crate) fn error_of(&self, rows: usize) -> Option<f64> {
        let error = self.error.load(Ordering::Relaxed);
        let partition = self.partition_rows.load(Ordering::Relaxed);
        let error = match (error, partition) {
            (0, 0) => return None,
            (0, _) => ERROR_AT_FIRST,
            (error, _) => error,
        };
        let error = f64::from(error) / 1_000.0;
        let spread = DEVIATIONS * f64::from(partition).sqrt();
        Some(error.max(spread) / (rows.max(1) as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn density_follows_what_scans_find() {
        let spread = Spread::default();
        assert_eq!(spread.rows_per_token(), None);
        spread.note_density(1_000, 1 << 40);
        let first = spread.rows_per_token().expect("known");
        assert_eq!(spread.error_of(1_000), None, "one stretch says nothing");
        spread.note_expected(1_100, 1_000.0);
        let wide = spread.error_of(1_000).expect("known");
        assert_eq!(first, 1_000.0 / (1_u64 << 40) as f64);
        spread.note_density(0, u64::MAX);
        for _ in 0..40 {
            spread.note_expected(1_010, 1_000.0);
        }
        let fewer = spread.rows_per_token().expect("known");
        let narrow = spread.error_of(1_000).expect("known");
        assert!(fewer > 0.0 && fewer < first);
        assert!(narrow < wide && narrow > 0.009, "{narrow}");
        spread.note_expected(700, 1_000.0);
        let error = |rows| spread.error_of(rows).expect("known");
        assert!((error(1_000) - 0.3).abs() < 0.001);
        assert!((error(100_000) - 0.03).abs() < 0.001);
        spread.forget_density();
        assert_eq!(spread.rows_per_token(), None);
    }

    #[test]
    fn one_look_at_partitions_tells_how_far_pages_may_be_off() {
        let (thin, wide) = (Spread::default(), Spread::default());
        thin.note_partition_rows(1.0);
        wide.note_partition_rows(20_000.0);
        assert!(thin.error_of(5_000) < Some(0.05));
        assert!(wide.error_of(5_000) > Some(1.0));
        assert!(wide.error_of(1_000_000) < Some(0.25), "many of them");
    }

    #[test]
    fn wide_partitions_are_remembered_longer_than_thin_ones() {
        let spread = Spread::default();
        for _ in 0..100 {
            spread.note_partition_rows(1.0);
        }
        spread.note_partition_rows(5_000.0);
        spread.note_partition_rows(1.0);
        assert!(spread.error_of(5_000) > Some(1.0), "one of them is enough");
        for _ in 0..20 {
            spread.note_partition_passed();
        }
        assert!(spread.error_of(5_000) < Some(0.25), "out of sight");
        for _ in 0..100 {
            spread.note_partition_passed();
            spread.note_expected(5_000, 5_000.0);
        }
        assert!(spread.error_of(5_000) < Some(0.03));
    }

    #[test]
    fn a_table_that_has_grown_is_soon_known_again() {
        let spread = Spread::default();
        spread.note_expected(5_000, 1.0);
        assert!(spread.error_of(5_000) > Some(0.99));
        for _ in 0..6 {
            spread.note_expected(5_000, 5_000.0);
        }
        assert!(spread.error_of(5_000) < Some(0.5));
    }
}
