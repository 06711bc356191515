//! How many reads may be asked of a second replica, and when slow ones were last looked for.

use std::time::{Duration, Instant};

/// Whoever looks so late has not read yet what the nodes have answered.
const LATE: Duration = Duration::from_millis(50);
/// Second attempts for each request sent.
const SHARE: f32 = 0.02;
const BUDGET_MAX: f32 = 100.0;
/// Bytes of the answers to second attempts: those that take long are the large ones.
const BYTES_MAX: f64 = 16.0 * 1024.0 * 1024.0;

/// When slow reads are looked for, and how many may be repeated.
#[derive(Debug)]
pub(crate) struct Hedging {
    pub looked: Instant,
    was_busy: bool,
    /// Requests sent since then.
    sent: u32,
    /// Bytes answered since then.
    answered: usize,
    budget: f32,
    /// Below 0 once answers were longer than expected.
    bytes: f64,
}

impl Hedging {
    pub(crate) fn new(now: Instant) -> Hedging {
        Hedging {
            looked: now,
            was_busy: false,
            sent: 0,
            answered: 0,
            budget: BUDGET_MAX,
            bytes: BYTES_MAX,
        }
    }

    #[inline]
    pub(crate) fn note_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// A node has answered.
    #[inline]
    pub(crate) fn note_answer(&mut self, bytes: usize) {
        self.answered = self.answered.saturating_add(bytes);
    }

    /// The answer to a read that was repeated: another node has read as much.
    pub(crate) fn note_repeated(&mut self, bytes: usize) {
        self.bytes -= bytes as f64;
    }

    /// Begins to look. How many reads may be repeated.
    pub(crate) fn look(&mut self, now: Instant, busy: bool) -> usize {
        let since = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        let is_late = std::mem::replace(&mut self.was_busy, busy) && since > LATE;
        let earned = SHARE * std::mem::take(&mut self.sent) as f32;
        self.budget = (self.budget + earned).min(BUDGET_MAX);
        let answered = std::mem::take(&mut self.answered) as f64;
        self.bytes = (self.bytes + f64::from(SHARE) * answered).min(BYTES_MAX);
        match is_late || self.bytes <= 0.0 {
            true => 0,
            false => self.budget as usize,
        }
    }

    /// A read is repeated.
    pub(crate) fn spend(&mut self) {
        self.budget -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::begin;

    const BEAT: Duration = Duration::from_millis(10);

    #[test]
    fn second_attempts_are_a_share_of_what_is_sent() {
        let mut now = begin();
        let mut hedging = Hedging::new(now);
        for _ in 0..BUDGET_MAX as usize {
            hedging.spend();
        }
        assert_eq!(hedging.look(now, true), 0, "the reserve is spent");
        for _ in 0..150 {
            hedging.note_sent();
        }
        now += BEAT;
        assert_eq!(hedging.look(now, true), 3);
        for _ in 0..1_000_000 {
            hedging.note_sent();
        }
        now += BEAT;
        assert_eq!(hedging.look(now, true), BUDGET_MAX as usize);
    }

    #[test]
    fn of_all_bytes_a_share_is_read_twice_in_the_long_run() {
        let mut now = begin();
        let mut hedging = Hedging::new(now);
        hedging.note_repeated(100 << 20);
        let mut beats = 0;
        while hedging.look(now, true) == 0 {
            hedging.note_answer(10 << 20);
            now += BEAT;
            beats += 1;
        }
        assert_eq!(beats, 421, "a fiftieth of 4.2 GiB");
    }

    #[test]
    fn a_worker_that_stood_still_knows_nothing_of_slow_nodes() {
        let mut now = begin();
        let mut hedging = Hedging::new(now);
        assert!(hedging.look(now, false) > 0);
        now += 100 * BEAT;
        assert!(hedging.look(now, true) > 0, "it had nothing to do");
        now += 100 * BEAT;
        assert_eq!(hedging.look(now, true), 0, "it comes late");
        now += BEAT;
        assert!(hedging.look(now, true) > 0);
    }
}
