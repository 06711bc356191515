//! The sweep of derived layouts. When it compares what, and when it may delete, is the product's own code
//! ([`helenus_catalogue::sweep`]); how a partition is compared and repaired is modelled here: it reads at ALL, so that
//! nothing is compared while a replica is away; the layout first, then the table; what the table has is written with
//! its own time, and what it has not is deleted with the time at which the layout got it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use helenus_catalogue::sweep::{Due, Free, HINTS_UNSEEN_MAX, Left, Pending, Waits};

use super::super::{Event, World};
use super::token_of;
use crate::chaos::cassandra::live;
use crate::chaos::coverage::{self, Check};
use crate::chaos::wide::{Change, Partition, Written, all_rows};

const EVERY_US: u64 = 1_000_000;
/// The longest for which a request may be carried out after it was sent: as migrate has it, of these nodes.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(14);
/// So long after a layout was read the table has all that was written to both before: a lease and a request.
const SETTLED_US: u64 = 24_000_000;
/// Rounds follow each other in this time; after trouble once nothing is in doubt any more, or what is does not become
/// equal. Each renews the doubts that it finds right, so that none would be settled between rounds that are sooner.
const ROUND_US: u64 = 40_000_000;
const LAST_ROUNDS_US: u64 = 110_000_000;
/// The last requests have ended so long after trouble.
const LAST_REQUESTS_US: u64 = 20_000_000;
/// A difference that is none at a later look is a write under way.
const LOOKS: u8 = 4;
const LOOK_US: u64 = 500_000;
/// So long after trouble everything has been compared.
const SETTLED_AFTER_US: u64 = 600_000_000;

pub(in crate::chaos::world) struct Sweep {
    pending: Pending,
    free: Free,
    /// No node has kept hints for as long as they may go unseen, by the last look.
    no_hints: bool,
    waits: Waits,
    /// Partitions that are being compared because they are in doubt.
    comparing: usize,
    round: Round,
    /// Everything was found equal after trouble.
    pub is_settled: bool,
}

#[derive(Default)]
struct Round {
    begun_us: u64,
    /// What is to be compared, and what is being compared.
    left: Vec<i64>,
    is_comparing: bool,
    /// Nothing has differed so far, but for partitions that stay in doubt.
    is_equal: bool,
    stuck: BTreeSet<i64>,
}

/// The comparison of a partition, with what the layouts held before the table was read.
pub(in crate::chaos::world) struct Comparison {
    partition: i64,
    why: Why,
    /// Layouts are written, or read in a round: without any there is nothing to compare.
    has_layouts: bool,
    /// Nothing is under way to it, as far as hints show.
    may_delete: bool,
    stage: Stage,
}

/// Why a partition is compared.
#[derive(Clone, Copy)]
pub(in crate::chaos::world) enum Why {
    /// It is in doubt.
    Doubt(Due),
    Round,
    /// Layouts are behind, and are compared as a whole.
    Behind,
}

impl Why {
    fn may_delete(self) -> bool {
        matches!(self, Why::Doubt(due) if due.is_quiet)
    }
}

enum Stage {
    Layouts,
    /// What the layouts have had.
    Table(Vec<Partition>),
    /// How often it has been looked whether they are equal now.
    Look(u8),
}

/// What a comparison has come to.
enum Outcome {
    Equal,
    /// `for_now`: only what may not be deleted yet.
    Differs {
        for_now: bool,
    },
    /// A replica is away.
    Failed,
}

impl Sweep {
    /// One node alone keeps no hints.
    pub(in crate::chaos::world) fn new(nodes: usize) -> Sweep {
        let hints_unseen = match nodes {
            1 => Duration::ZERO,
            _ => HINTS_UNSEEN_MAX,
        };
        Sweep {
            pending: Pending::default(),
            free: Free::default(),
            no_hints: false,
            waits: Waits {
                request_max: REQUEST_MAX,
                hints_unseen,
            },
            comparing: 0,
            round: Round::default(),
            is_settled: false,
        }
    }

    /// A partition stays in doubt for at least this long.
    pub(in crate::chaos::world) fn least_us(&self) -> u64 {
        (self.waits.request_max + self.waits.hints_unseen).as_micros() as u64
    }
}

impl World {
    /// Looks what is to be compared.
    pub(in crate::chaos::world) fn sweep(&mut self) {
        let (now, now_us) = (self.now(), self.now_us());
        let Some(derived) = &mut self.derived else {
            return;
        };
        if now_us > self.trouble_us + SETTLED_AFTER_US {
            let what = format!("in doubt for ever: {}", derived.doubts());
            return self.violate(what);
        }
        let hinted = self.cluster.derived.as_ref();
        let shows = hinted.is_some_and(|of| of.shows_hints(now_us));
        let is_free = self.cluster.all_are_up() && !shows;
        let stored = derived.stored.timed();
        let sweep = &mut derived.sweep;
        let hints_unseen = sweep.waits.hints_unseen;
        let free_for = sweep.free.is_for(now, is_free, hints_unseen);
        let no_hints = hints_unseen.is_zero() || free_for;
        sweep.no_hints = no_hints;
        let mut due = Vec::new();
        if sweep.comparing == 0 {
            sweep.pending.note(&stored, now, sweep.waits);
            due = sweep.pending.due(now, sweep.waits, no_hints);
            sweep.comparing = due.len();
        }
        let due = due
            .into_iter()
            .map(|due| (derived.partition_of(due.token), Why::Doubt(due)));
        for (partition, why) in due.collect::<Vec<_>>() {
            self.begin_comparison(partition, why);
        }
        self.count_cut_short();
        self.catch_up();
        self.go_round();
        let is_settled = self.derived.as_ref().is_some_and(|of| of.sweep.is_settled);
        if !is_settled {
            self.events.plan(EVERY_US, Event::Sweep);
        }
    }

    pub(super) fn begin_comparison(&mut self, partition: i64, why: Why) {
        let behind = self.derived.as_ref().map(|of| &of.behind);
        let has_layouts = behind.is_some_and(|of| match why {
            Why::Doubt(_) => of.is_written(),
            Why::Round => of.is_ready(),
            Why::Behind => true,
        });
        let comparison = Comparison {
            partition,
            why,
            has_layouts,
            may_delete: why.may_delete(),
            stage: Stage::Layouts,
        };
        let delay = self.dice.below(50_000);
        self.events
            .plan(delay, Event::Compare(Box::new(comparison)));
    }

    /// The next partition of the round.
    fn go_round(&mut self) {
        let (now_us, trouble_us) = (self.now_us(), self.trouble_us);
        let Some(derived) = &mut self.derived else {
            return;
        };
        let (partitions, has_doubts) = (derived.all_partitions(), derived.has_doubts());
        let is_ready = derived.behind.is_ready();
        let round = &mut derived.sweep.round;
        if round.is_comparing {
            return;
        }
        if !is_ready {
            // It is of layouts that are read.
            round.left.clear();
            return;
        }
        if round.left.is_empty() {
            let is_last = now_us > trouble_us + LAST_REQUESTS_US;
            let is_due = match is_last {
                true => !has_doubts || now_us >= round.begun_us + LAST_ROUNDS_US,
                false => now_us >= round.begun_us + ROUND_US,
            };
            if !is_due {
                return;
            }
            *round = Round {
                begun_us: now_us,
                left: partitions,
                is_comparing: false,
                is_equal: true,
                stuck: BTreeSet::new(),
            };
        }
        let Some(partition) = round.left.last().copied() else {
            return;
        };
        round.is_comparing = true;
        self.begin_comparison(partition, Why::Round);
    }

    /// The next step of a comparison.
    pub(in crate::chaos::world) fn compare(&mut self, mut comparison: Comparison) {
        let layouts = match comparison.has_layouts {
            true => 1..self.cluster.tables.len(),
            false => 1..1,
        };
        let partition = comparison.partition;
        if matches!(comparison.stage, Stage::Table(_)) {
            let sweep = self.derived.as_ref().map(|of| &of.sweep);
            comparison.may_delete &= sweep.is_some_and(|of| of.no_hints);
        }
        let may_delete = comparison.may_delete;
        let outcome = match &comparison.stage {
            Stage::Layouts => {
                let read = layouts.map(|table| self.cluster.read_all((table, partition)));
                match read.collect::<Option<Vec<_>>>() {
                    Some(had) => Err(Stage::Table(had)),
                    None => Ok(Outcome::Failed),
                }
            }
            Stage::Table(had) => match self.repair(partition, had, (comparison.why, may_delete)) {
                true => Err(Stage::Look(0)),
                false => Ok(Outcome::Failed),
            },
            Stage::Look(looks) => match self.look(partition, layouts, may_delete) {
                Outcome::Differs { .. } if *looks + 1 < LOOKS => Err(Stage::Look(looks + 1)),
                outcome => Ok(outcome),
            },
        };
        match outcome {
            Ok(outcome) => self.end_comparison(&comparison, outcome),
            Err(next) => {
                let delay = match next {
                    Stage::Look(1..) => LOOK_US,
                    Stage::Table(_) if may_delete => SETTLED_US,
                    _ => self.dice.below(50_000),
                };
                comparison.stage = next;
                self.events
                    .plan(delay, Event::Compare(Box::new(comparison)));
            }
        }
    }

    /// Makes layouts what the table is now, by what they had before. Whether all replicas were there.
    fn repair(&mut self, partition: i64, had: &[Partition], how: (Why, bool)) -> bool {
        let (why, may_delete) = how;
        let is_unknown = matches!(why, Why::Round) && !self.is_doubted(partition);
        let Some(own) = self.cluster.read_all((0, partition)) else {
            return false;
        };
        let mut early = None;
        let are_there = had.iter().enumerate().all(|(at, had)| {
            let mut changes = Vec::new();
            for row in all_rows() {
                let (of_table, of_layout) = (live(&own, &row), live(had, &row));
                if of_table == of_layout {
                    continue;
                }
                if let Some((value, time)) = of_table {
                    changes.push((Change::Put(row, value), time));
                }
                // What is newer than the table's stays: only a later write of the table makes them equal.
                let is_extra = may_delete && of_table.is_none();
                if let Some((_, time)) = of_layout.filter(|_| is_extra) {
                    let hints = self.cluster.derived.as_ref();
                    let is_early = hints.is_some_and(|of| of.may_bring((partition, time)));
                    self.covered.check(Check::DeletedLate, true);
                    if is_early {
                        early = Some(row);
                    }
                    changes.push((Change::DeleteRow(row), time));
                    self.covered.count(coverage::SWEEP_DELETES, 1);
                }
            }
            self.covered
                .count(coverage::SWEEP_REPAIRS, changes.len() as u64);
            if is_unknown {
                self.covered
                    .count(coverage::ROUND_FINDS, changes.len() as u64);
            }
            self.cluster.change_all((at + 1, partition), &changes)
        });
        if let Some(row) = early {
            self.violate(format!(
                "row {row:?} of partition {partition} is deleted while a hint may bring it to the table"
            ));
        }
        are_there
    }

    /// Whether layouts are equal to their table now.
    fn look(&mut self, partition: i64, layouts: Range<usize>, may_delete: bool) -> Outcome {
        let Some(own) = self.cluster.read_all((0, partition)) else {
            return Outcome::Failed;
        };
        let (mut differs, mut for_now) = (false, !may_delete);
        for table in layouts {
            let Some(copy) = self.cluster.read_all((table, partition)) else {
                return Outcome::Failed;
            };
            for row in all_rows() {
                let (of_table, of_layout) = (live(&own, &row), live(&copy, &row));
                differs |= of_table != of_layout;
                for_now &= of_table == of_layout || of_table.is_none();
            }
        }
        match differs {
            true => Outcome::Differs { for_now },
            false => Outcome::Equal,
        }
    }

    fn end_comparison(&mut self, comparison: &Comparison, outcome: Outcome) {
        match comparison.why {
            Why::Doubt(due) => self.end_comparison_of_doubt(due, &outcome),
            Why::Round => self.end_comparison_of_round(comparison.partition, &outcome),
            Why::Behind => {
                let is_equal = match outcome {
                    Outcome::Equal => Some(true),
                    Outcome::Differs { .. } => Some(false),
                    Outcome::Failed => None,
                };
                self.end_comparison_of_behind(comparison.partition, is_equal);
            }
        }
    }

    /// Whether the sweep knows already that a partition may differ.
    fn is_doubted(&self, partition: i64) -> bool {
        let stored = self.derived.as_ref().map(|of| of.stored.timed());
        let mut stored = stored.into_iter().flatten();
        stored.any(|(token, _)| token == token_of(partition))
    }

    fn end_comparison_of_doubt(&mut self, due: Due, outcome: &Outcome) {
        let now = self.now();
        let Some(derived) = &mut self.derived else {
            return;
        };
        derived.sweep.comparing -= 1;
        let left = match outcome {
            Outcome::Equal if due.is_quiet => {
                derived.sweep.pending.settle(due);
                return self.settle_doubt(due.token, due.written_us);
            }
            Outcome::Equal | Outcome::Differs { for_now: true } => Left::ForNow,
            Outcome::Differs { .. } | Outcome::Failed => Left::Stuck,
        };
        derived.sweep.pending.leave(due, left, now);
    }

    fn end_comparison_of_round(&mut self, partition: i64, outcome: &Outcome) {
        let (is_failed, is_equal) = match outcome {
            Outcome::Failed => (true, false),
            Outcome::Equal => (false, true),
            Outcome::Differs { .. } => (false, false),
        };
        let is_stuck = !is_equal && !is_failed && self.is_stuck(partition);
        let Some(derived) = &mut self.derived else {
            return;
        };
        let has_hints = self
            .cluster
            .derived
            .as_ref()
            .is_some_and(|of| of.has_hints());
        let is_ready = derived.behind.is_ready();
        let round = &mut derived.sweep.round;
        round.is_comparing = false;
        if is_failed || !is_ready {
            return;
        }
        round.left.pop();
        round.is_equal &= is_equal || is_stuck;
        if is_stuck {
            round.stuck.insert(partition);
        }
        let is_over = round.left.is_empty() && round.is_equal;
        let is_last = round.begun_us > self.trouble_us + LAST_REQUESTS_US;
        let stuck = round.stuck.clone();
        if is_over && is_last && !has_hints && !derived.has_doubts_beside(&stuck) {
            derived.sweep.is_settled = true;
            return self.judge_settled();
        }
        if !is_equal {
            self.note(|| format!("partition {partition} differs in a round"));
            self.store_doubts(&[token_of(partition)]);
        }
    }

    /// Whether a layout has something newer than its table, from a write of which its client was not told that it was
    /// done. Cassandra has no way back in time: the partition stays in doubt until the row is written again.
    fn is_open(&self, partition: i64, own: &Written, copy: &Written) -> bool {
        let is_newer = own.value.is_some() && copy.timestamp > own.timestamp;
        is_newer && self.histories.is_open(partition, copy.timestamp)
    }

    /// Whether a partition differs only so.
    fn is_stuck(&self, partition: i64) -> bool {
        let mut layouts = 1..self.cluster.tables.len();
        layouts.all(|table| {
            let differing = self.cluster.differing(table, partition);
            let mut rows = differing.iter();
            rows.all(|(_, own, copy)| self.is_open(partition, own, copy))
        })
    }

    /// Layouts are what their table is, on every replica, and the table has what was acknowledged.
    fn judge_settled(&mut self) {
        let Some(derived) = &self.derived else {
            return;
        };
        let partitions = derived.all_partitions();
        let stuck = derived.sweep.round.stuck.len() as u64;
        self.covered.count(coverage::STAYS_IN_DOUBT, stuck);
        self.checked(Check::DerivedEqual, true);
        for partition in partitions {
            for table in 1..self.cluster.tables.len() {
                let differing = self.cluster.differing(table, partition);
                let mut rows = differing.iter();
                let wrong = rows.find(|(_, own, copy)| !self.is_open(partition, own, copy));
                if let Some((row, own, copy)) = wrong {
                    let name = &self.cluster.tables[table].name;
                    return self.violate(format!(
                        "after the sweep {name} has {copy:?} and the table {own:?}, of row {row:?} of partition {partition}"
                    ));
                }
            }
            let own = self.cluster.merged((0, partition));
            let is_lost = all_rows().find(|row| {
                let least = self.histories.acknowledged(partition, row);
                least.is_some_and(|least| own.of_row(row).timestamp < least)
            });
            if let Some(row) = is_lost {
                return self.violate(format!(
                    "the table lacks what was written to row {row:?} of partition {partition} and acknowledged"
                ));
            }
        }
    }
}
