//! Statistics of a table's rows: a sample, and sketches of the rows beyond it.

use std::collections::BTreeMap;

use crate::column_set::ColumnSet;
use crate::sample::Sample;
use crate::value::Value;

mod collector;
mod hyper_log_log;
mod prefix;
mod space_saving;

pub use collector::Collector;
pub use hyper_log_log::HyperLogLog;
pub use space_saving::SpaceSaving;

use prefix::{Prefix, Sketches};

#[derive(Clone, Debug)]
pub struct Statistics {
    sample: Sample,
    rows_total: f64,
    prefixes: BTreeMap<ColumnSet, Prefix>,
}

impl Statistics {
    /// From a sample alone, of a table with `rows_total` rows (at least as many as the sample has).
    /// `sets` are those for which [`Statistics::rows_equal`] will be asked.
    pub fn of_sample(sample: Sample, rows_total: u64, sets: &[ColumnSet]) -> Self {
        Statistics::new(sample, rows_total, 0, BTreeMap::new(), sets)
    }

    fn new(
        sample: Sample,
        rows_total: u64,
        looked_at: u64,
        mut sketches: BTreeMap<ColumnSet, Sketches>,
        sets: &[ColumnSet],
    ) -> Self {
        let total = rows_total.max(sample.rows() as u64) as f64;
        let prefix = |set: &ColumnSet| {
            let keys = sample.keys(*set);
            let sketches = sketches.remove(set);
            (*set, Prefix::new(keys, total, looked_at as f64, sketches))
        };
        Statistics {
            prefixes: sets.iter().map(prefix).collect(),
            rows_total: total,
            sample,
        }
    }

    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    pub fn rows_total(&self) -> f64 {
        self.rows_total
    }

    /// The sample is the whole table, so that what is counted on it is exact.
    pub fn is_complete(&self) -> bool {
        self.sample.rows() as f64 >= self.rows_total
    }

    /// Rows of the table for each row of the sample.
    pub fn scale(&self) -> f64 {
        self.rows_total / self.sample.rows().max(1) as f64
    }

    /// Distinct values of these columns in the table. None for a set that was not asked for when the
    /// statistics were made.
    pub fn distinct(&self, columns: ColumnSet) -> Option<f64> {
        Some(self.prefixes.get(&columns)?.distinct())
    }

    /// Predicted rows with these values, given in the order of the columns. None as for
    /// [`Statistics::distinct`].
    pub fn rows_equal(&self, columns: ColumnSet, values: &[&Value]) -> Option<f64> {
        let key = values
            .iter()
            .fold(0, |key, value| crate::value::combine(key, value.hash64()));
        Some(self.prefixes.get(&columns)?.rows_of(key))
    }
}
