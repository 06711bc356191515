//! A page of a scan that filters, read stretch by stretch of the ring.
//!
//! A node that filters reads on until it has found as many rows as it was asked for, which may take it
//! over a whole table, for seconds, whatever the page size. So it is asked for a stretch of the ring at a
//! time, `token(…) > a AND token(…) <= b`, about as long as a piece takes
//! ([`helenus_policy::predict::Pace`]); others can go in between, and a LIMIT that is reached ends it.
//!
//! Each stretch is asked for the rows that are missing from the page. If it has fewer, the next one goes
//! on behind it. The one that fills the page comes with the node's own paging state, which belongs to the
//! client's statement as well, once the rows of the others are taken off what is left of the LIMIT.
//!
//! A scan alone, which nobody would have to overtake, has several under way at once, as a coordinator
//! would. They are used in the order of the ring. One that has more rows than the page has room for by
//! then is asked again, for just these.
//!
//! A stretch that times out is sent again a quarter as long. For other failures see
//! [`crate::exec::retry`]; where stretches are to blame, the page is read again as any other.

use helenus_wire::{RowsView, flags};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Failure, Outcome, Response, Step};
use crate::exec::retry::{Remedy, note_refused, remedy};
use crate::exec::scan::paged::{Flow, PagedScan};
use crate::exec::scan::piece::look_at_partitions;
use crate::exec::scan::plan_parts::{note_table_pace, plan_stretches};
use crate::exec::scan::ring_parts::{Asked, RingParts, skips_metadata};
use crate::exec::scan::stretch_window::{Lacking, Sent, Stretches};
use crate::exec::scan::tail::Tail;
use crate::exec::scan::token_splits::{Stretch, token_of};
use crate::stats::add;

/// How often a stretch is shortened, each time to a quarter: what then still takes too long is one
/// partition, most likely.
const SHORTENED_MAX: u8 = 10;
/// Empty answers with a paging state, one after the other, after which the page is read as any other.
const EMPTY_MAX: u32 = 100;

/// The next step of the page.
enum Next<'a> {
    Wait,
    /// It is complete.
    Done,
    /// It is read as any other.
    Otherwise,
    Failed(Failure<'a>),
    Unwanted,
    NoMemory,
}

/// The use that was made of the answer to the first stretch of the window.
enum Taken {
    /// The next one is the first now.
    Used,
    /// It has been asked for more, or again.
    Asked,
    Done,
    Otherwise,
}

impl PagedScan {
    /// Reads the page stretch by stretch, if that is worth it; false if it must go otherwise.
    pub(in crate::exec) fn begin_stretches(&mut self, cx: &mut ExecContext<'_>) -> bool {
        let (Some(left), Some(bounds)) = (self.left(), self.bounds) else {
            return false;
        };
        let Some(plan) = plan_stretches(cx, left) else {
            return false;
        };
        if self.wanted() == Some(0) || cx.memory().is_full(cx.query.body.len()) {
            return false;
        }
        let asked = Asked {
            page_size: i32::MAX,
            state: None,
            bounds,
            above: left.above,
            owners: self.owners.clone(),
        };
        let mut stretches = Stretches::new(cx, asked, left, &plan);
        if !stretches.send_more(cx, &self.lacking(cx)) {
            stretches.discard(cx, 0);
            return false;
        }
        if !std::mem::replace(&mut self.was_cut, true) {
            add(&cx.engine.shared.stats.global.scans_in_stretches, 1);
        }
        self.flow = Flow::Stretches(Box::new(stretches));
        true
    }

    fn lacking(&self, cx: &ExecContext<'_>) -> Lacking<'_> {
        Lacking {
            state: self.state.as_deref(),
            rows: self.wanted(),
            size: self.rows_to_ask_for(cx),
        }
    }

    /// Rows that are missing, unless they would be more bytes than a piece has.
    fn rows_to_ask_for(&self, cx: &ExecContext<'_>) -> usize {
        let bytes_max = cx.engine.shared.config.scheduling.piece_kib * 1024;
        let wanted = self.wanted().unwrap_or(usize::MAX);
        let learned = cx.learned();
        let most = learned.filter(|learned| learned.pieces().samples() > 0);
        let most = most.map_or(bytes_max / 1_024, |learned| {
            learned.piece_rows(bytes_max, 0)
        });
        let most = most.min(self.page_rows_max);
        wanted.min(most).clamp(1, i32::MAX as usize)
    }

    /// A stretch has been answered or has failed.
    pub(in crate::exec) fn on_stretch<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        number: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        let flow = std::mem::replace(&mut self.flow, Flow::Pieces(None));
        let Flow::Stretches(mut stretches) = flow else {
            self.flow = flow;
            return Step::Wait;
        };
        let next = match outcome {
            Outcome::Answered(response) => {
                self.on_stretch_answered(cx, &mut stretches, number, &response)
            }
            Outcome::Failed(failure) => self.on_stretch_failed(cx, &mut stretches, number, failure),
        };
        match next {
            Next::Wait | Next::Unwanted | Next::NoMemory => {
                self.flow = Flow::Stretches(stretches);
                match next {
                    Next::Unwanted => Step::Unwanted,
                    Next::NoMemory => Step::NoMemory,
                    _ => Step::Wait,
                }
            }
            Next::Done => self.done_in_stretches(cx, &mut stretches),
            Next::Otherwise => {
                stretches.discard(cx, 0);
                self.forget_rows(cx);
                self.send_piece(cx, cx.target.clone())
            }
            Next::Failed(failure) => {
                stretches.discard(cx, 0);
                Step::Failed(failure)
            }
        }
    }

    fn on_stretch_answered(
        &mut self,
        cx: &mut ExecContext<'_>,
        of: &mut Stretches,
        number: u16,
        response: &Response<'_>,
    ) -> Next<'static> {
        let page = RingParts::rows_of(cx, response);
        let (Some(page), Some(learned)) = (page, cx.learned()) else {
            return Next::Otherwise;
        };
        if response.header.flags & flags::WARNING != 0
            && let Some(sent) = of.find(number)
        {
            sent.warnings.note(response.prelude);
        }
        if page.row_count > 0 {
            learned.note_piece(response.service_us, page.row_count, page.byte_len());
            look_at_partitions(cx, &page);
        }
        let end = |sent: &Sent| match page.paging_state {
            Some(state) => token_of(state),
            // It ended by the LIMIT, nobody knows where.
            None if page.row_count >= sent.size => None,
            None => Some(sent.up_to),
        };
        of.note_answer(cx, number, end, response.service_us);
        if !cx.is_wanted {
            return Next::Unwanted;
        }
        let is_first = of.window.front().is_some_and(|sent| sent.number == number);
        if !is_first {
            cx.memory().add(response.content.len());
            if let Some(sent) = of.find(number) {
                sent.content = Some(response.content.to_vec());
            }
            return self.send_more(cx, of);
        }
        let mut taken = self.take_first(cx, of, &page);
        while let Taken::Used = taken {
            let content = of.window.front_mut().and_then(|sent| sent.content.take());
            let Some(content) = content else {
                return self.send_more(cx, of);
            };
            cx.memory().sub(content.len());
            taken = match RowsView::parse(&content) {
                Ok(page) => self.take_first(cx, of, &page),
                Err(_) => Taken::Otherwise,
            };
        }
        match taken {
            Taken::Used | Taken::Asked if cx.memory().is_full(0) => Next::NoMemory,
            Taken::Used | Taken::Asked => Next::Wait,
            Taken::Done => Next::Done,
            Taken::Otherwise => Next::Otherwise,
        }
    }

    fn send_more(&self, cx: &mut ExecContext<'_>, of: &mut Stretches) -> Next<'static> {
        if cx.memory().is_full(0) {
            return Next::NoMemory;
        }
        match of.send_more(cx, &self.lacking(cx)) {
            true => Next::Wait,
            false => Next::Otherwise,
        }
    }

    /// Adds the rows of the first stretch of the window to the page.
    fn take_first(
        &mut self,
        cx: &mut ExecContext<'_>,
        of: &mut Stretches,
        page: &RowsView<'_>,
    ) -> Taken {
        let wanted = self.wanted();
        let Some(first) = of.window.front_mut() else {
            return Taken::Otherwise;
        };
        let fills = wanted.is_some_and(|wanted| page.row_count >= wanted);
        let missing = wanted.unwrap_or(usize::MAX);
        // Nothing comes behind the last row of the LIMIT.
        let ends = fills && self.limit == Some(self.join.row_count() + missing);
        let is_last = first.up_to == of.end;
        let mut page = page.clone();
        if ends && let Some(rows) = page.first_rows(missing) {
            page = page.with_rows(rows, missing);
        } else if fills && (page.row_count > missing || page.paging_state.is_none()) {
            if first.size == missing {
                // It has as many as it was asked for, and yet nothing goes on behind them.
                return match is_last && page.row_count == missing && self.join_first(cx, of, &page)
                {
                    true => Taken::Done,
                    false => Taken::Otherwise,
                };
            }
            // It was asked for more than is missing by now: a page that is full has a paging state.
            first.size = missing;
            return asked(of.send(cx, 0, None));
        }
        if !self.join_first(cx, of, &page) {
            return Taken::Otherwise;
        }
        if fills {
            return Taken::Done;
        }
        let Some(first) = of.window.front_mut() else {
            return Taken::Otherwise;
        };
        if let Some(state) = page.paging_state {
            of.empty = match page.row_count {
                0 => of.empty + 1,
                _ => 0,
            };
            if of.empty > EMPTY_MAX {
                return Taken::Otherwise;
            }
            first.from = token_of(state).unwrap_or(first.from);
            first.state = Some(state.to_vec());
            first.size = self.rows_to_ask_for(cx);
            // The partition at the last token of a stretch may go on.
            if first.from == first.up_to {
                first.from = first.up_to.saturating_sub(1);
            }
            return asked(of.send(cx, 0, None));
        }
        of.window.pop_front();
        if is_last { Taken::Done } else { Taken::Used }
    }

    /// Adds rows of the first stretch of the window to the page, with the warnings of its answer; false if they
    /// have other columns.
    fn join_first(&mut self, cx: &ExecContext<'_>, of: &Stretches, page: &RowsView<'_>) -> bool {
        let joined = self.join_page(cx, page);
        if joined && let Some(first) = of.window.front() {
            self.warnings.extend(&first.warnings);
        }
        joined
    }

    fn on_stretch_failed<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        of: &mut Stretches,
        number: u16,
        failure: Failure<'a>,
    ) -> Next<'a> {
        let mut window = of.window.iter();
        let Some(at) = window.position(|sent| sent.number == number) else {
            return Next::Wait;
        };
        let sent = &mut of.window[at];
        sent.child = None;
        let tokens = sent.left().map_or(0, Stretch::tokens);
        let can_be_shorter = tokens > 1 && sent.shortened < SHORTENED_MAX;
        let remedy = remedy(&failure, sent.retries, can_be_shorter);
        if may_be_in_vain(at, remedy) {
            of.put_back(cx, at);
            return Next::Wait;
        }
        let is_sent = match remedy {
            Remedy::Again => {
                sent.retries += 1;
                add(&cx.engine.shared.stats.global.scan_parts_retried, 1);
                of.send(cx, at, failure.untried)
            }
            Remedy::Halves => {
                add(&cx.engine.shared.stats.global.scan_parts_retried, 1);
                of.shorten(cx, at, (tokens / 4).max(1))
            }
            Remedy::AsItIs => {
                self.parts_refused = !failure.is_unprepared();
                note_refused(cx, &failure);
                false
            }
            Remedy::Nothing => return Next::Failed(failure),
        };
        match is_sent {
            true => Next::Wait,
            false => Next::Otherwise,
        }
    }

    /// The page is complete.
    fn done_in_stretches(&mut self, cx: &mut ExecContext<'_>, of: &mut Stretches) -> Step<'static> {
        of.discard(cx, 0);
        let us = u32::try_from(of.took_us).unwrap_or(u32::MAX);
        note_table_pace(cx, of.passed, us);
        let tail = Tail {
            remaining: self.remaining,
            skip_metadata: of.parts.skip_metadata && skips_metadata(cx.query),
        };
        tail.finish(&mut self.join);
        cx.memory().sub(self.join.held_len());
        let join = std::mem::take(&mut self.join);
        self.done_in_parts(cx, join)
    }
}

/// True if the page may do without a stretch that cannot be had. The stretches before it may fill the
/// page: it fails by the first of the window only, as it would if one went at a time.
fn may_be_in_vain(at: usize, remedy: Remedy) -> bool {
    at > 0 && matches!(remedy, Remedy::AsItIs | Remedy::Nothing)
}

fn asked(is_sent: bool) -> Taken {
    match is_sent {
        true => Taken::Asked,
        false => Taken::Otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fails_by_the_first_of_its_stretches_only() {
        for remedy in [Remedy::AsItIs, Remedy::Nothing] {
            assert!(!may_be_in_vain(0, remedy), "{remedy:?}");
            assert!(may_be_in_vain(1, remedy), "{remedy:?}");
        }
        for remedy in [Remedy::Again, Remedy::Halves] {
            assert!(!may_be_in_vain(1, remedy), "{remedy:?} may help");
        }
    }
}
