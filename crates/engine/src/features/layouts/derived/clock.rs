//! Timestamps of writes whose clients give none.

use std::time::Duration;

use crate::support::sync::atomic::{AtomicU64, Ordering};

/// The last timestamp that was given, in microseconds since 1970. All workers share it: a client's later write, over
/// another connection, must not have an earlier time.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// A timestamp of now, later than all before it.
    pub(crate) fn timestamp(&self, since_1970: Duration) -> i64 {
        let now = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
        let later = |last: u64| Some(now.max(last.saturating_add(1)));
        let last = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        let (Ok(last) | Err(last)) = last;
        i64::try_from(now.max(last.saturating_add(1))).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_writes_have_later_times_also_if_the_clock_stands_or_goes_back() {
        let clock = Clock::default();
        let at = |us| clock.timestamp(Duration::from_micros(us));
        assert_eq!([at(5), at(5), at(3), at(9), at(8)], [5, 6, 7, 9, 10]);
    }
}
