//! Predicts which share of a partition a statement reads on a layout.
//!
//! ```text
//! share = ∏ values(column) / distinct(column) over the prefix bound by = or IN · 0.3 for a range
//! ```
//!
//! Limits: columns are taken for independent, their values for equally frequent, and the values are not
//! looked at.
//!
//! Source: Qiao et al., "Heterogeneous Replica for Query on Cassandra" (2018), formulas 1 to 4.

use super::logical_table::LogicalTable;
use crate::access::Access;

/// Of the rows in the slice before, a range keeps so many.
pub(super) const RANGE_SHARE: f64 = 0.3;

/// Distinct values of a column of which nothing is known.
const DISTINCT_UNKNOWN: f64 = 10.0;

/// `values`: how many values each clustering column is compared with.
pub(super) fn expected_share(table: &LogicalTable, access: &Access, values: &[f64]) -> f64 {
    let of_column = |at: usize| {
        let name = table.clustering.get(at).map(|c| c.name.as_str());
        share_of_values(table, name, values.get(at).copied().unwrap_or(1.0))
    };
    let prefix: f64 = access.prefix.iter().map(of_column).product();
    prefix * access.range.map_or(1.0, |_| RANGE_SHARE)
}

/// The share of rows in which a column has one of so many values.
pub(super) fn share_of_values(table: &LogicalTable, column: Option<&str>, values: f64) -> f64 {
    let distinct = column.and_then(|name| table.distinct.get(name)).copied();
    // None at all were counted in an empty table.
    let distinct = distinct.filter(|count| count.is_finite() && *count >= 1.0);
    (values / distinct.unwrap_or(DISTINCT_UNKNOWN)).min(1.0)
}
