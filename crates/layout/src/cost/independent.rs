//! The paper's cost model: columns are independent, and time is linear in the rows of the slice.
//!
//! ```text
//! rows = N · ∏ P(column = value) over the equality prefix · P(low ≤ column ≤ high) of the range
//! ```
//!
//! Limits: it knows neither correlations nor LIMIT, nor what it costs to restore an order.
//!
//! Source: Qiao et al., formulas 1 to 4.

use crate::access::Access;
use crate::cost::{Coefficients, CostModel, Work};
use crate::query::Query;
use crate::sample::Sample;
use crate::shape::Shape;
use crate::table::Table;

/// One query, as far as this model is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Selectivities {
    pub shape: Shape,
    pub weight: f64,
    /// The share of the table's rows in the partitions that the query reads: 1 for all of them.
    pub partitions: f64,
    /// For each clustering column, the share of rows that fulfil its restriction.
    pub columns: Vec<f64>,
}

impl Selectivities {
    /// Each column's share is counted on the sample, for itself.
    pub fn of(query: &Query, table: &Table, sample: &Sample) -> Self {
        let rows = sample.rows().max(1) as f64;
        let share = |column: usize| match query.restrictions.get(column) {
            Some(restriction) => sample.matching(column, restriction).count() as f64 / rows,
            None => 1.0,
        };
        let partitions = match query.bound().intersection(table.partition_columns()) {
            bound if bound == table.partition_columns() => bound.iter().map(share).product(),
            // Without the whole key all partitions are read.
            _ => 1.0,
        };
        Selectivities {
            shape: query.shape(table),
            weight: query.weight,
            partitions,
            columns: (0..table.clustering()).map(share).collect(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct IndependentModel {
    rows_total: f64,
    queries: Vec<Selectivities>,
    coefficients: Coefficients,
}

impl IndependentModel {
    pub fn new(rows_total: u64, queries: Vec<Selectivities>, coefficients: Coefficients) -> Self {
        IndependentModel {
            rows_total: rows_total as f64,
            queries,
            coefficients,
        }
    }

    fn rows(&self, query: &Selectivities, access: &Access) -> f64 {
        let share = |column: usize| query.columns.get(column).copied().unwrap_or(1.0);
        let prefix: f64 = access.prefix.iter().map(share).product();
        let range = access.range.map_or(1.0, share);
        self.rows_total * query.partitions * prefix * range
    }
}

impl CostModel for IndependentModel {
    fn queries(&self) -> usize {
        self.queries.len()
    }

    fn shape(&self, query: usize) -> Shape {
        self.queries.get(query).map(|q| q.shape).unwrap_or_default()
    }

    fn weight(&self, query: usize) -> f64 {
        self.queries.get(query).map_or(0.0, |q| q.weight)
    }

    fn work(&self, query: usize, access: &Access) -> Option<Work> {
        let query = self.queries.get(query)?;
        Some(Work {
            slices: 1.0,
            rows: self.rows(query, access),
            ..Work::default()
        })
    }

    fn coefficients(&self) -> Coefficients {
        self.coefficients
    }
}
