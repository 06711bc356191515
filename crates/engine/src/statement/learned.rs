//! Properties of a statement's answers, learned from those that came.

pub(crate) mod alike;
mod keys_per_page;
mod mean;
mod page_rows;
mod spread;
mod suspension;
pub(crate) mod typical;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use helenus_policy::predict::{Estimate, Pace, RING};
use helenus_policy::schedule::Class;

use self::alike::Alike;
use self::keys_per_page::KeysPerPage;
use self::mean::{moved, note, service_inertia};
use self::page_rows::PageRows;
use self::spread::Spread;
use self::suspension::Suspension;
use self::typical::Typical;

/// Fewer rows take a node hardly more than what each piece costs it beside its rows. A node that is slow
/// because it is overloaded would otherwise get the more work, the slower it is.
const PIECE_ROWS_MIN: usize = 500;

/// Shared by all workers. Racing updates of an average may lose one of two observations, which it
/// does not mind.
#[derive(Debug)]
pub(crate) struct Learned {
    answer_bytes: AtomicU32,
    service_us: AtomicU32,
    /// The time, in microseconds, that few answers take longer than.
    slow_us: AtomicU32,
    /// How the rows that it reads lie on the ring.
    pub spread: Spread,
    pub suspension: Suspension,
    /// Not taken for short: a scan that times out teaches nothing of its work.
    long: Suspension,
    /// Of an `IN` on the partition key.
    pub keys: KeysPerPage,
    /// Of the pieces of scans, each of which is milliseconds of work.
    scan: Mutex<Estimate>,
    /// Of a scan that filters: its rows say nothing of its work.
    pace: Mutex<Pace>,
    /// Rows of the pages of scans.
    pub page_rows: PageRows,
    /// The shape of statements alike, once it has been sent as a scan.
    alike: OnceLock<Arc<Alike>>,
}

impl Default for Learned {
    fn default() -> Self {
        Learned {
            answer_bytes: AtomicU32::new(0),
            service_us: AtomicU32::new(0),
            slow_us: AtomicU32::new(0),
            spread: Spread::default(),
            suspension: Suspension::default(),
            long: Suspension::default(),
            keys: KeysPerPage::default(),
            scan: Mutex::new(Estimate::of_class(Class::Scan)),
            pace: Mutex::default(),
            page_rows: PageRows::default(),
            alike: OnceLock::new(),
        }
    }
}

impl Learned {
    /// A scan begins with what is known of those alike, and adds to it.
    pub(crate) fn join(&self, alike: impl FnOnce() -> Option<Arc<Alike>>) {
        if self.alike.get().is_none()
            && let Some(alike) = alike()
        {
            // Another worker may have been faster, with the same.
            let _ = self.alike.set(alike);
        }
    }

    /// Notes that so many rows, or what is counted of them, were found on so many tokens.
    pub(crate) fn note_density(&self, rows: usize, tokens: u64) {
        self.spread.note_density(rows, tokens);
        if let Some(alike) = self.alike.get() {
            alike.spread.note_density(rows, tokens);
        }
    }

    /// Forgets how dense rows are: an aggregate goes over more than was known.
    pub(crate) fn forget_density(&self) {
        self.spread.forget_density();
        if let Some(alike) = self.alike.get() {
            alike.spread.forget_density();
        }
    }

    /// Rows for each token of the ring: its own, or those of statements alike.
    pub(crate) fn rows_per_token(&self) -> Option<f64> {
        let alike = || self.alike.get()?.spread.rows_per_token();
        self.spread.rows_per_token().or_else(alike)
    }

    /// Notes the rows of a page.
    pub(crate) fn note_page_rows(&self, rows: usize) {
        self.page_rows.note(rows);
        if let Some(alike) = self.alike.get() {
            alike.page_rows.note(rows);
        }
    }

    /// Rows that are probably still to come of a page of which so many have come.
    pub(crate) fn rows_left(&self, came: usize) -> Option<usize> {
        let alike = || self.alike.get()?.page_rows.left(came);
        self.page_rows.left(came).or_else(alike)
    }

    /// A scan of it has timed out: it may be long, and its answers will never say so. So may statements
    /// alike of which nothing else is known.
    pub(crate) fn note_timeout(&self, now: Instant) {
        self.long.begin_long(now);
        if let Some(alike) = self.alike.get() {
            alike.long.begin_long(now);
        }
    }

    /// True if a scan of it has timed out lately.
    pub(crate) fn has_timed_out(&self, now: Instant) -> bool {
        self.long.is_in_force(now)
    }

    /// True if a scan of it is not taken for short, whatever is known: one of it has timed out lately, or, while its
    /// own scans have shown nothing, one of a statement alike.
    pub(crate) fn may_be_long(&self, now: Instant) -> bool {
        let is_new = || self.pace().us_of(RING).is_none();
        let alike = || self.alike.get().is_some_and(|of| of.long.is_in_force(now));
        self.has_timed_out(now) || is_new() && alike()
    }

    /// How long statements alike take over the ring; of itself nothing is known.
    pub(crate) fn pace_alike(&self) -> Option<Pace> {
        let pace = self.alike.get()?.pace();
        pace.us_of(RING).map(|_| pace)
    }

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
        let known = self.slow_us.load(Ordering::Relaxed);
        self.slow_us
            .store(slow_after(known, service_us), Ordering::Relaxed);
        if let Some(alike) = self.alike.get() {
            alike.note_answer(service_us);
        }
    }

    /// The time, in microseconds, that about one answer in fifty takes longer than; `None` before the first.
    pub(crate) fn slow_us(&self) -> Option<u32> {
        let known = self.slow_us.load(Ordering::Relaxed);
        (known != 0).then_some(known)
    }

    /// The predicted work of a query, in microseconds, once an answer that took this long is noted.
    pub(crate) fn service_us_after(&self, service_us: u32) -> u32 {
        let known = self.service_us.load(Ordering::Relaxed);
        moved(known, service_us, service_inertia(known, service_us))
    }

    /// The predicted work of a piece of so many rows, in microseconds, once such an answer is noted.
    pub(crate) fn piece_us_after(&self, service_us: u32, rows: u32) -> u32 {
        let mut pieces = self.pieces();
        pieces.on_answer(service_us, rows, 0);
        pieces.work_us(rows)
    }

    /// True if an answer is worth noting that took this long: the first, and those that took far less than was known,
    /// so that a start on a busy node is soon forgotten.
    pub(crate) fn is_news(&self, service_us: u32) -> bool {
        let known = self.service_us.load(Ordering::Relaxed);
        known == 0 || service_us < known / 4
    }

    /// Bytes of an answer, on average; 0 before the first.
    pub(crate) fn answer_bytes(&self) -> u32 {
        self.answer_bytes.load(Ordering::Relaxed)
    }

    /// True if an answer has been noted.
    pub(crate) fn has_answers(&self) -> bool {
        self.service_us.load(Ordering::Relaxed) != 0
    }

    /// The work of a query of this class, in microseconds.
    pub(crate) fn service_us(&self, class: Class) -> u32 {
        match self.service_us.load(Ordering::Relaxed) {
            0 => self.service_us_alike(class, &Typical::default()),
            us => us,
        }
    }

    /// [`Learned::service_us`]; `typical`: the work of requests of which nothing is known.
    pub(crate) fn service_us_or(&self, class: Class, typical: &Typical) -> u32 {
        match self.service_us.load(Ordering::Relaxed) {
            0 => self.service_us_alike(class, typical),
            us => us,
        }
    }

    #[cold]
    #[inline(never)]
    fn service_us_alike(&self, class: Class, typical: &Typical) -> u32 {
        let alike = self.alike.get().and_then(|alike| alike.service_us());
        alike.unwrap_or_else(|| typical.us(class))
    }

    /// Notes a piece of a scan.
    pub(crate) fn note_piece(&self, service_us: u32, rows: usize, bytes: usize) {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (rows, bytes) = (clamp(rows), clamp(bytes));
        let begun = self.pieces();
        if let Ok(mut scan) = self.scan.lock() {
            if scan.samples() == 0 {
                *scan = begun;
            }
            scan.on_answer(service_us, rows, bytes);
        }
        if let Some(alike) = self.alike.get() {
            alike.note_piece(service_us, rows, bytes);
        }
    }

    /// How many rows a piece is to have, once one has been noted: no more bytes than this, and about as
    /// much work, in microseconds (0: any), but [`PIECE_ROWS_MIN`].
    pub(crate) fn piece_rows(&self, bytes: usize, work_us: u32) -> usize {
        let known = self.pieces();
        let row_bytes = (known.bytes() / known.rows().max(1.0)).max(1.0);
        let rows = bytes / row_bytes as usize;
        match work_us {
            0 => rows,
            _ => rows.min((known.rows_in(work_us) as usize).max(PIECE_ROWS_MIN)),
        }
    }

    /// Notes that a filtering scan took so long over so many tokens of the ring.
    pub(crate) fn note_stretch(&self, tokens: u64, service_us: u32) {
        if let Ok(mut pace) = self.pace.lock() {
            pace.note(tokens, service_us);
        }
        if let Some(alike) = self.alike.get() {
            alike.note_stretch(tokens, service_us);
        }
    }

    /// How long a filtering scan takes over the ring.
    pub(crate) fn pace(&self) -> Pace {
        match self.pace.lock() {
            Ok(pace) => *pace,
            Err(poisoned) => *poisoned.into_inner(),
        }
    }

    /// The estimate for pieces of its scans; before the first, for those of statements alike.
    pub(crate) fn pieces(&self) -> Estimate {
        let own = match self.scan.lock() {
            Ok(scan) => *scan,
            Err(poisoned) => *poisoned.into_inner(),
        };
        match own.samples() {
            0 => self.pieces_alike().unwrap_or(own),
            _ => own,
        }
    }

    /// The estimate for pieces of statements alike.
    pub(crate) fn pieces_alike(&self) -> Option<Estimate> {
        self.alike.get()?.pieces()
    }
}

/// A high quantile, once another answer has been seen: where ups and downs balance, one answer in fifty
/// takes longer.
fn slow_after(known: u32, seen: u32) -> u32 {
    match known {
        0 => seen.saturating_mul(4).max(1),
        _ if seen > known => known.saturating_add(known.div_ceil(4)),
        _ => known - known / 196,
    }
}

#[cfg(test)]
mod tests {
    use super::suspension::LONG_FOR;
    use super::*;

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
    fn a_new_text_begins_with_what_those_alike_have_shown() {
        let shapes = alike::Shapes::default();
        let facts = helenus_cql::facts("SELECT a FROM t WHERE v = 1 ALLOW FILTERING");
        let begin = || {
            let learned = Learned::default();
            learned.join(|| shapes.of(("ks", "t"), &facts));
            learned
        };
        let first = begin();
        let class = Estimate::of_class(Class::Scan);
        assert_eq!(first.pieces(), class);
        assert_eq!((first.pace_alike(), first.rows_per_token()), (None, None));
        for _ in 0..20 {
            first.note_piece(10_000, 1_000, 8_000_000);
            first.note_stretch(RING / 64, 5_000);
            first.note_density(100, RING / 4);
            first.note_page_rows(7);
        }
        first.note_answer(10, 70_000);
        let second = begin();
        assert_eq!(second.pieces().samples(), 0, "nothing is known of it");
        assert!(!second.has_answers());
        assert!((9_000..12_000).contains(&second.pieces().work_us(1_000)));
        let rows = second.piece_rows(8_000_000, 0);
        assert!((1_000..1_200).contains(&rows), "{rows} of 8,000 bytes each");
        assert_eq!(second.service_us(Class::Scan), 70_000);
        assert_eq!(second.rows_left(0), Some(7));
        assert_eq!(second.rows_per_token(), first.rows_per_token());
        assert!(second.pace_alike().is_some());
        assert_eq!(second.pace().us_of(RING), None, "not its own");
        // Its own answers count for more than those alike.
        for _ in 0..8 {
            second.note_piece(50_000, 1_000, 8_000_000);
        }
        assert!(second.pieces().work_us(1_000) > 35_000);
        second.forget_density();
        assert_eq!(begin().rows_per_token(), None, "it was wrong for all");
    }

    #[test]
    fn a_scan_that_times_out_counts_against_those_alike_that_have_shown_nothing() {
        let shapes = alike::Shapes::default();
        let begin = |text: &str| {
            let facts = helenus_cql::facts(text);
            let learned = Learned::default();
            learned.join(|| shapes.of(("ks", "t"), &facts));
            learned
        };
        let filter = |value: u32| {
            begin(&format!(
                "SELECT a FROM t WHERE v = {value} ALLOW FILTERING"
            ))
        };
        let now = crate::testing::begin();
        let (late, known) = (filter(1), filter(2));
        known.note_stretch(RING, 5_000);
        let may_be_long = |of: &Learned| of.may_be_long(now);
        assert!(![&late, &known, &filter(3)].map(may_be_long).contains(&true));
        late.note_timeout(now);
        assert!(late.may_be_long(now) && filter(3).may_be_long(now));
        assert!(!known.may_be_long(now), "its own scans are short");
        assert!(!filter(3).has_timed_out(now));
        let other = begin("SELECT a FROM t WHERE w = 1 ALLOW FILTERING");
        assert!(!other.may_be_long(now), "it restricts another column");
        assert!(!filter(3).may_be_long(now + LONG_FOR), "for a while only");
    }

    #[test]
    fn few_answers_are_slower_than_slow() {
        let learned = Learned::default();
        assert_eq!(learned.slow_us(), None);
        let mut random = 7_u32;
        let mut slower = 0;
        for answer in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let us = 500 + (random >> 16) % 10_000;
            slower += u32::from(answer > 2_000 && learned.slow_us() < Some(us));
            learned.note_answer(1, us);
        }
        assert!((100..1_000).contains(&slower), "{slower} of 18,000");
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
