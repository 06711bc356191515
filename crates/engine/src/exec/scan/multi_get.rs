//! A read with `IN` on the partition key, asked of the owners of its keys at once.
//!
//! A coordinator reads the keys of an `IN` one after the other when the client pages (drivers do),
//! and asks another node for each that it does not own. Here each owner is asked for its own keys by
//! the same prepared statement, and the rows are merged. Only where all of them make up less than a
//! page: then a node, too, would send them at once and say that there are no more. Whatever goes wrong
//! otherwise, the statement is sent as it came.

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{Opcode, Page, RowsView, flags, write_execute};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Outcome, Response, Step};
use crate::exec::scan::gather::Gather;
use crate::exec::scan::owners_of_keys::owners_of_all;
use crate::exec::scan::ring_parts::skips_metadata;
use crate::exec::scan::token_splits::options;
use crate::exec::scan::warnings::Warnings;
use crate::exec::strategy::Strategy;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::{Prediction, Target};
use crate::pipeline::query::Query;
use crate::pipeline::retry::resendable::Resendable;
use crate::rewrite::values;
use crate::stats::add;

/// Bytes that may be hashed once more for each key, over all keys of a read.
const COMMON_BYTES_MAX: usize = 4 << 20;
/// More keys are not looked at one by one: other clients would have to wait for that.
const KEYS_MAX: usize = 10_000;

/// The reads that one was split into.
#[derive(Debug)]
pub(crate) struct MultiGet {
    gather: Gather<()>,
    /// Keys of all of them.
    keys: usize,
    page_size: Option<usize>,
    limit: Option<usize>,
    skip_metadata: bool,
    warnings: Warnings,
}

/// How a read of several keys is to be sent.
pub(in crate::exec) enum Spread {
    /// As it came.
    No,
    /// The same, to the node that has all of its keys.
    OneNode(NodeIndex),
    Nodes(Box<MultiGet>),
}

/// How a read is to be split.
struct Planned {
    /// The body of each EXECUTE, in the nodes' version, and where it goes.
    reads: Vec<(NodeIndex, Vec<u8>)>,
    keys: usize,
    page_size: Option<usize>,
    limit: Option<usize>,
    skip_metadata: bool,
}

impl MultiGet {
    /// Asks the owners of a read's keys, if that is worth it.
    pub(in crate::exec) fn begin(cx: &mut ExecContext<'_>) -> Spread {
        let Some(planned) = plan(cx) else {
            return Spread::No;
        };
        if let [(node, _)] = planned.reads.as_slice() {
            return Spread::OneNode(*node);
        }
        let bytes: usize = planned.reads.iter().map(|(_, body)| body.len()).sum();
        if cx.memory().is_full(bytes) {
            return Spread::No;
        }
        add(&cx.engine.shared.stats.global.reads_by_owner, 1);
        let mut gather = Gather::default();
        for (index, (node, body)) in planned.reads.into_iter().enumerate() {
            let own = cx.query;
            let query = Query {
                prepared: own.prepared.clone(),
                statement: own.statement.clone(),
                table: own.table.clone(),
                pool: own.pool,
                class: Class::Multi,
                resendable: Resendable::Always,
                consistency: own.consistency,
                ..Query::new(Opcode::Execute, cx.engine.snapshot.version(), body)
            };
            gather.push(());
            let child = cx.send_part(index as u16, query, Prediction::Learned, Target::At(node));
            gather.sent(index, child);
        }
        Spread::Nodes(Box::new(MultiGet {
            gather,
            keys: planned.keys,
            page_size: planned.page_size,
            limit: planned.limit,
            skip_metadata: planned.skip_metadata,
            warnings: Warnings::default(),
        }))
    }

    /// One of the reads has been answered, or never will be.
    fn take_in<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        index: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        let response = match outcome {
            // The statement is the client's own: it hears that its columns have changed.
            Outcome::Failed(failure) if failure.is_of_overload() || failure.is_unprepared() => {
                return Step::Failed(failure);
            }
            Outcome::Answered(response) if response.has_rows() => response,
            Outcome::Answered(_) | Outcome::Failed(_) => return Step::Whole,
        };
        let Some(prepared) = &cx.query.prepared else {
            return Step::Whole;
        };
        let learned = &prepared.statement.learned;
        learned.note_answer(response.content.len(), response.service_us);
        match RowsView::parse(response.content) {
            Ok(page) if page.paging_state.is_some() => {
                learned.keys.note(self.keys, false);
                return Step::Whole;
            }
            Ok(page) if page.has_metadata(&prepared.result_metadata) => {}
            _ => return Step::Whole,
        }
        self.keep(cx, index, &response);
        if !cx.is_wanted {
            Step::Unwanted
        } else if cx.memory().is_full(0) {
            Step::Whole
        } else if self.gather.missing() == 0 {
            self.merge(cx)
        } else {
            Step::Wait
        }
    }

    fn keep(&mut self, cx: &ExecContext<'_>, index: u16, response: &Response<'_>) {
        if !self.gather.keep(index, response.content) {
            return;
        }
        cx.memory().add(response.content.len());
        if response.header.flags & flags::WARNING != 0 {
            self.warnings.note(response.prelude);
        }
    }

    /// Drops the answers that have come. Those still to come are for nobody.
    fn abandon(&self, cx: &mut ExecContext<'_>) {
        cx.memory().sub(self.gather.byte_len());
        cx.cancel_queued(&self.gather.children());
    }

    fn merge(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let Some(prepared) = &cx.query.prepared else {
            return Step::Whole;
        };
        let pages = self.gather.contents();
        let pages: Option<Vec<RowsView<'_>>> = pages.map(|p| RowsView::parse(p).ok()).collect();
        let Some(pages) = pages else {
            return Step::Whole;
        };
        let learned = &prepared.statement.learned;
        let limit = self.limit.unwrap_or(usize::MAX);
        let rows: usize = pages.iter().map(|page| page.row_count).sum();
        // A full page may have a next one, unless the LIMIT is reached on it.
        let fitted = self
            .page_size
            .is_none_or(|size| rows < size || limit <= size);
        learned.keys.note(self.keys, fitted);
        if !fitted {
            return Step::Whole;
        }
        let in_keys = prepared.in_keys.as_ref();
        let Some(mut join) = in_keys.and_then(|in_keys| in_keys.merge(&pages, limit)) else {
            learned.suspension.begin(cx.engine.now);
            return Step::Whole;
        };
        if self.skip_metadata && skips_metadata(cx.query) {
            join.skip_metadata();
        }
        let mut warnings = Vec::new();
        let header_flags = self.warnings.write(&mut warnings);
        let body = join.into_body(warnings);
        Step::Done { header_flags, body }
    }
}

impl Strategy for MultiGet {
    fn on_part<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        part: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        let step = self.take_in(cx, part, outcome);
        if matches!(step, Step::Whole) {
            self.abandon(cx);
        }
        step
    }

    fn children(&self) -> Vec<NodeRequestKey> {
        self.gather.children()
    }

    fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        self.gather.awaits(part, child)
    }

    fn name(&self) -> &'static str {
        "by owner"
    }

    fn byte_len(&self) -> usize {
        self.gather.byte_len()
    }
}

/// How a read is split, if that is worth it.
fn plan(cx: &ExecContext<'_>) -> Option<Planned> {
    let (query, snapshot) = (cx.query, &cx.engine.snapshot);
    let prepared = query.prepared.as_ref()?;
    let in_keys = prepared.in_keys.as_ref()?;
    let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
    if !cx.engine.shared.config.scheduling.in_parts()
        || query.opcode != Opcode::Execute
        || query.header_flags & own != 0
        || query.consistency.is_serial()
        || prepared
            .statement
            .learned
            .suspension
            .is_in_force(cx.engine.now)
    {
        return None;
    }
    let (options, skip_metadata) = options(query)?;
    // An error about a page size of 0 is for the node to give.
    if options.paging_state.is_some() || options.page_size == Some(0) {
        return None;
    }
    let select = prepared.statement.facts.select.as_deref()?;
    let limit = match &select.limit {
        Some(term) => {
            let limit = values::limit(term, &options.values, &prepared.names, &prepared.statement)?;
            Some(usize::try_from(limit).ok().filter(|limit| *limit > 0)?)
        }
        None => None,
    };
    let values = in_keys.values(&options.values)?;
    let number = values.len();
    if !(2..=KEYS_MAX).contains(&number) || !prepared.statement.learned.keys.fit(number) {
        return None;
    }
    let mut partition = Vec::new();
    let owners = snapshot.schema().owners(&prepared.table.as_ref()?.0)?;
    let ring = snapshot.nodes().ring()?;
    let key = in_keys.key(&options.values)?;
    if key.common_len().saturating_mul(values.len()) > COMMON_BYTES_MAX {
        return None;
    }
    let replicas = values.iter().map(|value| {
        let known = key.write(value, &mut partition);
        let slot = known.then(|| ring.slot_of_key(&partition)).flatten()?;
        Some(owners.of_slot(slot))
    });
    let replicas: Vec<&[NodeIndex]> = replicas.collect::<Option<_>>()?;
    let page_size = options.page_size.filter(|size| *size > 0);
    let page = Page {
        size: page_size.unwrap_or(i32::MAX),
        state: None,
    };
    let ids = prepared.ids();
    let groups = owners_of_all(cx, &replicas)?;
    let reads = groups.into_iter().map(|(node, members)| {
        let only: Vec<&[u8]> = members.iter().map(|at| values[*at]).collect();
        let (mut list, mut body) = (Vec::new(), Vec::new());
        let bound = in_keys.bind(&options.values, &only, &mut list);
        write_execute(ids, &options, &bound, page, snapshot.version(), &mut body);
        (node, body)
    });
    Some(Planned {
        reads: reads.collect(),
        keys: values.len(),
        page_size: page_size.and_then(|size| usize::try_from(size).ok()),
        limit,
        skip_metadata,
    })
}
