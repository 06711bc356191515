//! How many rows the pages of a scan turn out to have, which may be far fewer than their client asks for.

use std::sync::atomic::{AtomicU32, Ordering};

/// Parts of a row in which is counted, so that a mean between one row and none can be kept.
const PARTS: u32 = 16;
/// A page with more rows than known moves it up by one part in so many; one with fewer, down. So about one
/// page in nine has more.
const UP: u32 = 4;
const DOWN: u32 = 32;

/// A high quantile of the rows of a statement's pages. Racing updates may lose one of two pages.
#[derive(Debug)]
pub(crate) struct PageRows(AtomicU32);

const UNKNOWN: u32 = u32::MAX;

impl Default for PageRows {
    fn default() -> Self {
        PageRows(AtomicU32::new(UNKNOWN))
    }
}

impl PageRows {
    /// Notes a page that has been read whole.
    pub(crate) fn note(&self, rows: usize) {
        let seen = u32::try_from(rows)
            .unwrap_or(u32::MAX)
            .saturating_mul(PARTS);
        let seen = seen.min(UNKNOWN - 1);
        let known = self.0.load(Ordering::Relaxed);
        let now = match known {
            UNKNOWN => seen,
            _ if seen > known => known + (seen - known).div_ceil(UP),
            _ => known - (known - seen).div_ceil(DOWN),
        };
        if now != known {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// Rows that are probably still to come of a page of which so many have come. A page that has more
    /// than was to be expected has probably twice as many.
    pub(crate) fn left(&self, came: usize) -> Option<usize> {
        let known = self.0.load(Ordering::Relaxed);
        let rows = (known != UNKNOWN).then(|| known.div_ceil(PARTS) as usize)?;
        Some(match rows > came {
            true => rows - came,
            false => came.max(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_as_many_rows_as_those_before() {
        let pages = PageRows::default();
        assert_eq!(pages.left(0), None);
        pages.note(3);
        assert_eq!(pages.left(0), Some(3));
        assert_eq!(pages.left(1), Some(2));
    }

    #[test]
    fn a_page_that_is_longer_than_expected_is_expected_to_go_on() {
        let pages = PageRows::default();
        pages.note(10);
        assert_eq!(pages.left(10), Some(10));
        assert_eq!(pages.left(400), Some(400));
        pages.note(0);
        assert_eq!(PageRows::default().left(7), None);
    }

    #[test]
    fn what_counts_is_nearly_the_largest() {
        let pages = PageRows::default();
        for round in 0..400 {
            pages.note(if round % 4 == 0 { 5_000 } else { 1 });
        }
        let left = pages.left(0).expect("known");
        assert!((2_500..=5_000).contains(&left), "{left}");
        for _ in 0..400 {
            pages.note(1);
        }
        assert_eq!(pages.left(0), Some(1), "the large ones are forgotten");
        pages.note(usize::MAX);
        assert!(pages.left(0) > Some(1_000_000));
    }
}
