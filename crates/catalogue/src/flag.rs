//! Flags: types of the keyspace `helenus` whose names say which tables depend on the catalogue.

use std::fmt;

use helenus_cql::quote_identifier;

use crate::KEYSPACE;
use crate::table::TableKey;

/// The names of all types of the keyspace `helenus`. Each node answers from its own schema, whichever others are up.
pub const SELECT_FLAGS: &str =
    "SELECT type_name FROM system_schema.types WHERE keyspace_name = 'helenus'";

/// A feature that makes a table depend on the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    Layouts,
    Encodings,
}

impl Feature {
    pub const ALL: [Feature; 2] = [Feature::Layouts, Feature::Encodings];

    /// As it stands in a flag, and as the kind of a table's row in the catalogue.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Layouts => "layouts",
            Feature::Encodings => "encodings",
        }
    }
}

/// A table that depends on the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flag {
    pub feature: Feature,
    pub table: TableKey,
    /// Different for each time that a table gets its first layout, or encoded column.
    pub number: i64,
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flag {
            feature,
            table,
            number,
        } = self;
        write!(f, "{} {table} {number}", feature.name())
    }
}

impl Flag {
    /// From the name of a type; `None` if that is no flag.
    pub fn parse(name: &str) -> Option<Flag> {
        let mut words = name.splitn(2, ' ');
        let feature = words.next()?;
        let feature = Feature::ALL.into_iter().find(|of| of.name() == feature)?;
        let (table, number) = words.next()?.rsplit_once(' ')?;
        // Names of keyspaces have no dots.
        let (keyspace, table) = table.split_once('.')?;
        Some(Flag {
            feature,
            table: TableKey::new(keyspace, table),
            number: number.parse().ok()?,
        })
    }

    /// The statement that makes it, if it is not there.
    pub fn create(&self) -> String {
        format!("CREATE TYPE IF NOT EXISTS {} (flag int)", self.to_cql())
    }

    pub fn drop(&self) -> String {
        format!("DROP TYPE IF EXISTS {}", self.to_cql())
    }

    fn to_cql(&self) -> String {
        format!("{KEYSPACE}.{}", quote_identifier(&self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_what_its_name_says() {
        let flag = Flag {
            feature: Feature::Layouts,
            table: TableKey::new("shop", "Orders 2"),
            number: 1_700_000_000_123,
        };
        assert_eq!(flag.to_string(), "layouts shop.Orders 2 1700000000123");
        assert_eq!(Flag::parse(&flag.to_string()), Some(flag.clone()));
        assert_eq!(
            flag.create(),
            "CREATE TYPE IF NOT EXISTS helenus.\"layouts shop.Orders 2 1700000000123\" (flag int)"
        );
        assert_eq!(
            flag.drop(),
            "DROP TYPE IF EXISTS helenus.\"layouts shop.Orders 2 1700000000123\""
        );
    }

    #[test]
    fn other_types_are_no_flags() {
        for name in [
            "",
            "address",
            "layouts",
            "layouts shop.orders",
            "layouts shop 1",
            "layouts shop.orders x",
            "indexes shop.orders 1",
            "layouts  ",
        ] {
            assert_eq!(Flag::parse(name), None, "{name:?}");
        }
    }
}
