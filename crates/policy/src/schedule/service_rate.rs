//! Measures how fast waiting work is served, and so how long a new item would wait.
//!
//! Formula: while anything waits, predicted work answered ÷ time passed. Each interval enters the
//! average with its length relative to the memory:
//!
//! rate ← (rate · memory + work done) ÷ (memory + time passed)
//!
//! The current interval counts in the same way, so that a stopped node is noticed, while a pause of
//! a tenth of a second changes little. The wait of a new item is the predicted work served before
//! it ÷ that rate.
//!
//! Evidence: `schedule/tests.rs`: a node that stalls at the start, and first answers far slower
//! than predicted, do not cause refusals.
//!
//! Limits: it is as good as the predictions of work; nothing is said until a quarter of the memory
//! has passed.
//!
//! Source: an exponentially weighted moving average over irregular intervals.

use super::Class;
use super::fair_queue::Rank;

const INTERVAL_US: u64 = 50_000;
/// The memory is the class's longest wait divided by this: a quarter of a minute says something about
/// the next minute, a garbage collection of half a second does not.
const MEMORY_SHARE: u64 = 4;
const MEMORY_US_MIN: u64 = 500_000;
/// The initial rate, that of a node serving this many queries at a time. It is soon forgotten, but
/// it keeps a node that pauses right at the start, for JIT compilation or garbage collection, from
/// being taken for a slow one.
const RATE_INITIAL: f64 = 4.0;
/// Fraction of the memory that must have passed before a wait is predicted.
const KNOWN_SHARE: f64 = 0.25;

/// Scans and everything else have a service rate and a backlog of their own.
pub(super) fn rate_group(class: Class) -> usize {
    usize::from(class != Class::Scan)
}

/// The measured rate of work, in microseconds of predicted work per microsecond.
#[derive(Debug)]
pub(super) struct ServiceRate {
    memory_us: f64,
    /// Time during which something was waiting, counted until the rate is known.
    seen_us: f64,
    rate: f64,
    /// Start of the current interval and work done in it; None while nothing waits.
    interval: Option<(u64, u64)>,
}

impl ServiceRate {
    /// For a class with this longest wait.
    pub(super) fn new(wait_max_us: u64) -> Self {
        ServiceRate {
            memory_us: (wait_max_us / MEMORY_SHARE).max(MEMORY_US_MIN) as f64,
            seen_us: 0.0,
            rate: RATE_INITIAL,
            interval: None,
        }
    }

    /// `work_us` was answered (0: only time passed); `waits`: whether something is still waiting.
    #[inline]
    pub(super) fn on_done(&mut self, now_us: u64, work_us: u32, waits: bool) {
        match waits {
            true => self.note(now_us, work_us),
            false => self.interval = None,
        }
    }

    #[inline(never)]
    fn note(&mut self, now_us: u64, work_us: u32) {
        let Some((since_us, done_us)) = &mut self.interval else {
            self.interval = Some((now_us, 0));
            return;
        };
        *done_us += u64::from(work_us);
        let passed_us = now_us.saturating_sub(*since_us);
        if passed_us >= INTERVAL_US {
            self.rate = self.rate_at(now_us);
            if !self.is_known() {
                self.seen_us += passed_us as f64;
            }
            self.interval = Some((now_us, 0));
        }
    }

    /// Time until `ahead_us` of work is done; None while the rate is unknown.
    pub(super) fn wait_us(&self, now_us: u64, ahead_us: u64) -> Option<u64> {
        // At a rate near zero the cast saturates.
        let wait_us = || (ahead_us as f64 / self.rate_at(now_us).max(1e-9)) as u64;
        self.is_known().then(wait_us)
    }

    fn is_known(&self) -> bool {
        self.seen_us >= KNOWN_SHARE * self.memory_us
    }

    fn rate_at(&self, now_us: u64) -> f64 {
        let Some((since_us, done_us)) = self.interval else {
            return self.rate;
        };
        let passed_us = now_us.saturating_sub(since_us) as f64;
        (self.rate * self.memory_us + done_us as f64) / (self.memory_us + passed_us)
    }
}

/// Waiting work, by rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    work_us: [u64; 33],
    items: [u32; 33],
}

impl Backlog {
    pub(super) fn new() -> Self {
        Backlog {
            work_us: [0; 33],
            items: [0; 33],
        }
    }

    pub(super) fn add(&mut self, rank: Rank, work_us: u32) {
        self.work_us[bucket(rank)] += u64::from(work_us);
        self.items[bucket(rank)] += 1;
    }

    pub(super) fn sub(&mut self, rank: Rank, work_us: u32) {
        let work = &mut self.work_us[bucket(rank)];
        debug_assert!(
            *work >= u64::from(work_us),
            "work was removed that was never added"
        );
        *work = work.saturating_sub(u64::from(work_us));
        let items = &mut self.items[bucket(rank)];
        *items = items.saturating_sub(1);
    }

    /// The work that goes before a new item of this rank.
    pub(super) fn up_to(&self, rank: Rank) -> u64 {
        self.work_us[..=bucket(rank)].iter().sum()
    }

    /// The estimated work, in microseconds, of one of the largest items of that.
    pub(super) fn largest_up_to(&self, rank: Rank) -> u64 {
        let buckets = self.work_us.iter().zip(&self.items);
        let mut buckets = buckets.take(bucket(rank) + 1).rev();
        let largest = buckets.find(|(_, items)| **items > 0);
        largest.map_or(0, |(work_us, items)| work_us / u64::from(*items))
    }
}

/// Ranks of the default variant are powers of two, 0 to 32; larger ones, of presets, share the
/// last.
fn bucket(rank: Rank) -> usize {
    rank.0.min(32) as usize
}
