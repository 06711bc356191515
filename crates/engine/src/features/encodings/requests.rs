//! Requests about tables with encoded columns ([`crate::features::encodings`]): what is sent in their place. That happens
//! at the border: what is sent takes the way of any other request.

mod batch;
mod stored;
mod values;

use std::sync::Arc;

use helenus_cql::{Kind, Name};
use helenus_wire::{ExecuteView, Opcode, Options, QueryView, Version, query_flags, write};

use self::batch::stored_batch;
use self::stored::{NOT_READABLE, Stored, known_of};
use self::values::{made_values, referred};
use crate::features::encodings::plan::{Plan, text_batch};
use crate::features::encodings::refusals::{
    ENCODED, blind, changes_catalogue, definition_refused, opaque_refused, truncate_refused,
    unprepared,
};
use crate::features::encodings::shown::Shown;
use crate::features::encodings::{EncodedTable, Encodings, InRead, InRequest, plan_of};
use crate::features::{Arrived, Slot};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::rewrite::catalogue::{CATALOGUE_REFUSED, is_systems};
use crate::rewrite::fencing::{need, unknown_in_batch};
use crate::rewrite::in_order::in_order;
use crate::rewrite::refusal::Refusal;
use crate::rewrite::rewritten::Instead;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::{Prepared, Statement};

/// Puts the encoded form in place of a client's request where columns are encoded.
#[inline]
pub(in crate::features) fn on_admitted(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
    instead: &mut Instead,
) -> Result<(), Box<Refusal>> {
    match engine.cx().shared.config.payload.enabled {
        false => Ok(()),
        true => store(engine, request, slot, instead),
    }
}

#[inline(never)]
fn store(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
    instead: &mut Instead,
) -> Result<(), Box<Refusal>> {
    let (arrival, analysis) = (request.arrival, request.analysis);
    let stored = find_stored(engine, arrival, analysis, request.statement);
    let stored = stored.map_err(Box::new)?;
    slot.encodings = InRead {
        known: stored.known,
    };
    if let encoded @ Some(_) = stored.encoded {
        slot.keep().encodings = InRequest { encoded };
    }
    *instead = Instead {
        until: stored.until,
        sent: stored.sent,
    };
    Ok(())
}

fn find_stored(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: Option<&Statement>,
) -> Result<Stored, Refusal> {
    let held = engine.cx().shared.leases.held(engine.now());
    if engine.cx().shared.is_newer_than(&engine.cx().snapshot) {
        engine.adopt_snapshot();
    }
    let encodings = engine.cx().snapshot.features().encodings.clone();
    let kind = match (arrival.opcode, statement) {
        (Opcode::Batch, _) => Kind::Batch,
        (_, Some(statement)) => statement.facts.kind,
        (_, None) => Kind::Opaque,
    };
    // Of a batch that would be the first of its tables.
    let named = match kind {
        Kind::Batch => None,
        _ => analysis.table(statement),
    };
    if let Some(statement) = statement
        && changes_catalogue(statement, named, analysis.in_force())
    {
        return Err(Refusal::invalid(CATALOGUE_REFUSED));
    }
    let is_about_rows = !matches!(kind, Kind::Use | Kind::Auth | Kind::Describe)
        && !named.is_some_and(|(keyspace, _)| is_systems(keyspace));
    if arrival.opcode == Opcode::Prepare {
        let table = named.and_then(|(keyspace, table)| encodings.table(keyspace, table));
        return stored_prepare(engine, statement, table);
    }
    if !is_about_rows {
        return Ok(Stored::default());
    }
    let need = need(engine, &encodings.flagged, arrival, analysis, statement);
    let Some(until) = held.until(need) else {
        return Err(match unknown_in_batch(engine, arrival) {
            Some(id) => unprepared(id),
            None => blind(&engine.cx().shared.leases, need, engine.now()),
        });
    };
    let stored = Stored {
        until: Some(until),
        ..Stored::default()
    };
    if arrival.opcode == Opcode::Execute && statement.is_none() {
        // It may be about a table with encoded columns, now or soon.
        let view = ExecuteView::parse(arrival.content, arrival.version);
        return match encodings.flagged.is_empty() {
            true => Ok(stored),
            false => Err(unprepared(view.map_or(&[], |view| view.id))),
        };
    }
    let stored = match kind {
        Kind::Select => Stored {
            until: None,
            known: Some(encodings.clone()),
            ..stored
        },
        _ => stored,
    };
    if encodings.is_empty() {
        return Ok(stored);
    }
    let table = named.and_then(|(keyspace, table)| encodings.table(keyspace, table));
    match (kind, statement, table) {
        (Kind::Select | Kind::Insert | Kind::Update | Kind::Delete, Some(of), Some(table)) => {
            stored_statement(engine, stored, arrival, analysis, of, table)
        }
        (Kind::Batch, None, _) => stored_batch(engine, stored, arrival, analysis, &encodings),
        (Kind::Batch, Some(of), _) => {
            stored_text_batch(engine, stored, arrival, analysis, of, &encodings)
        }
        (Kind::Truncate, _, Some(table)) => {
            truncate_refused(table).map_or(Ok(stored), |why| Err(Refusal::invalid(why)))
        }
        (Kind::Ddl, Some(of), Some(table)) => {
            definition_refused(of, table).map_or(Ok(stored), |why| Err(Refusal::invalid(why)))
        }
        (Kind::Opaque | Kind::Ddl, Some(of), _) => {
            let refused = opaque_refused(of, analysis.in_force(), &encodings);
            refused.map_or(Ok(stored), |why| Err(Refusal::invalid(why)))
        }
        _ => Ok(stored),
    }
}

/// A PREPARE goes to a node as it is; what is left out of its answer are columns that clients do not see.
fn stored_prepare(
    engine: &mut Engine,
    statement: Option<&Statement>,
    table: Option<&Arc<EncodedTable>>,
) -> Result<Stored, Refusal> {
    let (Some(statement), Some(table)) = (statement, table) else {
        return Ok(Stored::default());
    };
    let planned = plan_of(statement, table, &mut engine.features_mut().encodings);
    match &*planned.plan {
        Plan::Refused(why) => Err(Refusal::invalid(&**why)),
        Plan::All => Ok(Stored::default().on(table, Shown::ByName)),
        // Its own columns, whatever they are called.
        Plan::PassThrough | Plan::Changed(_) => Ok(Stored::default().on(table, Shown::PassThrough)),
    }
}

fn stored_statement(
    engine: &mut Engine,
    stored: Stored,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: &Statement,
    table: &Arc<EncodedTable>,
) -> Result<Stored, Refusal> {
    let planned = plan_of(statement, table, &mut engine.features_mut().encodings);
    let facts = &statement.facts;
    let changed = match &*planned.plan {
        Plan::Refused(why) => return Err(Refusal::invalid(&**why)),
        Plan::PassThrough => return Ok(stored.on(table, Shown::PassThrough)),
        Plan::All => {
            let sent = with_columns(arrival);
            return Ok(Stored {
                sent,
                ..stored.on(table, Shown::ByName)
            });
        }
        Plan::Changed(changed) => changed,
    };
    let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
    let values = in_order(&asked.options.values, facts, asked.names);
    let values = values.map_err(|why| Refusal::invalid(why.text(ENCODED)))?;
    let made = made_values(&mut engine.features_mut().encodings, changed, &values)?;
    let values = referred(changed, &values, &made, arrival.version);
    let prepared = match asked.names {
        Some(_) => known_of(engine, arrival.pool, changed),
        None => None,
    };
    let mut body = arrival.payload().to_vec();
    Prepared::write_asked(
        prepared.as_deref(),
        &changed.text,
        arrival.version,
        &mut body,
    );
    let keyspace = asked.options.keyspace.filter(|_| asked.names.is_none());
    let begin = body.len();
    let (content, version) = (arrival.content, arrival.version);
    asked
        .options
        .write_with_values(content, version, &values, keyspace, &mut body);
    ask_for_columns(&mut body, begin, version);
    let opcode = match prepared {
        Some(_) => Opcode::Execute,
        None => Opcode::Query,
    };
    Ok(Stored {
        sent: Some((opcode, body)),
        ..stored.on(table, changed.shown.clone())
    })
}

fn stored_text_batch(
    engine: &mut Engine,
    stored: Stored,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: &Statement,
    encodings: &Encodings,
) -> Result<Stored, Refusal> {
    let facts = &statement.facts;
    let in_force = analysis.in_force();
    let tables = facts.inner.iter().map(|inner| {
        let keyspace = inner.keyspace.as_ref().map(Name::as_str).or(in_force)?;
        encodings.table(keyspace, inner.table.as_ref()?.as_str())
    });
    let tables: Vec<_> = tables.collect();
    if tables.iter().all(Option::is_none) {
        return Ok(stored);
    }
    let (text, coding) = (&statement.text, &mut engine.features_mut().encodings);
    let changed = text_batch::<Statement>(&tables, in_force, text, facts, coding);
    let changed = changed.map_err(Refusal::invalid)?;
    let stored = stored
        .on_batch(tables.iter().copied().flatten())
        .unwrap_or_default();
    let Some(changed) = changed else {
        return Ok(Stored {
            sent: with_columns(arrival),
            ..stored
        });
    };
    let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
    let values = in_order(&asked.options.values, facts, asked.names);
    let values = values.map_err(|why| Refusal::invalid(why.text(ENCODED)))?;
    let made = made_values(&mut engine.features_mut().encodings, &changed, &values)?;
    let values = referred(&changed, &values, &made, arrival.version);
    let mut body = arrival.payload().to_vec();
    write::long_string(&mut body, &changed.text);
    // The keyspace of a QUERY counts, that of an EXECUTE does not.
    let own = asked.options.keyspace.filter(|_| asked.names.is_none());
    let begin = body.len();
    let (content, version) = (arrival.content, arrival.version);
    asked
        .options
        .write_with_values(content, version, &values, own, &mut body);
    ask_for_columns(&mut body, begin, version);
    Ok(Stored {
        sent: Some((Opcode::Query, body)),
        ..stored
    })
}

/// A client's request.
struct Asked<'a> {
    options: Options<'a>,
    /// Names of the markers of what is prepared.
    names: Option<&'a [Box<str>]>,
}

impl<'a> Asked<'a> {
    fn of(arrival: &Arrival<'a>, analysis: &'a Analysis<'_>) -> Option<Asked<'a>> {
        let (content, version) = (arrival.content, arrival.version);
        match arrival.opcode {
            Opcode::Query => Some(Asked {
                options: QueryView::parse(content, version).ok()?.options,
                names: None,
            }),
            Opcode::Execute => Some(Asked {
                options: ExecuteView::parse(content, version).ok()?.options,
                names: Some(&analysis.prepared.as_deref()?.names),
            }),
            _ => None,
        }
    }
}

/// A request as it came, but that the columns of its result are asked for; `None` if they are.
fn with_columns(arrival: &Arrival<'_>) -> Option<(Opcode, Vec<u8>)> {
    let (content, version) = (arrival.content, arrival.version);
    let options = match arrival.opcode {
        Opcode::Query => QueryView::parse(content, version).ok()?.options,
        Opcode::Execute => ExecuteView::parse(content, version).ok()?.options,
        _ => return None,
    };
    if options.flags & query_flags::SKIP_METADATA == 0 {
        return None;
    }
    let mut body = arrival.body.to_vec();
    let begin = arrival.payload().len() + options.begins_at();
    ask_for_columns(&mut body, begin, version);
    Some((arrival.opcode, body))
}

/// Takes back that the columns are left out. `begin`: where the options begin.
fn ask_for_columns(body: &mut [u8], begin: usize, version: Version) {
    // Behind the consistency level are one byte of flags until v4, four in v5.
    let last_of_flags = match version {
        Version::V5 => begin + 5,
        _ => begin + 2,
    };
    if let Some(flags) = body.get_mut(last_of_flags) {
        *flags &= !(query_flags::SKIP_METADATA as u8);
    }
}

#[cfg(test)]
mod tests;
