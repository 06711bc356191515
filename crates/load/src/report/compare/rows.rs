//! The compared quantities, errors and ratios.

use super::quantities::Quantity;
use super::significance::{self, P_MAX, ROUNDS_MIN};
use crate::measure::Phase;
use crate::report::Report;
use crate::report::spread::{Spread, geometric_mean};
use crate::report::svg::number;
use serde::Serialize;

/// Growth of the share of failed queries from which a cell counts as worse.
pub const ERROR_SHARE_GROWTH_MAX: f64 = 0.001;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Better,
    Worse,
    /// The rounds vary too much for the difference to mean anything.
    Unclear,
    TooFewRounds,
    /// A round has no value: nothing succeeded in it.
    NoValue,
}

/// One report's rounds of a quantity.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Side {
    pub rounds: usize,
    /// Geometric, which is what the test compares. None if a value is missing.
    pub mean: Option<f64>,
}

/// One quantity of one cell and arm.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub cell: String,
    pub arm: String,
    pub quantity: String,
    pub is_better_if_higher: bool,
    pub a: Side,
    pub b: Side,
    /// B over A.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio, for this row alone.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub p: Option<f64>,
    /// For the number of tests in this comparison.
    pub p_corrected: Option<f64>,
    pub verdict: Verdict,
}

impl Row {
    fn of(arm: &str, cell: &str, quantity: &Quantity, a: &[Phase], b: &[Phase]) -> Self {
        let values = |phases: &[Phase]| -> Vec<f64> {
            let values = phases.iter().map(|phase| quantity.of(phase));
            values.map(|value| value.unwrap_or(f64::NAN)).collect()
        };
        let (a, b) = (values(a), values(b));
        let side = |values: &[f64]| Side {
            rounds: values.len(),
            mean: geometric_mean(values),
        };
        let (side_a, side_b) = (side(&a), side(&b));
        let test = significance::test(&a, &b);
        let ratio = side_b.mean.zip(side_a.mean).map(|(b, a)| b / a);
        Self {
            cell: cell.to_owned(),
            arm: arm.to_owned(),
            quantity: quantity.name(),
            is_better_if_higher: quantity.is_better_if_higher(),
            ratio,
            ratio_low: test.map(|test| test.ratio_low),
            ratio_high: test.map(|test| test.ratio_high),
            p: test.map(|test| test.p),
            p_corrected: None,
            verdict: match ratio {
                None => Verdict::NoValue,
                Some(_) if a.len().min(b.len()) < ROUNDS_MIN => Verdict::TooFewRounds,
                Some(_) => Verdict::Unclear,
            },
            a: side_a,
            b: side_b,
        }
    }

    /// By how much B is above A.
    pub fn percent(&self) -> Option<f64> {
        self.ratio.map(|ratio| (ratio - 1.0) * 100.0)
    }

    /// By how much B is worse; negative if it is better.
    pub fn worse_percent(&self) -> Option<f64> {
        let percent = self.percent()?;
        Some(match self.is_better_if_higher {
            true => -percent,
            false => percent,
        })
    }

    fn judge(&mut self, p_corrected: f64) {
        self.p_corrected = Some(p_corrected);
        if p_corrected < P_MAX {
            self.verdict = match self.worse_percent() {
                Some(by) if by > 0.0 => Verdict::Worse,
                _ => Verdict::Better,
            };
        }
    }

    pub(super) fn describe(&self) -> String {
        let mean = |side: &Side| side.mean.map_or("–".to_owned(), number);
        format!(
            "{}, {}: {} {} → {} ({:+.1} %)",
            self.cell,
            self.arm,
            self.quantity,
            mean(&self.a),
            mean(&self.b),
            self.percent().unwrap_or(f64::NAN)
        )
    }
}

/// Failed queries of one cell and arm.
#[derive(Clone, Debug, Serialize)]
pub struct Errors {
    pub cell: String,
    pub arm: String,
    /// Of all queries, from 0 to 1.
    pub share_a: f64,
    pub share_b: f64,
}

impl Errors {
    pub fn have_grown(&self) -> bool {
        self.share_b - self.share_a > ERROR_SHARE_GROWTH_MAX
    }

    pub fn describe(&self) -> String {
        format!(
            "{}, {}: failed {:.2} % → {:.2} %",
            self.cell,
            self.arm,
            self.share_a * 100.0,
            self.share_b * 100.0
        )
    }
}

/// A key of the experiment's result.
#[derive(Clone, Debug, Serialize)]
pub struct RatioRow {
    pub key: String,
    pub a: Spread,
    pub b: Spread,
    /// Some round of one run is within the rounds of the other.
    pub overlap: bool,
}

/// Cells and arms that both have, in order.
fn common<'a>(
    a: &'a Report,
    b: &'a Report,
) -> impl Iterator<Item = (&'a str, &'a str, &'a [Phase], &'a [Phase])> {
    let mut both: Vec<_> = a
        .arms
        .iter()
        .flat_map(|(arm, cells)| cells.iter().map(move |(cell, phases)| (cell, arm, phases)))
        .map(|(cell, arm, phases)| (&**cell, &**arm, &**phases, b.phases(arm, cell)))
        .filter(|(.., a, b)| !a.is_empty() && !b.is_empty())
        .collect();
    both.sort_by_key(|&(cell, arm, ..)| (cell, arm));
    both.into_iter()
}

pub(super) fn rows(a: &Report, b: &Report) -> Vec<Row> {
    let of_cell = |(cell, arm, a, b): (&str, &str, &[Phase], &[Phase])| -> Vec<Row> {
        let also_in_b = Quantity::all(b);
        let quantities = Quantity::all(a).into_iter();
        quantities
            .filter(|quantity| also_in_b.contains(quantity))
            .map(|quantity| Row::of(arm, cell, &quantity, a, b))
            .collect()
    };
    common(a, b).flat_map(of_cell).collect()
}

/// Corrects the p values for their number, which is returned, and judges.
pub(super) fn correct(rows: &mut [Row]) -> usize {
    let p: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    let corrected = significance::holm(&p);
    let tested = rows.iter_mut().filter(|row| row.p.is_some());
    for (row, p) in tested.zip(corrected) {
        row.judge(p);
    }
    p.len()
}

pub(super) fn errors(a: &Report, b: &Report) -> Vec<Errors> {
    let share = |phases: &[Phase]| {
        let failed: u64 = phases.iter().map(Phase::errors_total).sum();
        let done: u64 = phases.iter().map(|phase| phase.ops).sum();
        failed as f64 / (done + failed).max(1) as f64
    };
    let errors = common(a, b).map(|(cell, arm, a, b)| Errors {
        cell: cell.to_owned(),
        arm: arm.to_owned(),
        share_a: share(a),
        share_b: share(b),
    });
    errors
        .filter(|errors| errors.share_a > 0.0 || errors.share_b > 0.0)
        .collect()
}

pub(super) fn ratios(a: &Report, b: &Report) -> Vec<RatioRow> {
    let both = a.ratios.iter().filter_map(|(key, &a)| {
        let b = *b.ratios.get(key)?;
        Some(RatioRow {
            key: key.clone(),
            a,
            b,
            overlap: a.min <= b.max && b.min <= a.max,
        })
    });
    both.collect()
}

/// Cells with arms that the first report has and the second has not.
pub(super) fn only_in(one: &Report, other: &Report) -> Vec<String> {
    let cells = one
        .arms
        .iter()
        .flat_map(|(arm, cells)| cells.keys().map(move |cell| (arm, cell)));
    cells
        .filter(|(arm, cell)| other.phases(arm, cell).is_empty())
        .map(|(arm, cell)| format!("{cell}, {arm}"))
        .collect()
}
