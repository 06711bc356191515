//! How the clients of a worker leave while the proxy stops.
//!
//! 1. Grace: `/ready` says no and clients that listen are told (STATUS_CHANGE DOWN), but everything goes
//!    on, new connections too: whatever sends clients here needs time to notice.
//! 2. No new connections. Those that stand are closed once they are quiet: nothing in flight, nothing
//!    unsent, and no byte either way for `QUIET`, so that no request is on its way. Not all at once,
//!    or they would all knock at the next proxy's door together.
//! 3. Hurry: in the last quarter of the time less and less silence is enough, from `QUIET` / 10 on, and in
//!    the end a moment without anything in flight.
//!
//! A client that never pauses may lose what it sends in the instant in which it is closed: the protocol
//! has no way to tell it to stop, other than the event before.
//!
//! Where another process has taken the port over, there is no 1, and 2 begins with its ports. It takes over
//! the connections as well (`session/handover.rs`); those that it cannot take are closed as above. Once there
//! is hurry, none are passed on any more.

use std::time::{Duration, Instant};

/// How often a worker looks whether clients may be closed.
pub const TICK: Duration = Duration::from_millis(20);
/// Longer than from an answer to the request that follows it, there and back.
const QUIET: Duration = Duration::from_millis(500);

/// Shorter than drivers wait for an answer.
const HOLD_MAX: Duration = Duration::from_secs(2);

/// When what happens, from SIGTERM to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timetable {
    pub grace_ends: Instant,
    /// Until then quiet clients leave evenly, and from then on as soon as they are quiet.
    spread_ends: Instant,
    hurry_begins: Instant,
    pub deadline: Instant,
    /// Who sends clients here may not have noticed, although there are none.
    keeps_grace: bool,
}

impl Timetable {
    /// The grace is at most half of the whole time.
    pub fn new(now: Instant, grace: Duration, whole: Duration) -> Timetable {
        let grace = grace.min(whole / 2);
        let rest = whole - grace;
        Timetable {
            grace_ends: now + grace,
            spread_ends: now + grace + rest / 2,
            hurry_begins: now + grace + rest * 3 / 4,
            deadline: now + whole,
            keeps_grace: false,
        }
    }

    /// This timetable with a grace that does not end early when there are no clients.
    pub fn keeping_grace(self) -> Timetable {
        Timetable {
            keeps_grace: true,
            ..self
        }
    }

    /// True if a worker without clients may end.
    pub fn may_end(&self, now: Instant) -> bool {
        !self.keeps_grace || now >= self.grace_ends
    }

    /// How long a client must have been quiet.
    pub(crate) fn quiet(&self, now: Instant) -> Duration {
        if now < self.hurry_begins {
            return QUIET;
        }
        let hurry = self.deadline - self.hurry_begins;
        let left = self.deadline.saturating_duration_since(now);
        // Longer than a request is on its way, as long as that can be waited for.
        (QUIET / 10).mul_f64(left.as_secs_f64() / hurry.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// How long a client that another process is to take over may be held at a time.
    pub fn hold(&self) -> Duration {
        ((self.deadline - self.grace_ends) / 8).min(HOLD_MAX)
    }

    /// True if it is too late to pass clients on: those that are still here need the time to be closed.
    pub(crate) fn is_hurrying(&self, now: Instant) -> bool {
        now >= self.hurry_begins
    }

    /// How many of so many clients may be closed in this tick.
    pub(crate) fn quota(&self, clients: usize, now: Instant) -> usize {
        let left = self.spread_ends.saturating_duration_since(now);
        let ticks = left.as_millis() / TICK.as_millis();
        clients.div_ceil(usize::try_from(ticks).unwrap_or(usize::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn clients_leave_evenly_and_at_the_end_at_once() {
        let begin = crate::testing::begin();
        let timetable = Timetable::new(begin, 2 * S, 10 * S);
        assert_eq!(timetable.grace_ends, begin + 2 * S);
        assert_eq!(timetable.deadline, begin + 10 * S);
        let mut now = timetable.grace_ends;
        let mut left = 10_000;
        let mut halfway = 0;
        while left > 0 {
            left -= timetable.quota(left, now).min(left);
            now += TICK;
            if now <= begin + 4 * S {
                halfway = left;
            }
        }
        assert!((4_900..5_100).contains(&halfway), "{halfway}");
        assert!(now > begin + 5 * S && now <= begin + 6 * S + TICK);
        // Few need not wait for each other.
        assert_eq!(timetable.quota(3, begin + 2 * S), 1);
        assert_eq!(timetable.quota(3, begin + 6 * S), 3);
        assert_eq!(timetable.quiet(begin + 7 * S), QUIET);
        assert_eq!(timetable.quiet(begin + 8 * S), QUIET / 10);
        assert_eq!(timetable.quiet(begin + 9 * S), QUIET / 20);
        assert_eq!(timetable.quiet(begin + 10 * S), Duration::ZERO);
        assert_eq!(timetable.quiet(begin + 11 * S), Duration::ZERO);
    }

    #[test]
    fn the_grace_leaves_half_of_the_time() {
        let begin = crate::testing::begin();
        let timetable = Timetable::new(begin, 60 * S, 10 * S);
        assert_eq!(timetable.grace_ends, begin + 5 * S);
        let at_once = Timetable::new(begin, S, Duration::ZERO);
        assert_eq!((at_once.grace_ends, at_once.deadline), (begin, begin));
        assert_eq!(at_once.quota(7, begin), 7);
        assert_eq!(at_once.quiet(begin), Duration::ZERO);
    }
}
