//! Statements as an endpoint has prepared them, and requests made of them.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use helenus_capture::{Statement, Value};
use helenus_client::{
    Answer, BatchChild, Opcode, Options, PreparedIds, Statement as Executed, ValueRef, batch,
    request,
};
use helenus_wire::{ColumnType, PreparedView, Version};
use tokio::time::timeout;

use super::step::Step;
use super::values::Made;
use crate::client::failure::code_kind;
use crate::client::shared::{Session, VERSION};

/// A bind marker.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    pub name: String,
    /// The type's number and its whole description.
    pub type_id: u16,
    pub type_raw: Vec<u8>,
}

impl Marker {
    pub(crate) fn column_type(&self) -> ColumnType<'_> {
        ColumnType {
            id: self.type_id,
            raw: &self.type_raw,
        }
    }
}

/// A statement as an endpoint has prepared it.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub id: Vec<u8>,
    pub result_metadata_id: Vec<u8>,
    pub markers: Vec<Marker>,
    /// Places of the partition key among the markers; empty if it is not bound.
    pub key: Vec<u16>,
    /// Keyspace and table.
    pub table: (String, String),
}

/// To what is asked before the capture is played.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of values that are made up for one statement at most.
const MADE_BYTES_MAX: usize = 16 << 20;

/// Sizes of values that were recorded first, by table and column: keys have one size, so that they are found
/// again.
pub(crate) type Sizes = HashMap<(String, String, String), u32>;

pub(crate) async fn prepare(session: &Session, statement: &Statement) -> Result<Prepared> {
    prepare_unless_refused(session, statement)
        .await?
        .map_err(|refused| anyhow!(refused.text))
}

/// An error that a node has answered with.
#[derive(Debug)]
pub(crate) struct Refused {
    pub code: i32,
    pub text: String,
}

/// Characters of a node's own words, and of a statement, in the reason why something is not played.
const WHY_CHARS_MAX: usize = 200;
const TEXT_CHARS_MAX: usize = 60;

impl Refused {
    /// In few words, and without values of clients: a node may repeat what it was sent, so its words are left out
    /// where that had values in it.
    pub(crate) fn why(&self, statement: &Statement) -> String {
        let sent = statement.sent.as_deref();
        match sent.is_none_or(|sent| sent == statement.text) {
            true => self.text.chars().take(WHY_CHARS_MAX).collect(),
            false => code_kind(self.code).to_owned(),
        }
    }
}

/// Why requests of a statement that an endpoint does not prepare are not played.
pub(crate) fn not_prepared(endpoint: &str, why: &str, statement: &Statement) -> String {
    let text: String = statement.text.chars().take(TEXT_CHARS_MAX).collect();
    format!("requests of what {endpoint} does not prepare ({why}): {text}")
}

/// [`prepare`], where it matters whether the node has answered.
///
/// # Errors
/// It has not, or cannot be understood.
pub(crate) async fn prepare_unless_refused(
    session: &Session,
    statement: &Statement,
) -> Result<Result<Prepared, Refused>> {
    let text = statement.sent.as_deref().unwrap_or(&statement.text);
    let body = helenus_client::prepare(VERSION, text, statement.keyspace.as_deref());
    let answer = ask(session, Opcode::Prepare, &body).await?;
    if let Some(code) = answer.code() {
        let text = answer.error_text();
        return Ok(Err(Refused { code, text }));
    }
    let view = PreparedView::parse(answer.message()?, Version::V5)?;
    let first = view.markers.first().or(view.result_columns.first());
    let table = first.map(|of| (of.keyspace.to_owned(), of.table.to_owned()));
    let markers = view.markers.iter().map(|marker| Marker {
        name: marker.name.to_owned(),
        type_id: marker.column_type.id,
        type_raw: marker.column_type.raw.to_vec(),
    });
    Ok(Ok(Prepared {
        id: view.id.to_vec(),
        result_metadata_id: view.result_metadata_id.unwrap_or_default().to_vec(),
        markers: markers.collect(),
        key: view.partition_key,
        table: table.unwrap_or_default(),
    }))
}

/// Asks for something before the capture is played.
pub(crate) async fn ask(session: &Session, opcode: Opcode, body: &[u8]) -> Result<Answer> {
    let answer = timeout(ANSWER_TIMEOUT, session.ask(opcode, body)).await;
    answer.with_context(|| format!("no answer in {ANSWER_TIMEOUT:?}"))?
}

impl Prepared {
    /// EXECUTE, or its part of a BATCH.
    pub(crate) fn executed(&self) -> Executed<'_> {
        Executed::Prepared(PreparedIds {
            statement: &self.id,
            result_metadata: Some(&self.result_metadata_id),
        })
    }

    fn place(&self, marker: &Marker) -> (String, String, String) {
        let (keyspace, table) = self.table.clone();
        (keyspace, table, marker.name.clone())
    }

    /// Notes the sizes of values that were recorded.
    pub(crate) fn note_sizes(&self, values: &[Value], sizes: &mut Sizes) {
        if values.len() != self.markers.len() {
            return;
        }
        for (marker, value) in self.markers.iter().zip(values) {
            if let Value::Sized(size) = value {
                sizes.entry(self.place(marker)).or_insert(*size);
            }
        }
    }

    /// Values of a statement as a request has them: those recorded, or made up. None if a type is not known, or
    /// if they are larger than what nodes take.
    pub(crate) fn values(
        &self,
        step: &Step,
        recorded: &[Value],
        sizes: &Sizes,
    ) -> Option<Vec<Value>> {
        let is_whole = |value: &Value| !matches!(value, Value::Sized(_));
        if recorded.len() == self.markers.len() && recorded.iter().all(is_whole) {
            return Some(recorded.to_vec());
        }
        let is_whole = recorded.len() == self.markers.len();
        let mut bytes = 0;
        let made = self.markers.iter().enumerate().map(|(at, marker)| {
            let known = recorded.get(at).filter(|_| is_whole);
            let size = match known {
                Some(Value::Null) => return Some(Value::Null),
                Some(Value::Unset) => return Some(Value::Unset),
                Some(Value::Sized(size)) => Some(*size),
                _ => None,
            };
            let is_key = step.is_read || self.key.contains(&(at as u16));
            let common = sizes.get(&self.place(marker)).copied();
            let made = Made {
                key: step.key.unwrap_or(step.due.as_micros() as u64),
                name: &marker.name,
                size: if is_key { common.or(size) } else { size },
            };
            let value = made.of(marker.column_type())?;
            bytes += value.len();
            (bytes <= MADE_BYTES_MAX).then_some(Value::Bytes(value))
        });
        made.collect()
    }
}

pub(crate) fn refs(values: &[Value]) -> Vec<ValueRef<'_>> {
    let values = values.iter().map(|value| match value {
        Value::Bytes(bytes) => ValueRef::Set(bytes),
        Value::Unset => ValueRef::Unset,
        Value::Null | Value::Sized(_) => ValueRef::Null,
    });
    values.collect()
}

/// Those of a step of any kind.
fn options(step: &Step) -> Options<'static> {
    Options {
        serial_consistency: step.serial_consistency,
        ..Options::at(step.consistency)
    }
}

/// A request in version 5.
pub(crate) struct Asked {
    pub opcode: Opcode,
    pub body: Vec<u8>,
}

/// The request of a step of one statement. `prepared`: as the endpoint knows it. None if it cannot be made.
pub(crate) fn asked(
    step: &Step,
    statement: &Statement,
    prepared: Option<&Prepared>,
    sizes: &Sizes,
    state: Option<&[u8]>,
) -> Option<Asked> {
    let (_, recorded) = step.parts.first()?;
    let made;
    let (executed, values, keyspace) = match step.is_text(statement) {
        true => {
            let text = Executed::Text(statement.sent.as_deref()?);
            (text, recorded, statement.keyspace.as_deref())
        }
        false => {
            let of = prepared?;
            made = of.values(step, recorded, sizes)?;
            (of.executed(), &made, None)
        }
    };
    let values = refs(values);
    let options = Options {
        values: (!values.is_empty()).then_some(&values[..]),
        skip_metadata: step.skips_metadata,
        page_size: step.page_size.map(|rows| rows as i32),
        paging_state: state,
        keyspace,
        ..options(step)
    };
    Some(Asked {
        opcode: executed.opcode(),
        body: request(VERSION, executed, &options),
    })
}

/// The request of a step that is a batch. `prepared`: by the numbers of statements.
pub(crate) fn asked_batch(
    step: &Step,
    prepared: &HashMap<usize, Prepared>,
    sizes: &Sizes,
) -> Option<Asked> {
    let mut parts = Vec::new();
    for (number, recorded) in &step.parts {
        let of = prepared.get(number)?;
        parts.push((of.executed(), of.values(step, recorded, sizes)?));
    }
    let values: Vec<_> = parts.iter().map(|(_, values)| refs(values)).collect();
    let children = parts.iter().zip(&values).map(|(part, values)| BatchChild {
        statement: part.0,
        values,
    });
    let children: Vec<_> = children.collect();
    Some(Asked {
        opcode: Opcode::Batch,
        body: batch(VERSION, step.batch_type, &children, &options(step)),
    })
}
