//! When partitions in doubt are compared.
//!
//! A partition is compared once requests have ended that were under way when it was last put in doubt: time is counted
//! from when it was first seen with that time of writing, so no clocks are compared. If it is put in again, the time
//! begins anew, and what was compared before does not take it out of doubt.
//!
//! Hints come later, and show only after a while. Rows are deleted, and partitions are taken out of doubt, once they would
//! have shown since then, and none did.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Partitions that are compared before new ones are looked for.
const DUE_MAX: usize = 500;
/// What can be equal soon is compared again after this time.
const AGAIN: Duration = Duration::from_secs(5);
/// What cannot be repaired is compared again after this time.
const AGAIN_MUCH_LATER: Duration = Duration::from_secs(60);

/// The times that are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    pub request_max: Duration,
    pub hints_unseen: Duration,
}

/// Those of one table.
#[derive(Debug, Default)]
pub struct Pending(BTreeMap<i64, Seen>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    written_us: i64,
    since: Instant,
    next: Instant,
    /// It was compared, and more than time is needed.
    is_stuck: bool,
}

/// A partition that is to be compared now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub token: i64,
    pub written_us: i64,
    /// Nothing is under way to it any more: rows that only a layout has can be deleted.
    pub is_quiet: bool,
}

/// What came of it, if the partition is not equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Time will tell.
    ForNow,
    Stuck,
}

impl Pending {
    /// These are stored now.
    pub fn note(&mut self, stored: &[(i64, i64)], now: Instant, waits: Waits) {
        let mut before = std::mem::take(&mut self.0);
        for (token, written_us) in stored {
            let known = before.remove(token);
            let known = known.filter(|seen| seen.written_us == *written_us);
            let seen = known.unwrap_or(Seen {
                written_us: *written_us,
                since: now,
                next: now + waits.request_max,
                is_stuck: false,
            });
            self.0.insert(*token, seen);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// True if time alone changes nothing.
    pub fn is_stuck(&self) -> bool {
        self.0.values().all(|seen| seen.is_stuck)
    }

    /// `no_hints`: no node has kept hints for as long as they may go unseen.
    pub fn due(&self, now: Instant, waits: Waits, no_hints: bool) -> Vec<Due> {
        let due = self.0.iter().filter(|(_, seen)| seen.next <= now);
        let mut due: Vec<(&i64, &Seen)> = due.collect();
        due.sort_by_key(|(_, seen)| seen.next);
        let due = due.into_iter().take(DUE_MAX).map(|(token, seen)| Due {
            token: *token,
            written_us: seen.written_us,
            is_quiet: no_hints
                && now.duration_since(seen.since) >= waits.request_max + waits.hints_unseen,
        });
        due.collect()
    }

    pub fn settle(&mut self, due: Due) {
        self.0.remove(&due.token);
    }

    pub fn leave(&mut self, due: Due, left: Left, now: Instant) {
        if let Some(seen) = self.0.get_mut(&due.token) {
            seen.is_stuck = left == Left::Stuck;
            seen.next = now
                + match left {
                    Left::ForNow => AGAIN,
                    Left::Stuck => AGAIN_MUCH_LATER,
                };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits {
        request_max: Duration::from_secs(14),
        hints_unseen: Duration::from_secs(20),
    };

    #[allow(clippy::disallowed_methods)]
    fn begin() -> Instant {
        Instant::now()
    }

    fn due(pending: &Pending, at: Instant, no_hints: bool) -> Vec<(i64, bool)> {
        let mut due = pending.due(at, WAITS, no_hints);
        due.sort_by_key(|due| due.token);
        let due = due.into_iter();
        due.map(|due| (due.token, due.is_quiet)).collect()
    }

    #[test]
    fn a_partition_is_compared_after_requests_and_rows_are_deleted_after_hints() {
        let begin = begin();
        let at = |s| begin + Duration::from_secs(s);
        let mut pending = Pending::default();
        pending.note(&[(7, 100), (9, 100)], at(0), WAITS);
        assert_eq!(due(&pending, at(13), true), []);
        // One of them is put in doubt again.
        pending.note(&[(7, 100), (9, 200)], at(13), WAITS);
        assert_eq!(due(&pending, at(14), true), [(7, false)]);
        let first = pending.due(at(14), WAITS, true)[0];
        pending.leave(first, Left::ForNow, at(14));
        assert_eq!(due(&pending, at(18), true), []);
        assert_eq!(due(&pending, at(33), true), [(7, false), (9, false)]);
        assert_eq!(due(&pending, at(34), false), [(7, false), (9, false)]);
        assert_eq!(due(&pending, at(34), true), [(7, true), (9, false)]);
        assert_eq!(due(&pending, at(47), true), [(7, true), (9, true)]);
        pending.settle(first);
        assert_eq!(due(&pending, at(47), true), [(9, true)]);
    }

    #[test]
    fn what_is_stuck_is_looked_at_again_later() {
        let begin = begin();
        let at = |s| begin + Duration::from_secs(s);
        let mut pending = Pending::default();
        pending.note(&[(7, 100)], at(0), WAITS);
        let first = pending.due(at(40), WAITS, true)[0];
        assert!(first.is_quiet && !pending.is_stuck());
        pending.leave(first, Left::Stuck, at(40));
        assert!(pending.is_stuck() && !pending.is_empty());
        pending.note(&[(7, 100)], at(50), WAITS);
        assert_eq!(due(&pending, at(99), true), []);
        assert_eq!(due(&pending, at(100), true), [(7, true)]);
        // Put in again, it is another matter.
        pending.note(&[(7, 101)], at(101), WAITS);
        assert!(!pending.is_stuck());
        assert_eq!(due(&pending, at(115), true), [(7, false)]);
        // Somebody else has compared it.
        pending.note(&[], at(116), WAITS);
        assert!(pending.is_empty());
    }
}
