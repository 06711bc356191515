//! Writes on tables with layouts: a single statement, a batch as text, a client's batch.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::{Facts, Kind};
use helenus_layout::plan::{self, LogicalTable};
use helenus_wire::{
    BatchChild, BatchStatement, BatchView, ExecuteView, Opcode, Options, QueryView, ValueRef, write,
};

use crate::engine::Engine;
use crate::features::layouts::fan_out_write::{FanOut, UNLOGGED, bytes_of, known};
use crate::features::layouts::on_layouts::{LayoutWrite, WriteOfLayouts};
use crate::features::layouts::plan::{CopyWrite, LayoutPlan, Plan};
use crate::features::layouts::plan_of;
use crate::features::layouts::refusals::{
    LAYOUTS, no_memory, opaque_refused, too_large, unprepared, write_refused,
};
use crate::keys::PoolKey;
use crate::pipeline::arrival::Arrival;
use crate::rewrite::fencing::{named_table, table_of};
use crate::rewrite::in_order::{Unordered, in_order};
use crate::rewrite::refusal::Refusal;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

const NOT_READABLE: &str = "the request cannot be understood";
const TOO_MANY: &str = "a batch has too many statements, together with those on the layouts of its tables: \
                        divide it";

/// A request whose body was read before.
struct Asked<'a> {
    options: Options<'a>,
    statement: BatchStatement<'a>,
    /// Names of the markers of what is prepared.
    names: Option<&'a [Box<str>]>,
}

impl<'a> Asked<'a> {
    fn of(arrival: &Arrival<'a>, analysis: &'a Analysis<'_>) -> Option<Asked<'a>> {
        let (content, version) = (arrival.content, arrival.version);
        match arrival.opcode {
            Opcode::Query => {
                let view = QueryView::parse(content, version).ok()?;
                Some(Asked {
                    options: view.options,
                    statement: BatchStatement::Text(view.text),
                    names: None,
                })
            }
            Opcode::Execute => {
                let view = ExecuteView::parse(content, version).ok()?;
                let prepared = analysis.prepared.as_deref()?;
                Some(Asked {
                    options: view.options,
                    statement: BatchStatement::Prepared(view.id),
                    names: Some(&prepared.names),
                })
            }
            _ => None,
        }
    }
}

/// A statement as a batch of itself and of the same on each layout.
pub(crate) fn write_of_layouts(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    (statement, table): (&Statement, &Arc<LogicalTable>),
) -> Result<LayoutWrite, Refusal> {
    let planned = plan_of(statement, table);
    let copies = copies_of(&planned)?;
    let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
    let values = in_order(&asked.options.values, &statement.facts, asked.names);
    let values = values.map_err(|why| unordered(table, why))?;
    let is_prepared = asked.names.is_some();
    let mut batch = FanOut::default();
    batch.push(asked.statement, values.clone());
    push_copies(
        engine,
        &mut batch,
        (copies, is_prepared),
        &values,
        arrival.pool,
    );
    batch.note_table(table);
    let keyspace = match is_prepared {
        true => None,
        false => arrival.keyspace.cloned(),
    };
    is_room_for(engine, batch.byte_len())?;
    finish(batch, (UNLOGGED, &asked.options), keyspace, arrival)
}

/// Refuses a write that is larger than clients may send, as nodes would not take it, or than there is
/// memory for. Asked before it is put together.
fn is_room_for(engine: &Engine, bytes: usize) -> Result<(), Refusal> {
    let max = engine.cx.shared.config.limits.request_bytes_max;
    if bytes > max {
        return Err(too_large(bytes, max));
    }
    match engine.cx.memory.is_full(bytes) {
        true => Err(no_memory()),
        false => Ok(()),
    }
}

/// Adds a statement on each layout: by its id, once the nodes have prepared it.
fn push_copies<'a>(
    engine: &mut Engine,
    batch: &mut FanOut<'a>,
    (copies, is_prepared): (&'a [CopyWrite<Statement>], bool),
    values: &[ValueRef<'a>],
    pool: PoolKey,
) {
    if is_prepared {
        engine.prepare_made(pool, copies.iter().map(CopyWrite::statement));
    }
    for copy in copies {
        let prepared = known(copy).filter(|_| is_prepared);
        batch.push_copy(copy, prepared, values);
    }
}

/// A client's BATCH with further statements for layouts; `None` if it writes to none.
pub(crate) fn batch_of_layouts(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
) -> Result<Option<LayoutWrite>, Refusal> {
    let view = BatchView::parse(arrival.content, arrival.version);
    let view = view.map_err(|_| Refusal::invalid(NOT_READABLE))?;
    let children = children(engine, &view, analysis.keyspace)?;
    if children.iter().all(|child| child.planned.is_none()) {
        return Ok(None);
    }
    let mut batch = FanOut::default();
    for (child, of) in children.iter().zip(&view.children) {
        let (own, values) = match of {
            BatchChild::Text(text, values) => (BatchStatement::Text(text), values),
            BatchChild::Prepared(id, values) => (BatchStatement::Prepared(id), values),
        };
        let Some(planned) = &child.planned else {
            batch.push(own, values.iter().map(|(_, value)| value).collect());
            continue;
        };
        let table = &planned.table;
        let values = in_order(values, &child.statement.facts, None);
        let values = values.map_err(|why| unordered(table, why))?;
        batch.push(own, values.clone());
        let is_prepared = matches!(of, BatchChild::Prepared(..));
        let copies = copies_of(planned)?;
        push_copies(
            engine,
            &mut batch,
            (copies, is_prepared),
            &values,
            arrival.pool,
        );
        batch.note_table(table);
    }
    let keyspace = arrival.keyspace.filter(|_| !analysis.has_own_keyspaces);
    let kind = (view.batch_type, &view.options);
    is_room_for(engine, batch.byte_len())?;
    finish(batch, kind, keyspace.cloned(), arrival).map(Some)
}

/// The statements of a batch, with their plans.
fn children(
    engine: &mut Engine,
    view: &BatchView<'_>,
    keyspace: Option<&str>,
) -> Result<Vec<Child>, Refusal> {
    let layouts = engine.cx.snapshot.features.layouts.clone();
    let mut children = Vec::with_capacity(view.children.len());
    for child in &view.children {
        let (statement, prepared) = match child {
            BatchChild::Text(text, _) => (engine.statements.of_text(keyspace, text), None),
            BatchChild::Prepared(id, _) => {
                let prepared = engine.statements.prepared(&engine.cx.shared, id);
                let prepared = prepared.ok_or_else(|| unprepared(id))?;
                (prepared.statement.clone(), Some(prepared))
            }
        };
        let named = table_of(&statement, prepared.as_deref(), keyspace);
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
        children.push(Child { statement, planned });
    }
    Ok(children)
}

/// A batch that is one text, with further statements for layouts; `None` if it writes to none.
pub(crate) fn text_batch_of_layouts(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: &Statement,
) -> Result<Option<LayoutWrite>, Refusal> {
    let layouts = engine.cx.snapshot.features.layouts.clone();
    let in_force = analysis.in_force();
    let facts = &statement.facts;
    let mut tables = Vec::with_capacity(facts.inner.len());
    for inner in &facts.inner {
        let named = named_table(inner, in_force);
        if let Some(why) = write_refused(named, &layouts) {
            return Err(Refusal::invalid(why));
        }
        tables.push(named.and_then(|(keyspace, table)| layouts.table(keyspace, table)));
    }
    if tables.iter().all(Option::is_none) {
        return Ok(None);
    }
    let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
    let max = engine.cx.shared.config.limits.request_bytes_max;
    let extended = extend_text(&statement.text, facts, &tables, max)?;
    is_room_for(engine, extended.text.len())?;
    let mut body = arrival.payload().to_vec();
    write::long_string(&mut body, &extended.text);
    let (options, content) = (&asked.options, arrival.content);
    if options.values.named && asked.names.is_none() {
        // Values with names keep their meaning.
        options.write_with_state(content, None, &mut body);
    } else {
        let own = in_order(&options.values, facts, asked.names);
        let own = own.map_err(|why| match tables.iter().flatten().next() {
            Some(table) => unordered(table, why),
            None => Refusal::invalid(why.text(LAYOUTS)),
        })?;
        let values: Option<Vec<_>> = extended.values.iter().map(|at| own.get(*at)).collect();
        let values = values.ok_or(Refusal::invalid(Unordered::Number.text(LAYOUTS)))?;
        let values: Vec<ValueRef<'_>> = values.into_iter().copied().collect();
        if u16::try_from(values.len()).is_err() {
            return Err(Refusal::invalid(TOO_MANY));
        }
        is_room_for(engine, extended.text.len() + bytes_of(&values))?;
        // The keyspace of a QUERY counts, that of an EXECUTE does not.
        let own = options.keyspace.filter(|_| asked.names.is_none());
        options.write_with_values(content, arrival.version, &values, own, &mut body);
    }
    let keyspace = match arrival.opcode {
        Opcode::Execute => in_force.map(Rc::from),
        _ => arrival.keyspace.cloned(),
    };
    let tables = tables.into_iter().flatten().cloned().collect();
    let prepared = Vec::new();
    Ok(Some(LayoutWrite {
        opcode: Opcode::Query,
        body,
        keyspace,
        written: WriteOfLayouts { tables, prepared },
    }))
}

/// A statement of a batch.
struct Child {
    statement: Arc<Statement>,
    /// If its table has layouts.
    planned: Option<LayoutPlan<Statement>>,
}

fn copies_of(planned: &LayoutPlan<Statement>) -> Result<&[CopyWrite<Statement>], Refusal> {
    match &*planned.plan {
        Plan::Write(copies) => Ok(copies),
        Plan::Refused(why) => Err(Refusal::invalid(&**why)),
        Plan::Read(_) | Plan::Table => Err(Refusal::invalid(NOT_READABLE)),
    }
}

fn unordered(table: &LogicalTable, why: Unordered) -> Refusal {
    match why {
        Unordered::Number => Refusal::invalid(why.text(LAYOUTS)),
        Unordered::Names => {
            let LogicalTable { keyspace, name, .. } = table;
            Refusal::invalid(format!("{keyspace}.{name}: {}", why.text(LAYOUTS)))
        }
    }
}

fn finish(
    batch: FanOut<'_>,
    (kind, options): (u8, &Options<'_>),
    keyspace: Option<Rc<str>>,
    arrival: &Arrival<'_>,
) -> Result<LayoutWrite, Refusal> {
    let written = WriteOfLayouts {
        prepared: batch.prepared(),
        tables: batch.tables.clone(),
    };
    let mut body = arrival.payload().to_vec();
    if !batch.write(kind, options, arrival.version, &mut body) {
        return Err(Refusal::invalid(TOO_MANY));
    }
    Ok(LayoutWrite {
        opcode: Opcode::Batch,
        body,
        keyspace,
        written,
    })
}

/// The text of a batch with further statements.
struct Extended {
    text: String,
    /// The value of each marker, as a position among those of the client's own text.
    values: Vec<usize>,
}

/// Puts behind each statement of a batch the same on each layout of its table. `max`: bytes that it may have.
fn extend_text(
    text: &str,
    facts: &Facts,
    tables: &[Option<&Arc<LogicalTable>>],
    max: usize,
) -> Result<Extended, Refusal> {
    let of_inner: usize = facts
        .inner
        .iter()
        .map(|inner| usize::from(inner.markers))
        .sum();
    // Those of USING come first.
    let before = usize::from(facts.markers).checked_sub(of_inner);
    let mut marker = before.ok_or(Refusal::invalid(NOT_READABLE))?;
    let mut extended = Extended {
        text: String::with_capacity(2 * text.len()),
        values: (0..marker).collect(),
    };
    let mut at = 0;
    for (inner, table) in facts.inner.iter().zip(tables) {
        let own = marker..marker + usize::from(inner.markers);
        marker = own.end;
        extended.values.extend(own.clone());
        let end = inner.spans.statement.end;
        let piece = text.get(at..end).ok_or(Refusal::invalid(NOT_READABLE))?;
        extended.text.push_str(piece);
        at = end;
        let Some(table) = table else { continue };
        let is_write = matches!(inner.kind, Kind::Insert | Kind::Update | Kind::Delete);
        let copies = match plan::write(table, text, inner) {
            plan::Write::Copies(copies) if is_write => copies,
            plan::Write::Copies(_) => return Err(Refusal::invalid(NOT_READABLE)),
            plan::Write::Refused(why) => return Err(Refusal::invalid(why)),
        };
        for copy in copies {
            extended.text.push_str("; ");
            extended.text.push_str(&copy);
            extended.values.extend(own.clone());
        }
        if extended.text.len() > max {
            return Err(too_large(extended.text.len(), max));
        }
    }
    extended.text.push_str(text.get(at..).unwrap_or_default());
    Ok(extended)
}
