//! The schema, as far as it decides how statements are treated.

use std::sync::Arc;

use helenus_cql::Facts;
use helenus_policy::predict::TableSize;
use helenus_policy::ring::ReplicaSets;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::snapshot::list_columns::ListColumns;
use crate::snapshot::table_sizes::TableSizes;

/// Keyspaces and tables.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub(super) keyspaces: FxHashMap<String, Arc<ReplicaSets>>,
    /// Partition keys by keyspace and table (or view).
    pub(super) tables: FxHashMap<String, FxHashMap<String, Arc<[KeyColumn]>>>,
    /// Which columns of tables cannot be written twice.
    pub(super) lists: Arc<ListColumns>,
    /// How large tables are.
    pub(super) sizes: Arc<TableSizes>,
    /// Keyspaces with functions of their own that are called as those of [`helenus_cql::Fold`].
    pub(super) folds_shadowed: FxHashSet<String>,
    /// Descending clustering columns by keyspace and table, if some node compares them in reverse, so that
    /// its `MIN` is others' `MAX`.
    pub(super) compared_in_reverse: FxHashMap<String, FxHashMap<String, Vec<String>>>,
    pub(super) version: [u8; 16],
    /// That of a node that is up and has another one.
    pub(super) other_version: Option<[u8; 16]>,
}

/// One column of a partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    pub name: String,
    /// CQL type name.
    pub cql_type: String,
    /// True if clients may be shown another value than the one that rows lie by.
    pub is_masked: bool,
}

impl Schema {
    /// The owners of each part of the ring in a keyspace.
    #[inline]
    pub fn owners(&self, keyspace: &str) -> Option<&Arc<ReplicaSets>> {
        self.keyspaces.get(keyspace)
    }

    pub(crate) fn has_keyspace(&self, name: &str) -> bool {
        self.keyspaces.contains_key(name)
    }

    /// The partition key of a table (or view).
    #[inline]
    pub fn partition_key(&self, keyspace: &str, table: &str) -> Option<&Arc<[KeyColumn]>> {
        self.tables.get(keyspace)?.get(table)
    }

    pub(crate) fn has_table(&self, keyspace: &str, table: &str) -> bool {
        self.partition_key(keyspace, table).is_some()
    }

    /// Names of the tables (and views) of a keyspace.
    pub(crate) fn tables_in(&self, keyspace: &str) -> impl Iterator<Item = &str> {
        let tables = self.tables.get(keyspace).into_iter();
        tables.flat_map(|tables| tables.keys().map(String::as_str))
    }

    /// Keyspaces and names of all tables (and views).
    pub fn tables(&self) -> impl Iterator<Item = (&str, &str)> {
        let keyspaces = self.tables.iter();
        keyspaces.flat_map(|(keyspace, tables)| {
            let names = tables.keys();
            names.map(move |table| (keyspace.as_str(), table.as_str()))
        })
    }

    /// True if a write may replace a list. `in_force`: the keyspace where its text names none.
    pub(crate) fn may_replace_list(&self, facts: &Facts, in_force: Option<&str>) -> bool {
        let may = |facts: &Facts| {
            let keyspace = facts.keyspace.as_deref().or(in_force);
            let table = keyspace.zip(facts.table.as_deref());
            self.lists.may_be_among(&facts.overwrites, table)
        };
        may(facts) || facts.inner.iter().any(may)
    }

    /// How large a table is, if a node has told.
    pub(crate) fn size_of(&self, keyspace: &str, table: &str) -> Option<TableSize> {
        self.sizes.get(keyspace, table)
    }

    /// How large tables are.
    pub fn sizes(&self) -> &Arc<TableSizes> {
        &self.sizes
    }

    /// True if a keyspace has functions of its own that are called as those of [`helenus_cql::Fold`].
    pub(crate) fn shadows_folds(&self, keyspace: &str) -> bool {
        self.folds_shadowed.contains(keyspace)
    }

    /// True if some node confuses `MIN` and `MAX` of a column.
    pub(crate) fn compares_in_reverse(&self, keyspace: &str, table: &str, column: &str) -> bool {
        let of_table = self.compared_in_reverse.get(keyspace);
        let columns = of_table.and_then(|tables| tables.get(table));
        columns.is_some_and(|columns| columns.iter().any(|c| c == column))
    }

    pub fn version(&self) -> [u8; 16] {
        self.version
    }

    /// That of a node that is up and has another one.
    pub fn other_version(&self) -> Option<[u8; 16]> {
        self.other_version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_columns_that_were_found_so_compare_in_reverse() {
        let mut schema = Schema::default();
        let columns = vec!["day".to_owned(), "hour".to_owned()];
        let tables = [("events".to_owned(), columns)].into_iter().collect();
        schema.compared_in_reverse.insert("app".to_owned(), tables);
        let is_so = |keyspace, table, column| schema.compares_in_reverse(keyspace, table, column);
        assert!(is_so("app", "events", "day") && is_so("app", "events", "hour"));
        assert!(!is_so("app", "events", "key"));
        assert!(!is_so("app", "others", "day"));
        assert!(!is_so("other", "events", "day"));
    }
}
