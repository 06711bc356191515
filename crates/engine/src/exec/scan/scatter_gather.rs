//! A page of a scan, read from several parts of the ring at once.
//!
//! Nearly all of the page is read as parts, each the statement with `token(…) > a AND token(…) <= b` in
//! its text; the rest, from where the parts end, is one more piece, which asks for exactly the rows
//! that are missing. So the page is as full as a node's would be, and ends where that would end. Its
//! paging state is the last piece's, with the rows of the parts taken off what is left of the LIMIT: it
//! belongs to the client's own statement. If a part has more rows than the page has room for, the page
//! keeps the whole parts in front of it ([`crate::exec::scan::front`]); the others are counted as wasted
//! and learned from. Failed parts: [`crate::exec::retry`].
//!
//! In the paper's variants, all nodes are asked at once that are predicted to hold the page, and the last
//! part that is needed is used as far as there is room ([`crate::exec::scan::last_part`]). A further
//! request is only sent if the prediction was too low, or if the page ends within a partition.
//!
//! A part is asked for with the columns' specifications ([`crate::exec::scan::in_range`]): they must be
//! those that came with the client's PREPARE, or it would take the rows for something else.

use helenus_wire::{Page, RowsJoin, RowsView};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Failure, Outcome, Response, Step};
use crate::exec::retry::{Remedy, note_refused, remedy};
use crate::exec::scan::front::{Front, Then, front};
use crate::exec::scan::in_range::{Preparation, prepare_range};
use crate::exec::scan::last_part::beginning;
use crate::exec::scan::paged::{Flow, PagedScan};
use crate::exec::scan::piece::look_at_partitions;
use crate::exec::scan::plan_parts::plan_page;
use crate::exec::scan::ring_parts::{Asked, AtOnce, Range, RingParts, skips_metadata};
use crate::exec::scan::tail::Tail;
use crate::exec::scan::token_splits::Cuts;
use crate::pipeline::node_request::{Form, Prediction};
use crate::rewrite::values::clamp;
use crate::stats::add;

impl RingParts {
    /// The rows of an answer, if they have the columns that the client knows. If not, the columns have changed since the
    /// nodes have prepared the statement over parts of the ring.
    pub(in crate::exec) fn rows_of<'a>(
        cx: &ExecContext<'_>,
        response: &Response<'a>,
    ) -> Option<RowsView<'a>> {
        let page = RowsView::parse(response.content).ok()?;
        if !response.has_rows() {
            return None;
        }
        let known = cx.query.prepared.as_ref();
        let fits = page.new_metadata_id.is_none()
            && known.is_none_or(|known| page.has_metadata(&known.result_metadata));
        if !fits && let Some(statement) = cx.statement() {
            statement.forget_range();
        }
        fits.then_some(page)
    }
}

impl PagedScan {
    /// Reads the page in parts, if that is worth it; false if it must go piece by piece.
    pub(in crate::exec) fn begin_parts(&mut self, cx: &mut ExecContext<'_>) -> bool {
        // A part is asked for the rows of the page. A client that wants no pages may have a larger LIMIT.
        if self.wanted().is_some_and(|rows| rows > self.page_rows_max) {
            return false;
        }
        let Some(cuts) = plan_page(cx, self.wanted(), self.left()) else {
            return false;
        };
        if prepare_range(cx, None) != Preparation::Done {
            return false;
        }
        let Cuts {
            tokens,
            to_end,
            rows,
        } = cuts;
        let (Some(left), Some(bounds)) = (self.left(), self.bounds) else {
            return false;
        };
        let asked = Asked {
            page_size: i32::try_from(self.wanted().unwrap_or(usize::MAX)).unwrap_or(i32::MAX),
            state: self.state.clone(),
            bounds,
            above: left.above,
            owners: self.owners.clone(),
        };
        let mut parts = Box::new(RingParts::new(cx, asked, AtOnce::All));
        let learned = cx.learned();
        parts.expect(rows, tokens.len(), |rows| {
            learned.map_or(1_000, |learned| learned.pieces().work_us(rows))
        });
        let above = |index: usize| index.checked_sub(1).map(|before| tokens[before]);
        let ranges = tokens.iter().enumerate();
        let ranges = ranges.map(|(index, token)| Range::new(above(index), *token));
        if !parts.launch(cx, ranges.collect()) {
            parts.discard(cx, 0);
            return false;
        }
        if !std::mem::replace(&mut self.was_cut, true) {
            add(&cx.engine.shared.stats.global.scans_in_parts, 1);
        }
        self.flow = Flow::Parts { parts, to_end };
        true
    }

    /// A part has been answered or has failed.
    pub(in crate::exec) fn on_part_outcome<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        index: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        match outcome {
            Outcome::Answered(response) => self.on_part_answered(cx, index, response),
            Outcome::Failed(failure) => self.on_part_failed(cx, index, failure),
        }
    }

    fn on_part_answered(
        &mut self,
        cx: &mut ExecContext<'_>,
        index: u16,
        response: Response<'_>,
    ) -> Step<'static> {
        let Some(page) = RingParts::rows_of(cx, &response) else {
            return self.abandon_parts(cx);
        };
        if let Some(learned) = cx.learned() {
            learned.note_piece(response.service_us, page.row_count, page.byte_len());
        }
        look_at_partitions(cx, &page);
        let wanted = self.wanted().unwrap_or(usize::MAX);
        let Flow::Parts { parts, to_end } = &mut self.flow else {
            return Step::Wait;
        };
        parts.keep(cx, index, &page, page.row_count, &response);
        let came = parts.gather.parts().iter().map(|part| part.of.came);
        let front = front(came, wanted, *to_end);
        if !cx.is_wanted {
            return Step::Unwanted;
        }
        if cx.memory().is_full(0) {
            return self.abandon_parts(cx);
        }
        match front {
            Some(front) => self.join_parts(cx, front, wanted),
            None => Step::Wait,
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
        let Some(range) = parts.gather.part_mut(index) else {
            return Step::Wait;
        };
        match remedy(&failure, range.retries, false) {
            Remedy::Again => {
                range.retries += 1;
                match parts.send_again(cx, usize::from(index), failure.untried) {
                    true => Step::Wait,
                    false => self.abandon_parts(cx),
                }
            }
            Remedy::AsItIs => {
                self.parts_refused = !failure.is_unprepared();
                note_refused(cx, &failure);
                self.abandon_parts(cx)
            }
            Remedy::Nothing if failure.is_of_overload() => {
                parts.discard(cx, 0);
                self.flow = Flow::Pieces(None);
                Step::Failed(failure)
            }
            Remedy::Halves | Remedy::Nothing => self.abandon_parts(cx),
        }
    }

    /// Reads the page as any other.
    fn abandon_parts(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        if let Flow::Parts { parts, .. } = &self.flow {
            parts.discard(cx, 0);
        }
        self.send_piece(cx, cx.target.clone())
    }

    /// Makes a page of the parts at its front.
    fn join_parts(
        &mut self,
        cx: &mut ExecContext<'_>,
        Front { parts: count, then }: Front,
        wanted: usize,
    ) -> Step<'static> {
        let flow = std::mem::replace(&mut self.flow, Flow::Pieces(None));
        let Flow::Parts { parts, .. } = flow else {
            return Step::Wait;
        };
        if let Some(learned) = cx.learned() {
            learned
                .spread
                .note_expected(parts.rows, parts.expected_of_those());
        }
        let tail = Tail {
            remaining: self.remaining,
            skip_metadata: parts.skip_metadata && skips_metadata(cx.query),
        };
        let mut join = RowsJoin::with_capacity(parts.gather.byte_len());
        let (mut used, mut then) = (0, then);
        for content in parts.gather.contents().take(count) {
            let page = RowsView::parse(content);
            if !page.is_ok_and(|page| join.push(&page).is_ok()) {
                then = Then::Rows;
                break;
            }
            used += 1;
        }
        if used == count && then == Then::Rows && is_as_published(cx) {
            then = self.use_beginning(cx, &parts, &mut join, used, wanted);
            used += usize::from(then != Then::Rows);
        }
        parts.warn_of(used, &mut self.warnings);
        parts.discard(cx, used);
        match then {
            Then::End => {
                tail.finish(&mut join);
                self.done_in_parts(cx, join)
            }
            Then::Engine => {
                tail.finish(&mut join);
                self.go_on_behind(cx, join, wanted)
            }
            Then::Rows => {
                // Not even the first part, which may begin within a partition: as any other page.
                let Some(last) = usize::checked_sub(used, 1) else {
                    return self.send_piece(cx, cx.target.clone());
                };
                let above = parts.gather.parts()[last].of.up_to;
                self.send_tail(cx, &parts, join, tail, above)
            }
        }
    }

    /// Takes the rows that are missing from the part behind those that have been used, if that has enough.
    fn use_beginning(
        &self,
        cx: &ExecContext<'_>,
        parts: &RingParts,
        join: &mut RowsJoin,
        used: usize,
        wanted: usize,
    ) -> Then {
        let page = parts.gather.contents_of(used);
        let Some(page) = page.and_then(|content| RowsView::parse(content).ok()) else {
            return Then::Rows;
        };
        let missing = wanted.saturating_sub(join.row_count());
        let ends = clamp(wanted) >= self.remaining;
        let Some(beginning) = beginning(cx, &page, missing, ends) else {
            return Then::Rows;
        };
        let rows = page.with_rows(beginning.bytes, missing);
        if join.push(&rows).is_err() {
            return Then::Rows;
        }
        join.set_paging_state(beginning.state);
        Then::Engine
    }

    /// A page's rows are complete, or the client's statement goes on behind them, piece by piece.
    fn go_on_behind(
        &mut self,
        cx: &mut ExecContext<'_>,
        join: RowsJoin,
        wanted: usize,
    ) -> Step<'static> {
        if join.row_count() >= wanted || join.paging_state().is_none() {
            return self.done_in_parts(cx, join);
        }
        cx.memory().add(join.held_len());
        self.state = join.paging_state().map(<[u8]>::to_vec);
        self.join = join;
        self.go_on(cx)
    }

    /// Asks for the rows that are missing behind the parts.
    fn send_tail(
        &mut self,
        cx: &mut ExecContext<'_>,
        parts: &RingParts,
        join: RowsJoin,
        tail: Tail,
        above: i64,
    ) -> Step<'static> {
        let wanted = self.wanted().unwrap_or(usize::MAX);
        let size = i32::try_from(wanted - join.row_count().min(wanted)).unwrap_or(i32::MAX);
        let page = Page { size, state: None };
        let Some(body) = parts.range_body(cx, Some(above), None, page) else {
            return self.send_piece(cx, cx.target.clone());
        };
        cx.memory().add(join.held_len());
        self.join = join;
        let rows = self.wanted().map_or(u32::MAX, clamp);
        let learned = cx.learned();
        let work_us = learned.map_or(1_000, |learned| learned.pieces().work_us(rows));
        let work = Prediction::Piece {
            work_us,
            piece_us: work_us,
            rows,
            expected: rows,
        };
        let form = Form::Other(Box::new(parts.query(cx, body)));
        let target = parts.behind(cx, above);
        self.flow = Flow::Tail(cx.send_whole(form, work, target), tail);
        Step::Wait
    }
}

/// True if pages are read in parts as in the paper.
fn is_as_published(cx: &ExecContext<'_>) -> bool {
    cx.engine.shared.config.scheduling.order().parallel()
}
