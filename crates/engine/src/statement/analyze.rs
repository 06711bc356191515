//! What a client's bytes ask for: statement, place on the ring, and what follows from them.

use std::sync::Arc;

use helenus_wire::{
    BatchChild, BatchView, Consistency, ExecuteView, Malformed, Opcode, PrepareView, QueryView,
    Version,
};

use crate::context::Context;
use crate::output::Output;
use crate::statement::Statements;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::{TableStats, add};

pub(crate) use self::Analysis as Understood;
pub(crate) use crate::statement::place::Place;

/// What the body of a request tells.
#[derive(Default)]
pub(crate) struct Analysis<'a> {
    /// Keyspace of names without one, but for those in prepared statements.
    pub keyspace: Option<&'a str>,
    pub statement: Option<Arc<Statement>>,
    pub prepared: Option<Arc<Prepared>>,
    pub consistency: Option<Consistency>,
    pub serial_consistency: Option<Consistency>,
    pub place: Option<Place>,
    pub idempotent: bool,
    pub lwt: bool,
    /// Position of the client's default timestamp in the body behind the payload.
    pub timestamp_at: Option<usize>,
}

/// Where conditional writes come in each other's way.
pub(crate) struct LwtPartition<'a> {
    /// Keyspace and table.
    pub table: (&'a str, &'a str),
    /// Its routing key.
    pub key: &'a [u8],
}

impl Analysis<'_> {
    /// Keyspace and table that a request is about, if there is just one.
    pub(crate) fn table<'s>(
        &'s self,
        statement: Option<&'s Statement>,
    ) -> Option<(&'s str, &'s str)> {
        match &self.prepared {
            Some(prepared) => {
                let (keyspace, table) = prepared.table.as_ref()?;
                Some((keyspace, table))
            }
            None => statement?.table(self.keyspace),
        }
    }
}

impl Statements {
    /// Parses a request's body behind its payload.
    pub(crate) fn analyze<'a>(
        &mut self,
        cx: &mut Context,
        opcode: Opcode,
        content: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Malformed> {
        let stats = &cx.shared.stats.global;
        match opcode {
            Opcode::Query => {
                add(&stats.requests_query, 1);
                self.analyze_query(cx, content, version, session)
            }
            Opcode::Execute => {
                add(&stats.requests_execute, 1);
                self.analyze_execute(cx, content, version, session)
            }
            Opcode::Batch => {
                add(&stats.requests_batch, 1);
                self.analyze_batch(cx, content, version, session)
            }
            _ => {
                add(&stats.requests_prepare, 1);
                self.analyze_prepare(content, version, session)
            }
        }
    }

    /// The partition of a conditional write that was analyzed just now.
    pub(crate) fn lwt_partition<'s>(
        &'s self,
        analysis: &'s Analysis<'_>,
        statement: Option<&'s Statement>,
    ) -> Option<LwtPartition<'s>> {
        if !analysis.lwt {
            return None;
        }
        analysis.place.as_ref()?;
        Some(LwtPartition {
            table: analysis.table(statement)?,
            key: self.placer.key(),
        })
    }

    fn analyze_query<'a>(
        &mut self,
        cx: &Context,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Malformed> {
        let view = QueryView::parse(body, version)?;
        let statement = self.texts.statement(view.text);
        let keyspace = view.options.keyspace.or(session);
        let place = self
            .placer
            .of_text(&statement, keyspace, &view.options.values, &cx.snapshot);
        Ok(Analysis {
            keyspace,
            idempotent: statement.idempotent(),
            lwt: statement.facts.lwt,
            statement: Some(statement),
            consistency: Some(view.options.consistency),
            serial_consistency: view.options.serial_consistency,
            place,
            prepared: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn analyze_execute<'a>(
        &mut self,
        cx: &mut Context,
        body: &[u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Malformed> {
        let view = ExecuteView::parse(body, version)?;
        let consistency = Some(view.options.consistency);
        let serial_consistency = view.options.serial_consistency;
        let Some(prepared) = self.prepared.get(&cx.shared, view.id) else {
            if cx.shared.wants_recall(view.id, cx.now) {
                cx.ask(Output::Recall(view.id.into()));
            }
            return Ok(Analysis {
                keyspace: session,
                consistency,
                serial_consistency,
                ..Analysis::default()
            });
        };
        let place = self
            .placer
            .of_prepared(&prepared, &view.options.values, &cx.snapshot);
        Ok(Analysis {
            keyspace: session,
            idempotent: prepared.statement.idempotent(),
            lwt: prepared.statement.facts.lwt,
            consistency,
            serial_consistency,
            place,
            prepared: Some(prepared),
            statement: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn analyze_batch<'a>(
        &mut self,
        cx: &Context,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Malformed> {
        let view = BatchView::parse(body, version)?;
        let keyspace = view.options.keyspace.or(session);
        let mut analysis = Analysis {
            keyspace,
            consistency: Some(view.options.consistency),
            serial_consistency: view.options.serial_consistency,
            idempotent: view.batch_type != 2,
            ..Analysis::default()
        };
        for (at, child) in view.children.iter().enumerate() {
            let (statement, place) = match child {
                BatchChild::Text(text, values) => {
                    let statement = self.texts.statement(text);
                    let place = (at == 0)
                        .then(|| {
                            self.placer
                                .of_text(&statement, keyspace, values, &cx.snapshot)
                        })
                        .flatten();
                    (Some(statement), place)
                }
                BatchChild::Prepared(id, values) => match self.prepared.get(&cx.shared, id) {
                    Some(prepared) => {
                        let place = (at == 0)
                            .then(|| self.placer.of_prepared(&prepared, values, &cx.snapshot))
                            .flatten();
                        if at == 0 {
                            analysis.prepared = Some(prepared.clone());
                        }
                        (Some(prepared.statement.clone()), place)
                    }
                    None => (None, None),
                },
            };
            analysis.idempotent &= statement.as_ref().is_some_and(|s| s.idempotent());
            analysis.lwt |= statement.as_ref().is_some_and(|s| s.facts.lwt);
            if place.is_some() {
                analysis.place = place;
            }
        }
        Ok(analysis)
    }

    fn analyze_prepare<'a>(
        &mut self,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Malformed> {
        let view = PrepareView::parse(body, version)?;
        let statement = self.texts.statement(view.text);
        Ok(Analysis {
            keyspace: view.keyspace.or(session),
            statement: Some(statement),
            idempotent: true,
            ..Analysis::default()
        })
    }

    /// The counters of the table that a request is about, if there is just one.
    pub(crate) fn table_stats(
        &mut self,
        cx: &Context,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
        opcode: Opcode,
    ) -> Option<Arc<TableStats>> {
        if opcode == Opcode::Prepare {
            return None;
        }
        let (keyspace, table) = analysis.table(statement)?;
        self.tables.of(cx, keyspace, table)
    }
}
