//! The rounds of reads: cell after cell, and in each cell the arms in turn.

use super::cells::{Cell, SYNTHETIC};
use super::experiment::{Layouts, Nodes, Open};
use super::left::{Left, Turn};
use crate::report::Report;
use crate::report::spread::rotation;
use anyhow::Result;
use scylla::statement::Consistency;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time that cells have taken, and the turns that are left.
struct Pace {
    round: usize,
    /// For each cell, the time of all its arms in the last round.
    took: BTreeMap<String, Duration>,
    left: Left,
}

impl Layouts {
    pub(super) async fn run_rounds(
        &self,
        open: &[Open],
        nodes: &mut Option<&mut dyn Nodes>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let mut pace = Pace {
            round: 0,
            took: BTreeMap::new(),
            left: Left::of(self, nodes.is_some()),
        };
        for round in 0..self.rounds {
            pace.round = round;
            for cell in self.cells(false) {
                self.read_all(open, &cell, &mut pace, report, say).await?;
            }
            for at_synthetic in 0..self.synthetic.len() {
                self.read_synthetic(at_synthetic, &mut pace, report, say)
                    .await?;
            }
            let Some(nodes) = nodes else { continue };
            for cell in self.cells(true) {
                self.read_with_paused_node(open, &cell, *nodes, &mut pace, report, say)
                    .await?;
            }
        }
        Ok(())
    }

    async fn read_all(
        &self,
        open: &[Open],
        cell: &Cell,
        pace: &mut Pace,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let round = pace.round;
        // These are what the run is for: without their first round ratios would be missing.
        if round > 0 && self.is_late(&cell.name(), round, &pace.took, report) {
            pace.left.done(Turn::Read, self.arms.len(), None);
            return Ok(());
        }
        let began = Instant::now();
        for arm in rotation(self.arms.len(), round) {
            say(self.turn(round, &cell.name(), arm, &pace.left));
            let began = Instant::now();
            self.read(arm, &open[arm], cell, round, report).await?;
            pace.left.done(Turn::Read, 1, Some(began.elapsed()));
        }
        pace.took.insert(cell.name(), began.elapsed());
        Ok(())
    }

    async fn read_synthetic(
        &self,
        of: usize,
        pace: &mut Pace,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let round = pace.round;
        let synthetic = &self.synthetic[of];
        let (cell, turn) = (synthetic.cell(), Turn::Synthetic(of));
        if self.is_late(&cell, round, &pace.took, report) {
            pace.left.done(turn, 1, None);
            return Ok(());
        }
        let (number, rounds) = (round + 1, self.rounds);
        let left = pace.left.describe();
        say(format!("round {number}/{rounds}: {cell} ({left})"));
        let began = Instant::now();
        let direct = self.arms[0].arm.endpoint.at(Consistency::One);
        let phase = synthetic.measure(&direct, self.repetitions).await?;
        report.add(SYNTHETIC, &cell, phase);
        pace.left.done(turn, 1, Some(began.elapsed()));
        pace.took.insert(cell, began.elapsed());
        Ok(())
    }

    async fn read_with_paused_node(
        &self,
        open: &[Open],
        cell: &Cell,
        nodes: &mut dyn Nodes,
        pace: &mut Pace,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let round = pace.round;
        let with_paused = |&arm: &usize| self.arms[arm].with_paused_node;
        let arms: Vec<usize> = rotation(self.arms.len(), round)
            .filter(with_paused)
            .collect();
        if self.is_late(&cell.name(), round, &pace.took, report) {
            pace.left.done(Turn::ReadPaused, arms.len(), None);
            return Ok(());
        }
        let began = Instant::now();
        for arm in arms {
            say(self.turn(round, &cell.name(), arm, &pace.left));
            let began = Instant::now();
            nodes.pause()?;
            let read = self.read(arm, &open[arm], cell, round, report).await;
            nodes.resume()?;
            read?;
            self.settle(&open[0], report).await;
            pace.left.done(Turn::ReadPaused, 1, Some(began.elapsed()));
        }
        pace.took.insert(cell.name(), began.elapsed());
        Ok(())
    }

    fn turn(&self, round: usize, cell: &str, arm: usize, left: &Left) -> String {
        let (round, rounds, left) = (round + 1, self.rounds, left.describe());
        let arm = &self.arms[arm].arm.endpoint.name;
        format!("round {round}/{rounds}: {cell}: {arm} ({left})")
    }

    /// True if the cell would not be done in time; then the report says so.
    pub(super) fn is_late(
        &self,
        cell: &str,
        round: usize,
        took: &BTreeMap<String, Duration>,
        report: &mut Report,
    ) -> bool {
        let expected = took.get(cell).copied().unwrap_or_default();
        let late = self
            .until
            .is_some_and(|until| Instant::now() + expected >= until);
        if late {
            let round = round + 1;
            let note = format!("Not enough time was left in round {round} for the cell {cell}.");
            report.notes.push(note);
        }
        late
    }
}
