//! The beat of an engine.

use std::time::{Duration, Instant};

/// How often what is due by time is looked for.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// A worker that has not run for longer than this cannot say that a node was silent.
const STILL_MAX: Duration = Duration::from_millis(400);

/// When the last tick was.
#[derive(Debug)]
pub(crate) struct Beat {
    last: Instant,
    /// It came late.
    was_late: bool,
}

impl Beat {
    pub(crate) fn new(now: Instant) -> Beat {
        Beat {
            last: now,
            was_late: false,
        }
    }

    /// When the next tick is due.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.last + TICK
    }

    /// A tick, and whether what is late may be given up. After a worker has stood still it may not: the nodes may
    /// have answered long ago, and their answers are read first. They have been when it is late for the second time.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let since_last = now.saturating_duration_since(std::mem::replace(&mut self.last, now));
        let is_late = since_last > STILL_MAX;
        let was_late = std::mem::replace(&mut self.was_late, is_late);
        !is_late || was_late
    }
}
