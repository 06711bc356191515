//! Batches about a table with copies in place of replicas: all that is in one is of one partition of that table, and
//! so one write to each copy.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::Kind;
use helenus_layout::plan::LogicalTable;
use helenus_wire::{BatchChild, BatchView, code};

use crate::arrival::Arrival;
use crate::copy_requests::KEY_UNKNOWN;
use crate::copy_requests::beginning::Ready;
use crate::engine::Engine;
use crate::execution::copied_write::CopiedWrite;
use crate::execution::copied_writes::shares::Share;
use crate::execution::fan_out_write::in_order;
use crate::execution::rewriting::{Refusal, Rewriting};
use crate::execution::sent_batch::SentBatch;
use crate::execution::sent_to_copies::{OwnAsked, Written};
use crate::layout_writes::{Asked, NOT_READABLE, copies_of, named_table, table_of, unordered};
use crate::layouts::Layouts;
use crate::statement::analysis::Analysis;
use crate::statement::copy_rules::{because, in_batch, mixed};
use crate::statement::layout_plan::{CopyWrite, LayoutPlan};
use crate::statement::partitions::Partitions;
use crate::statement::prepared::Statement;
use crate::stats::add;

/// The number of a batch of counters.
const COUNTERS: u8 = 2;
const NO_COUNTERS: &str =
    "a batch of counters cannot be written to them; keep counters in a table of their own";
const OTHER_PARTITION: &str =
    "it is of another partition than those before it: send a batch for each partition";
const OPAQUE: &str = "Helenus does not understand this statement; write it another way";
/// As nodes say it.
const NO_MODIFICATION: &str =
    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.";

impl Engine {
    /// A batch that begins with a table with copies in place of replicas; `None` if it does not. `text`: of one that is
    /// no BATCH.
    pub(crate) fn batch_on_copies(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        text: Option<&Arc<Statement>>,
        layouts: &Layouts,
    ) -> Result<Option<Box<Rewriting>>, Refusal> {
        if layouts.replaced.is_empty() {
            return Ok(None);
        }
        let write = match text {
            Some(text) => self.copied_text(arrival, analysis, text, layouts)?,
            None => self.copied_batch(arrival, analysis, layouts)?,
        };
        Ok(write.map(|write| {
            add(&self.cx.shared.stats.global.layout_writes, 1);
            Box::new(Rewriting::Copied(Box::new(write)))
        }))
    }

    /// A text `BEGIN … APPLY BATCH`, to each copy.
    fn copied_text(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        text: &Arc<Statement>,
        layouts: &Layouts,
    ) -> Result<Option<CopiedWrite>, Refusal> {
        let named = |inner| named_table(inner, analysis.in_force());
        let mut inner = text.facts.inner.iter();
        let Some(table) = inner
            .next()
            .and_then(|first| replaced(named(first), layouts))
        else {
            return Ok(None);
        };
        if let Some(at) = inner.position(|inner| !is_named(named(inner), table)) {
            return Err(Refusal::invalid(in_batch(at + 1, &mixed(table))));
        }
        // Before anything is put together.
        let bytes = arrival.content.len().max(text.text.len());
        self.may_begin(bytes, table.copies.len())?;
        let planned = text.layout_plan(table);
        copies_of(&planned)?;
        let token = self.partition_of_text(arrival, analysis, (text, table))?;
        let write = self.copied_write(arrival, analysis, (text, planned), Some(token))?;
        Ok(Some(write))
    }

    /// A BATCH, to each copy.
    fn copied_batch(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        layouts: &Layouts,
    ) -> Result<Option<CopiedWrite>, Refusal> {
        // Without reading it again, mostly: what is prepared is that of its first statement.
        if let Some(first) = &analysis.prepared
            && replaced(table_of(&first.statement, Some(first), None), layouts).is_none()
        {
            return Ok(None);
        }
        let view = BatchView::parse(arrival.content, arrival.version);
        let view = view.map_err(|_| Refusal::invalid(NOT_READABLE))?;
        let Some(child) = view.children.first() else {
            return Ok(None);
        };
        let (first, prepared) = self.statement_of(child)?;
        let named = table_of(&first, prepared.as_deref(), analysis.keyspace);
        let Some(table) = replaced(named, layouts) else {
            return Ok(None);
        };
        if view.batch_type == COUNTERS {
            return Err(Refusal::invalid(because(table, NO_COUNTERS)));
        }
        if view.batch_type > COUNTERS {
            let why = format!("Invalid BATCH message type {}", view.batch_type);
            return Err(Refusal::new(code::PROTOCOL, why));
        }
        // Before anything is put together.
        self.may_begin(arrival.content.len(), table.copies.len())?;
        let mut batch = SentBatch::default();
        let mut shares: Vec<Rc<Share>> = Vec::new();
        let mut partitions = Partitions::default();
        let mut last: Option<(Arc<Statement>, LayoutPlan<Statement>)> = None;
        for (at, child) in view.children.iter().enumerate() {
            let refuse = |why: &str| Refusal::invalid(in_batch(at, why));
            let (statement, prepared) = self.statement_of(child)?;
            let named = table_of(&statement, prepared.as_deref(), analysis.keyspace);
            if statement.facts.kind == Kind::Opaque {
                return Err(refuse(&because(table, OPAQUE)));
            }
            if !is_named(named, table) {
                return Err(refuse(&mixed(table)));
            }
            if !matches!(
                statement.facts.kind,
                Kind::Insert | Kind::Update | Kind::Delete
            ) {
                return Err(refuse(NO_MODIFICATION));
            }
            // Most batches have one statement many times.
            let planned = match last.take() {
                Some((of, planned)) if Arc::ptr_eq(&of, &statement) => planned,
                _ => {
                    let planned = statement.layout_plan(table);
                    copies_of(&planned).map_err(|why| refuse(&why.text))?;
                    planned
                }
            };
            let (BatchChild::Text(_, bound) | BatchChild::Prepared(_, bound)) = child;
            let ordered = in_order(bound, &statement.facts, None);
            let ordered = ordered.map_err(|why| refuse(&unordered(table, why).text))?;
            let snapshot = &self.cx.snapshot;
            let partition = match &prepared {
                Some(prepared) => partitions.of_prepared(prepared, &ordered, snapshot),
                None => partitions.of_text(&statement.facts, analysis.keyspace, &ordered, snapshot),
            };
            is_first(partition).map_err(|why| refuse(&because(table, why)))?;
            if let Some(prepared) = &prepared
                && !shares
                    .last()
                    .is_some_and(|last| last.is_of(&planned.plan, prepared))
            {
                let memory = &self.cx.memory;
                shares.push(self.copied.share(&planned.plan, prepared, memory));
            }
            batch.push((planned.plan.clone(), prepared.is_some()), &ordered);
            last = Some((statement, planned));
        }
        let token = partitions.tokens().first();
        let token = *token.ok_or_else(|| Refusal::invalid(NOT_READABLE))?;
        let max = self.cx.shared.config.limits.request_bytes_max;
        self.may_begin(batch.request_len(max), table.copies.len())?;
        let purpose = self.purpose((token, arrival.pool), table, view.options.consistency)?;
        for plan in batch.plans_to_prepare() {
            let statements = plan.copies().iter().map(CopyWrite::statement);
            self.prepare_copies(arrival.pool, statements);
        }
        shares.sort_unstable_by_key(Rc::as_ptr);
        shares.dedup_by(|one, other| Rc::ptr_eq(one, other));
        let of = Ready {
            first: &first,
            asked: OwnAsked::Batch(view.statements.into()),
            held: batch.byte_len() + view.statements.len() + size_of_val(&*shares),
            written: Written::Batch(batch),
            shares,
        };
        let write = self.begun((arrival, analysis), purpose, of, (&view.options, &[]));
        Ok(Some(write))
    }

    /// The token of the only partition that the text of a batch is about.
    fn partition_of_text(
        &self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (statement, table): (&Statement, &LogicalTable),
    ) -> Result<i64, Refusal> {
        let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
        let values = in_order(&asked.options.values, &statement.facts, asked.names);
        let values = values.map_err(|why| unordered(table, why))?;
        let in_force = analysis.in_force();
        let mut partitions = Partitions::default();
        for (at, inner) in statement.facts.inner.iter().enumerate() {
            let partition = partitions.of_text(inner, in_force, &values, &self.cx.snapshot);
            is_first(partition)
                .map_err(|why| Refusal::invalid(in_batch(at, &because(table, why))))?;
        }
        let token = partitions.tokens().first();
        token.copied().ok_or_else(|| Refusal::invalid(NOT_READABLE))
    }
}

fn replaced<'l>(
    named: Option<(&str, &str)>,
    layouts: &'l Layouts,
) -> Option<&'l Arc<LogicalTable>> {
    let (keyspace, table) = named?;
    layouts.replaced(keyspace, table)
}

fn is_named(named: Option<(&str, &str)>, table: &LogicalTable) -> bool {
    named == Some((&*table.keyspace, &*table.name))
}

/// Whether a partition is the first one that was found, or why it is not.
fn is_first(partition: Option<usize>) -> Result<(), &'static str> {
    match partition {
        Some(0) => Ok(()),
        Some(_) => Err(OTHER_PARTITION),
        None => Err(KEY_UNKNOWN),
    }
}
