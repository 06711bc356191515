//! Conditional writes of rows, and reads at SERIAL, where layouts are derived.
//!
//! Nodes carry out each as a whole. What a conditional write has proposed before it timed out may stay under way:
//! whoever comes next to its partition, with a conditional write or a read at SERIAL, completes it. A write has the time
//! that its client has given, as each partition has one writer.

use std::collections::BTreeMap;

use helenus_wire::{Consistency, Options, code, write};

use super::derived::Proposed;
use super::served::{Served, error, result, unavailable};
use super::{Cluster, Mutation};
use crate::chaos::coverage::Failure;
use crate::chaos::cql::{self, Asked, Metadata};
use crate::chaos::wide::{Change, Row};
use crate::dice::Dice;

/// Partition, what is to be written there, and the value that its row must have.
type AskedIf = (i64, Proposed, i64);

fn row_of(proposed: &Proposed) -> Row {
    match proposed.change {
        Change::Put(row, _) => row,
        other => panic!("the model proposes {other:?}"),
    }
}

impl Cluster {
    pub(super) fn write_if(
        &mut self,
        asked: AskedIf,
        level: Consistency,
        text: &str,
        dice: &mut Dice,
    ) -> Served {
        let (partition, proposed, expected) = asked;
        // Others come in between.
        if dice.below(10) == 0 {
            return self.time_out(asked, level, dice);
        }
        let completed = match self.complete(partition, dice) {
            Ok(later) => later,
            Err(served) => return served,
        };
        let known = match self.read_rows((0, partition), Consistency::SERIAL, dice) {
            Ok(known) => known.of_row(&row_of(&proposed)).value,
            Err(served) => return served,
        };
        let outcome = |columns, cells| cql::rows(text, columns, &[cells], None, &Metadata::Full);
        let body = match known {
            Some(value) if value == expected => outcome(cql::APPLIED, vec![vec![1]]),
            Some(value) => {
                let cells = vec![vec![0], value.to_be_bytes().to_vec()];
                outcome(cql::NOT_APPLIED, cells)
            }
            None => outcome(cql::APPLIED, vec![vec![0]]),
        };
        let mut served = result(body);
        if known == Some(expected) {
            match self.put(partition, proposed, level, dice) {
                Ok(later) => served.later = later,
                Err(failed) => return failed,
            }
        }
        served.later.extend(completed);
        served
    }

    /// Completes what is under way in a partition; which replicas get it later.
    pub(super) fn complete(
        &mut self,
        partition: i64,
        dice: &mut Dice,
    ) -> Result<Vec<Mutation>, Served> {
        let (alive, factor) = self.alive_of((0, partition));
        let required = factor / 2 + 1;
        if alive.len() < required {
            return Err(unavailable(Consistency::SERIAL, required, alive.len()));
        }
        let derived = self.derived.as_mut();
        let Some(proposed) = derived.and_then(|of| of.proposed.remove(&partition)) else {
            return Ok(Vec::new());
        };
        if let Some(derived) = &mut self.derived {
            derived.completed += 1;
        }
        self.put(partition, proposed, Consistency::QUORUM, dice)
    }

    fn put(
        &mut self,
        partition: i64,
        proposed: Proposed,
        level: Consistency,
        dice: &mut Dice,
    ) -> Result<Vec<Mutation>, Served> {
        let changes = BTreeMap::from([(partition, vec![(0, proposed.change)])]);
        if let Some(served) = self.cannot_write_rows(&changes, level) {
            return Err(served);
        }
        let served = self.write_rows(changes, proposed.timestamp, level, dice);
        Ok(served.later)
    }

    /// An error in place of an answer. After a time-out the write may have been carried out, or be under way.
    pub(super) fn fail_if(
        &mut self,
        asked: AskedIf,
        level: Consistency,
        dice: &mut Dice,
    ) -> Served {
        match dice.below(4) {
            0 => error(code::OVERLOADED, &[]),
            1 => unavailable(Consistency::SERIAL, 2, 1),
            2 => self.time_out(asked, level, dice),
            _ => error(code::IS_BOOTSTRAPPING, &[]),
        }
    }

    fn time_out(&mut self, asked: AskedIf, level: Consistency, dice: &mut Dice) -> Served {
        let (partition, proposed, expected) = asked;
        let mut later = Vec::new();
        if let Ok(completed) = self.complete(partition, dice) {
            later = completed;
            let known = self.read_rows((0, partition), Consistency::SERIAL, dice);
            let value = known
                .ok()
                .and_then(|of| of.of_row(&row_of(&proposed)).value);
            match dice.below(4) {
                _ if value != Some(expected) => {}
                0 => later.extend(
                    self.put(partition, proposed, level, dice)
                        .unwrap_or_default(),
                ),
                1 | 2 => {
                    if let Some(derived) = &mut self.derived {
                        derived.proposed.insert(partition, proposed);
                    }
                }
                _ => {}
            }
        }
        let mut fields = Vec::new();
        write::u16(&mut fields, Consistency::SERIAL.0);
        write::i32(&mut fields, 0);
        write::i32(&mut fields, 2);
        write::string(&mut fields, "CAS");
        Served {
            later,
            ..error(code::WRITE_TIMEOUT, &fields)
        }
    }

    /// The same of a read, which may have completed what was under way.
    pub(super) fn fail_serial_read(
        &mut self,
        partition: i64,
        asked: &Asked,
        options: &Options<'_>,
        dice: &mut Dice,
    ) -> Served {
        let mut served = self.fail(asked, options, 0, dice);
        let is_timed_out = served.failure() == Some(Failure::TimedOut);
        if is_timed_out && let Ok(later) = self.complete(partition, dice) {
            served.later = later;
        }
        served
    }
}
