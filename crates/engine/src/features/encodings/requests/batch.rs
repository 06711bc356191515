//! Batches with statements about tables with encoded columns.

use std::sync::Arc;

use helenus_cql::Kind;
use helenus_wire::{BatchChild, BatchStatement, BatchView, Opcode, ValueRef, Values, write_batch};

use super::stored::{NOT_READABLE, Stored, known_of};
use super::values::{made_values, referred};
use crate::features::encodings::plan::Plan;
use crate::features::encodings::refusals::{
    ENCODED, changes_catalogue, opaque_refused, unprepared,
};
use crate::features::encodings::{EncodedTable, Encodings, plan_of};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::rewrite::catalogue::CATALOGUE_REFUSED;
use crate::rewrite::in_order::in_order;
use crate::rewrite::refusal::Refusal;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Prepared;

const TOO_MANY: &str = "a batch has too many statements or values: divide it";

pub(super) fn stored_batch(
    engine: &mut Engine,
    stored: Stored,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    encodings: &Encodings,
) -> Result<Stored, Refusal> {
    let view = BatchView::parse(arrival.content, arrival.version);
    let view = view.map_err(|_| Refusal::invalid(NOT_READABLE))?;
    let mut children = Vec::with_capacity(view.children.len());
    let mut is_changed = false;
    for child in &view.children {
        let child = stored_child(engine, child, arrival, analysis, encodings)?;
        is_changed |= child.is_changed;
        children.push(child);
    }
    let tables = children.iter().filter_map(|child| child.table.as_ref());
    let until = stored.until;
    let Some(stored) = stored.on_batch(tables) else {
        return Ok(Stored {
            until,
            ..Stored::default()
        });
    };
    if !is_changed {
        return Ok(stored);
    }
    let children: Vec<_> = children
        .iter()
        .zip(&view.children)
        .map(|(child, own)| child.as_sent(own))
        .collect();
    let mut body = arrival.payload().to_vec();
    let (kind, version) = (view.batch_type, arrival.version);
    if !write_batch(kind, &children, &view.options, version, &mut body) {
        return Err(Refusal::invalid(TOO_MANY));
    }
    Ok(Stored {
        sent: Some((Opcode::Batch, body)),
        ..stored
    })
}

fn stored_child(
    engine: &mut Engine,
    child: &BatchChild<'_>,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    encodings: &Encodings,
) -> Result<Child, Refusal> {
    let (statement, prepared, values) = match child {
        BatchChild::Text(text, values) => {
            let statement = engine.statements_mut().of_text(analysis.keyspace, text);
            (statement, None, values)
        }
        BatchChild::Prepared(id, values) => {
            let prepared = engine.prepared(id);
            let prepared = prepared.ok_or_else(|| unprepared(id))?;
            (prepared.statement.clone(), Some(prepared), values)
        }
    };
    let named = match &prepared {
        Some(prepared) => prepared.table.as_ref().map(|(ks, table)| (&**ks, &**table)),
        None => statement.table(analysis.keyspace),
    };
    let in_force = match &prepared {
        Some(prepared) => prepared.keyspace.as_deref(),
        None => analysis.keyspace,
    };
    if changes_catalogue(&statement, named, in_force) {
        return Err(Refusal::invalid(CATALOGUE_REFUSED));
    }
    if statement.facts.kind == Kind::Opaque
        && let Some(why) = opaque_refused(&statement, in_force, encodings)
    {
        return Err(Refusal::invalid(why));
    }
    let table = named.and_then(|(keyspace, table)| encodings.table(keyspace, table));
    let Some(table) = table else {
        return Ok(Child::default());
    };
    let planned = plan_of(&statement, table, &mut engine.features_mut().encodings);
    let changed = match &*planned.plan {
        Plan::Refused(why) => return Err(Refusal::invalid(&**why)),
        Plan::PassThrough | Plan::All => {
            return Ok(Child {
                table: Some(table.clone()),
                ..Child::default()
            });
        }
        Plan::Changed(changed) => changed,
    };
    let values = in_order(values, &statement.facts, None);
    let values = values.map_err(|why| Refusal::invalid(why.text(ENCODED)))?;
    let made = made_values(&mut engine.features_mut().encodings, changed, &values)?;
    let values = referred(changed, &values, &made, arrival.version);
    let known = match prepared {
        Some(_) => known_of(engine, arrival.pool, changed),
        None => None,
    };
    Ok(Child {
        table: Some(table.clone()),
        is_changed: true,
        text: changed.text.clone(),
        prepared: known,
        values: values.iter().copied().map(Value::of).collect(),
    })
}

/// A value that is kept until all statements of a batch are known.
enum Value {
    Set(Vec<u8>),
    Null,
    Unset,
}

impl Value {
    fn of(value: ValueRef<'_>) -> Value {
        match value {
            ValueRef::Set(bytes) => Value::Set(bytes.to_vec()),
            ValueRef::Null => Value::Null,
            ValueRef::Unset => Value::Unset,
        }
    }

    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Set(bytes) => ValueRef::Set(bytes),
            Value::Null => ValueRef::Null,
            Value::Unset => ValueRef::Unset,
        }
    }
}

/// A statement of a batch.
#[derive(Default)]
struct Child {
    /// If it has encoded columns.
    table: Option<Arc<EncodedTable>>,
    is_changed: bool,
    text: Box<str>,
    prepared: Option<Arc<Prepared>>,
    values: Vec<Value>,
}

impl Child {
    fn as_sent<'a>(&'a self, own: &'a BatchChild<'a>) -> (BatchStatement<'a>, Vec<ValueRef<'a>>) {
        let refs = |values: &Values<'a>| values.iter().map(|(_, value)| value).collect();
        if !self.is_changed {
            return match own {
                BatchChild::Text(text, values) => (BatchStatement::Text(text), refs(values)),
                BatchChild::Prepared(id, values) => (BatchStatement::Prepared(id), refs(values)),
            };
        }
        let statement = match &self.prepared {
            Some(prepared) => BatchStatement::Prepared(&prepared.id),
            None => BatchStatement::Text(&self.text),
        };
        (statement, self.values.iter().map(Value::as_ref).collect())
    }
}
