//! Requests about tables with layouts: a read goes to the layout that reads the fewest rows, a write to
//! all of them. What cannot be done on layouts is refused, and so are all writes while it is not known
//! which layouts there are ([`crate::features::layouts`]).

use std::time::Instant;

use helenus_cql::{Kind, Name};
use helenus_wire::{ExecuteView, Opcode};

use crate::exec::Execution;
use crate::features::layouts::carried::Carried;
use crate::features::layouts::keyspace_rights::keyspace_rights;
use crate::features::layouts::on_layouts::{Instead, OnLayouts, Rewriting};
use crate::features::layouts::read::WRAPPED_LEN;
use crate::features::layouts::reads::read_of_layout;
use crate::features::layouts::refusals::{
    aside_refused, changes_rights, creation_refused, definition, fenced, opaque_refused, rights,
    rights_on, serial_read_refused, truncation, unprepared, write_refused,
};
use crate::features::layouts::writes::{
    batch_of_layouts, serial_read, text_batch_of_layouts, write_of_layouts,
};
use crate::features::layouts::{Layouts, is_rewritten, take_from};
use crate::features::{Arrived, Slot};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::request::ClientRequest;
use crate::rewrite::catalogue::{
    CATALOGUE, CATALOGUE_REFUSED, begins_as_write, is_systems, may_write,
};
use crate::rewrite::fencing::{need, unknown_in_batch};
use crate::rewrite::leases::{Held, Need};
use crate::rewrite::refusal::Refusal;
use crate::rewrite::rewritten::Rewritten;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;
use crate::stats::add;

/// Rewrites a request whose tables have layouts.
#[inline]
pub(in crate::features) fn on_alone(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
    rewritten: &mut Rewritten,
) -> Result<(), Box<Refusal>> {
    match engine.cx().shared.config.layouts.enabled {
        false => Ok(()),
        true => rewrite(engine, request, slot, rewritten),
    }
}

#[inline(never)]
fn rewrite(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
    rewritten: &mut Rewritten,
) -> Result<(), Box<Refusal>> {
    let (arrival, analysis) = (request.arrival, request.analysis);
    if let Some(statement) = request.statement {
        refuse_hidden_table(engine, analysis, statement)?;
    }
    let found = rewrite_on_layouts(engine, arrival, analysis, request.statement);
    let (send_before, form) = found.map_err(Box::new)?;
    rewritten.send_before = send_before;
    if let Some(Rewriting::Read(read)) = &form
        && read.continues
    {
        rewritten.state_begins_at = WRAPPED_LEN;
    }
    if let Some(form) = form {
        slot.keep().layouts = Some(Box::new(OnLayouts::Becomes(form)));
    }
    Ok(())
}

/// Refuses to create a table that would be taken for a layout, and that clients would not see.
fn refuse_hidden_table(
    engine: &Engine,
    analysis: &Analysis<'_>,
    statement: &Statement,
) -> Result<(), Box<Refusal>> {
    if statement.facts.kind != Kind::Ddl {
        return Ok(());
    }
    let keyspace = statement.facts.keyspace.as_ref().map(Name::as_str);
    let keyspace = keyspace.or(analysis.in_force());
    let refused = creation_refused(statement, keyspace, &engine.cx().snapshot);
    refused.map_or(Ok(()), |why| Err(Box::new(Refusal::invalid(why))))
}

fn rewrite_on_layouts(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: Option<&Statement>,
) -> Result<(Option<Instant>, Option<Rewriting>), Refusal> {
    let held = engine.cx().shared.leases.held(engine.now());
    if engine.cx().shared.is_newer_than(&engine.cx().snapshot) {
        engine.adopt_snapshot();
    }
    let layouts = engine.cx().snapshot.features().layouts.clone();
    let kind = match (arrival.opcode, statement) {
        (Opcode::Batch, _) => Kind::Batch,
        (_, Some(statement)) => statement.facts.kind,
        (Opcode::Execute, None) if held.flags.is_none() || !layouts.flagged.is_empty() => {
            let view = ExecuteView::parse(arrival.content, arrival.version);
            return Err(unprepared(view.map_or(&[], |view| view.id)));
        }
        (_, None) => {
            // It may write a table that has no layouts yet.
            return Ok((held.flags, None));
        }
    };
    let table = analysis.table(statement);
    let mut send_before = None;
    let is_serial = analysis.consistency.is_some_and(|of| of.is_serial());
    let may_write = is_write(kind, statement, is_serial);
    let defines = defines(kind, statement);
    let of_facts = || statement.and_then(|s| s.facts.keyspace.as_ref().map(Name::as_str));
    let keyspace = table.map(|(keyspace, _)| keyspace).or_else(of_facts);
    // Types are no tables, and flags are types.
    let in_force = analysis.in_force().filter(|_| kind == Kind::Ddl);
    let keyspace = keyspace.or(in_force);
    if (may_write || kind == Kind::Ddl) && keyspace == Some(CATALOGUE) {
        return Err(Refusal::invalid(CATALOGUE_REFUSED));
    }
    // That is the first table of a batch, which may write others.
    let is_systems = kind != Kind::Batch && table.is_some_and(|(of, _)| is_systems(of));
    // Layouts may need definitions for their table, too.
    if (may_write || defines) && !is_systems {
        let need = need(engine, &layouts.flagged, arrival, analysis, statement);
        send_before = Some(fence(engine, arrival, held, need)?);
    }
    if layouts.is_empty() {
        return Ok((send_before, None));
    }
    if may_write
        && kind != Kind::Select
        && let Some(why) = write_refused(table, &layouts)
    {
        return Err(Refusal::invalid(why));
    }
    let of_table = table.and_then(|(keyspace, table)| layouts.table(keyspace, table));
    refuse_aside(analysis, kind, statement, table, &layouts)?;
    let form = match (kind, statement, of_table) {
        (Kind::Select, _, Some(table)) if is_serial && table.is_derived() => {
            Some(Rewriting::Write(serial_read(arrival, analysis, table)?))
        }
        (Kind::Select, _, Some(table)) if is_serial => {
            return Err(Refusal::invalid(serial_read_refused(table)));
        }
        (Kind::Select, Some(statement), Some(table)) => {
            let need = layouts.flagged.need(Some((&table.keyspace, &table.name)));
            let need = need.max(Need::Catalogue);
            let until = held.until(need);
            let read = read_of_layout(engine, arrival, analysis, statement, table, need, until)?;
            send_before = until.filter(|_| read.is_some());
            read.map(Rewriting::Read)
        }
        (Kind::Insert | Kind::Update | Kind::Delete, Some(statement), Some(table)) => {
            let write = write_of_layouts(engine, arrival, analysis, statement, table)?;
            Some(Rewriting::Write(write))
        }
        (Kind::Batch, Some(statement), _) => {
            let write = text_batch_of_layouts(engine, arrival, analysis, statement)?;
            write.map(Rewriting::Write)
        }
        (Kind::Batch, None, _) => {
            let write = batch_of_layouts(engine, arrival, analysis)?;
            write.map(Rewriting::Write)
        }
        (Kind::Truncate, _, _) => {
            let truncated = truncation(table, &layouts).map_err(Refusal::invalid)?;
            truncated.map(Rewriting::Carried)
        }
        (Kind::Auth, Some(statement), _) => {
            let changed = changed_rights(engine, analysis, statement)?;
            changed.map(Rewriting::Carried)
        }
        (Kind::Ddl, Some(statement), _) => {
            let clock = &engine.cx().shared.features.layouts.clock;
            let now_us = clock.timestamp(engine.cx().since_1970());
            let hint_window = engine.cx().snapshot.nodes().hint_window();
            let defined = definition(statement, table, now_us, hint_window, &layouts);
            defined.map_err(Refusal::invalid)?.map(Rewriting::Carried)
        }
        (Kind::Opaque, Some(statement), _) if may_write => {
            let in_force = analysis.in_force();
            let refused = opaque_refused(&statement.text, table, in_force, &layouts);
            refused.map_or(Ok(None), |why| Err(Refusal::invalid(why)))?
        }
        _ => None,
    };
    if may_write && form.is_some() {
        add(&engine.cx().shared.stats.global.layout_writes, 1);
    }
    Ok((send_before, form))
}

/// How a GRANT or REVOKE is carried out on layouts, too.
fn changed_rights(
    engine: &Engine,
    analysis: &Analysis<'_>,
    statement: &Statement,
) -> Result<Option<Carried>, Refusal> {
    let snapshot = &engine.cx().snapshot;
    let layouts = &snapshot.features().layouts;
    match rights(&statement.text, analysis.in_force(), layouts) {
        Some((table, texts)) => Ok(Some(Carried::layouts_first(table, texts))),
        None => keyspace_rights(&statement.text, snapshot).map_err(Refusal::invalid),
    }
}

/// Refuses what would reach a table and not all of its layouts.
fn refuse_aside(
    analysis: &Analysis<'_>,
    kind: Kind,
    statement: Option<&Statement>,
    table: Option<(&str, &str)>,
    layouts: &Layouts,
) -> Result<(), Refusal> {
    let in_force = analysis.in_force();
    let why = match (kind, statement) {
        (Kind::Auth, Some(statement)) => {
            let on = rights_on(&statement.text, in_force);
            on.and_then(|(keyspace, name)| aside_refused((&keyspace, &name), layouts))
        }
        (Kind::Ddl, _) => table.and_then(|table| aside_refused(table, layouts)),
        _ => None,
    };
    why.map_or(Ok(()), |why| Err(Refusal::invalid(why)))
}

/// Until when a request with this need may be sent.
fn fence(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    held: Held,
    need: Need,
) -> Result<Instant, Refusal> {
    if let Some(until) = held.until(need) {
        return Ok(until);
    }
    // Once it is prepared again, its tables are known.
    Err(match unknown_in_batch(engine, arrival) {
        Some(id) => unprepared(id),
        None => fenced(&engine.cx().shared.leases, need, engine.now()),
    })
}

/// True if a request may write rows.
fn is_write(kind: Kind, statement: Option<&Statement>, is_serial: bool) -> bool {
    match (kind, statement) {
        (Kind::Opaque, Some(statement)) => is_serial || begins_as_write(&statement.text),
        // It may complete a conditional write.
        (Kind::Select, _) => is_serial,
        _ => may_write(kind),
    }
}

/// True if a statement changes a table's definition, or permissions on it.
fn defines(kind: Kind, statement: Option<&Statement>) -> bool {
    match (kind, statement) {
        (Kind::Auth, Some(statement)) => changes_rights(&statement.text),
        _ => kind == Kind::Ddl,
    }
}

/// Makes it the request that is carried out.
#[inline]
pub(in crate::features) fn on_made(request: &mut ClientRequest) {
    if is_rewritten(&request.features) {
        take_form(request);
    }
}

fn take_form(request: &mut ClientRequest) {
    let Some(OnLayouts::Becomes(form)) = take_from(&mut request.features) else {
        return;
    };
    match form {
        // Reads of one partition are not divided.
        Rewriting::Read(mut read) if request.execution.has_not_begun() => {
            let target = read.target.take();
            let (query, mut read) = read.begin(&mut request.query);
            request.query = query;
            read.of_table = target.map(|target| request.retarget(target));
            request.features.keep().layouts = Some(Box::new(OnLayouts::Read(read)));
        }
        // The table is read, for as long as it takes.
        Rewriting::Read(_) => request.query.send_before = None,
        Rewriting::Write(write) => {
            if let Some(Instead { opcode, keyspace }) = write.instead {
                request.query.opcode = opcode;
                request.query.keyspace = keyspace;
            }
            request.query.body = write.body;
            if let Some(followed) = write.followed_by {
                request.execution = Execution::by(*followed);
            }
            request.features.keep().layouts = Some(Box::new(OnLayouts::Write(write.written)));
        }
        Rewriting::Carried(carried) => request.execution = Execution::by(carried),
    }
}

#[cfg(test)]
mod tests;
