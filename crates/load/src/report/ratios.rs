//! A report's keys as data: each with the figures, arms and cells that its value in a round follows from.

use super::Report;
use super::figures::{ERRORS, Figure};
use super::spread::{Spread, geometric_mean};

/// A figure of an arm in some cells.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// Of several arms, the greatest figure counts.
    arms: Vec<String>,
    cells: Vec<String>,
    of: Figure,
}

/// The value of a key in a round. Those of two sides are of their cells pair by pair.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// The geometric mean over the cells, if all have been measured.
    Mean(Side),
    /// That of the quotients.
    Quotient(Side, Side),
    /// The greatest quotient of the pairs that have been measured.
    Worst(Side, Side),
    /// The greatest difference of these.
    Raise(Side, Side),
    /// Over all cells that have been measured.
    Sum(Vec<Side>),
    /// One such sum over another.
    Share(Side, Side),
    /// The same, if all cells of both have been measured.
    Totals(Side, Side),
}

/// Keys and their values, in the order in which they are set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ratios(Vec<(String, Value)>);

impl Side {
    pub(crate) fn new(arm: &str, cells: &[String], of: Figure) -> Self {
        Self::best(&[arm], cells, of)
    }

    pub(crate) fn best(arms: &[&str], cells: &[String], of: Figure) -> Self {
        Self {
            arms: arms.iter().map(|&arm| arm.to_owned()).collect(),
            cells: cells.to_vec(),
            of,
        }
    }

    fn at(&self, report: &Report, cell: &str, round: usize) -> Option<f64> {
        let phases = self.arms.iter().map(|arm| report.phases(arm, cell));
        let values = phases.filter_map(|phases| self.of.of(phases.get(round)?));
        values.reduce(f64::max)
    }

    fn values(&self, report: &Report, round: usize) -> impl Iterator<Item = Option<f64>> {
        let cells = self.cells.iter();
        cells.map(move |cell| self.at(report, cell, round))
    }

    fn sum(&self, report: &Report, round: usize) -> Option<f64> {
        let measured = self.values(report, round).flatten();
        measured.reduce(|sum, value| sum + value)
    }
}

impl Value {
    /// None if no round has a finite value.
    pub(crate) fn spread(&self, report: &Report, rounds: usize) -> Option<Spread> {
        let in_round = |round| self.in_round(report, round);
        let values: Vec<f64> = (0..rounds).filter_map(in_round).collect();
        Spread::of(&values)
    }

    fn in_round(&self, report: &Report, round: usize) -> Option<f64> {
        let pairs = |one: &Side, other: &Side, of: fn(f64, f64) -> f64| -> Vec<Option<f64>> {
            let pairs = one.values(report, round).zip(other.values(report, round));
            pairs.map(|(one, other)| Some(of(one?, other?))).collect()
        };
        let greatest = |values: Vec<Option<f64>>| values.into_iter().flatten().reduce(f64::max);
        match self {
            Self::Mean(of) => mean(of.values(report, round)),
            Self::Quotient(over, under) => mean(pairs(over, under, |a, b| a / b).into_iter()),
            Self::Worst(over, under) => greatest(pairs(over, under, |a, b| a / b)),
            Self::Raise(with, without) => greatest(pairs(with, without, |a, b| a - b)),
            Self::Sum(sides) => {
                let sums = sides.iter().filter_map(|side| side.sum(report, round));
                sums.reduce(|sum, value| sum + value)
            }
            Self::Share(part, all) => Some(part.sum(report, round)? / all.sum(report, round)?),
            Self::Totals(over, under) => {
                let total = |of: &Side| of.values(report, round).sum::<Option<f64>>();
                Some(total(over)? / total(under)?)
            }
        }
    }
}

impl Ratios {
    pub(crate) fn add(&mut self, key: String, value: Value) {
        self.0.push((key, value));
    }

    /// An arm over another. It is not compared with itself.
    pub(crate) fn over(
        &mut self,
        key: String,
        arm: &str,
        other: &str,
        cells: &[String],
        of: Figure,
    ) {
        if arm != other {
            let sides = [arm, other].map(|arm| Side::new(arm, cells, of));
            let [over, under] = sides;
            self.add(key, Value::Quotient(over, under));
        }
    }

    /// How many requests of an arm failed in these cells.
    pub(crate) fn errors(&mut self, key: String, arm: &str, cells: &[String]) {
        self.add(key, Value::Sum(vec![Side::new(arm, cells, ERRORS)]));
    }

    pub(crate) fn set(&self, report: &mut Report, rounds: usize) {
        for (key, value) in &self.0 {
            if let Some(spread) = value.spread(report, rounds) {
                report.ratios.insert(key.clone(), spread);
            }
        }
    }
}

/// None if a value is missing.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Option<Vec<f64>> = values.collect();
    match values?.as_slice() {
        // The value of a single cell may be zero, which has no geometric mean.
        [value] => Some(*value),
        values => geometric_mean(values),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::PER_SECOND;
    use super::super::machine::Machine;
    use super::*;
    use crate::measure::Recorder;
    use std::time::Duration;

    #[test]
    fn values_are_of_the_rounds_that_have_what_they_need() {
        let mut report = Report::new("x", String::new(), Machine::default(), 2);
        for (arm, cell, ops) in [
            ("a", "one", 200),
            ("a", "two", 800),
            ("a", "one", 300),
            ("b", "one", 100),
            ("b", "two", 100),
            ("b", "one", 100),
        ] {
            let mut recorder = Recorder::new(1);
            recorder.record_times(0, Duration::from_millis(1), ops);
            let phase = recorder.into_phase(&["x"], Duration::from_secs(1), None);
            report.add(arm, cell, phase);
        }
        let cells = ["one", "two"].map(str::to_owned);
        let of = |arm| Side::new(arm, &cells, PER_SECOND);
        let best = Side::best(&["a", "b"], &cells, PER_SECOND);
        let none = Side::new("a", &["three".to_owned()], PER_SECOND);
        let cases: [(Value, &[f64]); 9] = [
            (Value::Mean(of("a")), &[400.0]),
            (Value::Quotient(of("a"), of("b")), &[4.0]),
            (Value::Quotient(best, of("b")), &[4.0]),
            (Value::Worst(of("a"), of("b")), &[8.0, 3.0]),
            (Value::Raise(of("a"), of("b")), &[700.0, 200.0]),
            (Value::Sum(vec![of("a"), of("b")]), &[1200.0, 400.0]),
            (Value::Share(of("a"), of("b")), &[5.0, 3.0]),
            (Value::Totals(of("a"), of("b")), &[5.0]),
            (Value::Mean(none), &[]),
        ];
        for (value, expected) in cases {
            let in_round = |round| value.in_round(&report, round);
            let values: Vec<f64> = (0..2).filter_map(in_round).collect();
            assert_eq!(values.len(), expected.len(), "{value:?}");
            for (value, expected) in values.iter().zip(expected) {
                assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
            }
        }
    }
}
