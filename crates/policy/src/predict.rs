//! Predicts how much work a statement is, from its earlier answers.
//!
//! Formula: exponentially weighted means and (co)variance of the rows x and the service time y of a
//! statement's answers. work(rows) = mean y + b · (rows − mean x), with b = cov(x, y) ÷ var(x) once
//! the rows vary enough, until then the class's prior. An answer slower than predicted is weighted
//! with [`SLOW_SHARE`]: the work itself is wanted, not the time spent queueing before it, and
//! queueing only inflates the measurement. So the prediction lies between the minimum and the mean
//! time, falls quickly and rises slowly. A statement not seen before is predicted from its class.
//!
//! Evidence: `predict/tests.rs`: base and row costs are recovered within 10 %, and queueing in the
//! node hardly raises the prediction.
//!
//! Limits: the model is linear in the rows. A statement that became more expensive is noticed late,
//! because of that weight.
//!
//! Source: exponentially weighted regression; asymmetric least squares (expectiles) from W. Newey
//! and J. Powell, Econometrica 1987.

use crate::schedule::Class;

mod pace;
mod table_size;
#[cfg(test)]
mod tests;

pub use pace::{Pace, RING, SlowestPace};
pub use table_size::TableSize;

/// Weight of an answer that took longer than predicted.
pub const SLOW_SHARE: f32 = 1.0 / 8.0;
/// Number of answers after which an old one is mostly forgotten.
const MEMORY: f32 = 32.0;
/// The class's prior has the weight of this many answers.
const PRIOR_WEIGHT: f32 = 2.0;

/// The cost of an answer without rows may be this share of its work.
const BASE_SHARE: f32 = 0.1;
/// Times the rows of answers so far.
const GROWTH_MAX: f32 = 4.0;
/// One answer of so many is to have other rows than the rest, if all have about the same.
const TRY_EVERY: u32 = 8;
/// Times the rows of the rest.
const TRY_ROWS: f32 = 2.0;
/// Of the mean: rows that deviate less are about the same.
const ALIKE_SHARE: f32 = 0.25;

/// The first answers all have full weight, so that a wrong prior is corrected quickly.
const LEARNING: u32 = 16;

/// The cost of a statement. 32 bytes; the caller keeps one per statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    weight: f32,
    service_us: f32,
    rows: f32,
    bytes: f32,
    rows_variance: f32,
    covariance: f32,
    prior_row_us: f32,
    samples: u32,
}

impl Estimate {
    /// The prior of a class: orders of magnitude for small rows in memory.
    pub fn of_class(class: Class) -> Self {
        let (service_us, rows, row_us) = match class {
            Class::System => (500.0, 1.0, 5.0),
            Class::Point => (150.0, 1.0, 5.0),
            Class::Multi => (500.0, 8.0, 50.0),
            Class::Slice => (600.0, 100.0, 5.0),
            Class::Write => (100.0, 0.0, 0.0),
            Class::Lwt => (1500.0, 1.0, 0.0),
            Class::Scan => (20_000.0, 1000.0, 20.0),
            Class::Other => (2000.0, 1.0, 5.0),
        };
        Estimate {
            weight: PRIOR_WEIGHT,
            service_us,
            rows,
            bytes: rows * 100.0,
            rows_variance: 0.0,
            covariance: 0.0,
            prior_row_us: row_us,
            samples: 0,
        }
    }

    /// The estimate as the prior of another statement, with the weight of a class's.
    pub fn as_prior(&self) -> Self {
        Estimate {
            weight: PRIOR_WEIGHT,
            rows_variance: 0.0,
            covariance: 0.0,
            prior_row_us: self.row_us(),
            samples: 0,
            ..*self
        }
    }

    /// An answer of `rows` rows and `bytes` bytes took `service_us` from sending the query.
    pub fn on_answer(&mut self, service_us: u32, rows: u32, bytes: u32) {
        let (y, x) = (service_us as f32, rows as f32);
        let slow = self.samples >= LEARNING && y > self.predict_us(x);
        let share = if slow { SLOW_SHARE } else { 1.0 };
        self.weight = (self.weight + share).min(MEMORY);
        let gain = share / self.weight;
        let (dx, dy) = (x - self.rows, y - self.service_us);
        self.rows += gain * dx;
        self.service_us += gain * dy;
        self.bytes += gain * (bytes as f32 - self.bytes);
        let keep = 1.0 - gain;
        self.rows_variance = keep * (self.rows_variance + gain * dx * dx);
        self.covariance = keep * (self.covariance + gain * dx * dy);
        self.samples = self.samples.saturating_add(1);
    }

    /// Predicted work of an answer of `rows` rows, in microseconds; at least 1.
    pub fn work_us(&self, rows: u32) -> u32 {
        self.predict_us(rows as f32) as u32
    }

    /// Predicted work if the number of rows is not known beforehand.
    pub fn typical_us(&self) -> u32 {
        self.predict_us(self.rows) as u32
    }

    /// Mean rows per answer.
    pub fn rows(&self) -> f32 {
        self.rows
    }

    /// Mean bytes per answer.
    pub fn bytes(&self) -> f32 {
        self.bytes
    }

    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Microseconds per additional row.
    pub fn row_us(&self) -> f32 {
        self.known_row_us().unwrap_or_else(|| {
            let upper_bound = self.service_us / self.rows.max(1.0);
            self.prior_row_us.min(upper_bound)
        })
    }

    /// None if the number of rows hardly varies.
    fn known_row_us(&self) -> Option<f32> {
        let enough = (0.05 * self.rows).max(1.0);
        let varies = self.samples >= 4 && self.rows_variance >= enough * enough;
        varies.then(|| (self.covariance / self.rows_variance).max(0.0))
    }

    /// Rows that take about so long, but at least so many that what an answer costs without rows is at
    /// most `BASE_SHARE` of the whole; at most four times as many as answers have had. While all have
    /// about as many, every eighth gets twice as many: otherwise what one costs without rows would stay
    /// unknown, or what it was at another load.
    pub fn rows_in(&self, us: u32) -> u32 {
        let rows = match self.known_row_us() {
            None => {
                let row_us = self.service_us / self.rows.max(1.0);
                us as f32 / row_us.max(0.01)
            }
            Some(row_us) => {
                let row_us = row_us.max(0.01);
                let base_us = (self.service_us - row_us * self.rows).max(0.0);
                let by_time = (us as f32 - base_us) / row_us;
                let by_base = base_us * (1.0 / BASE_SHARE - 1.0) / row_us;
                // Answers of so many rows say little of far more.
                by_time.max(by_base).min(GROWTH_MAX * self.rows.max(1.0))
            }
        };
        let tried = match self.is_to_vary() {
            true => TRY_ROWS * self.rows,
            false => 0.0,
        };
        rows.max(tried).max(1.0) as u32
    }

    fn is_to_vary(&self) -> bool {
        let alike = ALIKE_SHARE * self.rows;
        self.samples.is_multiple_of(TRY_EVERY) && self.rows_variance < alike * alike
    }

    fn predict_us(&self, rows: f32) -> f32 {
        let linear = self.service_us + self.row_us() * (rows - self.rows);
        // A fitted line may cross zero; a cost may not.
        linear.max(self.service_us * 0.05).max(1.0)
    }
}
