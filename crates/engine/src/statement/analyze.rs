//! Analysis of a client's bytes: statement, place on the ring, and what follows from them.

use std::sync::Arc;

use helenus_wire::{
    BatchChild, BatchView, ExecuteView, Opcode, PrepareView, QueryView, Version, query_flags,
};

use crate::context::Context;
use crate::pipeline::retry::resendable::Resendable;
use crate::statement::Statements;
use crate::statement::analysis::{Analysis, LwtPartition};
use crate::statement::prepared::Statement;
use crate::statement::unread::{Unread, reserve};
use crate::stats::{TableStats, add};

impl Statements {
    /// Parses a request's body behind its payload.
    #[inline]
    pub(crate) fn analyze<'a>(
        &mut self,
        cx: &Context,
        opcode: Opcode,
        content: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Unread> {
        let stats = &cx.shared.stats.global;
        let count = match opcode {
            Opcode::Query => &stats.requests_query,
            Opcode::Execute => &stats.requests_execute,
            Opcode::Batch => &stats.requests_batch,
            _ => &stats.requests_prepare,
        };
        add(count, 1);
        self.analyze_again(cx, opcode, content, version, session)
    }

    /// The analysis of a request that is sent in place of one that was counted.
    #[inline]
    pub(crate) fn analyze_again<'a>(
        &mut self,
        cx: &Context,
        opcode: Opcode,
        content: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Unread> {
        match opcode {
            Opcode::Query => self.analyze_query(cx, content, version, session),
            Opcode::Execute => self.analyze_execute(cx, content, version, session),
            Opcode::Batch => self.analyze_batch(cx, content, version, session),
            _ => self.analyze_prepare(cx, content, version, session),
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
    ) -> Result<Analysis<'a>, Unread> {
        let view = QueryView::parse(body, version)?;
        let keyspace = view.options.keyspace.or(session);
        let _reserved = reserve(cx, [view.text].into_iter())?;
        let statement = self.texts.statement(keyspace, view.text);
        let place = self
            .placer
            .of_text(&statement, keyspace, &view.options.values, &cx.snapshot);
        Ok(Analysis {
            keyspace,
            resendable: statement.resendable(
                &cx.snapshot,
                keyspace,
                &view.options,
                &view.options.values,
            ),
            lwt: statement.facts.lwt,
            statement: Some(statement),
            consistency: Some(view.options.consistency),
            serial_consistency: view.options.serial_consistency,
            place,
            paging_state: view.options.paging_state,
            timestamp_at: view.options.timestamp_at(),
            ..Analysis::default()
        })
    }

    fn analyze_execute<'a>(
        &mut self,
        cx: &Context,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Unread> {
        let view = ExecuteView::parse(body, version)?;
        let consistency = Some(view.options.consistency);
        let serial_consistency = view.options.serial_consistency;
        let skips_metadata = view.options.flags & query_flags::SKIP_METADATA != 0;
        let paging_state = view.options.paging_state;
        let Some(prepared) = self.prepared.get(&cx.shared, view.id) else {
            return Ok(Analysis {
                keyspace: session,
                consistency,
                serial_consistency,
                skips_metadata,
                paging_state,
                ..Analysis::default()
            });
        };
        let place = self
            .placer
            .of_prepared(&prepared, &view.options.values, &cx.snapshot);
        let mut analysis = Analysis {
            keyspace: session,
            resendable: prepared.resendable(&cx.snapshot, &view.options, &view.options.values),
            lwt: prepared.statement.facts.lwt,
            consistency,
            serial_consistency,
            place,
            timestamp_at: view.options.timestamp_at(),
            skips_metadata,
            paging_state,
            ..Analysis::default()
        };
        analysis.note_standing(&prepared);
        analysis.prepared = Some(prepared);
        Ok(analysis)
    }

    fn analyze_batch<'a>(
        &mut self,
        cx: &Context,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Unread> {
        let view = BatchView::parse(body, version)?;
        let keyspace = view.options.keyspace.or(session);
        let mut analysis = Analysis {
            keyspace,
            consistency: Some(view.options.consistency),
            serial_consistency: view.options.serial_consistency,
            resendable: match view.batch_type {
                2 => Resendable::IfNotBegun,
                _ => Resendable::Always,
            },
            descriptions: cx.shared.descriptions(),
            has_own_keyspaces: true,
            ..Analysis::default()
        };
        let texts = view.children.iter().filter_map(|child| match child {
            BatchChild::Text(text, _) => Some(*text),
            BatchChild::Prepared(..) => None,
        });
        let _reserved = reserve(cx, texts)?;
        for (at, child) in view.children.iter().enumerate() {
            let (statement, resendable, place) = match child {
                BatchChild::Text(text, values) => {
                    let statement = self.texts.statement(keyspace, text);
                    analysis.has_own_keyspaces &= statement.facts.keyspace.is_some();
                    let place = (at == 0)
                        .then(|| {
                            self.placer
                                .of_text(&statement, keyspace, values, &cx.snapshot)
                        })
                        .flatten();
                    let resendable =
                        statement.resendable(&cx.snapshot, keyspace, &view.options, values);
                    (statement, resendable, place)
                }
                BatchChild::Prepared(id, values) => {
                    let Some(prepared) = self.prepared.get(&cx.shared, id) else {
                        analysis.resendable = Resendable::IfNotBegun;
                        continue;
                    };
                    analysis.note_standing(&prepared);
                    let place = (at == 0)
                        .then(|| self.placer.of_prepared(&prepared, values, &cx.snapshot))
                        .flatten();
                    let resendable = prepared.resendable(&cx.snapshot, &view.options, values);
                    let statement = prepared.statement.clone();
                    if at == 0 {
                        analysis.prepared = Some(prepared);
                    }
                    (statement, resendable, place)
                }
            };
            analysis.resendable = analysis.resendable.min(resendable);
            analysis.lwt |= statement.facts.lwt;
            if place.is_some() {
                analysis.place = place;
            }
        }
        Ok(analysis)
    }

    fn analyze_prepare<'a>(
        &mut self,
        cx: &Context,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Unread> {
        let view = PrepareView::parse(body, version)?;
        let keyspace = view.keyspace.or(session);
        let _reserved = reserve(cx, [view.text].into_iter())?;
        let statement = self.texts.statement(keyspace, view.text);
        Ok(Analysis {
            keyspace,
            statement: Some(statement),
            resendable: Resendable::Always,
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
