//! Rows for the partition keys of a capture without values, so that reads find something.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use helenus_capture::{Statement, Value, kinds};
use helenus_wire::{Opcode, RowsView, code, strip_prelude, write};

use super::play::Player;
use super::statements::{Prepared, prepare, push_values};
use super::traffic::{Step, Traffic};
use super::values::Made;
use crate::client::shared::Session;

/// LOCAL_QUORUM
const CONSISTENCY: u16 = 6;

/// Writes a row for each partition key of each table that is asked for by its key. How many.
///
/// # Errors
/// Among others: a column's type is one whose values cannot be made up.
pub(super) async fn fill(player: &Player, traffic: &Traffic) -> Result<u64> {
    let session = player.session().await?;
    let mut inserts: BTreeMap<(String, String), Prepared> = BTreeMap::new();
    let mut written = BTreeSet::new();
    for step in &traffic.steps {
        let statement = step.statement();
        let Some(of) = player.prepared().get(&statement) else {
            continue;
        };
        let is_read = traffic.statements[statement].kinds & kinds::READ != 0;
        let Some(key) = step.key.filter(|_| is_read && !of.key.is_empty()) else {
            continue;
        };
        if !written.insert((of.table.clone(), key)) {
            continue;
        }
        if !inserts.contains_key(&of.table) {
            let insert = insert_of(&session, &of.table).await;
            let (keyspace, table) = &of.table;
            let insert = insert.with_context(|| format!("--fill of {keyspace}.{table}"))?;
            inserts.insert(of.table.clone(), insert);
        }
        let Some(insert) = inserts.get(&of.table) else {
            continue;
        };
        let values = row(insert, step, player)?;
        execute(&session, insert, &values).await?;
    }
    Ok(written.len() as u64)
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

/// INSERT of all columns of a table.
async fn insert_of(session: &Session, (keyspace, table): &(String, String)) -> Result<Prepared> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let text = "SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";
    let statement = Statement {
        text: text.to_owned(),
        ..Statement::default()
    };
    let columns = prepare(session, &statement).await?;
    let names = [keyspace, table].map(|name| Value::Bytes(name.as_bytes().to_vec()));
    let answer = execute(session, &columns, &names).await?;
    let view = RowsView::parse(&answer)?;
    let mut columns = Vec::new();
    for row in view.rows() {
        let name = row?.first().copied().flatten().unwrap_or_default().to_vec();
        columns.push(quoted(&String::from_utf8(name)?));
    }
    let markers = vec!["?"; columns.len()].join(", ");
    let text = format!(
        "INSERT INTO {}.{} ({}) VALUES ({markers})",
        quoted(keyspace),
        quoted(table),
        columns.join(", ")
    );
    let statement = Statement {
        text,
        ..Statement::default()
    };
    prepare(session, &statement).await
}

/// The answer's body.
async fn execute(session: &Session, of: &Prepared, values: &[Value]) -> Result<Vec<u8>> {
    let write_body = |body: &mut Vec<u8>| {
        write::short_bytes(body, &of.id);
        write::short_bytes(body, &of.result_metadata_id);
        write::u16(body, CONSISTENCY);
        write::u32(body, helenus_wire::query_flags::VALUES);
        push_values(body, values);
    };
    let answer = session.ask(Opcode::Execute, write_body).await?;
    if let Some(failed) = answer.code() {
        let advice = match failed {
            code::INVALID => ": tables of counters cannot be filled",
            _ => "",
        };
        bail!("{}{advice}", answer.error_text());
    }
    let (_, body) = strip_prelude(answer.flags, &answer.body)?;
    Ok(body.to_vec())
}
