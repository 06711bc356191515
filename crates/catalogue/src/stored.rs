//! How the catalogue is stored: its tables, and the rows of its one partition.

use crate::TableKey;
use crate::flag::Feature;

/// The key of the one partition.
pub(crate) const PARTITION: &str = "part = 'all'";

/// The partition of all tables. Rows of kind `layouts` and `encodings` are about a table, one of kind `layout` or `encoding`
/// is a layout, or an encoded column.
pub const CREATE: &str = "CREATE TABLE IF NOT EXISTS helenus.catalogue (\
    part text, version bigint static, keyspace_name text, table_name text, kind text, item text, \
    flag bigint, rows bigint, distinct_values frozen<map<text, bigint>>, \
    physical text, clustering frozen<list<text>>, state text, created bigint, \
    hidden text, codec text, dictionary int, goal text, \
    PRIMARY KEY (part, keyspace_name, table_name, kind, item))";

/// Dictionaries of encoded columns: never changed, and read by the numbers that the catalogue and values name.
pub const CREATE_DICTIONARIES: &str = "CREATE TABLE IF NOT EXISTS helenus.dictionaries (\
    keyspace_name text, table_name text, id int, column_name text, codec text, learned blob, \
    created timestamp, PRIMARY KEY ((keyspace_name, table_name), id))";

/// Partitions of tables with derived layouts of which it is not known whether the table has what the layouts have:
/// proxies put them in, and a sweep takes them out once they have been compared. The time at which `doubted` was written
/// tells whether that has happened again since.
///
/// Each that is taken out leaves a tombstone, all of a table in one partition: so many that it could not be read, if they
/// were kept for Cassandra's ten days. Not 0, because no hint is kept for longer than tombstones are.
pub const CREATE_DOUBTS: &str = "CREATE TABLE IF NOT EXISTS helenus.layout_doubts (\
    keyspace_name text, table_name text, ring_token bigint, doubted boolean, \
    PRIMARY KEY ((keyspace_name, table_name), ring_token)) WITH gc_grace_seconds = 3600";

/// For how long tombstones of [`CREATE_DOUBTS`] are kept, in seconds, where it was there before.
pub const SELECT_DOUBTS_GRACE: &str = "SELECT gc_grace_seconds FROM system_schema.tables WHERE \
    keyspace_name = 'helenus' AND table_name = 'layout_doubts'";
pub const DOUBTS_GRACE_S: i32 = 3_600;

/// Gives it the grace that it should have.
pub const ALTER_DOUBTS: &str = "ALTER TABLE helenus.layout_doubts WITH gc_grace_seconds = 3600";

/// Stands in it for all of a table whose layouts have missed writes, where the catalogue could not be changed. No partition
/// has this token.
pub const WHOLE_TABLE: i64 = i64::MIN;

/// When ranges of the ring were compared with a derived layout.
pub const CREATE_SWEEPS: &str = "CREATE TABLE IF NOT EXISTS helenus.layout_sweeps (\
    keyspace_name text, table_name text, layout text, range_end bigint, ranges int, compared timestamp, \
    PRIMARY KEY ((keyspace_name, table_name), layout, range_end))";

/// The partitions of a table that are in doubt, so many at most.
pub fn select_doubts(table: &TableKey, max: usize) -> String {
    format!(
        "SELECT ring_token FROM helenus.layout_doubts WHERE {} LIMIT {max}",
        of_table(table)
    )
}

/// The same, with the times at which they were put in, in microseconds.
pub fn select_timed_doubts(table: &TableKey, max: usize) -> String {
    format!(
        "SELECT ring_token, WRITETIME(doubted) FROM helenus.layout_doubts WHERE {} LIMIT {max}",
        of_table(table)
    )
}

/// Layout, end and number of ranges, and when each was compared.
pub fn select_sweeps(table: &TableKey) -> String {
    format!(
        "SELECT layout, range_end, ranges, compared FROM helenus.layout_sweeps WHERE {}",
        of_table(table)
    )
}

/// Of tables whose partition is a table.
pub(crate) fn of_table(table: &TableKey) -> String {
    format!(
        "keyspace_name = {} AND table_name = {}",
        helenus_cql::quote_text(&table.keyspace),
        helenus_cql::quote_text(&table.table)
    )
}

/// The whole catalogue.
pub const SELECT: &str = "SELECT version, keyspace_name, table_name, kind, item, flag, rows, distinct_values, physical, \
    clustering, state, created, hidden, codec, dictionary, goal FROM helenus.catalogue WHERE part = 'all'";

/// The tables that the keyspace has.
pub const SELECT_TABLES: &str =
    "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'helenus'";

/// True if these tables are those of a catalogue that an earlier version has made, which this one does not read.
pub fn is_earlier<'a>(mut tables: impl Iterator<Item = &'a str>) -> bool {
    tables.any(|table| matches!(table, "layouts" | "encodings"))
}

/// Advice on such a catalogue.
pub const EARLIER: &str = "the keyspace helenus holds the catalogue of an earlier version of Helenus, which this one does \
    not read: with that version, run `helenus layouts drop` and `helenus payload disable` for all tables; then DROP \
    KEYSPACE helenus";

/// A row of [`SELECT`]. Without anything but the version, if the partition has no rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    pub version: Option<i64>,
    pub keyspace: Option<String>,
    pub table: Option<String>,
    pub kind: Option<String>,
    pub item: Option<String>,
    pub flag: Option<i64>,
    pub rows: Option<i64>,
    pub distinct: Vec<(String, i64)>,
    pub physical: Option<String>,
    pub clustering: Vec<String>,
    pub state: Option<String>,
    pub created: Option<i64>,
    pub hidden: Option<String>,
    pub codec: Option<String>,
    pub dictionary: Option<i32>,
    pub goal: Option<String>,
}

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Table(Feature),
    Layout,
    Encoding,
}

impl Kind {
    const ALL: [Kind; 4] = [
        Kind::Table(Feature::Layouts),
        Kind::Table(Feature::Encodings),
        Kind::Layout,
        Kind::Encoding,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Table(feature) => feature.name(),
            Kind::Layout => "layout",
            Kind::Encoding => "encoding",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use helenus_cql::is_reserved;

    use super::*;

    #[test]
    fn partitions_that_were_in_doubt_leave_tombstones_for_an_hour() {
        let option = format!("gc_grace_seconds = {DOUBTS_GRACE_S}");
        for definition in [CREATE_DOUBTS, ALTER_DOUBTS] {
            let (table, with) = definition.split_once(" WITH ").expect("an option");
            assert!(table.contains("TABLE"), "{definition}");
            assert!(table.contains("helenus.layout_doubts"), "{definition}");
            assert_eq!(with, option);
        }
    }

    #[test]
    fn columns_need_no_quotation_marks() {
        for create in [CREATE, CREATE_DICTIONARIES, CREATE_DOUBTS, CREATE_SWEEPS] {
            let (_, columns) = create.split_once('(').expect("columns");
            let (columns, _) = columns.split_once("PRIMARY KEY").expect("a key");
            let names = columns.split(", ").filter_map(|of| of.split_once(' '));
            let names: Vec<&str> = names.map(|(name, _)| name).collect();
            assert!(names.len() > 2, "{names:?}");
            let reserved = names.into_iter().find(|name| is_reserved(name));
            assert_eq!(reserved, None, "{create}");
        }
    }
}
