//! Treatments of a statement that are suspended for a while: its parts are not sent after nodes have refused some,
//! nor is it taken for short after it has timed out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a statement is not read in parts after nodes have refused its parts but answered the
/// statement itself. The reason, such as a guardrail, may go away.
const SUSPENDED_FOR: Duration = Duration::from_secs(600);

/// How long a scan is not taken for short after it has timed out: with which values it does so nobody knows.
pub(super) const LONG_FOR: Duration = Duration::from_secs(60);

/// Until when something is not done with a statement.
#[derive(Debug, Default)]
pub(crate) struct Suspension {
    /// `until` is worth a look.
    is_set: AtomicBool,
    until: Mutex<Option<Instant>>,
}

impl Suspension {
    /// True if it is not done for now.
    pub(crate) fn is_in_force(&self, now: Instant) -> bool {
        if !self.is_set.load(Ordering::Relaxed) {
            return false;
        }
        let until = self.until.lock();
        let until = until.unwrap_or_else(PoisonError::into_inner);
        let suspended = until.is_some_and(|until| now < until);
        if !suspended {
            // With the lock held, or a new end that another worker has set would be lost.
            self.is_set.store(false, Ordering::Relaxed);
        }
        suspended
    }

    /// Notes that nodes refuse the statement's parts, or that their answers cannot be combined.
    pub(crate) fn begin(&self, now: Instant) {
        self.begin_until(now + SUSPENDED_FOR);
    }

    /// Notes that a scan has timed out.
    pub(crate) fn begin_long(&self, now: Instant) {
        self.begin_until(now + LONG_FOR);
    }

    fn begin_until(&self, end: Instant) {
        let until = self.until.lock();
        let mut until = until.unwrap_or_else(PoisonError::into_inner);
        *until = Some(end);
        self.is_set.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_nodes_would_not_have_are_tried_again_in_time() {
        let (suspension, now) = (Suspension::default(), crate::testing::begin());
        assert!(!suspension.is_in_force(now));
        suspension.begin(now);
        assert!(suspension.is_in_force(now + SUSPENDED_FOR - Duration::from_secs(1)));
        assert!(!suspension.is_in_force(now + SUSPENDED_FOR));
        suspension.begin(now + SUSPENDED_FOR);
        assert!(suspension.is_in_force(now + SUSPENDED_FOR + Duration::from_secs(1)));
    }
}
