//! Tables as their schema defines them.

use std::collections::BTreeMap;

use crate::rows::Rows;

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
        for row in &indexes.rows {
            let text = |name: &str| indexes.text(row, name);
            let (Some(keyspace), Some(table)) = (text("keyspace_name"), text("table_name")) else {
                continue;
            };
            if let Some(table) = self.0.get_mut(&(keyspace, table)) {
                table.indexed = true;
            }
        }
    }

    pub(crate) fn table(&self, keyspace: &str, table: &str) -> Option<&Definition> {
        self.0.get(&(keyspace.to_owned(), table.to_owned()))
    }
}
