//! What replicas hold: reads and writes at a level, and errors that leave it open what was done.

use helenus_wire::{Consistency, Options, code, write};

use super::served::{Served, error, result, unavailable};
use super::{Cell, Cluster, Mutation, Written};
use crate::chaos::cql::Asked;
use crate::dice::Dice;

impl Cluster {
    pub(in crate::chaos) fn alive(&self, key: i64) -> (Vec<usize>, usize) {
        self.alive_among(self.replicas_of(key))
    }

    pub(super) fn alive_among(&self, replicas: Vec<usize>) -> (Vec<usize>, usize) {
        let factor = replicas.len();
        let is_up = |node: &usize| self.seems_up(*node);
        (replicas.into_iter().filter(is_up).collect(), factor)
    }

    /// Whether a write can be done at a level; whom it has to reach beside the replicas.
    pub(in crate::chaos) fn can_write(
        &self,
        key: i64,
        level: Consistency,
    ) -> Result<Vec<usize>, Served> {
        let (alive, factor) = self.alive(key);
        let pending = self.pending_of(key);
        let ready = pending.iter().filter(|node| self.seems_up(**node)).count();
        let required = required(level, factor);
        match alive.len() < required || ready < pending.len() {
            true => {
                let all = (required + pending.len(), alive.len() + ready);
                Err(unavailable(level, all.0, all.1))
            }
            false => Ok(pending),
        }
    }

    pub(in crate::chaos) fn read(
        &self,
        key: i64,
        level: Consistency,
        dice: &mut Dice,
    ) -> Result<Option<Cell>, Served> {
        let (mut alive, factor) = self.alive(key);
        let required = required(level, factor);
        if alive.len() < required {
            return Err(unavailable(level, required, alive.len()));
        }
        let cells = (0..required).map(|_| {
            let at = dice.below(alive.len() as u64) as usize;
            self.nodes[alive.swap_remove(at)].cells.get(&key).copied()
        });
        Ok(cells.max().flatten())
    }

    pub(in crate::chaos) fn write(
        &mut self,
        key: i64,
        cell: Cell,
        level: Consistency,
        dice: &mut Dice,
    ) -> Served {
        let pending = match self.can_write(key, level) {
            Ok(pending) => pending,
            Err(served) => return served,
        };
        let (mut alive, factor) = self.alive(key);
        for node in pending {
            let written = Written::Cell(key, cell);
            self.apply(Mutation { node, written });
        }
        for _ in 0..required(level, factor) {
            let at = dice.below(alive.len() as u64) as usize;
            let node = alive.swap_remove(at);
            let written = Written::Cell(key, cell);
            self.apply(Mutation { node, written });
        }
        let later = alive.into_iter().map(|node| Mutation {
            node,
            written: Written::Cell(key, cell),
        });
        Served {
            later: later.collect(),
            ..result(vec![0, 0, 0, 1])
        }
    }

    /// An error in place of an answer. Some of them leave it open whether anything was done.
    pub(in crate::chaos) fn fail(
        &mut self,
        asked: &Asked,
        options: &Options<'_>,
        now_us: u64,
        dice: &mut Dice,
    ) -> Served {
        let mut fields = Vec::new();
        let timeout = |fields: &mut Vec<u8>, required: i32| {
            write::u16(fields, options.consistency.0);
            write::i32(fields, 0);
            write::i32(fields, required);
        };
        match dice.below(4) {
            0 => error(code::OVERLOADED, &[]),
            1 => unavailable(options.consistency, 2, 1),
            2 if asked.is_write() => {
                let default = options.timestamp.unwrap_or(now_us as i64);
                let mut write_type = "SIMPLE";
                match *asked {
                    Asked::Write(key, value) | Asked::TimedWrite(key, value, _) => {
                        let mut timestamp = default;
                        if let Asked::TimedWrite(_, _, own) = *asked {
                            timestamp = own;
                            write_type = "UNLOGGED_BATCH";
                        }
                        let node = self.replicas_of(key)[0];
                        let cell = Cell { timestamp, value };
                        let written = Written::Cell(key, cell);
                        self.apply(Mutation { node, written });
                    }
                    Asked::Add(_, id) if dice.below(2) == 0 => self.once.execute(id),
                    Asked::List(change) if dice.below(2) == 0 => self.change_list(change, now_us),
                    _ => {}
                }
                timeout(&mut fields, 2);
                write::string(&mut fields, write_type);
                error(code::WRITE_TIMEOUT, &fields)
            }
            2 => {
                timeout(&mut fields, 2);
                fields.push(0);
                error(code::READ_TIMEOUT, &fields)
            }
            _ => error(code::IS_BOOTSTRAPPING, &[]),
        }
    }
}

pub(in crate::chaos) fn required(level: Consistency, factor: usize) -> usize {
    match level {
        Consistency::ONE | Consistency::LOCAL_ONE | Consistency::ANY => 1,
        Consistency::ALL => factor,
        _ => factor / 2 + 1,
    }
}
