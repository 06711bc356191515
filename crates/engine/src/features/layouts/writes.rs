//! Writes on tables with layouts: a single statement, a batch as text, a client's batch.

mod batch;
mod text_batch;
mod timed;

use std::rc::Rc;
use std::sync::Arc;

use helenus_layout::plan::{Copy, LogicalTable};
use helenus_wire::{BatchStatement, ExecuteView, Opcode, Options, QueryView, ValueRef};

pub(crate) use self::batch::batch_of_layouts;
pub(crate) use self::text_batch::text_batch_of_layouts;
use crate::features::layouts::derived::{FollowedWrite, Partitions, Parts};
use crate::features::layouts::fan_out_write::{FanOut, UNLOGGED, known};
use crate::features::layouts::on_layouts::{Instead, LayoutWrite, WriteOfLayouts};
use crate::features::layouts::plan::{CopyWrite, LayoutPlan, Plan};
use crate::features::layouts::plan_of;
use crate::features::layouts::refusals::{LAYOUTS, no_memory, too_large};
use crate::features::layouts::writes::timed::Timed;
use crate::keys::PoolKey;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::rewrite::in_order::{Unordered, in_order};
use crate::rewrite::refusal::Refusal;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::{Prepared, Statement};

const NOT_READABLE: &str = "the request cannot be understood";
const NO_TOKEN: &str = "the table has layouts, and Helenus does not know which partition this is about: name it by = and a \
                        value for each column of the partition key";
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
    statement: &Statement,
    table: &Arc<LogicalTable>,
) -> Result<LayoutWrite, Refusal> {
    let planned = plan_of(statement, table);
    let copies = copies_of(&planned)?;
    let is_compared = is_compared(&planned);
    let timed = Timed::of(engine, arrival, has_derived(table));
    let arrival = &timed.arrival(arrival);
    let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
    let values = in_order(&asked.options.values, &statement.facts, asked.names);
    let values = values.map_err(|why| unordered(table, why))?;
    let is_prepared = asked.names.is_some();
    let mut writes = Writes {
        is_compared,
        ..Writes::default()
    };
    writes.batch.push(asked.statement, values.clone());
    writes.push_copies(engine, table, copies, is_prepared, &values, arrival.pool);
    writes.is_room(engine)?;
    let keyspace = match is_prepared {
        true => None,
        false => arrival.keyspace.cloned(),
    };
    let token = analysis.place.as_ref().and_then(|place| place.token);
    is_known(&writes, &[token])?;
    let written = Partitions::of_one(token);
    let follow = writes.followed_by(engine, arrival, analysis, &asked.options, written)?;
    writes.finish(UNLOGGED, &asked.options, keyspace, arrival, follow)
}

/// A read at SERIAL or LOCAL_SERIAL: it may complete a conditional write of the table.
pub(crate) fn serial_read(
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    table: &Arc<LogicalTable>,
) -> Result<LayoutWrite, Refusal> {
    let token = analysis.place.as_ref().and_then(|place| place.token);
    if token.is_none() {
        return Err(Refusal::invalid(NO_TOKEN));
    }
    let tables = vec![table.clone()];
    let write = FollowedWrite::new(Vec::new(), Partitions::of_one(token), tables.clone());
    let follow = Follow {
        write: Box::new(write),
        prepared: Vec::new(),
    };
    let as_it_came = arrival.body.to_vec();
    Ok(made(None, as_it_came, tables, Vec::new(), Some(follow)))
}

/// Refuses what layouts are to be compared for, if it is not known in which partitions.
fn is_known(writes: &Writes<'_>, tokens: &[Option<i64>]) -> Result<(), Refusal> {
    match writes.is_compared && tokens.iter().any(Option::is_none) {
        true => Err(Refusal::invalid(NO_TOKEN)),
        false => Ok(()),
    }
}

/// Refuses a write that is larger than clients may send, as nodes would not take it, or than there is
/// memory for. Asked before it is put together.
fn is_room_for(engine: &Engine, bytes: usize) -> Result<(), Refusal> {
    let max = engine.cx().shared.config.limits.request_bytes_max;
    if bytes > max {
        return Err(too_large(bytes, max));
    }
    match engine.cx().memory.is_full(bytes) {
        true => Err(no_memory()),
        false => Ok(()),
    }
}

/// What is written: by one request to the table and to what is one mutation with it, and by others that follow.
#[derive(Default)]
struct Writes<'a> {
    batch: FanOut<'a>,
    parts: Parts<'a>,
    /// Layouts that are one mutation with their table.
    copies: usize,
    /// Derived layouts are compared with their tables afterwards.
    is_compared: bool,
}

impl<'a> Writes<'a> {
    /// Adds a statement on each layout: by its id, once the nodes have prepared it.
    fn push_copies(
        &mut self,
        engine: &mut Engine,
        table: &Arc<LogicalTable>,
        copies: &'a [CopyWrite<Statement>],
        is_prepared: bool,
        values: &[ValueRef<'a>],
        pool: PoolKey,
    ) {
        if is_prepared {
            engine.prepare_made(pool, copies.iter().map(CopyWrite::statement));
        }
        for (at, copy) in copies.iter().enumerate() {
            let prepared = known(copy).filter(|_| is_prepared);
            match table.copies.get(at).is_some_and(Copy::is_derived) {
                true => self.parts.push(table, at, copy, prepared, values),
                false => {
                    self.batch.push_copy(copy, prepared, values);
                    self.copies += 1;
                }
            }
        }
        self.batch.note_table(table);
    }

    /// Whether something is to be done once the table has it.
    fn is_followed(&self) -> bool {
        self.is_compared || !self.parts.is_empty()
    }

    /// The tables with which derived layouts are to be compared.
    fn compared(&self) -> Vec<Arc<LogicalTable>> {
        let tables = self.batch.tables.iter();
        let derived = tables.filter(|table| self.is_compared && has_derived(table));
        derived.cloned().collect()
    }

    /// Refuses a write that is larger than clients may send, or than there is memory for.
    fn is_room(&self, engine: &Engine) -> Result<(), Refusal> {
        is_room_for(engine, self.batch.byte_len() + self.parts.byte_len())
    }

    /// The requests that follow, if there are any.
    fn followed_by(
        &mut self,
        engine: &Engine,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        options: &Options<'_>,
        written: Partitions,
    ) -> Result<Option<Follow>, Refusal> {
        if !self.is_followed() {
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.parts);
        let compared = self.compared();
        let follow = follow(engine, arrival, analysis, options, parts, compared, written);
        follow.map(Some)
    }

    /// The request for the table: a batch, if there are layouts of one mutation with it.
    fn finish(
        self,
        kind: u8,
        options: &Options<'_>,
        keyspace: Option<Rc<str>>,
        arrival: &Arrival<'_>,
        follow: Option<Follow>,
    ) -> Result<LayoutWrite, Refusal> {
        let (tables, prepared) = (self.batch.tables.clone(), self.batch.prepared());
        let mut body = arrival.payload().to_vec();
        if self.copies == 0 {
            body.extend_from_slice(arrival.content);
            return Ok(made(None, body, tables, prepared, follow));
        }
        if !self.batch.write(kind, options, arrival.version, &mut body) {
            return Err(Refusal::invalid(TOO_MANY));
        }
        let instead = Some(Instead {
            opcode: Opcode::Batch,
            keyspace,
        });
        Ok(made(instead, body, tables, prepared, follow))
    }
}

/// Requests that follow a write, and what nodes have prepared for them.
struct Follow {
    write: Box<FollowedWrite>,
    prepared: Vec<Arc<Prepared>>,
}

/// The requests of these parts, with the time of the write that they follow.
fn follow(
    engine: &Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    options: &Options<'_>,
    parts: Parts<'_>,
    compared: Vec<Arc<LogicalTable>>,
    written: Partitions,
) -> Result<Follow, Refusal> {
    let prepared = parts.prepared().collect();
    let (snapshot, place) = (&*engine.cx().snapshot, analysis.place.as_ref());
    let (version, keyspace) = (arrival.version, arrival.keyspace);
    let parts = parts.write(options, version, keyspace, snapshot, place);
    let parts = parts.ok_or(Refusal::invalid(TOO_MANY))?;
    let write = Box::new(FollowedWrite::new(parts, written, compared));
    Ok(Follow { write, prepared })
}

/// A write that is sent so, and what follows it.
fn made(
    instead: Option<Instead>,
    body: Vec<u8>,
    tables: Vec<Arc<LogicalTable>>,
    mut prepared: Vec<Arc<Prepared>>,
    follow: Option<Follow>,
) -> LayoutWrite {
    let is_followed = follow.is_some();
    let followed_by = follow.map(|follow| {
        prepared.extend(follow.prepared);
        follow.write
    });
    LayoutWrite {
        instead,
        body,
        written: WriteOfLayouts {
            tables,
            prepared,
            is_followed,
        },
        followed_by,
    }
}

fn has_derived(table: &LogicalTable) -> bool {
    table.copies.iter().any(Copy::is_derived)
}

fn copies_of(planned: &LayoutPlan<Statement>) -> Result<&[CopyWrite<Statement>], Refusal> {
    match &*planned.plan {
        Plan::Write(copies) => Ok(copies),
        Plan::Compared => Ok(&[]),
        Plan::Refused(why) => Err(Refusal::invalid(&**why)),
        Plan::Read(_) | Plan::Table => Err(Refusal::invalid(NOT_READABLE)),
    }
}

fn is_compared(planned: &LayoutPlan<Statement>) -> bool {
    matches!(*planned.plan, Plan::Compared)
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
