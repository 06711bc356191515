//! Aggregates that are computed from those of parts of the ring.
//!
//! The number of parts follows from the number of rows that the statement has gone over before. If that
//! is not known, a sample of the ring is read first: the rest of a small table is then read in one part,
//! that of a large one in many, as soon as the nodes have the statement prepared. An aggregate that fits
//! into one part is sent as it came, and its answer is learned from as well, since tables grow.

mod strategy;

use std::sync::Arc;

use helenus_cql::Fold;
use helenus_policy::ring::ReplicaSets;
use helenus_wire::{RowsJoin, RowsView, code};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Failure, Response, Step};
use crate::exec::retry::{Remedy, note_refused, remedy};
use crate::exec::scan::fold::{fold, rows_counted};
use crate::exec::scan::in_range::{Preparation, prepare_range};
use crate::exec::scan::ring_parts::{Range, RingParts, skips_metadata};
use crate::exec::scan::token_splits::{AGGREGATE_PARTS_MAX, Stretch, cut_aggregate};
use crate::exec::scan::warnings::Warnings;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::Form;
use crate::stats::add;

/// The warning that nodes give about aggregates without a partition key; the parts have at least its token.
const WARNING: &str = "Aggregation query used without partition key";
/// The page size of the parts if the client names none: a node takes its own, which no guardrail is about.
const NO_PAGE_SIZE: i32 = -1;
/// How often a stretch is halved: what then still takes too long is one partition, most likely.
const HALVED_MAX: u8 = 10;

/// Assumed cost of a row that is aggregated but not counted, in microseconds, on top of what a request
/// over no rows may take.
const ROW_US: u32 = 20;
const REQUEST_US: u32 = 20_000;
/// A part that takes longer than this has read more rows than it has counted: a filter drops them.
const COUNTED_US: u32 = 50_000;
/// As `COUNTED_US`, for a part that may have waited for others in its node.
const COUNTED_BESIDE_US: u32 = 1_000_000;

/// The requests that are sent for it.
#[derive(Debug)]
enum Flow {
    /// The client's own request; by this node request, once it has been sent.
    AsItIs(Option<NodeRequestKey>),
    /// Parts of the ring, and what has not been sent yet.
    Parts {
        parts: Box<RingParts>,
        rest: Option<Rest>,
    },
}

/// The part of the ring that has not been sent yet.
#[derive(Debug)]
enum Rest {
    /// A sample will tell how it is to be cut.
    Uncut(Stretch),
    /// The nodes are preparing the statement.
    Cut(Vec<Stretch>),
}

/// Aggregates over many partitions.
#[derive(Debug)]
pub(crate) struct Aggregate {
    /// How the result is made of those of parts, column by column.
    folds: Box<[Fold]>,
    flow: Flow,
    page_size: Option<usize>,
    /// The statement's bounds on the ring.
    bounds: Option<Stretch>,
    owners: Option<Arc<ReplicaSets>>,
    /// True if it has been cut.
    was_cut: bool,
    /// A node has refused a part of it. If the nodes answer the request as it is, its parts are to blame,
    /// else the request itself.
    parts_refused: bool,
}

impl Aggregate {
    pub(in crate::exec) fn new(
        folds: Box<[Fold]>,
        page_size: Option<usize>,
        bounds: Option<Stretch>,
        owners: Option<Arc<ReplicaSets>>,
    ) -> Aggregate {
        Aggregate {
            folds,
            flow: Flow::AsItIs(None),
            page_size,
            bounds,
            owners,
            was_cut: false,
            parts_refused: false,
        }
    }

    /// Sends the client's own request.
    fn send_whole(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let work = cx.whole_scan(self.bounds);
        let sent = cx.send_whole(Form::Own, work, cx.target.clone());
        self.flow = Flow::AsItIs(Some(sent));
        Step::Wait
    }

    /// Sends stretches; if they cannot be expressed, the whole.
    fn launch(&mut self, cx: &mut ExecContext<'_>, stretches: Vec<Stretch>) -> Step<'static> {
        let Flow::Parts { parts, .. } = &mut self.flow else {
            return Step::Wait;
        };
        let ranges = stretches.into_iter().map(|stretch| Range::of(stretch, 0));
        if !parts.launch(cx, ranges.collect()) {
            return self.abandon_parts(cx);
        }
        if !std::mem::replace(&mut self.was_cut, true) {
            add(&cx.engine.shared.stats.global.scans_in_parts, 1);
        }
        Step::Wait
    }

    /// Sends the rest, of which `rows` rows are expected, now or as soon as the nodes have prepared it. A
    /// single part may be a text.
    fn launch_rest(
        &mut self,
        cx: &mut ExecContext<'_>,
        stretches: Vec<Stretch>,
        rows: f64,
    ) -> Step<'static> {
        let Flow::Parts { parts, rest } = &mut self.flow else {
            return Step::Wait;
        };
        let learned = cx.learned();
        parts.expect(rows, stretches.len(), |rows| {
            learned.map_or(1_000, |learned| learned.pieces().work_us(rows))
        });
        let several = stretches.len() > 1;
        if several && prepare_range(cx, Some(cx.key)) == Preparation::UnderWay {
            *rest = Some(Rest::Cut(stretches));
            return Step::Wait;
        }
        parts.adopt_form(cx);
        self.launch(cx, stretches)
    }

    /// All parts that were sent have come back: there may be more to send.
    fn advance(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let Flow::Parts { parts, rest } = &mut self.flow else {
            return Step::Wait;
        };
        let rows = parts.rows;
        let (stretch, learned) = match (&*rest, cx.learned()) {
            (Some(Rest::Uncut(stretch)), Some(learned)) => (*stretch, learned),
            (Some(Rest::Cut(_)), _) => return Step::Wait,
            _ => return self.fold_parts(cx),
        };
        *rest = None;
        let left = self.bounds.unwrap_or(stretch);
        let sampled = (left.tokens() - stretch.tokens()).max(1);
        let density = (rows as f64).max(0.5) / sampled as f64;
        let ring = cx.engine.snapshot.nodes().ring();
        let cut = ring.map(|ring| cut_aggregate(ring, stretch, density, &learned.pieces()));
        let stretches = cut.unwrap_or_else(|| vec![stretch]);
        self.launch_rest(cx, stretches, density * stretch.tokens() as f64)
    }

    fn on_part_answered(
        &mut self,
        cx: &mut ExecContext<'_>,
        index: u16,
        response: Response<'_>,
    ) -> Step<'static> {
        let page = RingParts::rows_of(cx, &response);
        let (Some(page), Some(learned)) = (page, cx.learned()) else {
            return self.abandon_parts(cx);
        };
        if fold(&self.folds, std::slice::from_ref(&page)).is_none() {
            // Values of which only the nodes know the order, or how they add up.
            learned.suspension.begin(cx.engine.now);
            return self.abandon_parts(cx);
        }
        let Flow::Parts { parts, .. } = &mut self.flow else {
            return Step::Wait;
        };
        let beside = match parts.gather.len() > 1 {
            true => Beside::Others,
            false => Beside::Nothing,
        };
        let rows = rows_folded(&self.folds, &page, response.service_us, beside);
        learned.note_piece(response.service_us, rows, page.byte_len());
        parts.keep(cx, index, &page, rows, &response);
        if !cx.is_wanted {
            Step::Unwanted
        } else if cx.memory().is_full(0) {
            self.abandon_parts(cx)
        } else if parts.gather.missing() == 0 {
            self.advance(cx)
        } else if parts.send_unsent(cx) {
            Step::Wait
        } else {
            self.abandon_parts(cx)
        }
    }

    fn on_part_failed<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        index: u16,
        failure: Failure<'a>,
    ) -> Step<'a> {
        let Flow::Parts { parts, .. } = &mut self.flow else {
            return Step::Wait;
        };
        let room = (parts.gather.len() as u64) < AGGREGATE_PARTS_MAX;
        let Some(range) = parts.gather.part_mut(index) else {
            return Step::Wait;
        };
        let halves = range.stretch().and_then(Stretch::halves);
        let can_be_halved = room && range.halved < HALVED_MAX && halves.is_some();
        let sent = match remedy(&failure, range.retries, can_be_halved) {
            Remedy::Again => {
                range.retries += 1;
                parts.send_again(cx, usize::from(index), failure.untried)
            }
            Remedy::Halves => parts.halve(cx, usize::from(index), &failure),
            Remedy::AsItIs => {
                self.parts_refused = !failure.is_unprepared();
                note_refused(cx, &failure);
                false
            }
            Remedy::Nothing => {
                parts.discard(cx, 0);
                self.flow = Flow::AsItIs(None);
                return Step::Failed(failure);
            }
        };
        match sent {
            true => Step::Wait,
            false => self.abandon_parts(cx),
        }
    }

    /// Sends the aggregate as it is.
    fn abandon_parts(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        if let Flow::Parts { parts, .. } = &self.flow {
            parts.discard(cx, 0);
        }
        self.send_whole(cx)
    }

    /// The aggregates of all parts are made into one row.
    fn fold_parts(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let (Flow::Parts { parts, .. }, Some(statement)) = (&self.flow, cx.statement()) else {
            return Step::Wait;
        };
        let pages = parts.gather.contents();
        let pages: Option<Vec<RowsView<'_>>> = pages.map(|p| RowsView::parse(p).ok()).collect();
        let folded = pages.and_then(|pages| {
            let row = fold(&self.folds, &pages)?;
            let mut join = RowsJoin::with_capacity(row.len());
            join.push(&pages.first()?.with_rows(&row, 1)).ok()?;
            Some(join)
        });
        let Some(mut join) = folded else {
            // Values of which only the nodes know the order, or how they add up.
            statement.learned.suspension.begin(cx.engine.now);
            return self.abandon_parts(cx);
        };
        let mut told = Warnings::default();
        parts.warn_of(parts.gather.len(), &mut told);
        let select = statement.facts.select.as_deref();
        if select.is_some_and(|select| select.tokens.is_empty()) {
            told.add_of_statement(WARNING);
        }
        if let Some(stretch) = self.bounds {
            statement.learned.note_density(parts.rows, stretch.tokens());
        }
        if parts.skip_metadata && skips_metadata(cx.query) {
            join.skip_metadata();
        }
        let mut warnings = Vec::new();
        let header_flags = told.write(&mut warnings);
        cx.memory().sub(parts.gather.byte_len());
        self.flow = Flow::AsItIs(None);
        let body = join.into_body(warnings);
        Step::Done { header_flags, body }
    }
}

impl RingParts {
    /// A part was too much for a node: its halves are sent instead, and those of all other parts as
    /// large that no node has yet.
    fn halve(&mut self, cx: &mut ExecContext<'_>, index: usize, failure: &Failure<'_>) -> bool {
        debug_assert_eq!(failure.error.code, code::READ_TIMEOUT);
        let tokens = |range: &Range| range.stretch().map_or(0, Stretch::tokens);
        let sent = self.sent();
        let least = tokens(&self.gather.parts()[index].of);
        let mut halved = vec![index];
        for (at, part) in self.gather.parts().iter().enumerate() {
            if at == index || tokens(&part.of) < least {
                continue;
            }
            let queued = part.child().filter(|child| cx.is_queued(*child));
            if let Some(child) = queued {
                cx.todo.cancel.push(child);
            }
            if queued.is_some() || at >= sent {
                halved.push(at);
            }
        }
        for at in &halved {
            let room = (self.gather.len() as u64) < AGGREGATE_PARTS_MAX;
            let Some(range) = self.gather.part_mut(*at as u16).filter(|_| room) else {
                continue;
            };
            if let Some([first, second]) = range.stretch().and_then(Stretch::halves) {
                let times = range.halved + 1;
                *range = Range::of(first, times);
                self.add(cx, vec![Range::of(second, times)]);
            }
        }
        for at in halved.into_iter().filter(|at| *at < sent) {
            let untried = failure.untried.filter(|_| at == index);
            if !self.send_again(cx, at, untried) {
                return false;
            }
        }
        self.send_unsent(cx)
    }
}

/// Other parts that were under way with one, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Others,
}

/// The rows behind a part's aggregates: those that it counted, or, if that is more, those that the time
/// it took suggests. Only the size of parts and their predicted work depend on it.
fn rows_folded(folds: &[Fold], page: &RowsView<'_>, service_us: u32, beside: Beside) -> usize {
    let in_time = |from_us| (service_us.saturating_sub(from_us) / ROW_US) as usize;
    match (rows_counted(folds, page), beside) {
        (Some(counted), Beside::Nothing) => counted.max(in_time(COUNTED_US)),
        (Some(counted), Beside::Others) => counted.max(in_time(COUNTED_BESIDE_US)),
        (None, _) => in_time(REQUEST_US),
    }
}

#[cfg(test)]
mod tests;
