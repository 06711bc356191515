//! A statement's restrictions of the clustering columns, without values.

use crate::column_set::ColumnSet;

/// Which clustering columns a statement restricts, and how. A column is in one of the sets at most.
/// Statements of one shape read the same kind of slice on each layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// `column = value`
    pub equal: ColumnSet,
    /// `column IN (…)`
    pub listed: ColumnSet,
    /// `<`, `<=`, `>`, `>=`, in one or both directions.
    pub range: ColumnSet,
    /// The client must get the rows in the table's own order or exactly the reverse, which are all
    /// that CQL can ask for. False for aggregates whose result does not depend on the order.
    pub ordered: bool,
}
