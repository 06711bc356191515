//! Tables as their schema defines them.

use std::collections::BTreeMap;

use crate::control::rows::Rows;

/// A table's columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Definition {
    /// Name and type.
    pub partition_key: BTreeMap<i32, (String, String)>,
    /// Name, type, and whether it sorts downwards.
    pub clustering: BTreeMap<i32, (String, String, bool)>,
    /// All others: type and whether it is static, by name, as `SELECT *` lists them.
    pub others: BTreeMap<String, (String, bool)>,
    pub indexed: bool,
    /// Time to live of rows that are written without one; 0: none.
    pub default_ttl_s: i32,
    /// Some column is masked.
    pub masked: bool,
    /// Columns that were dropped, by name, whether there are new ones of that name or not: what was written until this time,
    /// in milliseconds, is hidden.
    pub dropped: BTreeMap<String, i64>,
}

/// Tables by keyspace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Schema(BTreeMap<(String, String), Definition>);

impl Schema {
    /// Adds tables, from rows of `system_schema.columns` and `system_schema.indexes`.
    pub(crate) fn add(&mut self, columns: &Rows, indexes: &Rows) {
        for row in &columns.rows {
            let text = |name: &str| columns.text(row, name);
            let (Some(keyspace), Some(table)) = (text("keyspace_name"), text("table_name")) else {
                continue;
            };
            let (Some(name), Some(ty)) = (text("column_name"), text("type")) else {
                continue;
            };
            let position = columns.cell(row, "position");
            let position = position.and_then(|cell| cell.try_into().ok());
            let position = position.map_or(0, i32::from_be_bytes);
            let table = self.0.entry((keyspace, table)).or_default();
            match text("kind").as_deref() {
                Some("partition_key") => {
                    table.partition_key.insert(position, (name, ty));
                }
                Some("clustering") => {
                    let order = columns.cell(row, "clustering_order");
                    let is_descending = order == Some(b"desc");
                    table.clustering.insert(position, (name, ty, is_descending));
                }
                kind => {
                    table.others.insert(name, (ty, kind == Some("static")));
                }
            }
        }
        self.each_of(indexes, |table, _| table.indexed = true);
    }

    /// Adds what else counts of tables that were added, from rows of `system_schema.tables`, `dropped_columns` and
    /// `column_masks`; there is no table of masks before Cassandra 5.0.
    pub(crate) fn add_options(&mut self, tables: &Rows, dropped: &Rows, masks: Option<&Rows>) {
        self.each_of(tables, |table, row| {
            table.default_ttl_s = tables.int(row, "default_time_to_live").unwrap_or_default();
        });
        self.each_of(dropped, |table, row| {
            let time = dropped.bigint(row, "dropped_time").unwrap_or_default();
            let name = dropped.text(row, "column_name");
            table.dropped.extend(name.map(|name| (name, time)));
        });
        if let Some(masks) = masks {
            self.each_of(masks, |table, _| table.masked = true);
        }
    }

    /// For each row that is about a table that is known.
    fn each_of(&mut self, rows: &Rows, mut of: impl FnMut(&mut Definition, &Vec<Option<Vec<u8>>>)) {
        for row in &rows.rows {
            let text = |name: &str| rows.text(row, name);
            let (Some(keyspace), Some(table)) = (text("keyspace_name"), text("table_name")) else {
                continue;
            };
            if let Some(table) = self.0.get_mut(&(keyspace, table)) {
                of(table, row);
            }
        }
    }

    pub(crate) fn table(&self, keyspace: &str, table: &str) -> Option<&Definition> {
        self.0.get(&(keyspace.to_owned(), table.to_owned()))
    }
}
