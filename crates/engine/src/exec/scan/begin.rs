//! Which scans come in pieces or in parts, and what their client asks for.

use std::sync::Arc;

use helenus_cql::{Name, Op, SelectFacts};
use helenus_policy::ring::ReplicaSets;
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{
    ExecuteView, Header, Opcode, Options, PageStart, QueryView, RowsJoin, Version, flags, page_key,
};

use crate::context::Context;
use crate::exec::Execution;
use crate::exec::scan::aggregate::Aggregate;
use crate::exec::scan::paged::{Flow, PagedScan};
use crate::exec::scan::token_splits::bounds;
use crate::exec::scan::warnings::Warnings;
use crate::rewrite::values::{self, clamp};
use crate::snapshot::Snapshot;
use crate::statement::pieces::comes_in_pieces;
use crate::statement::place::Place;
use crate::statement::prepared::{Prepared, Statement};

/// A scan as its client asks for it.
pub(crate) struct Asking<'a> {
    pub header: Header,
    pub opcode: Opcode,
    /// The body behind its custom payload.
    pub content: &'a [u8],
    pub version: Version,
    pub statement: &'a Statement,
    pub prepared: Option<&'a Prepared>,
    pub keyspace: Option<&'a str>,
}

impl Asking<'_> {
    /// How it comes in pieces or parts, and where it begins; `None` if it must go as it is.
    pub(crate) fn execution(&self, cx: &Context) -> Option<(Execution, Option<Place>)> {
        let select = self.statement.facts.select.as_deref()?;
        let scheduling = &cx.shared.config.scheduling;
        let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
        let table = match self.prepared {
            Some(prepared) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t)),
            None => self.statement.table(self.keyspace),
        };
        let owners = table.and_then(|(keyspace, _)| cx.snapshot.schema().owners(keyspace).cloned());
        let folded = folds(self.statement, select, table, &cx.snapshot);
        if !(scheduling.in_pieces() || scheduling.in_parts())
            || self.header.flags & own != 0
            || !(folded || comes_in_pieces(select))
        {
            return None;
        }
        let options = match self.opcode {
            Opcode::Query => QueryView::parse(self.content, self.version).ok()?.options,
            Opcode::Execute => ExecuteView::parse(self.content, self.version).ok()?.options,
            _ => return None,
        };
        // The node has something to say about that.
        if options.page_size == Some(0) || (folded && options.paging_state.is_some()) {
            return None;
        }
        // A negative one means no paging, as none at all.
        let page_size = options
            .page_size
            .and_then(|size| usize::try_from(size).ok());
        // A node has something to say about that, too. The parts of an aggregate have the client's page size.
        let page_rows_max = cx.snapshot.nodes().page_rows_max();
        if !folded && page_size.is_some_and(|size| size > page_rows_max) {
            return None;
        }
        if !scheduling.in_pieces() && !folded && page_size.is_none() {
            return None;
        }
        let place = self.place(&options, owners.as_ref(), cx);
        let names = self.prepared.map_or(&[][..], |p| &p.names);
        let bounds = bounds(self.statement, &options, names);
        if folded {
            let folds = select.folds.as_slice().into();
            let aggregate = Aggregate::new(folds, page_size, bounds, owners);
            return Some((Execution::by(aggregate), place));
        }
        let limit = select.limit.as_ref();
        let limit =
            limit.and_then(|term| values::limit(term, &options.values, names, self.statement));
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        // On its later pages, the state says what is left of the LIMIT.
        let (limit, remaining) = match options.paging_state.map(PageStart::parse) {
            Some(Ok(start)) => (limit.map(|_| start.remaining as usize), start.remaining),
            _ => (limit, limit.map_or(i32::MAX as u32, clamp)),
        };
        let mut scan = PagedScan {
            flow: Flow::Pieces(None),
            page_size,
            page_rows_max,
            limit,
            state: options.paging_state.map(<[u8]>::to_vec),
            join: RowsJoin::default(),
            warnings: Warnings::default(),
            owners,
            bounds,
            begin: None,
            remaining,
            empty: 0,
            was_cut: false,
            parts_refused: false,
        };
        scan.begin = scan.left();
        Some((Execution::by(scan), place))
    }

    /// Where it begins: at the key of its paging state, at its lower bound, or at the ring's start.
    fn place(
        &self,
        options: &Options<'_>,
        owners: Option<&Arc<ReplicaSets>>,
        cx: &Context,
    ) -> Option<Place> {
        let ring = cx.snapshot.nodes().ring()?;
        let slot = match options.paging_state.and_then(page_key) {
            Some(key) => ring.slot_of_key(key)?,
            None => {
                let names = self.prepared.map_or(&[][..], |p| &p.names);
                let tokens = &self.statement.facts.select.as_deref()?.tokens;
                let is_lower = |op| matches!(op, Op::Greater | Op::GreaterEqual);
                match (tokens.iter().find(|t| is_lower(t.op)), ring.partitioner()) {
                    (None, _) => 0,
                    (Some(bound), Partitioner::Murmur3) => {
                        let bound_values = &options.values;
                        let token =
                            values::token(&bound.term, bound_values, names, self.statement)?;
                        ring.slot(&Token::Murmur3(token.saturating_add(1)))
                    }
                    // A bound in bytes is seldom written as a constant: any node may do it.
                    (Some(_), Partitioner::ByteOrdered) => return None,
                }
            }
        };
        let owners = owners?.clone();
        Some(Place {
            slot,
            token: None,
            owners,
        })
    }
}

/// True if a statement's one row can be had from those of parts.
pub(crate) fn folds(
    statement: &Statement,
    select: &SelectFacts,
    table: Option<(&str, &str)>,
    snapshot: &Snapshot,
) -> bool {
    let may = |(keyspace, table): (&str, &str)| {
        let reversed = |column: &Name| {
            snapshot
                .schema()
                .compares_in_reverse(keyspace, table, column.as_str())
        };
        !snapshot.schema().shadows_folds(keyspace) && !select.extremes_of.iter().any(reversed)
    };
    // Where nothing else is selected, nor anything done with it.
    (select.is_count_rows() || !select.folds.is_empty() && table.is_some_and(may))
        // The value of a function, such as now(), is one for the whole.
        && statement.facts.restricted_by_values()
        && !select.json
        && !select.group_by
        && select.limit.is_none()
        && select.order_by.is_empty()
}
