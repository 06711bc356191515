//! The columns of tables whose values are lists of several cells.
//!
//! A node replaces such a list by deleting it just before the write's timestamp, and adds the elements as
//! cells with names of its own (TimeUUIDs). A write that is executed twice with one timestamp leaves both
//! sets of cells: `[a, b]` becomes `[a, b, a, b]` (CASSANDRA-11368). A frozen list is one cell, and sets,
//! maps and user-defined types have names of their own for their cells: these can be written any number of
//! times.
//!
//! Known are the columns of the schema as it was last read. Tables and columns that it does not know may
//! be, or have, such lists. A table that was dropped and made again with other types within the moment
//! before the schema is read again is taken for what it was.

use helenus_cql::Overwrites;
use rustc_hash::FxHashMap;

/// Which columns of which tables are lists of several cells.
#[derive(Debug, Default)]
pub struct ListColumns {
    keyspaces: FxHashMap<Box<str>, FxHashMap<Box<str>, Columns>>,
}

#[derive(Debug, Default)]
struct Columns {
    /// True if some of the table's columns are such lists.
    has_lists: bool,
    /// Those that are not, in ascending order.
    others: Vec<Box<str>>,
}

impl ListColumns {
    /// Adds a column, given its keyspace, table, name and CQL type.
    pub fn note(&mut self, keyspace: &str, table: &str, column: &str, cql_type: &str) {
        let of_keyspace = self.keyspaces.entry(keyspace.into()).or_default();
        let columns = of_keyspace.entry(table.into()).or_default();
        if cql_type.starts_with("list<") {
            columns.has_lists = true;
        } else if let Err(at) = columns.others.binary_search_by(|of| (**of).cmp(column)) {
            columns.others.insert(at, column.into());
        }
    }

    /// True if a write of a table may replace such a list.
    pub(crate) fn may_be_among(
        &self,
        overwrites: &Overwrites,
        table: Option<(&str, &str)>,
    ) -> bool {
        if matches!(overwrites, Overwrites::Columns(columns) if columns.is_empty()) {
            return false;
        }
        let known = table.and_then(|(keyspace, table)| self.keyspaces.get(keyspace)?.get(table));
        let Some(known) = known else {
            return true;
        };
        let is_other = |name: &str| known.others.binary_search_by(|of| (**of).cmp(name)).is_ok();
        match overwrites {
            Overwrites::Any => known.has_lists,
            Overwrites::Columns(columns) => !columns.iter().all(|column| is_other(column)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_replace(text: &str) -> bool {
        let mut known = ListColumns::default();
        for (table, column, cql_type) in [
            ("plain", "k", "bigint"),
            ("plain", "v", "frozen<list<text>>"),
            ("plain", "s", "set<text>"),
            ("plain", "m", "map<text, frozen<list<int>>>"),
            ("plain", "u", "listed"),
            ("listed", "k", "bigint"),
            ("listed", "l", "list<text>"),
            ("listed", "v", "text"),
        ] {
            known.note("ks", table, column, cql_type);
        }
        let facts = helenus_cql::facts(text);
        let table = facts.table.as_deref().map(|table| ("ks", table));
        known.may_be_among(&facts.overwrites, table)
    }

    #[test]
    fn only_what_is_known_to_be_something_else_is_no_list() {
        for (text, expected) in [
            (
                "INSERT INTO plain (k, v, s, m, u) VALUES (?, ?, {}, :m, (a) 1)",
                false,
            ),
            ("INSERT INTO listed (k, v) VALUES (?, ?)", false),
            ("INSERT INTO listed (k, l) VALUES (?, ?)", true),
            ("INSERT INTO listed (k, \"L\") VALUES (?, ?)", true),
            ("INSERT INTO listed (k, l) VALUES (1, ['a'])", true),
            ("INSERT INTO listed (k, l) VALUES (1, null)", false),
            ("INSERT INTO listed (k, new) VALUES (1, ?)", true),
            ("INSERT INTO plain (k, new) VALUES (1, ?)", true),
            ("INSERT INTO unknown (k, v) VALUES (?, ?)", true),
            ("INSERT INTO unknown (k, v) VALUES (1, 'a')", false),
            ("INSERT INTO plain JSON ?", false),
            ("INSERT INTO listed JSON '{\"k\": 1}'", true),
            ("INSERT INTO unknown JSON ?", true),
            ("UPDATE listed SET v = ? WHERE k = ?", false),
            ("UPDATE listed SET v = 'a', l = :l WHERE k = 1", true),
            ("UPDATE listed SET l = [] WHERE k = 1", true),
            ("DELETE l FROM listed WHERE k = ?", false),
            ("DELETE FROM listed WHERE k = ?", false),
        ] {
            assert_eq!(may_replace(text), expected, "{text}");
        }
    }
}
