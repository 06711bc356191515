//! Requests about tables with encoded columns ([`crate::encodings`]): what is sent in their place, and what
//! their answers become. That happens at the border: what is sent takes the way of any other request.

mod answers;
mod asked;
mod batches;
mod blindness;
mod copies;
mod refusals;
mod stored;
mod values;

pub(crate) use stored::{OnEncoded, Stored};

use std::sync::Arc;

use helenus_cql::Kind;
use helenus_wire::{ExecuteView, Opcode, Version, write};

use self::asked::{Asked, ask_for_columns, with_columns};
use self::refusals::{changes_catalogue, definition_refused, opaque_refused};
use self::values::{NOT_READABLE, made_values, referred};
use crate::arrival::Arrival;
use crate::encodings::EncodedTable;
use crate::encodings::answer::Shown;
use crate::engine::Engine;
use crate::execution::fan_out_write::in_order;
use crate::execution::rewriting::Refusal;
use crate::statement::analysis::Analysis;
use crate::statement::encoded_plan::Plan;
use crate::statement::layout_rules::{CATALOGUE_REFUSED, is_systems};
use crate::statement::prepared::Statement;

impl Engine {
    /// What is sent for a client's request where columns are encoded.
    #[inline]
    pub(crate) fn stored(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Stored, Box<Refusal>> {
        match self.cx.shared.config.payload.enabled {
            false => Ok(Stored::default()),
            true => self
                .find_stored(arrival, analysis, statement)
                .map_err(Box::new),
        }
    }

    #[inline(never)]
    fn find_stored(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Stored, Refusal> {
        // Whoever has renewed the lease has stored the snapshot before.
        let until = self.cx.shared.layouts.until(self.cx.now);
        if self.cx.shared.is_newer_than(&self.cx.snapshot) {
            self.adopt_snapshot();
        }
        let encodings = self.cx.snapshot.encodings.clone();
        let kind = match (arrival.opcode, statement) {
            (Opcode::Batch, _) => Kind::Batch,
            (_, Some(statement)) => statement.facts.kind,
            (_, None) => Kind::Opaque,
        };
        // Of a batch that would be the first of its tables.
        let named = match kind {
            Kind::Batch => None,
            _ => analysis.table(statement.map(|of| &**of)),
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
            return self.stored_prepare(statement, table);
        }
        if !is_about_rows {
            return Ok(Stored::default());
        }
        let Some(until) = until else {
            return Err(Refusal::blind(&self.cx.shared.layouts, self.cx.now));
        };
        let stored = Stored {
            until: Some(until),
            ..Stored::default()
        };
        if arrival.opcode == Opcode::Execute && statement.is_none() {
            // It may be about a table with encoded columns, now or soon.
            let view = ExecuteView::parse(arrival.content, arrival.version);
            return match encodings.is_empty() {
                true => Ok(stored),
                false => Err(Refusal::unprepared_for_encoded(
                    view.map_or(&[], |view| view.id),
                )),
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
                self.stored_statement(stored, arrival, analysis, (of, table))
            }
            (Kind::Batch, None, _) => self.stored_batch(stored, arrival, analysis, &encodings),
            (Kind::Batch, Some(of), _) => {
                self.stored_text_batch(stored, arrival, analysis, (of, &encodings))
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
        &mut self,
        statement: Option<&Arc<Statement>>,
        table: Option<&Arc<EncodedTable>>,
    ) -> Result<Stored, Refusal> {
        let (Some(statement), Some(table)) = (statement, table) else {
            return Ok(Stored::default());
        };
        let planned = statement.encoded_plan(table, &mut self.coding);
        match &*planned.plan {
            Plan::Refused(why) => Err(Refusal::invalid(&**why)),
            Plan::All => Ok(Stored::default().on(table, Shown::ByName)),
            // Its own columns, whatever they are called.
            Plan::AsItCame | Plan::Changed(_) => Ok(Stored::default().on(table, Shown::AsItCame)),
        }
    }

    fn stored_statement(
        &mut self,
        stored: Stored,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (statement, table): (&Arc<Statement>, &Arc<EncodedTable>),
    ) -> Result<Stored, Refusal> {
        let planned = statement.encoded_plan(table, &mut self.coding);
        let facts = &statement.facts;
        let changed = match &*planned.plan {
            Plan::Refused(why) => return Err(Refusal::invalid(&**why)),
            Plan::AsItCame => return Ok(stored.on(table, Shown::AsItCame)),
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
        let values = values.map_err(|why| Refusal::invalid(why.text_of_encoded()))?;
        let made = made_values(&mut self.coding, changed, &values)?;
        let values = referred(changed, &values, &made, arrival.version);
        let prepared = match asked.names {
            Some(_) => self.known_of(arrival.pool, changed),
            None => None,
        };
        let mut body = arrival.payload().to_vec();
        match &prepared {
            Some(prepared) => {
                write::short_bytes(&mut body, &prepared.id);
                if arrival.version == Version::V5 {
                    let id = prepared.result_metadata_id.as_deref();
                    write::short_bytes(&mut body, id.unwrap_or(&[]));
                }
            }
            None => write::long_string(&mut body, &changed.text),
        }
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
}

#[cfg(test)]
mod tests;
