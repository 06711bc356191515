//! The default cost model: the rows of a slice are counted on a sample, so that columns that depend
//! on each other are no surprise.
//!
//! - A complete sample is counted exactly.
//! - Otherwise the rows with the prefix's values come from the statistics of that set of columns
//!   (`statistics/prefix.rs`), and a range's share is counted among the sample's rows with that
//!   prefix; if these are too few, among all rows of the partition, or else of the table.
//! - A LIMIT ends a read early only on a layout that has the order. The matching rows are taken to be
//!   spread evenly over the slice.
//! - A result that has to be sorted and is larger than [`SORT_ROWS_MAX`] rows cannot be had from a
//!   layout with another order.
//!
//! Limits: rows of one size; SSTables that overlap, tombstones and caches are not modelled.

use crate::access::Access;
use crate::column_set::ColumnSet;
use crate::cost::{Coefficients, CostModel, Work, comparisons};
use crate::query::{Query, Restriction};
use crate::sample::RowSet;
use crate::shape::Shape;
use crate::statistics::Statistics;
use crate::table::Table;
use crate::value::Value;

/// Rows of a result that are put into order at most: a driver's page.
pub const SORT_ROWS_MAX: f64 = 5000.0;
/// A share counted on fewer rows than this is taken from more rows instead.
const SHARE_ROWS_MIN: usize = 30;
/// Combinations of `IN` values that are looked up one by one, at most.
const COMBINATIONS_MAX: f64 = 256.0;

/// How the table lies on disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Storage {
    pub row_bytes: f64,
    /// Size of a block, which is read and decompressed at once.
    pub block_bytes: f64,
}

impl Default for Storage {
    fn default() -> Self {
        Storage {
            row_bytes: 100.0,
            block_bytes: 16_384.0,
        }
    }
}

impl Storage {
    /// Blocks that hold so many rows in so many slices of a table, of `rows_total` rows in all.
    pub fn blocks(&self, slices: f64, rows: f64, rows_total: f64) -> f64 {
        let full = |rows: f64| rows * self.row_bytes / self.block_bytes.max(1.0);
        // A slice begins in the middle of a block; small partitions share theirs.
        slices.min(full(rows_total).ceil()) + full(rows)
    }
}

#[derive(Clone, Debug)]
pub struct SampledModel<'a> {
    table: &'a Table,
    statistics: &'a Statistics,
    queries: Vec<Prepared>,
    storage: Storage,
    coefficients: Coefficients,
}

#[derive(Clone, Debug)]
struct Prepared {
    query: Query,
    shape: Shape,
    /// The partition key columns, if all are bound, so that only some partitions are read.
    scope: ColumnSet,
    partitions: f64,
    /// The rows that fulfil the restriction, for each restricted column.
    matching: Vec<(usize, RowSet)>,
    /// Rows of the result, before LIMIT.
    result_rows: f64,
}

impl<'a> SampledModel<'a> {
    /// The column sets whose frequencies the statistics must know for queries that bind these columns
    /// by `=` or `IN`.
    pub fn sets(table: &Table, bound: impl IntoIterator<Item = ColumnSet>) -> Vec<ColumnSet> {
        let mut sets = vec![table.partition_columns()];
        for bound in bound {
            let scope = scope(table, bound);
            let clustering = bound.intersection(table.clustering_columns());
            sets.extend(clustering.subsets().map(|subset| subset.union(scope)));
        }
        sets.sort_unstable();
        sets.dedup();
        sets
    }

    pub fn new(
        table: &'a Table,
        statistics: &'a Statistics,
        queries: Vec<Query>,
        storage: Storage,
        coefficients: Coefficients,
    ) -> Self {
        let mut model = SampledModel {
            table,
            statistics,
            queries: Vec::new(),
            storage,
            coefficients,
        };
        model.queries = queries
            .into_iter()
            .map(|query| model.prepare(query))
            .collect();
        model
    }

    pub fn query(&self, query: usize) -> Option<&Query> {
        self.queries.get(query).map(|prepared| &prepared.query)
    }

    fn prepare(&self, query: Query) -> Prepared {
        let scope = scope(self.table, query.bound());
        let partitions = match scope.is_empty() {
            false => query.combinations(scope),
            true => self
                .statistics
                .distinct(self.table.partition_columns())
                .unwrap_or(1.0),
        };
        let restrictions = query.restrictions.iter().enumerate();
        let restricted = restrictions.filter(|(_, r)| **r != Restriction::None);
        let sample = self.statistics.sample();
        let matching = restricted.map(|(column, r)| (column, sample.matching(column, r)));
        let mut prepared = Prepared {
            shape: query.shape(self.table),
            scope,
            partitions,
            matching: matching.collect(),
            result_rows: 0.0,
            query,
        };
        let bound = prepared.shape.equal.union(prepared.shape.listed);
        let others = prepared.matching.iter().map(|(column, _)| *column);
        let others: ColumnSet = others
            .filter(|c| !bound.union(scope).contains(*c))
            .collect();
        prepared.result_rows = self.rows(&prepared, bound, others);
        prepared
    }

    /// Rows in which the columns of `prefix` have their values and those of `others` fulfil their
    /// restrictions, in the partitions that are read.
    fn rows(&self, query: &Prepared, prefix: ColumnSet, others: ColumnSet) -> f64 {
        let bound = prefix.union(query.scope);
        if self.statistics.is_complete() {
            return query.rows_with(bound.union(others), self.statistics) as f64;
        }
        let mut rows = self.rows_equal(query, bound);
        if !others.is_empty() {
            rows *= self.share(query, bound, others);
        }
        rows
    }

    /// Rows with one of the combinations of values that these columns are bound to.
    fn rows_equal(&self, query: &Prepared, bound: ColumnSet) -> f64 {
        let counted = || query.rows_with(bound, self.statistics) as f64 * self.statistics.scale();
        if bound.is_empty() || query.query.combinations(bound) > COMBINATIONS_MAX {
            return counted();
        }
        let mut combinations: Vec<Vec<&Value>> = vec![Vec::new()];
        for column in bound.iter() {
            let mut values: Vec<&Value> = match query.query.restrictions.get(column) {
                Some(Restriction::Equal(value)) => vec![value],
                Some(Restriction::Listed(values)) => values.iter().collect(),
                _ => return counted(),
            };
            values.sort_unstable();
            values.dedup();
            let mut longer = Vec::with_capacity(combinations.len() * values.len());
            for head in &combinations {
                for value in &values {
                    longer.push([&head[..], &[*value]].concat());
                }
            }
            combinations = longer;
        }
        let rows_of = |values: &Vec<&Value>| self.statistics.rows_equal(bound, values);
        combinations
            .iter()
            .map(rows_of)
            .sum::<Option<f64>>()
            .unwrap_or_else(counted)
    }

    /// Which share of the rows with the prefix's values fulfils the other restrictions.
    fn share(&self, query: &Prepared, bound: ColumnSet, others: ColumnSet) -> f64 {
        let mut share = 1.0;
        for base in [bound, query.scope, ColumnSet::EMPTY] {
            let all = query.rows_with(base, self.statistics);
            let some = query.rows_with(base.union(others), self.statistics);
            // None of n rows: less than one in n.
            share = (some as f64).max(0.5) / all.max(1) as f64;
            if all >= SHARE_ROWS_MIN {
                break;
            }
        }
        share.min(1.0)
    }
}

impl Prepared {
    /// Rows of the sample that fulfil the restrictions of these columns.
    fn rows_with(&self, columns: ColumnSet, statistics: &Statistics) -> usize {
        let mut rows = RowSet::all(statistics.sample().rows());
        for (column, matching) in &self.matching {
            if columns.contains(*column) {
                rows.keep(matching);
            }
        }
        rows.count()
    }
}

impl CostModel for SampledModel<'_> {
    fn queries(&self) -> usize {
        self.queries.len()
    }

    fn shape(&self, query: usize) -> Shape {
        self.queries.get(query).map(|q| q.shape).unwrap_or_default()
    }

    fn weight(&self, query: usize) -> f64 {
        self.queries.get(query).map_or(0.0, |q| q.query.weight)
    }

    fn work(&self, query: usize, access: &Access) -> Option<Work> {
        let query = self.queries.get(query)?;
        let range = access.range.into_iter().collect();
        let mut rows = self
            .rows(query, access.prefix, range)
            .max(query.result_rows);
        let mut kept = query.result_rows;
        let mut compared = 0.0;
        match (access.in_order, query.query.limit) {
            (true, Some(limit)) if query.shape.ordered && query.result_rows > limit as f64 => {
                rows *= limit as f64 / query.result_rows;
                kept = limit as f64;
            }
            (false, _) if query.result_rows > SORT_ROWS_MAX => return None,
            (false, _) => compared = comparisons(query.result_rows),
            _ => {}
        }
        let slices = query.partitions * query.query.combinations(access.prefix);
        let blocks = self
            .storage
            .blocks(slices, rows, self.statistics.rows_total());
        Some(Work {
            kept,
            blocks,
            ..Work::new(slices, rows, compared)
        })
    }

    fn coefficients(&self) -> Coefficients {
        self.coefficients
    }
}

/// The partition key, if a query binds all of it. Otherwise it reads all partitions.
fn scope(table: &Table, bound: ColumnSet) -> ColumnSet {
    let key = table.partition_columns();
    match bound.intersection(key) == key {
        true => key,
        false => ColumnSet::EMPTY,
    }
}
