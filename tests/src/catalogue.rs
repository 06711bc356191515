//! The catalogue changed by hand. Proxies believe such a change only under a version of its own.

use helenus_catalogue::TableKey;
use helenus_catalogue::change::{Change, batch};

type Rows = Vec<Vec<Option<Vec<u8>>>>;

/// Runs statements on a node.
pub trait Run: FnMut(&str) -> Rows {}

impl<F: FnMut(&str) -> Rows> Run for F {}

/// Changes what it says of a table.
pub fn change(mut run: impl Run, table: &TableKey, changes: &[Change<'_>]) {
    let text = batch(version(&mut run), table, changes);
    apply(&mut run, &text);
}

/// Carries out a statement about its rows.
pub fn change_by(mut run: impl Run, statement: &str) {
    let version = version(&mut run);
    let none = batch(version, &TableKey::default(), &[]);
    let text = none.replace("APPLY BATCH", &format!("{statement}; APPLY BATCH"));
    apply(&mut run, &text);
}

/// The place of a row, for statements.
pub fn place(keyspace: &str, table: &str, kind: &str, item: &str) -> String {
    format!(
        "part = 'all' AND keyspace_name = '{keyspace}' AND table_name = '{table}' AND kind = '{kind}' AND item = '{item}'"
    )
}

fn version(run: &mut impl Run) -> i64 {
    let rows = run("SELECT version FROM helenus.catalogue WHERE part = 'all' LIMIT 1");
    let cell = rows.into_iter().next().and_then(|row| row[0].clone());
    let bytes = cell.map(|bytes| bytes.try_into().expect("a bigint"));
    bytes.map_or(0, i64::from_be_bytes)
}

fn apply(run: &mut impl Run, text: &str) {
    let rows = run(text);
    assert_eq!(rows[0][0], Some(vec![1]), "not applied: {text}");
}
