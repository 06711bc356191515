//! Decides how a statement reads a layout.
//!
//! Cassandra walks the clustering columns in their order: as long as a column is restricted by
//! `=` or `IN`, it narrows the slice; a column with a range narrows it once more and ends it; so does
//! the first column without a restriction. Restrictions behind that only filter what was read.
//!
//! Evidence: `ClusteringColumnRestrictions` in Cassandra's sources (`valuesAsClustering`,
//! `boundsAsClustering`); the tests here.
//!
//! Limits: restrictions of several columns at once (`(a, b) > (1, 2)`) are not modelled.
//!
//! Source: Qiao et al., section 3.1, which knows `=` and ranges only.

use crate::column_set::ColumnSet;
use crate::layout::Layout;
use crate::shape::Shape;

/// The contiguous slices of a layout that a statement reads. The statement's cost depends on
/// nothing else, so layouts with the same access of a statement are equivalent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// The leading columns that are bound by `=` or `IN`. Their order among themselves is without
    /// meaning for the cost.
    pub prefix: ColumnSet,
    /// The column with a range right behind them.
    pub range: Option<usize>,
    /// The rows come in the order that the client must get, or it needs none.
    pub in_order: bool,
}

impl Access {
    pub fn of(shape: &Shape, layout: &Layout) -> Self {
        let bound = shape.equal.union(shape.listed);
        let mut prefix = ColumnSet::EMPTY;
        let mut range = None;
        for column in layout.columns() {
            if bound.contains(column) {
                prefix = prefix.with(column);
                continue;
            }
            range = shape.range.contains(column).then_some(column);
            break;
        }
        Access {
            prefix,
            range,
            in_order: !shape.ordered || keeps_order(shape, layout),
        }
    }
}

/// A column that equals one value in all rows does not change their order, wherever it is. The
/// others must come as in the table, which numbers them ascending.
fn keeps_order(shape: &Shape, layout: &Layout) -> bool {
    let free = layout.columns().filter(|c| !shape.equal.contains(*c));
    free.is_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(columns: &[usize]) -> ColumnSet {
        columns.iter().copied().collect()
    }

    fn access(shape: &Shape, columns: &[usize]) -> (Vec<usize>, Option<usize>, bool) {
        let access = Access::of(shape, &Layout::new(columns).expect("a permutation"));
        (
            access.prefix.iter().collect(),
            access.range,
            access.in_order,
        )
    }

    #[test]
    fn a_slice_is_an_equality_prefix_and_one_range() {
        let shape = Shape {
            equal: set(&[0, 2]),
            range: set(&[1, 3]),
            ..Shape::default()
        };
        assert_eq!(access(&shape, &[0, 1, 2, 3]), (vec![0], Some(1), true));
        assert_eq!(access(&shape, &[2, 0, 3, 1]), (vec![0, 2], Some(3), true));
        assert_eq!(access(&shape, &[3, 0, 1, 2]), (vec![], Some(3), true));
    }

    #[test]
    fn a_gap_ends_the_slice_and_in_does_not() {
        let shape = Shape {
            equal: set(&[3]),
            listed: set(&[1]),
            ..Shape::default()
        };
        assert_eq!(access(&shape, &[0, 1, 2, 3]), (vec![], None, true));
        assert_eq!(access(&shape, &[1, 3, 0, 2]), (vec![1, 3], None, true));
        assert_eq!(access(&shape, &[3, 0, 1, 2]), (vec![3], None, true));
    }

    #[test]
    fn order_is_kept_if_the_columns_not_bound_by_equality_keep_theirs() {
        let shape = Shape {
            equal: set(&[2]),
            listed: set(&[3]),
            ordered: true,
            ..Shape::default()
        };
        assert!(access(&shape, &[2, 0, 1, 3]).2);
        assert!(access(&shape, &[0, 1, 3, 2]).2);
        assert!(!access(&shape, &[1, 0, 2, 3]).2);
        // Several values of a listed column do not come in the table's order.
        assert!(!access(&shape, &[3, 2, 0, 1]).2);
    }
}
