//! What a statement's answers have been like, learned from those that came.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use helenus_policy::predict::Estimate;
use helenus_policy::schedule::Class;

/// Assumed while partitions have been seen, but no stretch of the ring has been compared with what was
/// expected of it; in thousandths of the root of the rows.
const ERROR_AT_FIRST: u32 = 3_000;
/// Older rows than the last so many are forgotten: tables grow.
const ROWS_REMEMBERED: u32 = 50_000;
/// Hashed keys lie at random, so the number of rows of a stretch, n on average and in partitions of w
/// rows, has a standard deviation of √(n · w). This many of them are allowed for.
const DEVIATIONS: f64 = 1.5;
/// How long a statement is not read in parts after nodes have refused its parts but answered the
/// statement itself. The reason, such as a guardrail, may go away.
const SUSPENDED_FOR: Duration = Duration::from_secs(600);
/// One page in this many is examined for the partitions that its rows are in.
const PARTITIONS_LOOKED_AT: u64 = 16;
/// Partitions are wide for a page that has room for fewer of them than this.
const WIDE: usize = 16;

/// Shared by all workers. Racing updates of an average may lose one of two observations, which it
/// does not mind.
#[derive(Debug)]
pub(crate) struct Learned {
    answer_bytes: AtomicU32,
    service_us: AtomicU32,
    /// Rows for each token of the ring that scans went over, as the bits of an f64; 0: not known.
    density: AtomicU64,
    /// How many rows that comes from.
    rows_seen: AtomicU32,
    /// How far the rows of a stretch were from what was expected, in thousandths of its root: keys are
    /// spread by their hashes, so that larger stretches are known better. 0: not known.
    error: AtomicU32,
    /// Rows of the partition that a row is in, on average; 0: not known.
    partition_rows: AtomicU32,
    /// Whether `suspended_until` is worth a look.
    suspended: AtomicBool,
    /// Until then the statement is not read in parts.
    suspended_until: Mutex<Option<Instant>>,
    /// Keys of one `IN` whose rows fitted into a page, or would have.
    keys_max: AtomicU32,
    /// Of the pieces of scans, each of which is milliseconds of work.
    scan: Mutex<Estimate>,
}

impl Default for Learned {
    fn default() -> Self {
        Learned {
            answer_bytes: AtomicU32::new(0),
            service_us: AtomicU32::new(0),
            density: AtomicU64::new(0),
            rows_seen: AtomicU32::new(0),
            error: AtomicU32::new(0),
            partition_rows: AtomicU32::new(0),
            suspended: AtomicBool::new(false),
            suspended_until: Mutex::new(None),
            keys_max: AtomicU32::new(u32::MAX),
            scan: Mutex::new(Estimate::of_class(Class::Scan)),
        }
    }
}

impl Learned {
    /// Notes an answer of this size that took this long from sending.
    pub(crate) fn note_answer(&self, bytes: usize, service_us: u32) {
        note(
            &self.answer_bytes,
            u32::try_from(bytes).unwrap_or(u32::MAX),
            8,
        );
        let known = self.service_us.load(Ordering::Relaxed);
        let now = moved(known, service_us, service_inertia(known, service_us));
        if now != known {
            self.service_us.store(now, Ordering::Relaxed);
        }
    }

    /// What the work of a query will be said to be once an answer that took this long is noted.
    pub(crate) fn service_us_after(&self, service_us: u32) -> u32 {
        let known = self.service_us.load(Ordering::Relaxed);
        moved(known, service_us, service_inertia(known, service_us))
    }

    /// The same of a piece of a scan that was asked for so many rows.
    pub(crate) fn piece_us_after(&self, service_us: u32, rows: u32) -> u32 {
        let mut pieces = self.pieces();
        pieces.on_answer(service_us, rows, 0);
        pieces.work_us(rows)
    }

    /// Whether an answer is worth noting that took this long: the first, and those that took far less
    /// than was known, so that a start on a busy node is soon forgotten.
    pub(crate) fn is_news(&self, service_us: u32) -> bool {
        let known = self.service_us.load(Ordering::Relaxed);
        known == 0 || service_us < known / 4
    }

    /// Bytes of an answer, on average; 0 before the first.
    pub(crate) fn answer_bytes(&self) -> u32 {
        self.answer_bytes.load(Ordering::Relaxed)
    }

    /// The work of a query of this class, in microseconds.
    pub(crate) fn service_us(&self, class: Class) -> u32 {
        match self.service_us.load(Ordering::Relaxed) {
            0 => Estimate::of_class(class).typical_us(),
            us => us,
        }
    }

    /// Notes a piece of a scan.
    pub(crate) fn note_piece(&self, service_us: u32, rows: usize, bytes: usize) {
        if let Ok(mut scan) = self.scan.lock() {
            let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            scan.on_answer(service_us, clamp(rows), clamp(bytes));
        }
    }

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

    /// Whether a page of `rows` rows is worth examining for its partitions: they are not known yet, or
    /// were wide lately, or it is this page's turn.
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

    /// Whether the statement is sent as it is for now, because nodes refuse its parts.
    pub(crate) fn is_suspended(&self, now: Instant) -> bool {
        if !self.suspended.load(Ordering::Relaxed) {
            return false;
        }
        let until = self.suspended_until.lock();
        let until = *until.unwrap_or_else(PoisonError::into_inner);
        let suspended = until.is_some_and(|until| now < until);
        if !suspended {
            self.suspended.store(false, Ordering::Relaxed);
        }
        suspended
    }

    /// Notes that nodes refuse the statement's parts, or that their answers cannot be combined.
    pub(crate) fn suspend(&self, now: Instant) {
        let until = self.suspended_until.lock();
        *until.unwrap_or_else(PoisonError::into_inner) = Some(now + SUSPENDED_FOR);
        self.suspended.store(true, Ordering::Relaxed);
    }

    /// Whether the rows of so many keys will probably fit into a page.
    pub(crate) fn keys_fit(&self, keys: usize) -> bool {
        u32::try_from(keys).is_ok_and(|keys| keys <= self.keys_max.load(Ordering::Relaxed))
    }

    /// Notes whether the rows of so many keys fitted into a page. Half as many will be tried next when
    /// they did not, and one more each time that they did.
    pub(crate) fn note_keys(&self, keys: usize, fitted: bool) {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        let known = self.keys_max.load(Ordering::Relaxed);
        match fitted {
            false => self.keys_max.store(keys / 2, Ordering::Relaxed),
            true if known < u32::MAX && keys > known / 2 => {
                self.keys_max.store(known + 1, Ordering::Relaxed);
            }
            true => {}
        }
    }

    /// How many rows make up so many bytes, once a piece has been noted.
    pub(crate) fn rows_of(&self, bytes: usize) -> usize {
        let known = self.pieces();
        let row_bytes = (known.bytes() / known.rows().max(1.0)).max(1.0);
        bytes / row_bytes as usize
    }

    /// What is known of the pieces of scans.
    pub(crate) fn pieces(&self) -> Estimate {
        match self.scan.lock() {
            Ok(scan) => *scan,
            Err(poisoned) => *poisoned.into_inner(),
        }
    }
}

/// Moves an average by an `inertia`-th of the way to what was seen; all the way from 0. A steady one
/// is only read, so that workers do not take its line from each other.
fn note(mean: &AtomicU32, seen: u32, inertia: u32) {
    let old = mean.load(Ordering::Relaxed);
    let new = moved(old, seen, inertia);
    if new != old {
        mean.store(new, Ordering::Relaxed);
    }
}

/// An average that has seen this as well.
fn moved(old: u32, seen: u32, inertia: u32) -> u32 {
    let off = old.abs_diff(seen);
    match old {
        0 => seen,
        _ if off <= old / 4 => old,
        _ if seen > old => old + off.div_ceil(inertia),
        _ => old - off.div_ceil(inertia),
    }
}

/// Waiting only ever adds to the work that is wanted: down fast, up slowly.
fn service_inertia(known: u32, seen: u32) -> u32 {
    if seen > known { 16 } else { 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_whose_rows_did_not_fit_are_tried_again_in_small_numbers() {
        let learned = Learned::default();
        assert!(learned.keys_fit(10_000));
        learned.note_keys(10_000, true);
        assert!(learned.keys_fit(20_000));
        learned.note_keys(100, false);
        assert!(learned.keys_fit(50) && !learned.keys_fit(51));
        learned.note_keys(3, true);
        assert!(!learned.keys_fit(51), "few keys say nothing of many");
        learned.note_keys(50, true);
        assert!(learned.keys_fit(51));
        learned.note_keys(1, false);
        assert!(!learned.keys_fit(1));
    }

    #[test]
    fn the_first_answer_counts_whole_and_later_ones_move_the_mean() {
        let learned = Learned::default();
        learned.note_answer(1_000, 80);
        assert_eq!(learned.answer_bytes(), 1_000);
        learned.note_answer(1_200, 80);
        assert_eq!(learned.answer_bytes(), 1_000, "near enough");
        learned.note_answer(9_000, 80);
        assert_eq!(learned.answer_bytes(), 2_000);
        for _ in 0..100 {
            learned.note_answer(10, 80);
        }
        assert!(learned.answer_bytes() <= 13, "{}", learned.answer_bytes());
        learned.note_answer(usize::MAX, 80);
        assert!(learned.answer_bytes() > 1 << 28);
    }

    #[test]
    fn density_follows_what_scans_find() {
        let learned = Learned::default();
        assert_eq!(learned.rows_per_token(), None);
        learned.note_density(1_000, 1 << 40);
        let first = learned.rows_per_token().expect("known");
        assert_eq!(learned.error_of(1_000), None, "one stretch says nothing");
        learned.note_expected(1_100, 1_000.0);
        let wide = learned.error_of(1_000).expect("known");
        assert_eq!(first, 1_000.0 / (1_u64 << 40) as f64);
        learned.note_density(0, u64::MAX);
        for _ in 0..40 {
            learned.note_expected(1_010, 1_000.0);
        }
        let fewer = learned.rows_per_token().expect("known");
        let narrow = learned.error_of(1_000).expect("known");
        assert!(fewer > 0.0 && fewer < first);
        assert!(narrow < wide && narrow > 0.009, "{narrow}");
        learned.note_expected(700, 1_000.0);
        let error = |rows| learned.error_of(rows).expect("known");
        assert!((error(1_000) - 0.3).abs() < 0.001);
        assert!((error(100_000) - 0.03).abs() < 0.001);
        learned.forget_density();
        assert_eq!(learned.rows_per_token(), None);
    }

    #[test]
    fn one_look_at_partitions_tells_how_far_pages_may_be_off() {
        let (thin, wide) = (Learned::default(), Learned::default());
        thin.note_partition_rows(1.0);
        wide.note_partition_rows(20_000.0);
        assert!(thin.error_of(5_000) < Some(0.05));
        assert!(wide.error_of(5_000) > Some(1.0));
        assert!(wide.error_of(1_000_000) < Some(0.25), "many of them");
    }

    #[test]
    fn wide_partitions_are_remembered_longer_than_thin_ones() {
        let learned = Learned::default();
        for _ in 0..100 {
            learned.note_partition_rows(1.0);
        }
        learned.note_partition_rows(5_000.0);
        learned.note_partition_rows(1.0);
        assert!(learned.error_of(5_000) > Some(1.0), "one of them is enough");
        for _ in 0..20 {
            learned.note_partition_passed();
        }
        assert!(learned.error_of(5_000) < Some(0.25), "out of sight");
        for _ in 0..100 {
            learned.note_partition_passed();
            learned.note_expected(5_000, 5_000.0);
        }
        assert!(learned.error_of(5_000) < Some(0.03));
    }

    #[test]
    fn a_table_that_has_grown_is_soon_known_again() {
        let learned = Learned::default();
        learned.note_expected(5_000, 1.0);
        assert!(learned.error_of(5_000) > Some(0.99));
        for _ in 0..6 {
            learned.note_expected(5_000, 5_000.0);
        }
        assert!(learned.error_of(5_000) < Some(0.5));
    }

    #[test]
    fn parts_that_nodes_would_not_have_are_tried_again_in_time() {
        let (learned, now) = (Learned::default(), crate::testing::begin());
        assert!(!learned.is_suspended(now));
        learned.suspend(now);
        assert!(learned.is_suspended(now + SUSPENDED_FOR - Duration::from_secs(1)));
        assert!(!learned.is_suspended(now + SUSPENDED_FOR));
        learned.suspend(now + SUSPENDED_FOR);
        assert!(learned.is_suspended(now + SUSPENDED_FOR + Duration::from_secs(1)));
    }

    #[test]
    fn work_is_nearer_to_the_fast_answers_than_to_those_that_waited() {
        let learned = Learned::default();
        assert!(learned.service_us(Class::Scan) > learned.service_us(Class::Point));
        for _ in 0..200 {
            learned.note_answer(1, 100);
            learned.note_answer(1, 2_000);
        }
        let us = learned.service_us(Class::Point);
        assert!((100..700).contains(&us), "{us}");
    }
}
