//! Two reports of the same experiment, side by side: what differs by more than their rounds vary?
//!
//! Each quantity of each cell and arm is compared over its rounds. Several differences are looked
//! at, so some would look significant by chance; p values are corrected for their number
//! ([`significance`]).
//!
//! Limits: rounds show how much one run varies within itself, not how much two runs of the same
//! program differ (data files, compactions, other load of the machine). Measure each program twice if it matters.
//!
//! - [`quantities`]: what is compared of a cell
//! - [`significance`]: the test, its interval, and the correction
//! - [`conditions`]: what else differs between the two runs

mod conditions;
mod quantities;
mod rows;
mod significance;

pub use rows::{ERROR_SHARE_GROWTH_MAX, Errors, RatioRow, Row, Side, Verdict};

use crate::report::Report;
use anyhow::{Result, ensure};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub experiment: String,
    /// Where the two runs differ by more than their results.
    pub warnings: Vec<String>,
    /// How many p values there are, by which each is corrected.
    pub tests: usize,
    pub rows: Vec<Row>,
    /// Cells in which queries failed.
    pub errors: Vec<Errors>,
    /// Ratios that the experiment itself reports, without a test: a report has no rounds of these.
    pub ratios: Vec<RatioRow>,
    /// `arm, cell` that only one of them has.
    pub only_in_a: Vec<String>,
    pub only_in_b: Vec<String>,
}

impl Comparison {
    /// # Errors
    /// If the reports are of different experiments, or have no cell in common.
    pub fn of(a: &Report, b: &Report) -> Result<Self> {
        ensure!(
            a.experiment == b.experiment,
            "the first report is of `{}` and the second of `{}`: only reports of the same experiment can be \
             compared",
            a.experiment,
            b.experiment
        );
        let mut rows = rows::rows(a, b);
        let (only_in_a, only_in_b) = (rows::only_in(a, b), rows::only_in(b, a));
        ensure!(
            !rows.is_empty(),
            "the two reports have no cell in common: the first has {}, the second {}",
            first_of(&only_in_a),
            first_of(&only_in_b)
        );
        let tests = rows::correct(&mut rows);
        Ok(Self {
            experiment: a.experiment.clone(),
            warnings: conditions::differences(a, b),
            tests,
            rows,
            errors: rows::errors(a, b),
            ratios: rows::ratios(a, b),
            only_in_a,
            only_in_b,
        })
    }

    pub fn count(&self, verdict: Verdict) -> usize {
        let rows = self.rows.iter();
        rows.filter(|row| row.verdict == verdict).count()
    }

    /// Results that are significantly worse in the second report, by more than so many percent, or fail
    /// more often. One line each.
    pub fn worse(&self, percent: f64) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| {
            row.verdict == Verdict::Worse && row.worse_percent().is_some_and(|by| by > percent)
        });
        let rows = rows.map(Row::describe);
        let errors = self.errors.iter().filter(|errors| errors.have_grown());
        rows.chain(errors.map(Errors::describe)).collect()
    }
}

fn first_of(cells: &[String]) -> String {
    match cells {
        [] => "none".into(),
        [one] => format!("`{one}`"),
        [first, rest @ ..] => format!("`{first}` and {} more", rest.len()),
    }
}

#[cfg(test)]
mod tests;
