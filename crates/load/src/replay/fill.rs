//! Rows for the partition keys of a capture without values, so that reads find something.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use helenus_capture::{Statement, Value, kinds};
use helenus_client::{Answer, Opcode, Options, request};
use helenus_wire::RowsView;
use tokio::task::{JoinError, JoinSet};

use super::play::Player;
use super::statements::{Marker, Prepared, ask, prepare, refs};
use super::step::Step;
use super::traffic::Traffic;
use super::values::Made;
use crate::client::shared::{Session, VERSION};

/// Rows that are written at a time.
const WRITING_MAX: usize = 64;
/// LOCAL_QUORUM
const CONSISTENCY: u16 = 6;

/// Writes a row for each partition key of each table that is asked for by its key. How many.
///
/// # Errors
/// Among others: a column's type is one whose values cannot be made up.
pub(super) async fn fill(player: &Player, traffic: &Traffic) -> Result<u64> {
    let session = Arc::new(player.session().await?);
    let mut tables: BTreeMap<(String, String), Table> = BTreeMap::new();
    let (mut writing, mut rows) = (JoinSet::new(), 0);
    for step in &traffic.steps {
        let statement = step.statement();
        let Some(of) = player.prepared().get(&statement) else {
            continue;
        };
        let is_read = traffic.statements[statement].kinds & kinds::READ != 0;
        let Some(key) = step.key.filter(|_| is_read && !of.key.is_empty()) else {
            continue;
        };
        if !tables.contains_key(&of.table) {
            let insert = insert_of(&session, &of.table).await;
            let (keyspace, table) = &of.table;
            let insert = insert.with_context(|| format!("--fill of {keyspace}.{table}"))?;
            tables.insert(of.table.clone(), Table::new(insert));
        }
        let Some(table) = tables.get_mut(&of.table).filter(|table| table.is_new(key)) else {
            continue;
        };
        let values = row(&table.insert, step, player)?;
        table.written.insert(key);
        while writing.len() >= WRITING_MAX {
            written(writing.join_next().await)?;
        }
        let (session, insert) = (session.clone(), table.insert.clone());
        writing.spawn(async move { execute(&session, &insert, &values).await.map(drop) });
        rows += 1;
    }
    while let Some(done) = writing.join_next().await {
        written(Some(done))?;
    }
    Ok(rows)
}

/// A table that is filled.
struct Table {
    insert: Arc<Prepared>,
    /// Hashes of the keys that have a row.
    written: HashSet<u64>,
}

impl Table {
    fn new(insert: Prepared) -> Table {
        Table {
            insert: Arc::new(insert),
            written: HashSet::new(),
        }
    }

    fn is_new(&self, key: u64) -> bool {
        !self.written.contains(&key)
    }
}

fn written(done: Option<Result<Result<()>, JoinError>>) -> Result<()> {
    match done {
        Some(done) => done.context("--fill failed")?.context("--fill"),
        None => Ok(()),
    }
}

/// A row as reads with this key ask for it.
fn row(insert: &Prepared, step: &Step, player: &Player) -> Result<Vec<Value>> {
    let (keyspace, table) = &insert.table;
    let made = insert.markers.iter().map(|marker| {
        let place = (keyspace.clone(), table.clone(), marker.name.clone());
        let made = Made {
            key: step.key.unwrap_or_default(),
            name: &marker.name,
            size: player.sizes.get(&place).copied(),
        };
        let value = made.of(marker.column_type()).map(Value::Bytes);
        value.with_context(|| {
            format!(
                "no value can be made up for the type of column {}",
                marker.name
            )
        })
    });
    made.collect()
}

/// INSERT of a table's columns: of all that values can be made up for. Those of the primary key must be among them.
async fn insert_of(session: &Session, of: &(String, String)) -> Result<Prepared> {
    let (keyspace, table) = of;
    let columns = columns_of(session, keyspace, table).await?;
    let all: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let insert = prepare(session, &insert_text(keyspace, table, &all)).await?;
    let made = |marker: &Marker| {
        let (key, name, size) = (0, marker.name.as_str(), None);
        Made { key, name, size }.of(marker.column_type()).is_some()
    };
    let mut some = Vec::new();
    for (marker, (name, kind)) in insert.markers.iter().zip(&columns) {
        if made(marker) {
            some.push(name.as_str());
        } else if !matches!(&kind[..], "regular" | "static") {
            bail!(
                "no value can be made up for the type of column {name}, which is in the primary key"
            );
        }
    }
    match some.len() == all.len() {
        true => Ok(insert),
        false => prepare(session, &insert_text(keyspace, table, &some)).await,
    }
}

fn insert_text(keyspace: &str, table: &str, columns: &[&str]) -> Statement {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = columns.iter().copied().map(quoted).collect();
    let text = format!(
        "INSERT INTO {}.{} ({}) VALUES ({})",
        quoted(keyspace),
        quoted(table),
        names.join(", "),
        vec!["?"; columns.len()].join(", ")
    );
    Statement {
        text,
        ..Statement::default()
    }
}

/// Names and kinds.
async fn columns_of(
    session: &Session,
    keyspace: &str,
    table: &str,
) -> Result<Vec<(String, String)>> {
    let text = "SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";
    let statement = Statement {
        text: text.to_owned(),
        ..Statement::default()
    };
    let columns = prepare(session, &statement).await?;
    let names = [keyspace, table].map(|name| Value::Bytes(name.as_bytes().to_vec()));
    let answer = execute(session, &columns, &names).await?;
    let view = RowsView::parse(answer.message()?)?;
    let mut columns = Vec::new();
    for row in view.rows() {
        let row = row?;
        let text = |at: usize| {
            let bytes = row.get(at).copied().flatten().unwrap_or_default();
            String::from_utf8(bytes.to_vec())
        };
        columns.push((text(0)?, text(1)?));
    }
    Ok(columns)
}

async fn execute(session: &Session, of: &Prepared, values: &[Value]) -> Result<Answer> {
    let values = refs(values);
    let options = Options {
        values: Some(&values),
        ..Options::at(CONSISTENCY)
    };
    let body = request(VERSION, of.executed(), &options);
    let answer = ask(session, Opcode::Execute, &body).await?;
    if answer.code().is_some() {
        bail!("{}", answer.error_text());
    }
    Ok(answer)
}
