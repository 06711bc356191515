//! Statements whose parts nodes refuse are sent as they are for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a statement is not read in parts after nodes have refused its parts but answered the
/// statement itself. The reason, such as a guardrail, may go away.
const SUSPENDED_FOR: Duration = Duration::from_secs(600);

/// Until when a statement is sent as it is.
#[derive(Debug, Default)]
pub(crate) struct Suspension {
    /// Whether `until` is worth a look.
    is_set: AtomicBool,
    /// Until then the statement is not read in parts.
    until: Mutex<Option<Instant>>,
}

impl Suspension {
    /// Whether the statement is sent as it is for now, because nodes refuse its parts.
    pub(crate) fn is_in_force(&self, now: Instant) -> bool {
        if !self.is_set.load(Ordering::Relaxed) {
            return false;
        }
        let until = self.until.lock();
        let until = *until.unwrap_or_else(PoisonError::into_inner);
        let suspended = until.is_some_and(|until| now < until);
        if !suspended {
            self.is_set.store(false, Ordering::Relaxed);
        }
        suspended
    }

    /// Notes that nodes refuse the statement's parts, or that their answers cannot be combined.
    pub(crate) fn begin(&self, now: Instant) {
        let until = self.until.lock();
        *until.unwrap_or_else(PoisonError::into_inner) = Some(now + SUSPENDED_FOR);
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
