//! Changes of the catalogue, as statements of one batch on its partition that counts only if the version is the one that
//! was read.

use helenus_cql::quote_text as literal;

use crate::catalogue::{Encoding, Layout};
use crate::flag::Feature;
use crate::stored::{Kind, PARTITION, of_table};
use crate::table::TableKey;

/// One change of what the catalogue says of a table.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// The table gets its first layout, or encoded column, and will have the flag of this number.
    Begin(Feature, i64),
    /// It has none any more, nor a flag.
    End(Feature),
    PutLayout(&'a Layout),
    RemoveLayout(&'a str),
    PutEncoding(&'a Encoding),
    RemoveEncoding(&'a str),
    /// Statistics of the rows of a table with layouts.
    Count {
        rows: u64,
        distinct: &'a [(String, u64)],
    },
}

/// The batch that carries out these changes of one table if the version is still `old`, which becomes `new`. Its answer's
/// first column says whether it was applied. Versions are times in milliseconds, as far as they grow: so a catalogue that
/// was lost and is begun anew has a version that no proxy takes for an older one.
pub fn batch(old: i64, new: i64, table: &TableKey, changes: &[Change<'_>]) -> String {
    let old = match old {
        0 => "null".to_owned(),
        old => old.to_string(),
    };
    let mut batch = format!(
        "BEGIN BATCH UPDATE helenus.catalogue SET version = {new} WHERE {PARTITION} IF version = {old}; "
    );
    for change in changes {
        batch.push_str(&statement(table, change));
        batch.push_str("; ");
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// Puts partitions of a table in doubt ([`crate::stored::CREATE_DOUBTS`]).
pub fn doubt(table: &TableKey, tokens: &[i64]) -> String {
    let mut batch = "BEGIN UNLOGGED BATCH ".to_owned();
    for token in tokens {
        batch.push_str(&format!(
            "INSERT INTO helenus.layout_doubts (keyspace_name, table_name, ring_token, doubted) VALUES ({}, {}, {token}, \
             true); ",
            literal(&table.keyspace),
            literal(&table.table)
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// Takes partitions of a table out of doubt, each with the time at which it was put in: one that was put in again since
/// stays.
pub fn settle_doubts(table: &TableKey, settled: &[(i64, i64)]) -> String {
    let mut batch = "BEGIN UNLOGGED BATCH ".to_owned();
    for (token, written_us) in settled {
        batch.push_str(&format!(
            "DELETE FROM helenus.layout_doubts USING TIMESTAMP {written_us} WHERE {} AND ring_token = {token}; ",
            of_table(table)
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// Takes all partitions of a table out of doubt.
pub fn forget_doubts(table: &TableKey) -> String {
    format!(
        "DELETE FROM helenus.layout_doubts WHERE {}",
        of_table(table)
    )
}

/// Ranges that end there, of so many, have been compared with a layout, at that time.
pub fn sweep(
    table: &TableKey,
    layout: &str,
    ends: &[i64],
    ranges: usize,
    compared_ms: i64,
) -> String {
    let mut batch = "BEGIN UNLOGGED BATCH ".to_owned();
    for end in ends {
        batch.push_str(&format!(
            "INSERT INTO helenus.layout_sweeps (keyspace_name, table_name, layout, range_end, ranges, compared) VALUES \
             ({}, {}, {}, {end}, {ranges}, {compared_ms}); ",
            literal(&table.keyspace),
            literal(&table.table),
            literal(layout),
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// Forgets which ranges of a layout have been compared; without its name, of all layouts of the table.
pub fn forget_sweeps(table: &TableKey, layout: Option<&str>) -> String {
    let layout = layout.map(|layout| format!(" AND layout = {}", literal(layout)));
    format!(
        "DELETE FROM helenus.layout_sweeps WHERE {}{}",
        of_table(table),
        layout.unwrap_or_default()
    )
}

fn statement(table: &TableKey, change: &Change<'_>) -> String {
    match change {
        Change::Begin(feature, flag) => format!(
            "UPDATE helenus.catalogue SET flag = {flag} WHERE {}",
            place(table, Kind::Table(*feature), "")
        ),
        Change::End(feature) => delete(table, Kind::Table(*feature), ""),
        Change::PutLayout(layout) => {
            let columns = layout.clustering.iter().map(|column| literal(column));
            format!(
                "UPDATE helenus.catalogue SET physical = {}, clustering = [{}], state = {}, created = {} WHERE {}",
                literal(&layout.stored_place()),
                columns.collect::<Vec<_>>().join(", "),
                literal(&layout.state),
                layout.created,
                place(table, Kind::Layout, &layout.name)
            )
        }
        Change::RemoveLayout(name) => delete(table, Kind::Layout, name),
        Change::PutEncoding(encoding) => {
            let dictionary = encoding.dictionary.map(|id| id.to_string());
            format!(
                "UPDATE helenus.catalogue SET hidden = {}, state = {}, codec = {}, dictionary = {}, goal = {}, \
                 created = {} WHERE {}",
                literal(&encoding.hidden),
                literal(&encoding.state),
                literal(&encoding.codec),
                dictionary.as_deref().unwrap_or("null"),
                literal(&encoding.goal),
                encoding.created,
                place(table, Kind::Encoding, &encoding.column)
            )
        }
        Change::RemoveEncoding(column) => delete(table, Kind::Encoding, column),
        Change::Count { rows, distinct } => {
            let counts = distinct.iter();
            let counts = counts.map(|(column, count)| format!("{}: {count}", literal(column)));
            format!(
                "UPDATE helenus.catalogue SET rows = {rows}, distinct_values = {{{}}} WHERE {}",
                counts.collect::<Vec<_>>().join(", "),
                place(table, Kind::Table(Feature::Layouts), "")
            )
        }
    }
}

fn delete(table: &TableKey, kind: Kind, item: &str) -> String {
    format!(
        "DELETE FROM helenus.catalogue WHERE {}",
        place(table, kind, item)
    )
}

fn place(table: &TableKey, kind: Kind, item: &str) -> String {
    format!(
        "{PARTITION} AND keyspace_name = {} AND table_name = {} AND kind = {} AND item = {}",
        literal(&table.keyspace),
        literal(&table.table),
        literal(kind.name()),
        literal(item)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_count_only_under_the_version_that_was_read() {
        let table = TableKey::new("shop", "it's");
        let layout = Layout {
            name: "a".to_owned(),
            keyspace: None,
            physical: "it's__layout_a".to_owned(),
            clustering: vec!["day".to_owned(), "Clerk".to_owned()],
            state: "writing".to_owned(),
            created: 5,
        };
        let changes = [
            Change::Begin(Feature::Layouts, 17),
            Change::PutLayout(&layout),
        ];
        assert_eq!(
            batch(0, 9, &table, &changes),
            "BEGIN BATCH UPDATE helenus.catalogue SET version = 9 WHERE part = 'all' IF version = null; \
             UPDATE helenus.catalogue SET flag = 17 WHERE part = 'all' AND keyspace_name = 'shop' AND table_name = \
             'it''s' AND kind = 'layouts' AND item = ''; \
             UPDATE helenus.catalogue SET physical = 'it''s__layout_a', clustering = ['day', 'Clerk'], state = \
             'writing', created = 5 WHERE part = 'all' AND keyspace_name = 'shop' AND table_name = 'it''s' AND kind \
             = 'layout' AND item = 'a'; APPLY BATCH"
        );
        let derived = Layout {
            keyspace: Some("shop__layouts".to_owned()),
            ..layout.clone()
        };
        let put = batch(41, 42, &table, &[Change::PutLayout(&derived)]);
        assert!(
            put.contains("SET physical = 'shop__layouts.it''s__layout_a', "),
            "{put}"
        );
        let end = batch(41, 42, &table, &[Change::End(Feature::Encodings)]);
        assert!(end.contains("SET version = 42 WHERE part = 'all' IF version = 41;"));
        assert!(end.contains("DELETE FROM helenus.catalogue WHERE part = 'all'"));
    }
    #[test]
    fn a_doubt_is_taken_out_with_its_own_time() {
        let table = TableKey::new("shop", "it's");
        assert_eq!(
            doubt(&table, &[7]),
            "BEGIN UNLOGGED BATCH INSERT INTO helenus.layout_doubts (keyspace_name, table_name, ring_token, doubted) \
             VALUES ('shop', 'it''s', 7, true); APPLY BATCH"
        );
        assert_eq!(
            settle_doubts(&table, &[(7, 1_000), (-8, 2_000)]),
            "BEGIN UNLOGGED BATCH DELETE FROM helenus.layout_doubts USING TIMESTAMP 1000 WHERE keyspace_name = 'shop' \
             AND table_name = 'it''s' AND ring_token = 7; DELETE FROM helenus.layout_doubts USING TIMESTAMP 2000 WHERE \
             keyspace_name = 'shop' AND table_name = 'it''s' AND ring_token = -8; APPLY BATCH"
        );
    }
}
