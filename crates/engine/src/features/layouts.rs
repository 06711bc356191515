//! Copies of tables in other clustering orders (*layouts*): which there are.

pub(crate) mod added_columns;
pub(crate) mod alter;
pub(crate) mod fan_out_write;
pub(crate) mod in_sequence;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod reads;
pub(crate) mod refusals;
pub(crate) mod requests;
pub(crate) mod restored_order;
pub(crate) mod schema_read;
pub(crate) mod schema_reads;
pub(crate) mod writes;

use std::sync::Arc;

use helenus_layout::plan::LogicalTable;
use rustc_hash::FxHashMap;

use crate::rewrite::leases::Flagged;

/// What is known of layouts.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    /// The tables that have any, by keyspace and table.
    pub tables: FxHashMap<String, FxHashMap<String, Arc<LogicalTable>>>,
    /// These, and all others that may have some.
    pub flagged: Flagged,
}

impl Layouts {
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Adds a table with layouts, which is flagged thereby.
    pub fn add(&mut self, table: Arc<LogicalTable>) {
        self.flagged.add(&table.keyspace, &table.name);
        let of_keyspace = self.tables.entry(table.keyspace.clone()).or_default();
        of_keyspace.insert(table.name.clone(), table);
    }

    /// A table that has layouts. One whose layouts are all missing has none.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<LogicalTable>> {
        let table = self.tables.get(keyspace)?.get(table);
        table.filter(|table| !table.copies.is_empty())
    }

    /// The table that this one holds a layout of.
    pub fn table_of_layout(&self, keyspace: &str, physical: &str) -> Option<&Arc<LogicalTable>> {
        let mut tables = self.tables.get(keyspace)?.values();
        let holds =
            |table: &&Arc<LogicalTable>| table.copies.iter().any(|c| c.physical == physical);
        tables.find(holds)
    }

    /// Keyspace and name of all tables, in order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for (keyspace, tables) in &self.tables {
            names.extend(
                tables
                    .keys()
                    .map(|table| (keyspace.as_str(), table.as_str())),
            );
        }
        names.sort_unstable();
        names.into_iter()
    }
}
