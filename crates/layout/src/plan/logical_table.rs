//! A table as its clients know it, and the copies that it has.

use std::collections::HashMap;

use crate::layout::Layout;

#[derive(Clone, Debug, PartialEq)]
pub struct LogicalTable {
    pub keyspace: String,
    pub name: String,
    pub partition_key: Vec<String>,
    /// In the table's own order.
    pub clustering: Vec<ClusteringColumn>,
    /// All others.
    pub columns: Vec<Column>,
    /// The table has an index, whichever.
    pub indexed: bool,
    /// A column may hold a timestamp, alone or within another type ([`may_hold_time`]).
    pub may_hold_times: bool,
    pub copies: Vec<Copy>,
    /// Number of distinct values of a column, as far as known; of the whole partition key under the name
    /// that [`partition_name`] gives it.
    pub distinct: HashMap<String, f64>,
    /// Number of its rows, if they were counted.
    pub rows: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringColumn {
    pub name: String,
    /// As in `system_schema.columns`.
    pub cql_type: String,
    pub descending: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// As in `system_schema.columns`: `map<text, frozen<list<int>>>`.
    pub cql_type: String,
    pub is_static: bool,
}

/// A table that holds the same rows in another clustering order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its keyspace, if that is not the table's: then it is *derived*, written by requests of its own.
    pub keyspace: Option<String>,
    /// Name of the table that holds it.
    pub physical: String,
    /// Column numbers are places in [`LogicalTable::clustering`].
    pub layout: Layout,
    /// It holds all rows. Until then it is only written.
    pub readable: bool,
    /// Columns that it has and the table has not, nor ever had.
    pub further: Vec<Column>,
    /// Names of columns that it still has, and that the table has dropped.
    pub outlived: Vec<String>,
}

impl Copy {
    /// True if it is written by requests of its own, and is read at ONE and LOCAL_ONE only.
    pub fn is_derived(&self) -> bool {
        self.keyspace.is_some()
    }
}

impl LogicalTable {
    /// True if it has copies, and all of them are derived.
    pub fn is_derived(&self) -> bool {
        !self.copies.is_empty() && self.copies.iter().all(Copy::is_derived)
    }

    /// The keyspace of one of its copies.
    pub fn keyspace_of<'a>(&'a self, copy: &'a Copy) -> &'a str {
        copy.keyspace.as_deref().unwrap_or(&self.keyspace)
    }

    /// The place among the clustering columns.
    pub(super) fn clustering_column(&self, name: &str) -> Option<usize> {
        self.clustering.iter().position(|c| c.name == name)
    }

    pub(super) fn is_partition_key(&self, name: &str) -> bool {
        self.partition_key.iter().any(|c| c == name)
    }

    /// A column that is not part of the primary key.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// The type of a column that is not of the partition key.
    pub(super) fn type_of(&self, name: &str) -> Option<&str> {
        let clustering = self.clustering.iter().find(|c| c.name == name);
        let of_key = clustering.map(|column| column.cql_type.as_str());
        of_key.or_else(|| Some(self.column(name)?.cql_type.as_str()))
    }

    /// Its rows in a partition, on average, if both were counted.
    pub(super) fn rows_per_partition(&self) -> Option<f64> {
        let name = partition_name(self.partition_key.iter().map(String::as_str));
        let partitions = self.distinct.get(&name).copied()?;
        let rows = self.rows? / partitions;
        (rows.is_finite() && rows > 0.0 && partitions >= 1.0).then_some(rows)
    }

    /// All columns in the order of `SELECT *`: the key, then static columns and the others, each
    /// sorted by name.
    pub(super) fn all_columns(&self) -> Vec<&str> {
        let of_kind = |is_static: bool| {
            let columns = self
                .columns
                .iter()
                .filter(move |c| c.is_static == is_static);
            let mut names: Vec<&str> = columns.map(|c| c.name.as_str()).collect();
            names.sort_unstable();
            names
        };
        let key = self.partition_key.iter().map(String::as_str);
        let clustering = self.clustering.iter().map(|c| c.name.as_str());
        let others = of_kind(true).into_iter().chain(of_kind(false));
        key.chain(clustering).chain(others).collect()
    }
}

/// The name under which [`LogicalTable::distinct`] has the number of partitions.
pub fn partition_name<'a>(partition_key: impl Iterator<Item = &'a str>) -> String {
    partition_key.collect::<Vec<_>>().join(", ")
}

/// True if values of a type, as `system_schema.columns` names it, may hold a timestamp. The fields of a user's type
/// are not known here.
pub fn may_hold_time(cql_type: &str) -> bool {
    let words = cql_type.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let mut words = words.filter(|word| !word.is_empty());
    words.any(|word| !word.bytes().all(|b| b.is_ascii_digit()) && !TIMELESS.contains(&word))
}

/// True if a value of a type is one cell, which is written as a whole; other values are a cell for each element. A
/// user's type that is not frozen is not told from one that does not exist.
pub fn is_one_cell(cql_type: &str) -> bool {
    let (base, parameters) = cql_type.split_once('<').unwrap_or((cql_type, ""));
    match base.trim() {
        "counter" | "list" | "map" | "set" => false,
        // Without parameters these are names like others.
        "frozen" | "tuple" | "vector" => !parameters.is_empty(),
        base => base == "timestamp" || TIMELESS.contains(&base),
    }
}

/// Types, and of what they are made, that hold no timestamp.
const TIMELESS: [&str; 26] = [
    "ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration",
    "float", "frozen", "inet", "int", "list", "map", "set", "smallint", "text", "time", "timeuuid",
    "tinyint", "tuple", "uuid", "varchar", "varint", "vector",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_within_another_type() {
        for ty in [
            "timestamp",
            "list<timestamp>",
            "frozen<map<text, frozen<address>>>",
            "\"Address\"",
        ] {
            assert!(may_hold_time(ty), "{ty}");
        }
        for ty in [
            "int",
            "timeuuid",
            "frozen<map<text, tuple<int, date>>>",
            "vector<float, 3>",
        ] {
            assert!(!may_hold_time(ty), "{ty}");
        }
    }

    #[test]
    fn collections_and_user_types_have_several_cells_unless_frozen() {
        for ty in [
            "int",
            "timestamp",
            "frozen<list<int>>",
            "frozen <address>",
            "tuple<int, text>",
            "vector<float, 3>",
        ] {
            assert!(is_one_cell(ty), "{ty}");
        }
        for ty in [
            "list<int>",
            "map<int, text>",
            "set <int>",
            "counter",
            "address",
            "\"int\"",
            "tuple",
            "",
        ] {
            assert!(!is_one_cell(ty), "{ty}");
        }
    }
}
