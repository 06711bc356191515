//! Names of tables, and texts in CQL.

use std::str::FromStr;

use anyhow::{Result, bail};
use helenus_cql::{Name, qualified_name};

/// A table with its keyspace, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub keyspace: Name,
    pub table: Name,
}

impl FromStr for TableName {
    type Err = anyhow::Error;

    /// As in CQL: upper case counts between quotation marks only.
    fn from_str(text: &str) -> Result<Self> {
        match qualified_name(text) {
            Some((keyspace, table)) => Ok(TableName { keyspace, table }),
            None => bail!("{text}: write KEYSPACE.TABLE"),
        }
    }
}

impl TableName {
    pub(crate) fn to_cql(&self) -> String {
        in_keyspace(&self.keyspace, &self.table)
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}

/// A table's full name as CQL reads it.
pub(crate) fn in_keyspace(keyspace: &Name, table: &str) -> String {
    let table = Name::from_stored(table);
    format!("{}.{}", keyspace.to_cql(), table.to_cql())
}

/// A text literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_as_in_cql() {
        for (text, keyspace, table) in [
            ("shop.Orders", "shop", "orders"),
            ("shop.\"Orders\"", "shop", "Orders"),
            ("\"My.Shop\".orders", "My.Shop", "orders"),
            ("\"S\".\"O\"", "S", "O"),
        ] {
            let name: TableName = text.parse().expect(text);
            assert_eq!((&*name.keyspace, &*name.table), (keyspace, table), "{text}");
            assert_eq!(name.to_cql().parse::<TableName>().expect(text), name);
        }
        for text in ["orders", "", ".", "shop.", ".orders", "\"shop\""] {
            assert!(text.parse::<TableName>().is_err(), "{text}");
        }
    }
}
