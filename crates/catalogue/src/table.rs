//! Names of tables.

use std::fmt;

/// A table, by names as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey {
    pub keyspace: String,
    pub table: String,
}

impl TableKey {
    pub fn new(keyspace: &str, table: &str) -> TableKey {
        TableKey {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        }
    }
}

impl fmt::Display for TableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}
