//! How rows that a copy gives in its own order are put into the table's.
//!
//! The copy is asked for all rows that fit, without LIMIT and ORDER BY, and for the clustering columns that
//! the client has not selected. Whoever gets the answer sorts it, cuts it and takes these columns out. That is
//! the table's answer if it has come whole: on one page, and with [`ROWS_MAX`] rows at most.
//!
//! Limits: JSON (its keys could not be taken out again), `LIMIT ?`, and clustering columns of types whose
//! order is not in [`SORTABLE`] are left to copies that have the table's order. So are aggregates.

use helenus_cql::{SelectFacts, Selected};

use super::logical_table::LogicalTable;
use super::question::{Question, Wanted};

/// Rows that are sorted at most.
pub const ROWS_MAX: usize = 5_000;

/// The types whose values may be sorted by, as `system_schema.columns` names them.
pub const SORTABLE: [&str; 14] = [
    "ascii",
    "bigint",
    "blob",
    "date",
    "double",
    "float",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
];

/// The steps that make the table's answer of a copy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The first decides first.
    pub keys: Vec<SortKey>,
    /// Columns at the end of the copy's answer that the client has not asked for.
    pub appended: usize,
    /// Rows that are left after sorting.
    pub limit: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Its place in the copy's answer.
    pub column: usize,
    /// One of [`SORTABLE`].
    pub cql_type: String,
    pub descending: bool,
}

impl Restore {
    /// With the columns that are to be selected additionally; None if the order cannot be restored.
    pub(super) fn of<'a>(
        table: &'a LogicalTable,
        select: &SelectFacts,
        question: &Question,
    ) -> Option<(Restore, Vec<&'a str>)> {
        if select.json || select.aggregates {
            return None;
        }
        let selected = selected(table, select);
        let mut appended = Vec::new();
        let mut keys = Vec::new();
        for (at, column) in table.clustering.iter().enumerate() {
            // It is the same in all rows.
            if question.shape.equal.contains(at) {
                continue;
            }
            if !SORTABLE.contains(&column.cql_type.as_str()) {
                return None;
            }
            let known = selected.iter().position(|name| *name == Some(&column.name));
            keys.push(SortKey {
                column: known.unwrap_or_else(|| {
                    appended.push(column.name.as_str());
                    selected.len() + appended.len() - 1
                }),
                cql_type: column.cql_type.clone(),
                descending: column.descending != question.reversed,
            });
        }
        // With static columns alone, Cassandra reads no rows, and more columns would change that.
        let is_of_row = |name: &&str| {
            let of_row = table.column(name).is_some_and(|column| !column.is_static);
            of_row || table.clustering_column(name).is_some()
        };
        if !appended.is_empty() && !selected.iter().flatten().any(is_of_row) {
            return None;
        }
        let limit = match question.wanted {
            Wanted::All => None,
            Wanted::First(rows) => Some(rows),
            Wanted::Unknown => return None,
        };
        let restore = Restore {
            keys,
            appended: appended.len(),
            limit,
        };
        Some((restore, appended))
    }
}

/// The columns of the answer, as far as they are plain ones.
fn selected<'a>(table: &'a LogicalTable, select: &'a SelectFacts) -> Vec<Option<&'a str>> {
    match &select.columns {
        Selected::All => table.all_columns().into_iter().map(Some).collect(),
        Selected::Columns(items) => {
            let names = items.iter().map(|item| item.column.as_ref());
            names.map(|name| name.map(|name| name.as_str())).collect()
        }
    }
}
