//! How fast what waits is worked off, and so how long a newcomer would wait.
//!
//! Picture: the sign "from here 30 minutes" beside a queue.
//!
//! Formula: while anything waits, predicted work that was answered ÷ time passed. A
//! stretch of time joins the average with its length against the memory:
//!
//! rate ← (rate · memory + work done) ÷ (memory + time passed)
//!
//! The stretch that is running counts in the same way, so that a node which stops is
//! seen, while a pause of a tenth of a second changes little. The wait of a newcomer
//! is the predicted work that is served before it ÷ that rate.

use super::lane::Rank;

const STRETCH_US: u64 = 50_000;
/// Part of a class's longest wait that is remembered: what a quarter of a minute has shown says
/// something about the next minute, half a second's pause for garbage does not.
const MEMORY_SHARE: u64 = 4;
const MEMORY_US_MIN: u64 = 500_000;
/// The rate before anything is known, as of a node that does so many things at a time. It is soon
/// forgotten; but a node that pauses at the very beginning, to compile or to collect garbage, is no
/// more taken for a slow one than a node that is known.
const RATE_AT_FIRST: f64 = 4.0;
/// Part of the memory that must have passed before anything is said.
const KNOWN_SHARE: f64 = 0.25;

/// The measured rate of work, in microseconds of predicted work per microsecond.
#[derive(Debug)]
pub(super) struct Drain {
    memory_us: f64,
    /// Time over which something has waited, until it is enough to say anything.
    seen_us: f64,
    rate: f64,
    /// Begin of the running stretch and work done in it; none while nothing waits.
    stretch: Option<(u64, u64)>,
}

impl Drain {
    /// Of a class that waits for this long at most.
    pub(super) fn new(wait_max_us: u64) -> Self {
        Drain {
            memory_us: (wait_max_us / MEMORY_SHARE).max(MEMORY_US_MIN) as f64,
            seen_us: 0.0,
            rate: RATE_AT_FIRST,
            stretch: None,
        }
    }

    /// `work_us` was answered (0: only time passed); `waits`: something still waits.
    pub(super) fn on_done(&mut self, now_us: u64, work_us: u32, waits: bool) {
        if !waits {
            self.stretch = None;
            return;
        }
        let Some((since_us, done_us)) = &mut self.stretch else {
            self.stretch = Some((now_us, 0));
            return;
        };
        *done_us += u64::from(work_us);
        let passed_us = now_us.saturating_sub(*since_us);
        if passed_us >= STRETCH_US {
            self.rate = self.rate_at(now_us);
            if !self.is_known() {
                self.seen_us += passed_us as f64;
            }
            self.stretch = Some((now_us, 0));
        }
    }

    /// Time until `ahead_us` of work is done; None while too little has been seen.
    pub(super) fn wait_us(&self, now_us: u64, ahead_us: u64) -> Option<u64> {
        // At a rate of nearly zero the cast saturates: for ever.
        let wait_us = || (ahead_us as f64 / self.rate_at(now_us).max(1e-9)) as u64;
        self.is_known().then(wait_us)
    }

    fn is_known(&self) -> bool {
        self.seen_us >= KNOWN_SHARE * self.memory_us
    }

    fn rate_at(&self, now_us: u64) -> f64 {
        let Some((since_us, done_us)) = self.stretch else {
            return self.rate;
        };
        let passed_us = now_us.saturating_sub(since_us) as f64;
        (self.rate * self.memory_us + done_us as f64) / (self.memory_us + passed_us)
    }
}

/// Work that waits, by the rank at which it waits.
#[derive(Debug)]
pub(super) struct Ahead {
    work_us: [u64; 33],
}

impl Ahead {
    pub(super) fn new() -> Self {
        Ahead { work_us: [0; 33] }
    }

    pub(super) fn add(&mut self, rank: Rank, work_us: u32) {
        self.work_us[slot(rank)] += u64::from(work_us);
    }

    pub(super) fn sub(&mut self, rank: Rank, work_us: u32) {
        let work = &mut self.work_us[slot(rank)];
        debug_assert!(*work >= u64::from(work_us), "work left that never came");
        *work = work.saturating_sub(u64::from(work_us));
    }

    /// What is served before a newcomer of this rank.
    pub(super) fn up_to(&self, rank: Rank) -> u64 {
        self.work_us[..=slot(rank)].iter().sum()
    }
}

/// The default's ranks are powers of two, 0 to 32; the presets' may be more, and those share the last.
fn slot(rank: Rank) -> usize {
    rank.0.min(32) as usize
}
