//! A table as the schema defines it: its columns and options.

use helenus_cql::Name;
use helenus_cql::lexer::{Lexer, Token, TokenKind};

use crate::names::TableName;

/// Types of one cell each, whatever they are called.
const NATIVE: [&str; 21] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
    "empty",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub cql_type: String,
    /// Of a clustering column.
    pub descending: bool,
    pub shape: Shape,
}

/// How the value of a column is stored, and whether CQL tells when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One cell.
    Single,
    /// One cell for each element.
    Set,
    /// One cell for each entry.
    Map,
    /// Several cells of unknown time.
    Untimed,
}

impl Shape {
    /// `tells_elements`: the nodes tell when the elements of a collection were written, as they do since
    /// 5.0. Elements of lists have places that cannot be written, and fields of user types are not told
    /// apart here.
    pub fn of(cql_type: &str, tells_elements: bool) -> Shape {
        let base = cql_type.split('<').next().unwrap_or_default();
        match base {
            "set" if tells_elements => Shape::Set,
            "map" if tells_elements => Shape::Map,
            "set" | "map" | "list" => Shape::Untimed,
            "frozen" | "tuple" | "vector" => Shape::Single,
            // The rest are classes, in quotation marks, and user types.
            base if NATIVE.contains(&base) || base.starts_with('\'') => Shape::Single,
            _ => Shape::Untimed,
        }
    }

    pub fn has_elements(self) -> bool {
        matches!(self, Shape::Set | Shape::Map)
    }
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: TableName,
    pub partition: Vec<Column>,
    pub clustering: Vec<Column>,
    /// By name, as all below.
    pub statics: Vec<Column>,
    pub regulars: Vec<Column>,
    pub default_ttl: i32,
    pub gc_grace_seconds: i32,
    /// A counter table, dense or of another kind of old.
    pub is_odd: bool,
}

impl Column {
    pub fn to_cql(&self) -> String {
        Name::from_stored(self.name.as_str()).to_cql().into_owned()
    }
}

/// A column as the schema describes it: name, type, kind, clustering order and position.
pub type ColumnRow = (String, String, String, String, i32);

impl Table {
    /// `flags`: of `system_schema.tables`. `tells_elements`: see [`Shape::of`].
    pub fn of_columns(
        name: TableName,
        columns: &[ColumnRow],
        flags: &[String],
        default_ttl: i32,
        gc_grace_seconds: i32,
        tells_elements: bool,
    ) -> Table {
        let of_kind = |kind: &str| {
            let mut found: Vec<(i32, Column)> = columns
                .iter()
                .filter(|(_, _, k, _, _)| k == kind)
                .map(|(name, cql_type, _, order, position)| {
                    let column = Column {
                        name: name.clone(),
                        cql_type: cql_type.clone(),
                        descending: order == "desc",
                        shape: Shape::of(cql_type, tells_elements),
                    };
                    (*position, column)
                })
                .collect();
            found.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
            found.into_iter().map(|(_, column)| column).collect()
        };
        Table {
            name,
            partition: of_kind("partition_key"),
            clustering: of_kind("clustering"),
            statics: of_kind("static"),
            regulars: of_kind("regular"),
            default_ttl,
            gc_grace_seconds,
            is_odd: flags != ["compound"],
        }
    }

    /// Its clustering columns in another order.
    pub fn clustering_by(&self, order: &[String]) -> Vec<&Column> {
        let column = |name: &String| self.clustering.iter().find(|c| c.name == *name);
        order.iter().filter_map(column).collect()
    }

    /// True if another table can have the rows of this one, in that order, for as long as they live. It may have
    /// further columns: ALTER TABLE goes to layouts first.
    pub fn is_copied_by(&self, other: &Table, order: &[String]) -> bool {
        self.has_keys_of(other, order)
            && self.lacking(other).next().is_none()
            && self.default_ttl == other.default_ttl
    }

    /// True if another table has the same primary key, in that order.
    pub fn has_keys_of(&self, other: &Table, order: &[String]) -> bool {
        let clustering = self.clustering_by(order);
        self.partition == other.partition && clustering.into_iter().eq(&other.clustering)
    }

    /// The columns outside of the key that another table does not have, and whether they are static.
    pub fn lacking<'a>(&'a self, other: &'a Table) -> impl Iterator<Item = (&'a Column, bool)> {
        let of_kind = |is_static: bool| {
            let columns = self.columns_of(is_static).iter();
            let lacking =
                columns.filter(move |column| !other.columns_of(is_static).contains(column));
            lacking.map(move |column| (column, is_static))
        };
        of_kind(true).chain(of_kind(false))
    }

    /// The columns of its primary key, in its own order.
    pub fn keys(&self) -> impl Iterator<Item = &Column> + Clone {
        self.partition.iter().chain(&self.clustering)
    }

    /// All others: static ones, then regular ones.
    pub fn others(&self) -> impl Iterator<Item = &Column> + Clone {
        self.statics.iter().chain(&self.regulars)
    }

    /// Those that rows have beside their keys, or partitions.
    pub fn columns_of(&self, is_static: bool) -> &[Column] {
        match is_static {
            true => &self.statics,
            false => &self.regulars,
        }
    }

    /// A column whose type names one that the keyspace defines.
    pub fn of_user_type(&self) -> Option<&Column> {
        let mut all = self.keys().chain(self.others());
        all.find(|column| names_user_type(&column.cql_type))
    }

    /// A column of which CQL does not tell when its values were written.
    pub fn untimed(&self) -> Option<&Column> {
        self.others().find(|column| column.shape == Shape::Untimed)
    }
}

/// True unless all words of a type are Cassandra's own.
fn names_user_type(cql_type: &str) -> bool {
    const OF_TYPES: [&str; 7] = ["frozen", "list", "set", "map", "tuple", "vector", "counter"];
    let is_own = |token: Token| {
        let word = cql_type.get(token.start..token.end).unwrap_or_default();
        match token.kind {
            TokenKind::Word => OF_TYPES.contains(&word) || NATIVE.contains(&word),
            TokenKind::QuotedName => false,
            _ => true,
        }
    };
    !Lexer::new(cql_type).all(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_keyspace_are_found_inside_others() {
        for ty in [
            "frozen<address>",
            "\"Address\"",
            "map<text, frozen<list<frozen<address>>>>",
            "frozen<tuple<int, \"int\">>",
        ] {
            assert!(names_user_type(ty), "{ty}");
        }
        for ty in [
            "int",
            "counter",
            "map<text, frozen<tuple<uuid, list<varint>>>>",
            "vector<float, 3>",
            "'org.apache.cassandra.db.marshal.DynamicCompositeType(s=>address)'",
        ] {
            assert!(!names_user_type(ty), "{ty}");
        }
    }

    #[test]
    fn collections_and_user_types_have_several_cells_unless_frozen() {
        for ty in ["list<int>", "address", "\"Address\""] {
            assert_eq!(Shape::of(ty, true), Shape::Untimed, "{ty}");
        }
        for (ty, shape) in [
            ("set<int>", Shape::Set),
            ("map<text, frozen<list<int>>>", Shape::Map),
        ] {
            assert_eq!(Shape::of(ty, true), shape, "{ty}");
            assert_eq!(Shape::of(ty, false), Shape::Untimed, "{ty}");
        }
        for ty in [
            "int",
            "frozen<set<int>>",
            "tuple<int, text>",
            "vector<float, 3>",
            "'org.apache.cassandra.db.marshal.BytesType'",
            "duration",
        ] {
            assert_eq!(Shape::of(ty, true), Shape::Single, "{ty}");
        }
    }
}
