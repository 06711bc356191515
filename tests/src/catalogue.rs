//! The catalogue changed by hand. Proxies believe such a change only under a version of its own.

use helenus_catalogue::TableKey;
use helenus_catalogue::change::{Change, batch};

type Rows = Vec<Vec<Option<Vec<u8>>>>;

/// Runs statements on a node.
pub trait Run: FnMut(&str) -> Rows {}

impl<F: FnMut(&str) -> Rows> Run for F {}

/// Compare-and-sets that commands get ahead of.
const ATTEMPTS: u32 = 20;

/// Changes what it says of a table.
pub fn change(run: impl Run, table: &TableKey, changes: &[Change<'_>]) {
    apply(run, |version| batch(version, version + 1, table, changes));
}

/// Carries out a statement about its rows.
pub fn change_by(run: impl Run, statement: &str) {
    apply(run, |version| {
        let none = batch(version, version + 1, &TableKey::default(), &[]);
        none.replace("APPLY BATCH", &format!("{statement}; APPLY BATCH"))
    });
}

/// The place of a row, for statements.
pub fn place(keyspace: &str, table: &str, kind: &str, item: &str) -> String {
    format!(
        "part = 'all' AND keyspace_name = '{keyspace}' AND table_name = '{table}' AND kind = '{kind}' AND item = '{item}'"
    )
}

fn apply(mut run: impl Run, text: impl Fn(i64) -> String) {
    let is_applied = (0..ATTEMPTS).any(|_| {
        let text = text(version(&mut run));
        run(&text)[0][0] == Some(vec![1])
    });
    assert!(is_applied, "not applied: {}", text(0));
}

fn version(run: &mut impl Run) -> i64 {
    let rows = run("SELECT version FROM helenus.catalogue WHERE part = 'all' LIMIT 1");
    let cell = rows.into_iter().next().and_then(|row| row[0].clone());
    let bytes = cell.map(|bytes| bytes.try_into().expect("a bigint"));
    bytes.map_or(0, i64::from_be_bytes)
}
