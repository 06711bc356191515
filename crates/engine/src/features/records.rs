//! A worker's records of requests that have ended, for people who want to know what is wrong: slow ones, errors, and
//! the costs of each statement. Nothing here decides anything.
//!
//! Bounded, for each worker: [`SLOW_BYTES_MAX`], what `features/records/errors.rs` and `features/records/statements.rs` state.
//! Nobody waits for it and no lock is taken: who wants to know asks the worker ([`crate::worker_status`]).

mod attempts;
mod described;
mod errors;
mod recording;
mod ring;
mod slow;
mod statements;
mod trace;
mod traces;

use helenus_policy::schedule::Class;

use crate::config::Config;

pub use crate::exec::attempt_end::AttemptEnd;

pub use attempts::Attempt;
pub use described::Described;
pub use errors::ErrorRecord;
pub(super) use recording::{
    on_client_answered, on_refused, on_sampled, on_settings, on_tick, report,
};
pub use slow::SlowRequest;
pub use statements::{Spread, StatementRecord};
pub(super) use trace::on_attempt;
pub use traces::{RequestTrace, TraceParent};

use errors::Errors;
use ring::Ring;
use statements::{Cost, Costs};
use traces::Traces;

/// A client request's attempts one by one, if anything is traced.
pub(super) type Slot = Option<Box<attempts::Attempts>>;

/// A question about records: at most so many.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    Slow { max: usize },
    Errors { max: usize },
    Statements { max: usize },
}

/// The answer to [`Wanted`].
#[derive(Debug)]
pub enum Report {
    /// The latest first, and how many were too many to be described.
    Slow(Vec<SlowRequest>, u64),
    /// The latest first; and the latest of each code.
    Errors(Vec<ErrorRecord>, Vec<ErrorRecord>),
    /// The one that took the most time first.
    Statements(Vec<StatementRecord>),
}

/// Bytes of slow requests.
const SLOW_BYTES_MAX: usize = 256 * 1024;
/// Slow requests of one kind that are remembered of a tick at most: where everything is slow, a description
/// of each would make it slower.
const NOTED_MAX: u32 = 16;

/// A worker's state.
pub(super) type State = Records;

/// Records of one worker.
pub(crate) struct Records {
    /// From when on a request is slow, in microseconds, by class.
    slow_us: [u64; Class::COUNT],
    slow: Ring<SlowRequest>,
    errors: Errors,
    costs: Costs,
    /// Slow requests noted in this tick: scans, and others.
    noted: [u32; 2],
    /// Slow requests that were not described.
    left_out: u64,
    /// Statements learnt in this tick because they failed.
    learnt: u32,
    /// Which requests are handed out to be traced.
    pub traces: Traces,
}

impl Default for Records {
    fn default() -> Records {
        Records {
            slow_us: [u64::MAX; Class::COUNT],
            slow: Ring::new(SLOW_BYTES_MAX),
            errors: Errors::default(),
            costs: Costs::default(),
            noted: [0; 2],
            left_out: 0,
            learnt: 0,
            traces: Traces::default(),
        }
    }
}

impl Records {
    pub(crate) fn adopt(&mut self, config: &Config) {
        self.slow_us = slow_us(config);
        self.traces.adopt(&config.tracing);
    }

    /// True if a request that took so long is slow for its class.
    #[inline]
    pub(crate) fn is_slow(&self, class: Class, took_us: u64) -> bool {
        took_us >= self.slow_us[class as usize]
    }

    /// True if a slow request is described. Scans and others do not crowd each other out.
    pub(crate) fn takes_slow(&mut self, class: Class) -> bool {
        let noted = &mut self.noted[usize::from(class == Class::Scan)];
        let is_taken = *noted < NOTED_MAX;
        *noted += u32::from(is_taken);
        self.left_out += u64::from(!is_taken);
        is_taken
    }

    pub(crate) fn note_slow(&mut self, slow: SlowRequest) {
        let bytes = slow.byte_len();
        self.slow.push(slow, bytes);
    }

    /// Those remembered, the latest first; also how many were not described.
    pub(crate) fn slow(&self, max: usize) -> (Vec<SlowRequest>, u64) {
        let latest = self.slow.iter().rev().take(max);
        (latest.cloned().collect(), self.left_out)
    }

    /// True if an error is described.
    pub(crate) fn takes_error(&mut self, code: i32) -> bool {
        self.errors.takes(code)
    }

    pub(crate) fn note_error(&mut self, error: ErrorRecord) {
        self.errors.note(error);
    }

    /// The latest errors, the last first; and the latest of each code.
    pub(crate) fn errors(&self, max: usize) -> (Vec<ErrorRecord>, Vec<ErrorRecord>) {
        (self.errors.recent(max), self.errors.last())
    }

    /// True if a statement's costs are counted: by the numbers of the statement and of the role.
    pub(crate) fn knows(&self, key: (u64, u32)) -> bool {
        self.costs.knows(key)
    }

    /// Counts a statement's costs from now on.
    pub(crate) fn learn(&mut self, key: (u64, u32), asked: Described) {
        self.costs.learn(key, asked);
    }

    /// Notes what an answer has cost, for all that it stands for.
    pub(crate) fn note_cost(&mut self, key: (u64, u32), cost: &Cost) {
        self.costs.note(key, cost);
    }

    /// Counts an error of a statement that is known. Returns true if it is one that is to be
    /// [learnt](Records::learn), of which there are few in each tick: texts that fail may all differ.
    pub(crate) fn takes_cost_error(&mut self, key: (u64, u32)) -> bool {
        if self.costs.knows(key) {
            self.costs.note_error(key);
            return false;
        }
        let is_taken = self.learnt < NOTED_MAX;
        self.learnt += u32::from(is_taken);
        is_taken
    }

    /// Counts an error of a statement that has been learnt.
    pub(crate) fn note_cost_error(&mut self, key: (u64, u32)) {
        self.costs.note_error(key);
    }

    /// The statements that have taken the most time, the first of them first.
    pub(crate) fn statements(&self, max: usize) -> Vec<StatementRecord> {
        self.costs.most(max)
    }

    pub(crate) fn on_tick(&mut self, now_us: u64) {
        self.noted = [0; 2];
        self.learnt = 0;
        self.traces.on_tick();
        self.errors.on_tick();
        self.costs.on_tick(now_us);
    }
}

/// In microseconds, by class; what never counts is set so far off.
fn slow_us(config: &Config) -> [u64; Class::COUNT] {
    let us = |ms: u64| match ms {
        0 => u64::MAX,
        ms => ms.saturating_mul(1_000),
    };
    Class::ALL.map(|class| match class {
        // Schema changes and what was not understood take long by nature.
        Class::Scan | Class::System | Class::Other => us(config.admin.slow_scan_ms),
        Class::Point | Class::Multi | Class::Slice | Class::Write | Class::Lwt => {
            us(config.admin.slow_ms)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records_with(config: &Config) -> Records {
        let mut records = Records::default();
        records.adopt(config);
        records
    }

    #[test]
    fn scans_have_a_threshold_of_their_own_and_zero_is_never() {
        let mut config = Config::default();
        config.admin.slow_ms = 100;
        config.admin.slow_scan_ms = 2_000;
        let mut records = records_with(&config);
        assert!(records.is_slow(Class::Point, 100_000));
        assert!(!records.is_slow(Class::Point, 99_999));
        assert!(!records.is_slow(Class::Scan, 1_999_999));
        assert!(records.is_slow(Class::Scan, 2_000_000));
        config.admin.slow_ms = 0;
        records.adopt(&config);
        assert!(!records.is_slow(Class::Write, u64::MAX - 1));
    }

    #[test]
    fn a_flood_is_not_described_one_by_one_and_leaves_room_for_scans() {
        let mut records = records_with(&Config::default());
        let taken = |records: &mut Records, class, n| {
            (0..n).filter(|_| records.takes_slow(class)).count() as u32
        };
        assert_eq!(taken(&mut records, Class::Point, 1_000), NOTED_MAX);
        assert_eq!(taken(&mut records, Class::Scan, 3), 3);
        assert_eq!(records.slow(10).1, 1_000 - u64::from(NOTED_MAX));
        let learnt = |records: &mut Records| {
            let keys = (0..1_000).map(|n| (n, 0));
            keys.filter(|key| records.takes_cost_error(*key)).count() as u32
        };
        assert_eq!(learnt(&mut records), NOTED_MAX);
        assert_eq!(learnt(&mut records), 0);
        records.on_tick(0);
        assert_eq!(taken(&mut records, Class::Point, 3), 3);
        assert_eq!(learnt(&mut records), NOTED_MAX);
    }
}
