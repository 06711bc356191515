//! What a statement's answers have been like, learned from those that came.

mod keys_per_page;
mod page_rows;
mod spread;
mod suspension;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use helenus_policy::predict::Estimate;
use helenus_policy::schedule::Class;

use self::keys_per_page::KeysPerPage;
use self::page_rows::PageRows;
use self::spread::Spread;
use self::suspension::Suspension;

/// Fewer rows take a node hardly more than what each piece costs it beside its rows. A node that is slow
/// because it is overloaded would otherwise get the more work, the slower it is.
const PIECE_ROWS_MIN: usize = 500;

/// Shared by all workers. Racing updates of an average may lose one of two observations, which it
/// does not mind.
#[derive(Debug)]
pub(crate) struct Learned {
    answer_bytes: AtomicU32,
    service_us: AtomicU32,
    /// What few answers take longer than.
    slow_us: AtomicU32,
    /// How the rows that it reads lie on the ring.
    pub spread: Spread,
    pub suspension: Suspension,
    /// Not taken for short: a scan that times out teaches nothing of its work.
    pub long: Suspension,
    /// Of an `IN` on the partition key.
    pub keys: KeysPerPage,
    /// Of the pieces of scans, each of which is milliseconds of work.
    scan: Mutex<Estimate>,
    /// Rows of the pages of scans.
    pub page_rows: PageRows,
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
            page_rows: PageRows::default(),
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
        let known = self.slow_us.load(Ordering::Relaxed);
        self.slow_us
            .store(slow_after(known, service_us), Ordering::Relaxed);
    }

    /// What about one answer in fifty takes longer than, in microseconds; `None` before the first.
    pub(crate) fn slow_us(&self) -> Option<u32> {
        let known = self.slow_us.load(Ordering::Relaxed);
        (known != 0).then_some(known)
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

    /// Whether an answer has been noted.
    pub(crate) fn has_answers(&self) -> bool {
        self.service_us.load(Ordering::Relaxed) != 0
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

/// A high quantile, once another answer has been seen: where ups and downs balance, one answer in fifty
/// takes longer.
fn slow_after(known: u32, seen: u32) -> u32 {
    match known {
        0 => seen.saturating_mul(4).max(1),
        _ if seen > known => known.saturating_add(known.div_ceil(4)),
        _ => known - known / 196,
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
