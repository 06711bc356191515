//! A sample of a table's rows: the joint distribution of its columns, correlations included.

use std::ops::{Bound, Range};

use crate::column_set::ColumnSet;
use crate::query::Restriction;
use crate::value::{Value, combine};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    #[error("row {row} has {found} values, but there are {wanted} columns")]
    Columns {
        row: u64,
        found: usize,
        wanted: usize,
    },
}

/// Rows, stored by column: each value as its rank among the column's distinct values.
#[derive(Clone, Debug)]
pub struct Sample {
    columns: Vec<Column>,
    rows: usize,
}

#[derive(Clone, Debug)]
struct Column {
    /// Sorted, each once.
    distinct: Vec<Value>,
    /// Of `distinct`.
    hashes: Vec<u64>,
    /// Of each row, into `distinct`.
    ranks: Vec<u32>,
    /// Of all rows, sorted: the column's distribution.
    sorted: Vec<u32>,
}

impl Sample {
    /// Each row has one value for each of `columns` columns.
    pub fn new(columns: usize, rows: Vec<Vec<Value>>) -> Result<Self, RowError> {
        for (at, row) in rows.iter().enumerate() {
            if row.len() != columns {
                return Err(RowError::Columns {
                    row: at as u64 + 1,
                    found: row.len(),
                    wanted: columns,
                });
            }
        }
        let count = rows.len();
        let mut by_column: Vec<Vec<Value>> = vec![Vec::with_capacity(count); columns];
        for row in rows {
            for (column, value) in by_column.iter_mut().zip(row) {
                column.push(value);
            }
        }
        Ok(Sample {
            columns: by_column.into_iter().map(Column::new).collect(),
            rows: count,
        })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The value at the share `share` (0 to 1) of the sorted column; None if there are no rows.
    pub(crate) fn quantile(&self, column: usize, share: f64) -> Option<&Value> {
        let column = self.columns.get(column)?;
        let last = self.rows.checked_sub(1)?;
        let at = (share * self.rows as f64) as usize;
        let rank = column.sorted.get(at.min(last))?;
        column.distinct.get(*rank as usize)
    }

    /// The share of rows with a lower value than this row has.
    pub(crate) fn share_below(&self, row: usize, column: usize) -> f64 {
        let below = self.columns.get(column).and_then(|column| {
            let rank = column.ranks.get(row)?;
            Some(column.sorted.partition_point(|other| other < rank))
        });
        below.unwrap_or(0) as f64 / self.rows.max(1) as f64
    }

    pub(crate) fn value(&self, row: usize, column: usize) -> Option<&Value> {
        let column = self.columns.get(column)?;
        column.distinct.get(*column.ranks.get(row)? as usize)
    }

    /// The rows that fulfil one restriction.
    pub(crate) fn matching(&self, column: usize, restriction: &Restriction) -> RowSet {
        let Some(column) = self.columns.get(column) else {
            return RowSet::all(self.rows);
        };
        let ranges: Vec<Range<u32>> = match restriction {
            Restriction::None => return RowSet::all(self.rows),
            Restriction::Equal(value) => vec![column.equal_to(value)],
            Restriction::Listed(values) => values.iter().map(|v| column.equal_to(v)).collect(),
            Restriction::Range { low, high } => vec![column.between(low, high)],
        };
        let mut set = RowSet::none(self.rows);
        for (row, rank) in column.ranks.iter().enumerate() {
            if ranges.iter().any(|range| range.contains(rank)) {
                set.add(row);
            }
        }
        set
    }

    /// Of each row, the hash of its values in these columns.
    pub(crate) fn keys(&self, columns: ColumnSet) -> Vec<u64> {
        let mut keys = vec![0; self.rows];
        for column in columns.iter().filter_map(|c| self.columns.get(c)) {
            for (key, rank) in keys.iter_mut().zip(&column.ranks) {
                let hash = column.hashes.get(*rank as usize).copied();
                *key = combine(*key, hash.unwrap_or_default());
            }
        }
        keys
    }
}

impl Column {
    fn new(values: Vec<Value>) -> Self {
        let mut distinct = values.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let rank = |value: &Value| distinct.partition_point(|other| other < value) as u32;
        let ranks: Vec<u32> = values.iter().map(rank).collect();
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        Column {
            hashes: distinct.iter().map(Value::hash64).collect(),
            distinct,
            ranks,
            sorted,
        }
    }

    fn below(&self, value: &Value) -> u32 {
        self.distinct.partition_point(|other| other < value) as u32
    }

    fn up_to(&self, value: &Value) -> u32 {
        self.distinct.partition_point(|other| other <= value) as u32
    }

    fn equal_to(&self, value: &Value) -> Range<u32> {
        self.below(value)..self.up_to(value)
    }

    fn between(&self, low: &Bound<Value>, high: &Bound<Value>) -> Range<u32> {
        let start = match low {
            Bound::Included(value) => self.below(value),
            Bound::Excluded(value) => self.up_to(value),
            Bound::Unbounded => 0,
        };
        let end = match high {
            Bound::Included(value) => self.up_to(value),
            Bound::Excluded(value) => self.below(value),
            Bound::Unbounded => self.distinct.len() as u32,
        };
        start..end
    }
}

/// Some rows of a sample, one bit each.
#[derive(Clone, Debug)]
pub(crate) struct RowSet(Vec<u64>);

impl RowSet {
    pub(crate) fn all(rows: usize) -> Self {
        let mut set = RowSet(vec![u64::MAX; rows.div_ceil(64)]);
        let spare = set.0.len() * 64 - rows;
        if let Some(last) = set.0.last_mut() {
            *last >>= spare;
        }
        set
    }

    fn none(rows: usize) -> Self {
        RowSet(vec![0; rows.div_ceil(64)])
    }

    fn add(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    pub(crate) fn keep(&mut self, other: &RowSet) {
        for (word, mask) in self.0.iter_mut().zip(&other.0) {
            *word &= mask;
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        let rows = (0..130).map(|n| vec![Value::Int(n % 10), Value::Int(n)]);
        Sample::new(2, rows.collect()).expect("two values each")
    }

    #[test]
    fn restrictions_select_rows() {
        let sample = sample();
        let count =
            |column, restriction: &Restriction| sample.matching(column, restriction).count();
        let int = |n| Value::Int(n);
        assert_eq!(count(0, &Restriction::None), 130);
        assert_eq!(count(0, &Restriction::Equal(int(3))), 13);
        assert_eq!(count(0, &Restriction::Equal(int(10))), 0);
        assert_eq!(
            count(0, &Restriction::Listed(vec![int(3), int(3), int(4)])),
            26
        );
        let range = |low, high| Restriction::Range { low, high };
        let (low, high) = (Bound::Excluded(int(9)), Bound::Included(int(19)));
        assert_eq!(count(1, &range(low, high)), 10);
        let (low, high) = (Bound::Included(int(120)), Bound::Unbounded);
        assert_eq!(count(1, &range(low, high)), 10);
        let (low, high) = (Bound::Included(int(20)), Bound::Excluded(int(10)));
        assert_eq!(count(1, &range(low, high)), 0);
    }

    #[test]
    fn equal_values_have_equal_keys() {
        let sample = sample();
        let mut keys = sample.keys(ColumnSet::first(1));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 10);
        let mut keys = sample.keys(ColumnSet::first(2));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 130);
    }

    #[test]
    fn quantiles_and_shares_agree() {
        let sample = sample();
        assert_eq!(sample.quantile(1, 0.5), Some(&Value::Int(65)));
        assert_eq!(sample.quantile(1, 1.0), Some(&Value::Int(129)));
        assert_eq!(sample.share_below(65, 1), 0.5);
    }

    #[test]
    fn a_row_with_a_missing_value_is_refused() {
        let rows = vec![vec![Value::Int(1)], vec![]];
        assert!(Sample::new(1, rows).is_err());
    }
}
