//! What must hold whatever goes wrong.
//!
//! - A request is answered once, on its stream, or its connection ends.
//! - A read at QUORUM returns a value that was written to that key, not before it was written, and no
//!   older than the last write that was acknowledged before the read began. Each key has one writer,
//!   who writes one value after the other, so this is all that a regular register promises.
//! - A statement that adds up, or is conditional, is executed once at most; once acknowledged, it was.
//! - A scan returns every key once, and an aggregate counts all of them.
//! - Nobody sees what another role's connection has answered.

use std::collections::BTreeMap;
use std::fmt;

/// The time from a request to its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub begun_us: u64,
    pub ended_us: u64,
}

impl Span {
    pub(super) fn of(begun_us: u64, ended_us: u64) -> Span {
        Span { begun_us, ended_us }
    }
}

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub at_us: u64,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at_us as f64 / 1e6;
        write!(f, "after {seconds:.6} s: {}", self.what)
    }
}

/// A write of a register.
#[derive(Clone, Copy, Debug)]
struct Written {
    value: i64,
    begun_us: u64,
    acknowledged_us: Option<u64>,
}

/// The registers: every key of the table, with all that was ever written to it.
#[derive(Debug, Default)]
pub(super) struct Registers {
    keys: BTreeMap<i64, Vec<Written>>,
}

impl Registers {
    /// A write is about to be sent.
    pub(super) fn begin(&mut self, key: i64, value: i64, now_us: u64) {
        self.keys.entry(key).or_default().push(Written {
            value,
            begun_us: now_us,
            acknowledged_us: None,
        });
    }

    /// Its acknowledgement has come.
    pub(super) fn acknowledge(&mut self, key: i64, value: i64, now_us: u64) {
        let writes = self.keys.entry(key).or_default();
        if let Some(write) = writes.iter_mut().find(|write| write.value == value) {
            write.acknowledged_us = Some(now_us);
        }
    }

    /// Judges a read of one key that began at one time and ends at another.
    pub(super) fn judge(&self, key: i64, value: Option<i64>, span: Span) -> Result<(), String> {
        let writes = self.keys.get(&key).map_or(&[][..], |writes| writes);
        let acknowledged =
            |write: &Written| write.acknowledged_us.is_some_and(|at| at < span.begun_us);
        let least = writes.iter().rposition(acknowledged);
        let Some(value) = value else {
            return match least {
                None => Ok(()),
                Some(at) => Err(format!("key {key} has no row, but {:?}", writes[at])),
            };
        };
        let found = writes.iter().rposition(|write| write.value == value);
        match found {
            None => Err(format!("key {key} has {value}, which nobody wrote to it")),
            Some(at) if writes[at].begun_us > span.ended_us => {
                Err(format!("key {key} has {value} before it is written"))
            }
            Some(at) if Some(at) < least => {
                let least = least.map(|at| writes[at]);
                Err(format!(
                    "key {key} has {:?}, older than {least:?}",
                    writes[at]
                ))
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether a read that begins at this time could find something that is too old.
    pub(super) fn could_be_stale(&self, key: i64, begun_us: u64) -> bool {
        let writes = self.keys.get(&key).map_or(&[][..], |writes| writes);
        let acknowledged = |write: &Written| write.acknowledged_us.is_some_and(|at| at < begun_us);
        writes.iter().rposition(acknowledged) > Some(0)
    }

    /// Judges a value of which only the key is known: one that was ever written to it.
    pub(super) fn is_of(&self, key: i64, value: i64) -> bool {
        let writes = self.keys.get(&key);
        writes.is_some_and(|writes| writes.iter().any(|write| write.value == value))
    }
}

/// Statements that must not be executed twice, by what makes each of them unlike all others.
#[derive(Debug, Default)]
pub(super) struct Once {
    executed: BTreeMap<i64, u32>,
    acknowledged: Vec<i64>,
}

impl Once {
    /// A node has executed it.
    pub(super) fn execute(&mut self, id: i64) {
        *self.executed.entry(id).or_default() += 1;
    }

    /// Its client has been told so.
    pub(super) fn acknowledge(&mut self, id: i64) {
        self.acknowledged.push(id);
    }

    /// How often it was executed.
    pub(super) fn times(&self, id: i64) -> u32 {
        self.executed.get(&id).copied().unwrap_or(0)
    }

    /// What is wrong in the end.
    pub(super) fn judge(&self) -> Result<(), String> {
        if let Some((id, times)) = self.executed.iter().find(|(_, times)| **times > 1) {
            return Err(format!("{id} was executed {times} times"));
        }
        match self.acknowledged.iter().find(|id| self.times(**id) == 0) {
            Some(id) => Err(format!("{id} was acknowledged and never executed")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_no_older_than_what_was_acknowledged_and_not_of_the_future() {
        let mut registers = Registers::default();
        registers.begin(1, 10, 0);
        registers.acknowledge(1, 10, 5);
        registers.begin(1, 11, 6);
        for value in [10, 11] {
            assert_eq!(
                registers.judge(1, Some(value), Span::of(7, 8)),
                Ok(()),
                "under way"
            );
        }
        assert!(
            registers.judge(1, Some(11), Span::of(2, 5)).is_err(),
            "not yet begun"
        );
        assert!(registers.judge(1, None, Span::of(7, 8)).is_err());
        assert!(
            registers.judge(1, Some(12), Span::of(7, 8)).is_err(),
            "of nobody"
        );
        registers.acknowledge(1, 11, 9);
        assert_eq!(
            registers.judge(1, Some(10), Span::of(9, 12)),
            Ok(()),
            "side by side"
        );
        assert!(
            registers.judge(1, Some(10), Span::of(10, 12)).is_err(),
            "stale"
        );
        assert_eq!(registers.judge(2, None, Span::of(7, 8)), Ok(()));
    }

    #[test]
    fn once_is_once() {
        let mut once = Once::default();
        once.execute(7);
        once.acknowledge(7);
        assert_eq!(once.judge(), Ok(()));
        once.acknowledge(8);
        assert!(once.judge().is_err());
        once.execute(8);
        once.execute(8);
        assert!(once.judge().is_err());
    }
}
