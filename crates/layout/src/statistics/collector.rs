//! Collects statistics from rows that come one after the other.

use std::collections::BTreeMap;

use crate::column_set::ColumnSet;
use crate::rng::Rng;
use crate::sample::{RowError, Sample};
use crate::statistics::Statistics;
use crate::statistics::hyper_log_log::HyperLogLog;
use crate::statistics::prefix::Sketches;
use crate::statistics::space_saving::SpaceSaving;
use crate::value::{Value, combine};

/// Values that make up more than one row in 64 are counted exactly, or nearly.
const FREQUENT: usize = 64;

/// Keeps a sample of bounded size, each row with the same probability, and sketches of all rows as
/// soon as there are more.
///
/// Source: Vitter, "Random sampling with a reservoir" (1985), algorithm R.
#[derive(Clone, Debug)]
pub struct Collector {
    columns: usize,
    sets: Vec<ColumnSet>,
    rows_max: usize,
    rows: Vec<Vec<Value>>,
    seen: u64,
    sketches: BTreeMap<ColumnSet, Sketches>,
    rng: Rng,
}

impl Collector {
    /// For rows of `columns` values, of which at most `rows_max` are kept. For the column sets the
    /// statistics will know frequencies.
    pub fn new(columns: usize, sets: Vec<ColumnSet>, rows_max: usize, seed: u64) -> Self {
        Collector {
            columns,
            sets,
            rows_max: rows_max.max(1),
            rows: Vec::new(),
            seen: 0,
            sketches: BTreeMap::new(),
            rng: Rng::new(seed),
        }
    }

    pub fn rows_seen(&self) -> u64 {
        self.seen
    }

    pub fn add(&mut self, row: Vec<Value>) -> Result<(), RowError> {
        if row.len() != self.columns {
            return Err(RowError::Columns {
                row: self.seen + 1,
                found: row.len(),
                wanted: self.columns,
            });
        }
        self.seen += 1;
        if self.rows.len() < self.rows_max {
            self.rows.push(row);
            return Ok(());
        }
        if self.sketches.is_empty() {
            self.begin_sketches();
        }
        sketch(&mut self.sketches, &row);
        let place = self
            .rng
            .below(usize::try_from(self.seen).unwrap_or(usize::MAX));
        if let Some(kept) = self.rows.get_mut(place) {
            *kept = row;
        }
        Ok(())
    }

    /// The statistics of a table with `rows_total` rows; None if the rows that came are all.
    pub fn finish(self, rows_total: Option<u64>) -> Result<Statistics, RowError> {
        let sample = Sample::new(self.columns, self.rows)?;
        let total = rows_total.unwrap_or(self.seen).max(self.seen);
        Ok(Statistics::new(
            sample,
            total,
            self.seen,
            self.sketches,
            &self.sets,
        ))
    }

    fn begin_sketches(&mut self) {
        for set in &self.sets {
            let sketches = Sketches {
                distinct: HyperLogLog::default(),
                frequent: SpaceSaving::new(FREQUENT),
            };
            self.sketches.insert(*set, sketches);
        }
        for row in &self.rows {
            sketch(&mut self.sketches, row);
        }
    }
}

fn sketch(sketches: &mut BTreeMap<ColumnSet, Sketches>, row: &[Value]) {
    let hashes: Vec<u64> = row.iter().map(Value::hash64).collect();
    for (set, sketches) in sketches {
        let hash_of = |column: usize| hashes.get(column).copied().unwrap_or_default();
        let key = set
            .iter()
            .fold(0, |key, column| combine(key, hash_of(column)));
        // HyperLogLog needs well-mixed bits; the key of a set is a sum at its end.
        sketches.distinct.add(crate::rng::mix(key));
        sketches.frequent.add(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200,000 rows: a tenth have 0 in the first column, the others one of 5,000 values; the second
    /// is unique.
    fn statistics(rows_max: usize) -> Statistics {
        let sets = vec![ColumnSet::first(1), ColumnSet::first(2)];
        let mut collector = Collector::new(2, sets, rows_max, 3);
        for n in 0..200_000i128 {
            let first = if n % 10 == 0 { 0 } else { 1 + n % 5_003 };
            let row = vec![Value::Int(first), Value::Int(n)];
            collector.add(row).expect("two values");
        }
        collector.finish(None).expect("two values each")
    }

    #[test]
    fn sketches_know_what_the_sample_does_not() {
        let statistics = statistics(2_000);
        assert_eq!(statistics.sample().rows(), 2_000);
        assert!(!statistics.is_complete());
        let one = ColumnSet::first(1);
        let distinct = statistics.distinct(one).expect("collected");
        assert!((4_700.0..5_300.0).contains(&distinct), "{distinct}");
        let frequent = statistics
            .rows_equal(one, &[&Value::Int(0)])
            .expect("collected");
        assert!((19_000.0..21_000.0).contains(&frequent), "{frequent}");
        let both = ColumnSet::first(2);
        let row = [&Value::Int(0), &Value::Int(-1)];
        let unseen = statistics.rows_equal(both, &row).expect("collected");
        assert!((0.5..2.0).contains(&unseen), "{unseen}");
    }

    #[test]
    fn the_reservoir_is_uniform() {
        let statistics = statistics(2_000);
        let rows = 0..statistics.sample().rows();
        let late = rows.filter(|row| {
            let value = statistics.sample().value(*row, 1);
            value.is_some_and(|value| *value >= Value::Int(150_000))
        });
        let late = late.count();
        assert!(
            (420..580).contains(&late),
            "{late} of 2000 from the last quarter"
        );
    }

    #[test]
    fn few_rows_are_counted_exactly() {
        let statistics = statistics(1_000_000);
        assert!(statistics.is_complete());
        let one = ColumnSet::first(1);
        assert_eq!(
            statistics.rows_equal(one, &[&Value::Int(0)]),
            Some(20_000.0)
        );
    }
}
