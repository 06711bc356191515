//! A clock that only goes forward, and also while the machine sleeps, which [`std::time::Instant`] does not on Linux:
//! for what is told about the past, and for leases.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Since the machine was started.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
