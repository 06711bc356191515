//! Requests about tables with layouts: a read goes to the layout that reads the fewest rows, a write to
//! all of them. What cannot be done on layouts is refused, and so are all writes while it is not known
//! which layouts there are ([`crate::features::layouts`]).

use std::sync::Arc;
use std::time::Instant;

use helenus_cql::{Kind, Name};
use helenus_wire::{ExecuteView, Opcode, code};

use crate::engine::Engine;
use crate::exec::Execution;
use crate::features::layouts::in_sequence::InSequence;
use crate::features::layouts::refusals::{
    CATALOGUE, CATALOGUE_REFUSED, begins_as_write, changes_rights, definition, is_systems,
    may_write, opaque_refused, rights, serial_read_refused, truncate_refused, write_refused,
};
use crate::memory::NO_MEMORY;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::request::ClientRequest;
use crate::rewrite::leases::{Held, Need};
use crate::rewrite::refusal::{OnLayouts, Refusal, Rewriting, Rewritten, SchemaForm};
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;
use crate::stats::add;

impl Engine {
    /// What a request becomes where tables have layouts.
    #[inline]
    pub(crate) fn rewrite(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Rewritten, Box<Refusal>> {
        let config = &self.cx.shared.config;
        let has_layouts = config.layouts.enabled;
        if !(has_layouts || config.payload.enabled) || arrival.opcode == Opcode::Prepare {
            return Ok(Rewritten::default());
        }
        if let Some(statement) = statement {
            if let Some(form) = self.schema_read(arrival, analysis, statement) {
                return Ok(Rewritten {
                    send_before: None,
                    form: Some(Box::new(form)),
                });
            }
            if has_layouts {
                self.refuse_hidden_table(analysis, statement)?;
            }
        }
        if !has_layouts {
            return Ok(Rewritten::default());
        }
        let rewritten = self.rewrite_on_layouts(arrival, analysis, statement);
        rewritten.map_err(Box::new)
    }

    #[inline(never)]
    fn rewrite_on_layouts(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Rewritten, Refusal> {
        let held = self.cx.shared.leases.held(self.cx.now);
        if self.cx.shared.is_newer_than(&self.cx.snapshot) {
            self.adopt_snapshot();
        }
        let layouts = self.cx.snapshot.layouts.clone();
        let kind = match (arrival.opcode, statement) {
            (Opcode::Batch, _) => Kind::Batch,
            (_, Some(statement)) => statement.facts.kind,
            (Opcode::Execute, None) if held.flags.is_none() || !layouts.flagged.is_empty() => {
                let view = ExecuteView::parse(arrival.content, arrival.version);
                return Err(Refusal::unprepared(view.map_or(&[], |view| view.id)));
            }
            (_, None) => {
                // It may write a table that has no layouts yet.
                return Ok(Rewritten {
                    send_before: held.flags,
                    form: None,
                });
            }
        };
        let table = analysis.table(statement.map(|statement| &**statement));
        let mut rewritten = Rewritten::default();
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
        let of = statement.map(|statement| &**statement);
        // What is defined for a table, its layouts may need, too.
        if (may_write || defines) && !is_systems {
            let need = self.need(&layouts.flagged, arrival, analysis, of);
            rewritten.send_before = Some(self.fence(arrival, held, need)?);
        }
        if layouts.is_empty() {
            return Ok(rewritten);
        }
        if may_write
            && kind != Kind::Select
            && let Some(why) = write_refused(table, &layouts)
        {
            return Err(Refusal::invalid(why));
        }
        let of_table = table.and_then(|(keyspace, table)| layouts.table(keyspace, table));
        let form = match (kind, statement, of_table) {
            (Kind::Select, _, Some(table)) if is_serial => {
                return Err(Refusal::invalid(serial_read_refused(table)));
            }
            (Kind::Select, Some(statement), Some(table)) => {
                let need = layouts.flagged.need(Some((&table.keyspace, &table.name)));
                let need = need.max(Need::Catalogue);
                let (of, until) = ((statement, table), held.until(need));
                let read = self.read_of_layout(arrival, analysis, of, (need, until))?;
                rewritten.send_before = until.filter(|_| read.is_some());
                read.map(Rewriting::Read)
            }
            (Kind::Insert | Kind::Update | Kind::Delete, Some(statement), Some(table)) => {
                let write = self.write_of_layouts(arrival, analysis, (statement, table))?;
                Some(Rewriting::Write(write))
            }
            (Kind::Batch, Some(statement), _) => {
                let write = self.text_batch_of_layouts(arrival, analysis, statement)?;
                write.map(Rewriting::Write)
            }
            (Kind::Batch, None, _) => {
                let write = self.batch_of_layouts(arrival, analysis)?;
                write.map(Rewriting::Write)
            }
            (Kind::Truncate, _, Some(table)) => {
                return Err(Refusal::invalid(truncate_refused(table)));
            }
            (Kind::Auth, Some(statement), _) => {
                let of = rights(&statement.text, analysis.in_force(), &layouts);
                of.map(|(table, texts)| Rewriting::InSequence(InSequence::new(table, texts)))
            }
            (Kind::Ddl, Some(statement), _) => {
                let texts = definition(statement, table, &layouts).map_err(Refusal::invalid)?;
                of_table
                    .filter(|_| !texts.is_empty())
                    .map(|table| Rewriting::InSequence(InSequence::new(table.clone(), texts)))
            }
            (Kind::Opaque, Some(statement), _) if may_write => {
                let in_force = analysis.in_force();
                let refused = opaque_refused(&statement.text, table, in_force, &layouts);
                refused.map_or(Ok(None), |why| Err(Refusal::invalid(why)))?
            }
            _ => None,
        };
        if may_write && form.is_some() {
            add(&self.cx.shared.stats.global.layout_writes, 1);
        }
        rewritten.form = form.map(Box::new);
        Ok(rewritten)
    }

    /// Until when a request with this need may be sent.
    fn fence(&mut self, arrival: &Arrival<'_>, held: Held, need: Need) -> Result<Instant, Refusal> {
        if let Some(until) = held.until(need) {
            return Ok(until);
        }
        // Once it is prepared again, its tables are known.
        Err(match self.unknown_in_batch(arrival) {
            Some(id) => Refusal::unprepared(id),
            None => Refusal::fenced(&self.cx.shared.leases, need, self.cx.now),
        })
    }

    /// Tells a client why its request is not carried out.
    pub(crate) fn refuse_rewriting(&mut self, arrival: &Arrival<'_>, refusal: &Refusal) {
        let Refusal { code, text, fields } = refusal;
        let global = &self.cx.shared.stats.global;
        match *code {
            code::OVERLOADED if text == NO_MEMORY => add(&global.requests_overloaded, 1),
            code::OVERLOADED => add(&global.layout_writes_fenced, 1),
            code::INVALID => add(&global.layout_writes_refused, 1),
            _ => {}
        }
        self.refuse_with_fields(arrival, None, (*code, text, fields));
    }
}

/// Whether a request may write rows.
fn is_write(kind: Kind, statement: Option<&Arc<Statement>>, is_serial: bool) -> bool {
    match (kind, statement) {
        (Kind::Opaque, Some(statement)) => is_serial || begins_as_write(&statement.text),
        // It may complete a conditional write.
        (Kind::Select, _) => is_serial,
        _ => may_write(kind),
    }
}

/// Whether a statement changes what a table is, or who may do what with it.
fn defines(kind: Kind, statement: Option<&Arc<Statement>>) -> bool {
    match (kind, statement) {
        (Kind::Auth, Some(statement)) => changes_rights(&statement.text),
        _ => kind == Kind::Ddl,
    }
}

impl ClientRequest {
    /// Makes it the request that is carried out.
    #[inline]
    pub(crate) fn adopt(&mut self, rewritten: Rewritten) {
        self.query.send_before = rewritten.send_before;
        if let Some(form) = rewritten.form {
            self.take_form(*form);
        }
    }

    fn take_form(&mut self, form: Rewriting) {
        match form {
            // Reads of one partition are not divided.
            Rewriting::Read(read) if matches!(self.execution, Execution::Single(None)) => {
                let (query, read) = read.begin(&mut self.query);
                self.query = query;
                self.layouts = Some(Box::new(OnLayouts::Read(read)));
            }
            // The table is read, for as long as it takes.
            Rewriting::Read(_) => self.query.send_before = None,
            Rewriting::Write(write) => {
                self.query.opcode = write.opcode;
                self.query.body = write.body;
                self.query.keyspace = write.keyspace;
                self.layouts = Some(Box::new(OnLayouts::Write(write.written)));
            }
            Rewriting::InSequence(sequence) => {
                self.execution = Execution::InSequence(Box::new(sequence));
            }
            Rewriting::Schema(SchemaForm { read, instead }) => {
                if let Some(body) = instead {
                    self.query.opcode = Opcode::Query;
                    self.query.body = body;
                    self.query.prepared = None;
                }
                self.layouts = Some(Box::new(OnLayouts::Schema(read)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
