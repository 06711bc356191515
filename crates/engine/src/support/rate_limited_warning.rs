//! Warnings of a node's failures that every role and worker meets: one a minute for all of them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const WARNED_EVERY: Duration = Duration::from_secs(60);

/// Counts something that happens at one node, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Repeated(Mutex<Untold>);

#[derive(Debug, Default)]
struct Untold {
    warned: Option<Instant>,
    last: Option<Instant>,
    times: u32,
}

impl Repeated {
    /// Counts once. Returns how often it has happened since the last warning, or since it began again, if it is
    /// time for one.
    pub(crate) fn note(&self, now: Instant) -> Option<u32> {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |at: Option<Instant>| {
            at.is_none_or(|at| now.saturating_duration_since(at) >= WARNED_EVERY)
        };
        if is_old(untold.last) {
            untold.times = 0;
        }
        untold.last = Some(now);
        untold.times = untold.times.saturating_add(1);
        is_old(untold.warned).then(|| {
            untold.warned = Some(now);
            std::mem::take(&mut untold.times)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_one_warning_that_counts_all_of_them() {
        let begin = crate::testing::begin();
        let at = |s| begin + Duration::from_secs(s);
        let renewals = Repeated::default();
        assert_eq!(renewals.note(at(0)), Some(1));
        for s in [0, 5, 59] {
            assert_eq!(renewals.note(at(s)), None);
        }
        assert_eq!(renewals.note(at(60)), Some(4));
        assert_eq!(renewals.note(at(61)), None);
        assert_eq!(renewals.note(at(600)), Some(1), "this has begun again");
    }
}
