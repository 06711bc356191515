//! What the rows of the catalogue say.

use helenus_wire::Reader;

use crate::rows::Rows;

/// One layout, as the catalogue describes it. Nothing of it has been compared with the tables yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub keyspace: String,
    pub table: String,
    pub layout: String,
    /// Empty if the row does not say.
    pub physical: String,
    pub clustering: Vec<String>,
    pub state: State,
    /// What its layouts are to the table, if that is something that this version does not know: an earlier one could
    /// keep them in place of the table's replicas.
    pub unknown_mode: Option<String>,
    /// Number of distinct values of the table's columns, and of its partitions.
    pub distinct: Vec<(String, f64)>,
    /// Number of the table's rows, if they were counted.
    pub rows: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Written, and read by nobody.
    #[default]
    Writing,
    Ready,
    /// Something else, which this version does not know.
    Other(String),
}

/// All columns: some are only in the catalogues of some versions.
pub(crate) const SELECT: &str = "SELECT * FROM helenus.layouts";

/// A partition whose layouts are all gone keeps a row without a layout's name.
pub(crate) fn entries(rows: &Rows) -> Vec<Entry> {
    let entry = |row: &Vec<Option<Vec<u8>>>| {
        let text = |name: &str| rows.text(row, name);
        Some(Entry {
            keyspace: text("keyspace_name")?,
            table: text("table_name")?,
            layout: text("layout")?,
            physical: text("physical").unwrap_or_default(),
            clustering: rows
                .cell(row, "clustering")
                .map(text_list)
                .unwrap_or_default(),
            state: match text("state").unwrap_or_default() {
                state if state == "writing" => State::Writing,
                state if state == "ready" => State::Ready,
                state => State::Other(state),
            },
            unknown_mode: text("mode").filter(|mode| !mode.is_empty() && mode != "add"),
            distinct: rows
                .cell(row, "distinct_values")
                .map(counts)
                .unwrap_or_default(),
            rows: rows.bigint(row, "rows").map(|count| count as f64),
        })
    };
    rows.rows.iter().filter_map(entry).collect()
}

/// A cell of type `list<text>`, up to what cannot be read.
fn text_list(cell: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    (0..n).map_while(|_| text(&mut reader)).collect()
}

/// A cell of type `map<text, bigint>`, up to what cannot be read.
fn counts(cell: &[u8]) -> Vec<(String, f64)> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    let mut next = || {
        let name = text(&mut reader)?;
        let count = reader.bytes().ok().flatten()?;
        Some((name, i64::from_be_bytes(count.try_into().ok()?) as f64))
    };
    (0..n).map_while(|_| next()).collect()
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    let bytes = reader.bytes().ok().flatten()?;
    String::from_utf8(bytes.to_vec()).ok()
}
