//! When each worker last had a turn. One without turns is stuck: its clients wait, and so do those
//! that the kernel still gives it. One that has ended because it was told to has none, and is not counted.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A worker looks at its time-outs every 100 ms, so one that is only busy is far below.
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// No turn takes as long, so it will not end any more: the process has to be started again.
const DEAD_AFTER: Duration = Duration::from_secs(20);

pub(crate) struct WorkerTurns {
    began: Instant,
    /// Milliseconds from then to the last turn of each worker.
    last_ms: OnceLock<Box<[AtomicU64]>>,
}

/// In place of the last turn of a worker that is done.
const DONE: u64 = u64::MAX;

/// A worker, and the time since its last turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastTurn {
    pub worker: usize,
    pub ago: Duration,
}

impl LastTurn {
    pub(crate) fn is_stuck(&self) -> bool {
        self.ago > STUCK_AFTER
    }
}

/// For operators.
impl fmt::Display for LastTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (worker, seconds) = (self.worker, self.ago.as_secs());
        write!(
            f,
            "worker {worker} has answered nobody for {seconds} s: it is stuck"
        )
    }
}

impl WorkerTurns {
    pub(crate) fn new(began: Instant) -> WorkerTurns {
        WorkerTurns {
            began,
            last_ms: OnceLock::new(),
        }
    }

    /// The workers start now.
    pub(crate) fn begin(&self, workers: usize, now: Instant) {
        let now_ms = self.ms(now);
        self.last_ms
            .get_or_init(|| (0..workers).map(|_| AtomicU64::new(now_ms)).collect());
    }

    /// A worker has a turn.
    pub(crate) fn note(&self, worker: usize, now: Instant) {
        if let Some(last_ms) = self.last_ms.get().and_then(|of| of.get(worker)) {
            last_ms.store(self.ms(now), Ordering::Relaxed);
        }
    }

    /// A worker has ended, as it was told to.
    pub(crate) fn end(&self, worker: usize) {
        if let Some(last_ms) = self.last_ms.get().and_then(|of| of.get(worker)) {
            last_ms.store(DONE, Ordering::Relaxed);
        }
    }

    /// The worker whose last turn is the longest ago; none before they start, or once they have ended.
    pub(crate) fn oldest(&self, now: Instant) -> Option<LastTurn> {
        let last_ms = self.last_ms.get()?.iter();
        let last_ms = last_ms.map(|of| of.load(Ordering::Relaxed));
        let at_work = last_ms.enumerate().filter(|(_, last_ms)| *last_ms != DONE);
        let (worker, last_ms) = at_work.min_by_key(|(_, last_ms)| *last_ms)?;
        Some(LastTurn {
            worker,
            ago: Duration::from_millis(self.ms(now).saturating_sub(last_ms)),
        })
    }

    /// A worker that will have no turn any more, if there is one.
    pub(crate) fn dead(&self, now: Instant) -> Option<LastTurn> {
        self.oldest(now).filter(|of| of.ago > DEAD_AFTER)
    }

    fn ms(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_that_has_had_no_turn_for_longest_is_told() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let turns = WorkerTurns::new(began);
        assert_eq!(turns.oldest(at(1)), None);
        turns.begin(3, at(1));
        turns.note(0, at(9));
        turns.note(1, at(2));
        turns.note(2, at(8));
        let told = |now| turns.oldest(now).map(|of| (of.worker, of.ago.as_secs()));
        assert_eq!(told(at(9)), Some((1, 7)));
        assert!(turns.oldest(at(9)).is_some_and(|of| of.is_stuck()));
        turns.note(1, at(10));
        assert_eq!(told(at(10)), Some((2, 2)));
        assert!(turns.oldest(at(10)).is_some_and(|of| !of.is_stuck()));
    }

    #[test]
    fn a_worker_that_is_stuck_for_long_is_dead() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let turns = WorkerTurns::new(began);
        assert_eq!(turns.dead(at(60)), None);
        turns.begin(2, at(0));
        turns.note(1, at(20));
        assert_eq!(turns.dead(at(20)), None);
        assert_eq!(turns.dead(at(21)).map(|of| of.worker), Some(0));
        turns.note(0, at(21));
        assert_eq!(turns.dead(at(21)), None);
    }

    #[test]
    fn a_worker_that_has_ended_is_not_stuck() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let turns = WorkerTurns::new(began);
        turns.begin(2, at(0));
        turns.end(0);
        turns.note(1, at(60));
        let told = turns.oldest(at(61)).map(|of| (of.worker, of.ago.as_secs()));
        assert_eq!(told, Some((1, 1)));
        turns.end(1);
        assert_eq!(turns.oldest(at(90)), None);
    }
}
