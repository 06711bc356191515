//! An experiment as data, and the one way in which all of them run.
//!
//! In each round the cells come one after another, and in each cell the arms have their turns, in an order
//! that rotates. The keys and charts of the report follow from what was measured.

use super::arms::{Arm, watched_with};
use crate::interleaved::{ArmRun, Interleaved};
use crate::process::Watched;
use crate::report::Report;
use crate::report::chart::Chart;
use crate::report::ratios::Ratios;
use crate::report::spread::rotation;
use crate::workload::Workload;
use anyhow::Result;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who is compared in which cells, and what the report says of it. `J` is what is done in a cell.
pub(crate) struct Experiment<J> {
    pub arms: Vec<Arm>,
    pub rounds: usize,
    /// A cell that would not be done by then is not started.
    pub until: Option<Instant>,
    /// Further processes whose CPU time is recorded: the nodes.
    pub watched: Vec<Watched>,
    pub cells: Vec<Cell<J>>,
    pub ratios: Ratios,
    pub charts: Vec<Chart>,
}

#[derive(Clone, Debug)]
pub(crate) struct Cell<J> {
    pub name: String,
    pub job: J,
    /// Indices of the arms that take part.
    pub arms: Vec<usize>,
    /// The rounds that have it, from the first on.
    pub rounds: usize,
    /// It is measured once in any case, however late it is.
    pub is_needed: bool,
}

/// Breaks, with a note for the report, if nothing else is to be measured.
pub(crate) type Measured = Result<ControlFlow<String>>;

/// How long the arms of a cell took in the last round, by its name.
pub(crate) type Took = BTreeMap<String, Duration>;

impl<J> Cell<J> {
    /// Of so many arms.
    pub(crate) fn of_all(name: String, job: J, arms: usize) -> Self {
        Self::of_some(name, job, std::iter::repeat_n(true, arms))
    }

    /// `takes_part` is true of each arm that does.
    pub(crate) fn of_some(name: String, job: J, takes_part: impl Iterator<Item = bool>) -> Self {
        let arms = takes_part.enumerate().filter(|(_, takes_part)| *takes_part);
        Self {
            name,
            job,
            arms: arms.map(|(arm, _)| arm).collect(),
            rounds: usize::MAX,
            is_needed: false,
        }
    }

    /// The arms in the order of their turns.
    pub(crate) fn turns(&self, round: usize) -> impl Iterator<Item = usize> {
        rotation(self.arms.len(), round).map(move |turn| self.arms[turn])
    }
}

impl<J> Experiment<J> {
    /// Measures all rounds, and sets what follows from them.
    pub(crate) async fn run(
        &self,
        report: &mut Report,
        say: &mut dyn FnMut(String),
        measure: impl AsyncFnMut(&Cell<J>, usize, &mut Report, &mut dyn FnMut(String)) -> Measured,
    ) -> Result<()> {
        self.measure(report, say, measure).await?;
        self.finish(report);
        Ok(())
    }

    /// Measures all rounds. `measure` gives all arms of a cell their turns in a round, and adds a phase of each
    /// to the report.
    pub(crate) async fn measure(
        &self,
        report: &mut Report,
        say: &mut dyn FnMut(String),
        mut measure: impl AsyncFnMut(&Cell<J>, usize, &mut Report, &mut dyn FnMut(String)) -> Measured,
    ) -> Result<()> {
        let mut took = Took::new();
        for round in 0..self.rounds {
            let all = self.round(round, |_| true, &mut took, report, say, &mut measure);
            if all.await?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Measures those cells of a round whose jobs are chosen.
    pub(crate) async fn round(
        &self,
        round: usize,
        is_chosen: impl Fn(&J) -> bool,
        took: &mut Took,
        report: &mut Report,
        say: &mut dyn FnMut(String),
        mut measure: impl AsyncFnMut(&Cell<J>, usize, &mut Report, &mut dyn FnMut(String)) -> Measured,
    ) -> Result<ControlFlow<()>> {
        let cells = self.cells.iter();
        for cell in cells.filter(|cell| round < cell.rounds && is_chosen(&cell.job)) {
            let is_needed = cell.is_needed && round == 0;
            if !is_needed && is_late(self.until, &cell.name, round, took, report) {
                continue;
            }
            let began = Instant::now();
            if let ControlFlow::Break(note) = measure(cell, round, report, say).await? {
                report.notes.push(note);
                return Ok(ControlFlow::Break(()));
            }
            took.insert(cell.name.clone(), began.elapsed());
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Sets the keys and draws the charts.
    pub(crate) fn finish(&self, report: &mut Report) {
        self.ratios.set(report, self.rounds);
        let arms: Vec<&str> = self.arms.iter().map(Arm::name).collect();
        let charts = self.charts.iter();
        report.charts = charts
            .filter_map(|chart| chart.svg(report, &arms))
            .collect();
    }

    /// Whose turn it is, for whoever waits.
    pub(crate) fn turn(&self, cell: &Cell<J>, arm: usize, round: usize) -> String {
        let (round, rounds, arm) = (round + 1, self.rounds, self.arms[arm].name());
        format!("round {round}/{rounds}: {}: {arm}", cell.name)
    }

    pub(crate) fn watched(&self, arm: usize) -> Vec<Watched> {
        watched_with(&self.watched, self.arms[arm].proxy_pid)
    }

    /// Measures a cell whose arms take turns in slices.
    pub(crate) async fn in_slices<W: Workload>(
        &self,
        plan: &Interleaved,
        cell: &Cell<J>,
        round: usize,
        workload: impl Fn(usize) -> Arc<W>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Measured {
        let run = |&arm: &usize| ArmRun {
            workload: workload(arm),
            watched: self.watched(arm),
        };
        let runs: Vec<ArmRun<W>> = cell.arms.iter().map(run).collect();
        let on_turn = &mut |turn: usize| say(self.turn(cell, cell.arms[turn], round));
        let phases = plan.round(&runs, round, on_turn).await;
        for (&arm, phase) in cell.arms.iter().zip(phases) {
            report.add(self.arms[arm].name(), &cell.name, phase);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Names of the cells whose jobs are chosen.
pub(crate) fn named<J>(cells: &[Cell<J>], is_chosen: impl Fn(&J) -> bool) -> Vec<String> {
    let cells = cells.iter().filter(|cell| is_chosen(&cell.job));
    cells.map(|cell| cell.name.clone()).collect()
}

/// True if a cell that takes as long as in the last round would not be done in time; then the report says
/// so.
pub(crate) fn is_late(
    until: Option<Instant>,
    cell: &str,
    round: usize,
    took: &Took,
    report: &mut Report,
) -> bool {
    let expected = took.get(cell).copied().unwrap_or_default();
    let is_late = until.is_some_and(|until| Instant::now() + expected >= until);
    if is_late {
        let round = round + 1;
        let note = format!("Not enough time was left in round {round} for the cell {cell}.");
        report.notes.push(note);
    }
    is_late
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::machine::Machine;

    fn experiment() -> Experiment<u8> {
        let some = [true, false, true].into_iter();
        let once = Cell {
            rounds: 1,
            ..Cell::of_some("once".into(), 1, some)
        };
        Experiment {
            arms: ["a", "b", "c"].map(Arm::named).to_vec(),
            rounds: 3,
            until: None,
            watched: Vec::new(),
            cells: vec![Cell::of_all("all".into(), 3, 3), once],
            ratios: Ratios::default(),
            charts: Vec::new(),
        }
    }

    fn report() -> Report {
        Report::new("x", String::new(), Machine::default(), 3)
    }

    #[tokio::test]
    async fn arms_have_their_turns_in_an_order_that_rotates_until_a_cell_ends_the_run() {
        let (experiment, mut report) = (experiment(), report());
        let (mut turns, say) = (Vec::new(), &mut |_| ());
        let measured = experiment.measure(&mut report, say, async |cell, round, _, _| {
            if round == 2 {
                return Ok(ControlFlow::Break("no more".into()));
            }
            turns.push((cell.job, Vec::from_iter(cell.turns(round))));
            Ok(ControlFlow::Continue(()))
        });
        measured.await.unwrap();
        assert_eq!(
            turns,
            [(3, vec![0, 1, 2]), (1, vec![0, 2]), (3, vec![1, 2, 0])]
        );
        assert_eq!(report.notes, ["no more"]);
    }

    #[tokio::test]
    async fn a_cell_for_which_no_time_is_left_is_left_out_and_the_report_says_so() {
        let (mut experiment, mut report) = (experiment(), report());
        experiment.until = Some(Instant::now());
        let say = &mut |_| ();
        let measured = experiment.measure(&mut report, say, async |cell, _, _, _| {
            panic!("{} is measured", cell.name)
        });
        measured.await.unwrap();
        assert_eq!(report.notes.len(), 3 + 1);
        assert!(report.notes[1].contains("round 1 for the cell once"));
        experiment.cells[1].is_needed = true;
        let mut needed = Vec::new();
        let measured = experiment.measure(&mut report, say, async |cell, round, _, _| {
            needed.push((cell.name.clone(), round));
            Ok(ControlFlow::Continue(()))
        });
        measured.await.unwrap();
        assert_eq!(needed, [("once".to_owned(), 0)]);
    }
}
