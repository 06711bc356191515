//! Answers of nodes, for tests.

use helenus_catalogue::{Layout, LayoutState, Layouts, OfTable, TableKey};
use helenus_engine::snapshot::SystemColumn;

use super::schema::Schema;
use crate::control::rows::Rows;

/// A table of the keyspace `shop`, with a derived layout.
pub(super) fn derived(table: &str) -> (TableKey, OfTable) {
    let layout = Layout {
        name: "a".to_owned(),
        keyspace: Some("shop__layouts".to_owned()),
        physical: format!("{table}__layout_a"),
        clustering: Vec::new(),
        state: LayoutState::Ready.name().to_owned(),
        created: 7,
    };
    let layouts = Layouts {
        layouts: vec![layout],
        ..Layouts::default()
    };
    let of = OfTable {
        layouts: Some(layouts),
        encodings: None,
    };
    (TableKey::new("shop", table), of)
}

pub(super) fn rows(columns: &[&str], rows: &[&[&str]]) -> Rows {
    let column = |name: &&str| SystemColumn {
        name: (*name).to_owned(),
        type_raw: Vec::new(),
    };
    let cell = |text: &&str| (*text != "null").then(|| text.as_bytes().to_vec());
    Rows {
        columns: columns.iter().map(column).collect(),
        rows: rows
            .iter()
            .map(|row| row.iter().map(cell).collect())
            .collect(),
    }
}

/// One table a line: its name, in the keyspace `shop` if it names none, and its columns as `name kind type`; `<` and
/// `>` are clustering columns that sort upwards and downwards.
pub(super) fn schema(tables: &[&str]) -> Schema {
    let mut columns = rows(
        &[
            "keyspace_name",
            "table_name",
            "column_name",
            "clustering_order",
            "kind",
            "position",
            "type",
        ],
        &[],
    );
    for line in tables {
        let (table, rest) = line.split_once(':').expect("a table");
        let (keyspace, table) = table.split_once('.').unwrap_or(("shop", table));
        let (mut keys, mut sorted) = (0i32, 0i32);
        let mut found = Vec::new();
        for column in rest.split(',').map(str::trim) {
            let mut words = column.split(' ');
            let mut word = || words.next().expect("a word").to_owned();
            let (name, kind, ty) = (word(), word(), word());
            let (kind, order, position) = match &*kind {
                "key" => ("partition_key", "none", keys),
                "<" => ("clustering", "asc", sorted),
                ">" => ("clustering", "desc", sorted),
                "static" => ("static", "none", -1),
                _ => ("regular", "none", -1),
            };
            keys += i32::from(kind == "partition_key");
            sorted += i32::from(kind == "clustering");
            let text = |text: &str| Some(text.as_bytes().to_vec());
            found.push(vec![
                text(keyspace),
                text(table),
                text(&name),
                text(order),
                text(kind),
                Some(position.to_be_bytes().to_vec()),
                text(&ty),
            ]);
        }
        // As the table of the schema has them: by name.
        found.sort();
        columns.rows.extend(found);
    }
    let mut schema = Schema::default();
    let index = ["keyspace_name", "table_name"];
    schema.add(&columns, &rows(&index, &[&["shop", "indexed"]]));
    schema
}
