//! A rule's places in use, and its counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use helenus_policy::limit::{InFlight, Lately};

/// It outlives changes of the rule's settings.
#[derive(Debug)]
pub(super) struct Used {
    began: Instant,
    pub(super) places: InFlight,
    pub(super) lately: Lately,
    pub(super) matched: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) would_refuse: AtomicU64,
    pub(super) unprepared: AtomicU64,
    pub(super) rewritten: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// Counts of a rule since the proxy knows it by name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleCounts {
    /// Requests that have matched it, and of these those that it has refused, or would have if it were not only
    /// tried out.
    pub matched: u64,
    pub refused: u64,
    pub would_refuse: u64,
    /// Requests answered with UNPREPARED, because it might forbid what the proxy does not know.
    pub unprepared: u64,
    /// Requests carried out at another consistency level than their own.
    pub rewritten: u64,
    /// Requests given up after its time.
    pub timed_out: u64,
    /// Of requests and answers, if it limits them.
    pub bytes: u64,
    /// Requests under way that hold a place of it.
    pub in_flight: u32,
    /// Requests that matched per second in the last few seconds.
    pub per_second: f64,
}

impl Used {
    pub(super) fn new(now: Instant) -> Used {
        Used {
            began: now,
            places: InFlight::default(),
            lately: Lately::default(),
            matched: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            would_refuse: AtomicU64::new(0),
            unprepared: AtomicU64::new(0),
            rewritten: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn passed_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_nanos() as u64
    }

    pub(super) fn counts(&self, now: Instant) -> RuleCounts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        RuleCounts {
            matched: count(&self.matched),
            refused: count(&self.refused),
            would_refuse: count(&self.would_refuse),
            unprepared: count(&self.unprepared),
            rewritten: count(&self.rewritten),
            timed_out: count(&self.timed_out),
            bytes: count(&self.bytes),
            in_flight: self.places.now(),
            per_second: self.lately.per_second(self.passed_ns(now)),
        }
    }
}
