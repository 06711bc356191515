//! Links of a node that could not be replaced, over all workers. A node that takes no connections fails one
//! renewal of each role and worker every few seconds: one warning a minute says it for all of them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const WARNED_EVERY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FailedRenewals(Mutex<Untold>);

#[derive(Debug, Default)]
struct Untold {
    warned: Option<Instant>,
    renewals: u32,
}

impl FailedRenewals {
    /// Counts one. Returns how many there were since the last warning if it is time for one.
    pub(crate) fn note(&self, now: Instant) -> Option<u32> {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        untold.renewals = untold.renewals.saturating_add(1);
        let warned = untold.warned;
        let is_due = warned.is_none_or(|at| now.saturating_duration_since(at) >= WARNED_EVERY);
        is_due.then(|| {
            untold.warned = Some(now);
            std::mem::take(&mut untold.renewals)
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
        let renewals = FailedRenewals::default();
        assert_eq!(renewals.note(at(0)), Some(1));
        for s in [0, 5, 59] {
            assert_eq!(renewals.note(at(s)), None);
        }
        assert_eq!(renewals.note(at(60)), Some(4));
        assert_eq!(renewals.note(at(61)), None);
        assert_eq!(renewals.note(at(600)), Some(2));
    }
}
