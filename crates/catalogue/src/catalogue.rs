//! The catalogue as one reading shows it. Nothing of it has been compared with the tables that it is about.

use std::collections::{BTreeMap, BTreeSet};

use crate::flag::{Feature, Flag};
use crate::stored::{Kind, Stored};
use crate::table::TableKey;
use crate::written::{Form, LayoutState, Way, Written};

/// All that is in the partition of the catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Grows with each change; 0: there was none yet.
    pub version: i64,
    pub tables: BTreeMap<TableKey, OfTable>,
}

/// One table in the catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfTable {
    pub layouts: Option<Layouts>,
    pub encodings: Option<Encodings>,
}

/// The layouts of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layouts {
    /// Number of the table's flag.
    pub flag: i64,
    /// Number of the table's rows, if they were counted.
    pub rows: Option<i64>,
    /// Number of distinct values of the table's columns, and of its partitions.
    pub distinct: Vec<(String, i64)>,
    /// Empty while the last ones are being dropped.
    pub layouts: Vec<Layout>,
}

/// One layout of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    pub name: String,
    /// The keyspace of the table that holds it, if that is not the keyspace of its own table.
    pub keyspace: Option<String>,
    /// The table that holds it.
    pub physical: String,
    pub clustering: Vec<String>,
    /// As it is stored, also if it is none that is known here.
    pub state: String,
    /// Names this filling of it, in milliseconds.
    pub created: i64,
}

impl Layout {
    pub fn state(&self) -> Option<LayoutState> {
        LayoutState::of_name(&self.state)
    }

    /// True if it is *derived*: written by requests of its own to a keyspace of its own.
    pub fn is_derived(&self) -> bool {
        self.keyspace.is_some()
    }

    /// It has missed a write: under a number that no command has seen yet, so that whoever works on it notices.
    pub fn behind(&self, now_ms: i64) -> Layout {
        Layout {
            state: LayoutState::Behind.name().to_owned(),
            created: now_ms.max(self.created.saturating_add(1)),
            ..self.clone()
        }
    }

    /// True if the layout shows the same values of a column as its table. Each of them hides what was written before it
    /// last dropped the column (`own_ms`, `copy_ms`); what was there when the layout was begun has been compared since. The
    /// layout may have dropped it later: a statement that had dropped it of the table alone was repeated.
    pub fn hides_what_its_table_hides(&self, own_ms: Option<i64>, copy_ms: Option<i64>) -> bool {
        match (own_ms, copy_ms) {
            (None, None) => true,
            (Some(own), Some(copy)) if own <= copy => true,
            (own, copy) => own.max(copy) < Some(self.created),
        }
    }

    /// The keyspace of the table that holds it. `of`: of the table that it is a layout of.
    pub fn keyspace_in<'a>(&'a self, of: &'a TableKey) -> &'a str {
        self.keyspace.as_deref().unwrap_or(&of.keyspace)
    }

    /// Where it is held, as it is stored: no name of a table has a dot.
    pub(crate) fn stored_place(&self) -> String {
        match &self.keyspace {
            Some(keyspace) => format!("{keyspace}.{}", self.physical),
            None => self.physical.clone(),
        }
    }
}

/// Keyspace, if it has one of its own, and table of a layout, as stored.
fn place_of(stored: &str) -> (Option<String>, String) {
    match stored.split_once('.') {
        Some((keyspace, table)) => (Some(keyspace.to_owned()), table.to_owned()),
        None => (None, stored.to_owned()),
    }
}

/// The encoded columns of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encodings {
    /// Number of the table's flag.
    pub flag: i64,
    /// Empty while the last ones are being taken back.
    pub columns: Vec<Encoding>,
}

/// One encoded column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encoding {
    pub column: String,
    /// The column of type blob with the encoded values.
    pub hidden: String,
    /// As it is stored, also if it is none that is known here.
    pub state: String,
    pub codec: String,
    pub dictionary: Option<i32>,
    /// Where the command that is at work, or was, is to take the column, as it is stored ([`Way::name`]).
    pub goal: String,
    /// Names this attempt to get there, in milliseconds.
    pub created: i64,
}

impl Encoding {
    pub fn written(&self) -> Option<Written> {
        Written::of_name(&self.state)
    }

    /// True if its values are to become this.
    pub fn is_to(&self, form: Form) -> bool {
        Way::of_name(&self.goal).is_some_and(|way| way.to == form)
    }

    /// In which column a row's value is looked for first: in that in which all of them were before.
    pub fn first(&self) -> Form {
        Way::of_name(&self.goal).map_or(Form::default(), |way| way.from)
    }

    /// Sets off, from whatever state it is in.
    pub fn set_off(&mut self, to: Form) {
        let from = match self.written() {
            Some(Written::EncodedOnly) => Form::Encoded,
            Some(Written::Announced) => Form::Text,
            _ => self.first(),
        };
        self.goal = Way { from, to }.name().to_owned();
    }
}

impl Catalogue {
    /// From the rows of its partition, in any order. Rows of kinds that this version does not know are left out.
    pub fn of_rows(rows: Vec<Stored>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        for row in rows {
            catalogue.version = row.version.unwrap_or(catalogue.version);
            let Some(kind) = row.kind.as_deref().and_then(Kind::of_name) else {
                continue;
            };
            let (Some(keyspace), Some(table)) = (&row.keyspace, &row.table) else {
                continue;
            };
            let of_table = catalogue
                .tables
                .entry(TableKey::new(keyspace, table))
                .or_default();
            let item = row.item.unwrap_or_default();
            match kind {
                Kind::Table(Feature::Layouts) => {
                    let layouts = of_table.layouts.get_or_insert_default();
                    layouts.flag = row.flag.unwrap_or_default();
                    layouts.rows = row.rows;
                    layouts.distinct = row.distinct;
                }
                Kind::Table(Feature::Encodings) => {
                    let encodings = of_table.encodings.get_or_insert_default();
                    encodings.flag = row.flag.unwrap_or_default();
                }
                Kind::Layout => {
                    let layouts = of_table.layouts.get_or_insert_default();
                    let (keyspace, physical) = place_of(&row.physical.unwrap_or_default());
                    layouts.layouts.push(Layout {
                        name: item,
                        keyspace,
                        physical,
                        clustering: row.clustering,
                        state: row.state.unwrap_or_default(),
                        created: row.created.unwrap_or_default(),
                    });
                }
                Kind::Encoding => {
                    let encodings = of_table.encodings.get_or_insert_default();
                    encodings.columns.push(Encoding {
                        column: item,
                        hidden: row.hidden.unwrap_or_default(),
                        state: row.state.unwrap_or_default(),
                        codec: row.codec.unwrap_or_default(),
                        dictionary: row.dictionary,
                        goal: row.goal.unwrap_or_default(),
                        created: row.created.unwrap_or_default(),
                    });
                }
            }
        }
        for of_table in catalogue.tables.values_mut() {
            if let Some(layouts) = &mut of_table.layouts {
                layouts.layouts.sort_by(|a, b| a.name.cmp(&b.name));
            }
            if let Some(encodings) = &mut of_table.encodings {
                encodings.columns.sort_by(|a, b| a.column.cmp(&b.column));
            }
        }
        catalogue
    }

    /// The keyspaces of its tables, and of their layouts.
    pub fn keyspaces(&self) -> BTreeSet<&str> {
        let mut keyspaces = BTreeSet::new();
        for (table, of) in &self.tables {
            keyspaces.insert(&*table.keyspace);
            let layouts = of.layouts.iter().flat_map(|of| &of.layouts);
            keyspaces.extend(layouts.map(|layout| layout.keyspace_in(table)));
        }
        keyspaces
    }

    pub fn layouts(&self, table: &TableKey) -> Option<&Layouts> {
        self.tables.get(table)?.layouts.as_ref()
    }

    pub fn encodings(&self, table: &TableKey) -> Option<&Encodings> {
        self.tables.get(table)?.encodings.as_ref()
    }

    /// The number of the flag that a table has, or will have in a moment.
    pub fn flag(&self, feature: Feature, table: &TableKey) -> Option<i64> {
        match feature {
            Feature::Layouts => self.layouts(table).map(|of| of.flag),
            Feature::Encodings => self.encodings(table).map(|of| of.flag),
        }
    }

    /// The flags of all its tables.
    pub fn flags(&self) -> BTreeSet<Flag> {
        let mut flags = BTreeSet::new();
        for (table, of) in &self.tables {
            let mut add = |feature, number| {
                flags.insert(Flag {
                    feature,
                    table: table.clone(),
                    number,
                });
            };
            if let Some(layouts) = &of.layouts {
                add(Feature::Layouts, layouts.flag);
            }
            if let Some(encodings) = &of.encodings {
                add(Feature::Encodings, encodings.flag);
            }
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, item: &str) -> Stored {
        Stored {
            version: Some(7),
            keyspace: Some("shop".to_owned()),
            table: Some("orders".to_owned()),
            kind: Some(kind.to_owned()),
            item: Some(item.to_owned()),
            ..Stored::default()
        }
    }

    #[test]
    fn rows_become_tables_with_layouts_and_encoded_columns() {
        let table = TableKey::new("shop", "orders");
        let rows = vec![
            row("layout", "b"),
            Stored {
                state: Some("ready".to_owned()),
                physical: Some("shop__layouts.orders__layout_a".to_owned()),
                clustering: vec!["day".to_owned()],
                ..row("layout", "a")
            },
            Stored {
                flag: Some(17),
                rows: Some(100),
                ..row("layouts", "")
            },
            Stored {
                dictionary: Some(3),
                ..row("encoding", "doc")
            },
            Stored {
                flag: Some(18),
                ..row("encodings", "")
            },
            row("something of a later version", "x"),
        ];
        let catalogue = Catalogue::of_rows(rows);
        assert_eq!(catalogue.version, 7);
        let layouts = catalogue.layouts(&table).expect("it has layouts");
        assert_eq!((layouts.flag, layouts.rows), (17, Some(100)));
        let names: Vec<&str> = layouts.layouts.iter().map(|of| &*of.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(layouts.layouts[0].state(), Some(LayoutState::Ready));
        assert_eq!(layouts.layouts[1].state(), None);
        let places = layouts.layouts.iter().map(|of| of.keyspace_in(&table));
        assert_eq!(places.collect::<Vec<_>>(), ["shop__layouts", "shop"]);
        assert_eq!(layouts.layouts[0].physical, "orders__layout_a");
        let encodings = catalogue.encodings(&table).expect("it has");
        assert_eq!(encodings.columns[0].dictionary, Some(3));
        let flags: Vec<String> = catalogue.flags().iter().map(Flag::to_string).collect();
        assert_eq!(
            flags,
            ["layouts shop.orders 17", "encodings shop.orders 18"]
        );
    }

    #[test]
    fn a_column_that_is_turned_back_comes_from_where_it_was() {
        let mut column = Encoding::default();
        let mut set_off = |state: Written, to: Form| {
            column.state = state.name().to_owned();
            column.set_off(to);
            (column.goal.clone(), column.first(), column.is_to(to))
        };
        let (text, encoded) = (Form::Text, Form::Encoded);
        for (state, to, goal, first) in [
            (Written::Announced, encoded, "encoded", text),
            (Written::Encoded, text, "text again", text),
            (Written::Text, encoded, "encoded", text),
            (Written::EncodedOnly, text, "text", encoded),
            (Written::Both, encoded, "encoded again", encoded),
            (Written::Encoded, text, "text", encoded),
            (Written::Announced, encoded, "encoded", text),
        ] {
            assert_eq!(set_off(state, to), (goal.to_owned(), first, true));
        }
    }

    #[test]
    fn an_empty_partition_is_an_empty_catalogue() {
        assert_eq!(Catalogue::of_rows(Vec::new()), Catalogue::default());
        // A partition without rows has its static column left.
        let left = Stored {
            version: Some(9),
            ..Stored::default()
        };
        let catalogue = Catalogue::of_rows(vec![left]);
        assert_eq!((catalogue.version, catalogue.tables.len()), (9, 0));
    }
}
