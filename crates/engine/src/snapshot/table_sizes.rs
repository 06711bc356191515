//! How large tables are, as nodes estimate it: a prior for statements that nothing is known of.

use helenus_policy::predict::TableSize;
use rustc_hash::FxHashMap;

/// Sizes by keyspace and table. Tables that are small, new or unknown are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSizes {
    of: FxHashMap<String, FxHashMap<String, TableSize>>,
}

impl TableSizes {
    pub fn insert(&mut self, keyspace: &str, table: &str, size: TableSize) {
        let of_keyspace = self.of.entry(keyspace.to_owned()).or_default();
        of_keyspace.insert(table.to_owned(), size);
    }

    pub fn get(&self, keyspace: &str, table: &str) -> Option<TableSize> {
        self.of.get(keyspace)?.get(table).copied()
    }

    /// How many tables are known.
    pub fn len(&self) -> usize {
        self.of.values().map(FxHashMap::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}
