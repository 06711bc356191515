//! A client's BATCH.

use std::sync::Arc;

use helenus_cql::Kind;
use helenus_wire::{BatchChild, BatchStatement, BatchView};

use crate::features::layouts::derived::Partitions;
use crate::features::layouts::on_layouts::LayoutWrite;
use crate::features::layouts::plan::LayoutPlan;
use crate::features::layouts::plan_of;
use crate::features::layouts::refusals::{opaque_refused, unprepared, write_refused};
use crate::features::layouts::writes::timed::Timed;
use crate::features::layouts::writes::{
    NOT_READABLE, Writes, copies_of, is_compared, is_known, unordered,
};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::rewrite::fencing::table_of;
use crate::rewrite::in_order::in_order;
use crate::rewrite::refusal::Refusal;
use crate::statement::analysis::Analysis;
use crate::statement::children::Child;
use crate::statement::prepared::Statement;

/// A client's BATCH with further statements for layouts; `None` if it writes to none.
pub(crate) fn batch_of_layouts(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
) -> Result<Option<LayoutWrite>, Refusal> {
    let timed = Timed::of(
        engine,
        arrival,
        engine.cx().snapshot.features().layouts.has_derived(),
    );
    let arrival = &timed.arrival(arrival);
    let view = BatchView::parse(arrival.content, arrival.version);
    let view = view.map_err(|_| Refusal::invalid(NOT_READABLE))?;
    let (children, is_in_one_keyspace) = children(engine, &view, analysis.keyspace)?;
    if children.iter().all(|child| child.planned.is_none()) {
        return Ok(None);
    }
    let mut planned = children.iter().filter_map(|child| child.planned.as_ref());
    let mut writes = Writes {
        is_compared: planned.any(is_compared),
        ..Writes::default()
    };
    for (child, of) in children.iter().zip(&view.children) {
        let (own, values) = match of {
            BatchChild::Text(text, values) => (BatchStatement::Text(text), values),
            BatchChild::Prepared(id, values) => (BatchStatement::Prepared(id), values),
        };
        let Some(planned) = &child.planned else {
            let values = values.iter().map(|(_, value)| value);
            writes.batch.push(own, values.collect());
            continue;
        };
        let table = &planned.table;
        let values = in_order(values, &child.statement.facts, None);
        let values = values.map_err(|why| unordered(table, why))?;
        writes.batch.push(own, values.clone());
        let is_prepared = matches!(of, BatchChild::Prepared(..));
        let mut copies = copies_of(planned)?;
        if analysis.lwt {
            // Nothing of a batch is done unless all its conditions hold.
            copies = &[];
        }
        writes.push_copies(engine, table, copies, is_prepared, &values, arrival.pool);
    }
    let keyspace = arrival.keyspace.filter(|_| !analysis.has_own_keyspaces);
    let options = &view.options;
    writes.is_room(engine)?;
    let mut written = match writes.is_followed() {
        true => partitions_of_batch(engine, arrival, analysis, &children),
        false => Partitions::of_one(None),
    };
    written.is_one_mutation &= is_in_one_keyspace;
    is_known(&writes, &written.tokens)?;
    let follow = writes.followed_by(engine, arrival, analysis, options, written)?;
    let finished = writes.finish(view.batch_type, options, keyspace.cloned(), arrival, follow);
    finished.map(Some)
}

/// The partitions that a BATCH writes; one mutation, if all its statements are about the same.
fn partitions_of_batch(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    planned: &[PlannedChild],
) -> Partitions {
    let (content, version) = (arrival.content, arrival.version);
    let Stations { cx, statements, .. } = engine.stations();
    let children = statements.children(cx, content, version, analysis, true);
    let token = |child: Child| match child {
        Child::Text(_, token) | Child::Prepared(_, token) => token,
        Child::Unknown(_) => None,
    };
    let all: Vec<Option<i64>> = children.into_iter().map(token).collect();
    let first = all.first().copied().flatten();
    let of_layouts = all.iter().zip(planned);
    let of_layouts = of_layouts.filter(|(_, planned)| planned.planned.is_some());
    Partitions {
        tokens: of_layouts.map(|(token, _)| *token).collect(),
        is_one_mutation: first.is_some() && all.iter().all(|token| *token == first),
    }
}

/// The statements of a batch, with their plans; and whether all are about tables of one keyspace.
fn children(
    engine: &mut Engine,
    view: &BatchView<'_>,
    keyspace: Option<&str>,
) -> Result<(Vec<PlannedChild>, bool), Refusal> {
    let layouts = engine.cx().snapshot.features().layouts.clone();
    let mut children = Vec::with_capacity(view.children.len());
    let (mut first, mut is_in_one_keyspace) = (None::<String>, true);
    for child in &view.children {
        let (statement, prepared) = match child {
            BatchChild::Text(text, _) => (engine.statements_mut().of_text(keyspace, text), None),
            BatchChild::Prepared(id, _) => {
                let prepared = engine.prepared(id);
                let prepared = prepared.ok_or_else(|| unprepared(id))?;
                (prepared.statement.clone(), Some(prepared))
            }
        };
        let named = table_of(&statement, prepared.as_deref(), keyspace);
        let of = named.map(|(keyspace, _)| keyspace);
        is_in_one_keyspace &= of.is_some() && (first.is_none() || of == first.as_deref());
        if first.is_none() {
            first = of.map(str::to_owned);
        }
        let in_force = match &prepared {
            Some(prepared) => prepared.keyspace.as_deref(),
            None => keyspace,
        };
        if let Some(why) = write_refused(named, &layouts) {
            return Err(Refusal::invalid(why));
        }
        if statement.facts.kind == Kind::Opaque {
            let refused = opaque_refused(&statement.text, named, in_force, &layouts);
            refused.map_or(Ok(()), |why| Err(Refusal::invalid(why)))?;
        }
        let table = named.and_then(|(keyspace, table)| layouts.table(keyspace, table));
        let planned = table.map(|table| plan_of(&statement, table));
        children.push(PlannedChild { statement, planned });
    }
    Ok((children, is_in_one_keyspace))
}

/// A statement of a batch.
struct PlannedChild {
    statement: Arc<Statement>,
    /// If its table has layouts.
    planned: Option<LayoutPlan<Statement>>,
}
