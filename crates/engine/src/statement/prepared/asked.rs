//! How often clients ask for a prepared statement, and how long they wait for it.
//!
//! One answer in 16 is looked at and counts for all 16, so that workers do not take each other's memory
//! with every answer ([`crate::support::sampling`] says which). Counts are halved with every day, so that old traffic
//! is forgotten slowly.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One answer of so many is counted: a power of two.
pub(crate) const COUNTED_ONE_OF: u64 = 16;

/// After this time a request counts half.
pub const HALF_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// Counts of one statement, by all workers.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Option<Count>>);

/// An estimate of how often a statement was asked, and of the time that its clients waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Queries: further pages of one are not counted again.
    pub asked: f64,
    /// Microseconds that clients waited, for further pages as well.
    pub waited_us: f64,
    /// The first that was counted.
    pub since: Instant,
    /// When the numbers were right.
    at: Instant,
}

impl Count {
    /// The count at a later time.
    fn at(mut self, now: Instant) -> Count {
        let passed = now.saturating_duration_since(self.at);
        let left = 0.5_f64.powf(passed.as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.asked *= left;
        self.waited_us *= left;
        self.at = self.at.max(now);
        self
    }

    /// Mean time that clients wait for a query with all its pages, in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        (self.asked > 0.0).then(|| self.waited_us / self.asked)
    }
}

impl Asked {
    /// Notes one answer for all that it stands for. `continues`: it was a further page.
    pub(crate) fn note(&self, now: Instant, waited_us: u64, continues: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Count {
            asked: 0.0,
            waited_us: 0.0,
            since: now,
            at: now,
        };
        let mut count = known.unwrap_or(begun).at(now);
        if !continues {
            count.asked += COUNTED_ONE_OF as f64;
        }
        count.waited_us += (waited_us * COUNTED_ONE_OF) as f64;
        *known = Some(count);
    }

    /// None before the first.
    pub(crate) fn count(&self, now: Instant) -> Option<Count> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.map(|count| count.at(now))
    }
}

/// A prepared SELECT of a table.
#[derive(Clone, Debug)]
pub struct AskedStatement {
    pub text: Box<str>,
    /// In force when it was prepared, if the text does not name it.
    pub keyspace: Option<Box<str>>,
    pub count: Count,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::begin;

    #[test]
    fn pages_are_not_queries_but_take_time() {
        let (asked, now) = (Asked::default(), begin());
        assert_eq!(asked.count(now), None);
        asked.note(now, 1_000, false);
        asked.note(now, 1_000, true);
        asked.note(now, 4_000, false);
        let count = asked.count(now).expect("counted");
        assert_eq!(count.asked, 32.0);
        assert_eq!(count.mean_us(), Some(3_000.0));
        assert_eq!(count.since, now);
        let pages = Asked::default();
        pages.note(now, 1_000, true);
        assert_eq!(pages.count(now).and_then(|count| count.mean_us()), None);
    }

    #[test]
    fn what_was_asked_long_ago_counts_less() {
        let (asked, now) = (Asked::default(), begin());
        asked.note(now, 1_000, false);
        let count = asked.count(now + HALF_LIFE).expect("counted");
        assert_eq!(count.asked, 8.0);
        assert_eq!(count.mean_us(), Some(1_000.0));
        asked.note(now + 2 * HALF_LIFE, 1_000, false);
        let count = asked.count(now + 2 * HALF_LIFE).expect("counted");
        assert_eq!(count.asked, 20.0);
        assert_eq!(count.since, now);
        // Workers' times differ a little.
        assert_eq!(asked.count(now).expect("counted").asked, 20.0);
    }
}
