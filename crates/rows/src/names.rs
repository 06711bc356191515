//! Names of tables, and texts in CQL.

use std::str::FromStr;

use helenus_cql::{Name, qualified_name};

/// A text that is no full name of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: write KEYSPACE.TABLE")]
pub struct BadName(String);

/// A table with its keyspace, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    pub keyspace: Name,
    pub table: Name,
}

impl FromStr for TableName {
    type Err = BadName;

    /// As in CQL: upper case counts between quotation marks only.
    fn from_str(text: &str) -> Result<Self, BadName> {
        match qualified_name(text) {
            Some((keyspace, table)) => Ok(TableName { keyspace, table }),
            None => Err(BadName(text.to_owned())),
        }
    }
}

impl TableName {
    pub fn to_cql(&self) -> String {
        in_keyspace(&self.keyspace, &self.table)
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}

/// A table's full name as CQL reads it.
pub fn in_keyspace(keyspace: &Name, table: &str) -> String {
    let table = Name::from_stored(table);
    format!("{}.{}", keyspace.to_cql(), table.to_cql())
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
