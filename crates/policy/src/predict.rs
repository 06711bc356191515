//! How much work a statement is, predicted from its answers.
//!
//! Picture: a removal firm that notes for every customer how long the last moves
//! took and how many boxes there were, and quotes the next one by its boxes.
//!
//! Formula: weighted means and (co)variance of rows x and service time y, newest
//! answers first. work(rows) = mean y + b · (rows − mean x), with b = cov(x, y) ÷
//! var(x) while the rows differ enough to tell, else the class's prior. An answer
//! that took longer than predicted weighs [`SLOW_SHARE`] of one that did not: what is
//! wanted is the work, not the queue before it, and waiting only ever adds. The result
//! lies between the least and the mean time, and comes down fast and up slowly.
//!
//! A statement that has not been seen is predicted from its class and, if the caller
//! has them, Cassandra's size estimates.
//!
//! Source: exponentially weighted regression; asymmetric least squares (expectiles)
//! from W. Newey and J. Powell, Econometrica 1987.

use crate::schedule::Class;

#[cfg(test)]
mod tests;

/// Weight of an answer that took longer than predicted.
pub const SLOW_SHARE: f32 = 1.0 / 8.0;
/// The mean forgets over about so many answers.
const MEMORY: f32 = 32.0;
/// The class's prior weighs as much as so many answers.
const PRIOR_WEIGHT: f32 = 2.0;

/// The first answers all weigh alike: a wrong prior must go soon.
const LEARNING: u32 = 16;

/// What a statement costs. 36 bytes; the caller keeps one a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    weight: f32,
    service_us: f32,
    rows: f32,
    bytes: f32,
    rows_variance: f32,
    covariance: f32,
    service_variance: f32,
    prior_row_us: f32,
    samples: u32,
}

impl Estimate {
    /// Before anything is known: orders of magnitude, for small rows in memory.
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
            service_variance: 0.0,
            prior_row_us: row_us,
            samples: 0,
        }
    }

    /// A scan of a table of which `system.size_estimates` says this. A partition costs
    /// 10 µs to find and each KiB of it 10 µs to read and send.
    pub fn of_sizes(partitions: u64, mean_partition_bytes: u64) -> Self {
        let bytes = mean_partition_bytes as f32;
        let row_us = 10.0 + 10.0 * bytes / 1024.0;
        let rows = partitions.min(10_000) as f32;
        Estimate {
            service_us: 500.0 + rows * row_us,
            rows,
            bytes: rows * bytes,
            prior_row_us: row_us,
            ..Estimate::of_class(Class::Scan)
        }
    }

    /// An answer of `rows` rows and `bytes` bytes took `service_us` from sending to
    /// the answer.
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
        self.service_variance = keep * (self.service_variance + gain * dy * dy);
        self.samples = self.samples.saturating_add(1);
    }

    /// Predicted work of an answer of `rows` rows, in microseconds; at least 1.
    pub fn work_us(&self, rows: u32) -> u32 {
        self.predict_us(rows as f32) as u32
    }

    /// Predicted work when the number of rows is not known beforehand.
    pub fn typical_us(&self) -> u32 {
        self.predict_us(self.rows) as u32
    }

    /// Mean rows of an answer.
    pub fn rows(&self) -> f32 {
        self.rows
    }

    /// Mean bytes of an answer.
    pub fn bytes(&self) -> f32 {
        self.bytes
    }

    /// Standard deviation of the service time, in microseconds.
    pub fn deviation_us(&self) -> f32 {
        self.service_variance.max(0.0).sqrt()
    }

    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Microseconds for each further row.
    pub fn row_us(&self) -> f32 {
        // Rows that hardly differ say nothing about the cost of one.
        let enough = (0.05 * self.rows).max(1.0);
        if self.samples < 4 || self.rows_variance < enough * enough {
            let most = self.service_us / self.rows.max(1.0);
            return self.prior_row_us.min(most);
        }
        (self.covariance / self.rows_variance).max(0.0)
    }

    fn predict_us(&self, rows: f32) -> f32 {
        let linear = self.service_us + self.row_us() * (rows - self.rows);
        // A line through scattered points may cross zero; nothing costs less than nothing.
        linear.max(self.service_us * 0.05).max(1.0)
    }
}
