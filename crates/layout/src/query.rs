//! A query with its values.

use std::ops::Bound;

use crate::column_set::ColumnSet;
use crate::shape::Shape;
use crate::table::Table;
use crate::value::Value;

/// A query's restriction of one column.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Restriction {
    #[default]
    None,
    Equal(Value),
    /// `IN`: one of several values; duplicates do not count.
    Listed(Vec<Value>),
    Range {
        low: Bound<Value>,
        high: Bound<Value>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// One for each column of the table.
    pub restrictions: Vec<Restriction>,
    /// See [`Shape::ordered`].
    pub ordered: bool,
    /// Rows that the client wants at most.
    pub limit: Option<u64>,
    /// How often it is asked, relative to the other queries.
    pub weight: f64,
    /// The statement that it belongs to, a number that the caller chooses.
    pub statement: usize,
}

impl Query {
    pub fn shape(&self, table: &Table) -> Shape {
        let mut shape = Shape {
            ordered: self.ordered,
            ..Shape::default()
        };
        let columns = self.restrictions.iter().take(table.clustering());
        for (column, restriction) in columns.enumerate() {
            match restriction {
                Restriction::None => {}
                Restriction::Equal(_) => shape.equal = shape.equal.with(column),
                Restriction::Listed(_) => shape.listed = shape.listed.with(column),
                Restriction::Range { .. } => shape.range = shape.range.with(column),
            }
        }
        shape
    }

    /// Columns bound by `=` or `IN`.
    pub fn bound(&self) -> ColumnSet {
        let bound = |r: &Restriction| matches!(r, Restriction::Equal(_) | Restriction::Listed(_));
        let columns = self.restrictions.iter().enumerate();
        columns.filter(|(_, r)| bound(r)).map(|(c, _)| c).collect()
    }

    /// How many combinations of values the columns can have: 1 without `IN`.
    pub fn combinations(&self, columns: ColumnSet) -> f64 {
        let count = |column: usize| match self.restrictions.get(column) {
            Some(Restriction::Listed(values)) => values.len().max(1) as f64,
            _ => 1.0,
        };
        columns.iter().map(count).product()
    }
}
