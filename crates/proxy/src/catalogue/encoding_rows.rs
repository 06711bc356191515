//! What the rows of the catalogue say of encoded columns.

use crate::rows::Rows;
use helenus_rows::literal;

/// One encoded column, as the catalogue describes it. Nothing of it has been compared with its table yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub keyspace: String,
    pub table: String,
    pub column: String,
    /// Empty if the row does not say.
    pub hidden: String,
    pub state: String,
    pub codec: String,
    pub dictionary: Option<i32>,
}

/// A dictionary, without what was learned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DictionaryKey {
    pub keyspace: String,
    pub table: String,
    pub id: i32,
}

pub(crate) const SELECT: &str = "SELECT keyspace_name, table_name, column_name, hidden, state, codec, \
                                 dictionary FROM helenus.encodings";
pub(crate) const SELECT_DICTIONARIES: &str =
    "SELECT keyspace_name, table_name, id FROM helenus.dictionaries";

/// A partition without encoded columns any more keeps a row without a column's name.
pub(crate) fn entries(rows: &Rows) -> Vec<Entry> {
    let entry = |row: &Vec<Option<Vec<u8>>>| {
        let text = |name: &str| rows.text(row, name);
        Some(Entry {
            keyspace: text("keyspace_name")?,
            table: text("table_name")?,
            column: text("column_name")?,
            hidden: text("hidden").unwrap_or_default(),
            state: text("state").unwrap_or_default(),
            codec: text("codec").unwrap_or_default(),
            dictionary: rows.int(row, "dictionary"),
        })
    };
    rows.rows.iter().filter_map(entry).collect()
}

pub(crate) fn dictionaries(rows: &Rows) -> Vec<DictionaryKey> {
    let key = |row: &Vec<Option<Vec<u8>>>| {
        Some(DictionaryKey {
            keyspace: rows.text(row, "keyspace_name")?,
            table: rows.text(row, "table_name")?,
            id: rows.int(row, "id")?,
        })
    };
    rows.rows.iter().filter_map(key).collect()
}

/// What was learned, as it is kept.
pub(crate) fn select_learned(key: &DictionaryKey) -> String {
    format!(
        "SELECT learned FROM helenus.dictionaries WHERE keyspace_name = {} AND table_name = {} AND id = {}",
        literal(&key.keyspace),
        literal(&key.table),
        key.id
    )
}
