//! Reads of many partitions, in pieces.
//!
//! A node cannot be told to stop a scan, but it can be asked for less: the proxy asks for a few rows
//! at a time, by the paging of the protocol itself, and joins the pages into the one that the client
//! asked for. Between two pieces others may go first. LIMIT, PER PARTITION LIMIT, DISTINCT and
//! filters keep their meaning, since the node counts on across pages, and the paging state that the
//! client gets is the node's own.

mod strategy;

use std::sync::Arc;

use helenus_policy::ring::ReplicaSets;
use helenus_wire::{JoinedBody, RowsJoin, RowsView, flags, page_key};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Failure, Outcome, Response, Step};
use crate::exec::scan::piece::{Partitions, look_at_partitions, partitions_of};
use crate::exec::scan::plan_parts::note_table_pace;
use crate::exec::scan::ring_parts::RingParts;
use crate::exec::scan::stretch_window::Stretches;
use crate::exec::scan::tail::Tail;
use crate::exec::scan::token_splits::{Stretch, token_of};
use crate::exec::scan::warnings::Warnings;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::{Form, Prediction, Target};
use crate::rewrite::values::clamp;
use crate::statement::learned::Learned;
use crate::statement::place::Place;

/// Rows of the first piece of a statement whose rows are not known yet, at most, and their size.
const ROWS_AT_FIRST: usize = 100;
const ROW_BYTES_AT_FIRST: usize = 1_024;
/// As `ROWS_AT_FIRST`, for a scan alone whose client names a page size.
const ROWS_ALONE: usize = 10_000;
/// As `ROWS_AT_FIRST`, if the size of the table is known: at least, however large its partitions are, and at most.
const ROWS_OF_ANY_SIZE: usize = 10;
const ROWS_OF_KNOWN_SIZE: usize = 500;
/// Every piece costs a node something beside its rows. So pieces are larger by this where at most other
/// scans would have to wait for them.
const AMONG_SCANS: usize = 2;
/// So many pieces without rows, one after the other, are what a client gets to see. It would see each of
/// them from a node.
const EMPTY_MAX: u32 = 1_000;

/// The requests that are sent for a page.
#[derive(Debug)]
pub(in crate::exec) enum Flow {
    /// A few rows at a time; by this node request, once there is one.
    Pieces(Option<NodeRequestKey>),
    /// Parts of the ring.
    Parts {
        parts: Box<RingParts>,
        /// True if the last part goes to the end of what the statement asks for.
        to_end: bool,
    },
    /// The rows that are missing behind the parts, by this node request.
    Tail(NodeRequestKey, Tail),
    /// Stretches of the ring, one after the other.
    Stretches(Box<Stretches>),
    /// The client's own request, by this node request: a node has refused a piece.
    AsItIs(NodeRequestKey),
}

/// A page of a scan that is under way.
#[derive(Debug)]
pub(crate) struct PagedScan {
    pub(in crate::exec) flow: Flow,
    /// Rows that the client wants in this page; `None`: all.
    pub(in crate::exec) page_size: Option<usize>,
    /// Rows of a page that all nodes take without a word.
    pub(in crate::exec) page_rows_max: usize,
    /// Rows that the statement wants in all, if it says so.
    pub(in crate::exec) limit: Option<usize>,
    /// Where the next piece begins.
    pub(in crate::exec) state: Option<Vec<u8>>,
    pub(in crate::exec) join: RowsJoin,
    pub(in crate::exec) warnings: Warnings,
    pub(in crate::exec) owners: Option<Arc<ReplicaSets>>,
    /// The statement's bounds on the ring.
    pub(in crate::exec) bounds: Option<Stretch>,
    /// The stretch that was left when the page began.
    pub(in crate::exec) begin: Option<Stretch>,
    /// Rows left of the statement's LIMIT, or of 2³¹ − 1, when the page began.
    pub(in crate::exec) remaining: u32,
    /// Pieces without rows, one after the other.
    pub(in crate::exec) empty: u32,
    /// True if it has been cut.
    pub(in crate::exec) was_cut: bool,
    /// A node has refused a part of it. If the nodes answer the request as it is, its parts are to blame,
    /// else the request itself.
    pub(in crate::exec) parts_refused: bool,
}

/// The next piece: the rows that it asks for, and their predicted cost.
struct Planned {
    rows: usize,
    work: Prediction,
}

impl PagedScan {
    /// Asks for the next piece.
    pub(in crate::exec) fn send_piece(
        &mut self,
        cx: &mut ExecContext<'_>,
        target: Target,
    ) -> Step<'static> {
        let Planned { rows, work } = self.plan_piece(cx);
        let form = Form::Piece {
            size: i32::try_from(rows).unwrap_or(i32::MAX),
            state: self.state.clone(),
        };
        self.flow = Flow::Pieces(Some(cx.send_whole(form, work, target)));
        Step::Wait
    }

    /// Asks for the piece behind the rows that have come, where that is kept.
    pub(in crate::exec) fn go_on(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        if !cx.is_wanted {
            return Step::Unwanted;
        }
        let target = Target::of(self.place_of_state(cx));
        self.send_piece(cx, target)
    }

    /// Where the key of the paging state is kept.
    fn place_of_state(&self, cx: &ExecContext<'_>) -> Option<Place> {
        let ring = cx.engine.snapshot.nodes().ring()?;
        Some(Place {
            slot: ring.slot_of_key(page_key(self.state.as_deref()?)?)?,
            token: None,
            owners: self.owners.clone()?,
        })
    }

    /// Decides how many rows to ask for next, and predicts the work.
    fn plan_piece(&self, cx: &ExecContext<'_>) -> Planned {
        let scheduling = &cx.engine.shared.config.scheduling;
        let learned = cx.learned();
        let known = learned.map(Learned::pieces);
        let others = cx.others_lately();
        let larger = if others { 1 } else { AMONG_SCANS };
        let alone = !others && !cx.scans_about();
        let bytes_max = scheduling.piece_kib * 1024 * larger;
        let us_max = match alone {
            true => 0,
            false => scheduling.piece_us() * larger as u32,
        };
        let is_like = learned.and_then(Learned::pieces_alike).is_some();
        let is_new = known.is_none_or(|known| known.samples() == 0) && !is_like;
        let size = cx.table_size().filter(|_| is_new);
        let fit = |us| size.map(|size| size.rows_in(us, bytes_max) as usize);
        let rows_at_first = match fit(us_max) {
            Some(rows) => rows.clamp(ROWS_OF_ANY_SIZE, ROWS_OF_KNOWN_SIZE * larger),
            None => (bytes_max / ROW_BYTES_AT_FIRST).min(ROWS_AT_FIRST * larger),
        };
        let rows_alone = fit(0).map_or(ROWS_ALONE, |rows| rows.clamp(ROWS_AT_FIRST, ROWS_ALONE));
        let rows_max = match is_new {
            _ if !scheduling.in_pieces() => usize::MAX,
            // Nobody would have to wait.
            true if alone => self.page_size.map_or(rows_at_first, |p| p.min(rows_alone)),
            true => rows_at_first,
            false => learned.map_or(1, |learned| learned.piece_rows(bytes_max, us_max)),
        };
        let rows_max = rows_max.min(self.page_rows_max);
        let wanted = self.wanted();
        // Pieces of one size: a small one at the end would cost as much as a large one.
        let rows = wanted
            .map_or(rows_max, |wanted| {
                wanted.div_ceil(wanted.div_ceil(rows_max.max(1)).max(1))
            })
            .clamp(1, i32::MAX as usize);
        // Without a bound nobody knows how much is left; what has come already is a fair guess.
        let most = wanted.unwrap_or(rows + self.join.row_count());
        let left = learned.and_then(|learned| learned.rows_left(self.join.row_count()));
        let in_table = || {
            let tokens = self.left().unwrap_or(Stretch::WHOLE).tokens();
            size.map(|size| usize::try_from(size.rows_max(tokens)).unwrap_or(usize::MAX))
        };
        let rest = left.or_else(in_table).map_or(most, |left| left.min(most));
        let piece_rows = clamp(rows.min(rest));
        let piece_us = known.map_or(1_000, |known| known.work_us(piece_rows));
        let further = clamp(rest.saturating_sub(rows).div_ceil(rows));
        let work = Prediction::Piece {
            work_us: piece_us.saturating_mul(further.saturating_add(1)),
            piece_us,
            rows: clamp(rest),
            expected: piece_rows,
        };
        Planned { rows, work }
    }

    /// A piece has ended, or the read of the rows behind parts.
    pub(in crate::exec) fn on_piece<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        if let Flow::AsItIs(_) = self.flow {
            return outcome.unchanged();
        }
        let response = match outcome {
            Outcome::Failed(failure) => return self.on_piece_failed(cx, failure),
            Outcome::Answered(response) if response.has_rows() => response,
            Outcome::Answered(_) => return Step::PassThrough,
        };
        let page = match RowsView::parse(response.content) {
            Ok(page) => page,
            Err(e) => return Step::Broken(e.to_string()),
        };
        let Some(statement) = cx.statement() else {
            return Step::PassThrough;
        };
        if std::mem::take(&mut self.parts_refused) {
            cx.blame_parts(statement);
        }
        let learned = &statement.learned;
        learned.note_piece(response.service_us, page.row_count, page.byte_len());
        if cx.filters() && matches!(self.flow, Flow::Pieces(_)) {
            self.note_passed(cx, &page, response.service_us);
        }
        let partitions = look_at_partitions(cx, &page);
        let enough = page.row_count >= self.wanted().unwrap_or(usize::MAX);
        if !self.has_read() && (enough || page.paging_state.is_none()) {
            self.note_page(learned, page.row_count, page.paging_state, partitions);
            return Step::PassThrough;
        }
        self.take_in(cx, &page, &response, partitions)
    }

    /// Joins a page to the rows that have come.
    fn take_in(
        &mut self,
        cx: &mut ExecContext<'_>,
        page: &RowsView<'_>,
        response: &Response<'_>,
        partitions: Partitions,
    ) -> Step<'static> {
        let joined = self.join_page(cx, page);
        if joined && response.header.flags & flags::WARNING != 0 {
            self.warnings.note(response.prelude);
        }
        if let Flow::Tail(_, tail) = &self.flow {
            if !joined {
                // The parts have no paging state of their own to go on from.
                self.forget_rows(cx);
                return self.go_on(cx);
            }
            tail.finish(&mut self.join);
        }
        self.flow = Flow::Pieces(None);
        if !joined && self.page_size.is_none() {
            // The schema has changed meanwhile, and this client asks for no second page.
            self.forget_rows(cx);
            self.state = None;
            return self.go_on(cx);
        }
        self.empty = match page.row_count {
            0 => self.empty + 1,
            _ => 0,
        };
        if self.empty > EMPTY_MAX && self.page_size.is_none() {
            return Step::Broken("pages without rows that never end".to_owned());
        }
        // Other columns: the client gets what belongs together, and its next page begins with the
        // others.
        let goes_on = joined && self.empty <= EMPTY_MAX;
        let more = self.join.paging_state().is_some() && self.wanted() != Some(0) && goes_on;
        if !more {
            if let Some(learned) = cx.learned() {
                let (rows, state) = (self.join.row_count(), self.join.paging_state());
                self.note_page(learned, rows, state, partitions);
            }
            cx.memory().sub(self.join.held_len());
            let join = std::mem::take(&mut self.join);
            return self.done(join);
        }
        if cx.memory().is_full(0) {
            return Step::NoMemory;
        }
        self.state = self.join.paging_state().map(<[u8]>::to_vec);
        self.go_on(cx)
    }

    /// Joins a page to the rows that have come; false if it has other columns.
    pub(in crate::exec) fn join_page(&mut self, cx: &ExecContext<'_>, page: &RowsView<'_>) -> bool {
        let held = self.join.held_len();
        let joined = self.join.push(page).is_ok();
        cx.memory().add(self.join.held_len() - held);
        joined
    }

    /// A piece has failed: its client hears of it. Rows that were missing behind parts are something
    /// else: the page begins anew, piece by piece, which may well succeed or else says what the client
    /// should hear. An overloaded node is not asked again. A guardrail on page sizes that nobody has
    /// told of may be about the piece alone: the client's own request shows that.
    fn on_piece_failed<'a>(&mut self, cx: &mut ExecContext<'_>, failure: Failure<'a>) -> Step<'a> {
        if matches!(self.flow, Flow::Tail(..)) && !failure.is_of_overload() {
            self.forget_rows(cx);
            return self.send_piece(cx, Target::ANY);
        }
        if failure.is_of_page_size() {
            self.forget_rows(cx);
            let work = cx.whole_scan(self.bounds);
            let target = cx.target.clone();
            self.flow = Flow::AsItIs(cx.send_whole(Form::Own, work, target));
            return Step::Wait;
        }
        Outcome::Failed(failure).unchanged()
    }

    /// Lets go of the rows that have come, with what came with them.
    pub(in crate::exec) fn forget_rows(&mut self, cx: &ExecContext<'_>) {
        cx.memory().sub(self.join.held_len());
        self.join = RowsJoin::default();
        self.warnings = Warnings::default();
    }

    /// The page is complete.
    pub(in crate::exec) fn done(&self, join: RowsJoin) -> Step<'static> {
        let mut warnings = Vec::new();
        let header_flags = self.warnings.write(&mut warnings);
        let body: JoinedBody = join.into_body(warnings);
        Step::Done { header_flags, body }
    }

    /// The part of the ring that is still to be read. Rows of the partition at whose token it begins may
    /// be left, too.
    pub(in crate::exec) fn left(&self) -> Option<Stretch> {
        let bounds = self.bounds?;
        match self.state.as_deref() {
            Some(state) => bounds.behind(token_of(state)?),
            None => Some(bounds),
        }
    }

    /// Learns from a page, with its paging state, how many rows there are, and how they lie on the ring.
    fn note_page(
        &self,
        learned: &Learned,
        rows: usize,
        state: Option<&[u8]>,
        partitions: Partitions,
    ) {
        learned.note_page_rows(rows);
        let Some(begin) = self.begin else {
            return;
        };
        let end = match state {
            Some(state) => token_of(state),
            // It ended by its LIMIT, nobody knows where.
            None if self.limit.is_some_and(|limit| rows >= limit) => None,
            None => Some(begin.up_to),
        };
        if end == Some(begin.above) {
            // It has not left the partition that it began in.
            return learned.spread.note_partition_rows(rows as f64);
        }
        let Some(stretch) = end.and_then(|end| Stretch::new(begin.above, end)) else {
            return;
        };
        if partitions == Partitions::Hidden {
            learned.spread.note_partition_passed();
        }
        // Of pages in parts that is noted with them.
        if let Some(density) = learned.spread.rows_per_token().filter(|_| !self.was_cut) {
            learned
                .spread
                .note_expected(rows, density * stretch.tokens() as f64);
        }
        learned.spread.note_density(rows, stretch.tokens());
    }

    /// A page is complete with the rows of its parts.
    pub(in crate::exec) fn done_in_parts(
        &self,
        cx: &ExecContext<'_>,
        join: RowsJoin,
    ) -> Step<'static> {
        if let Some(learned) = cx.learned() {
            let (rows, state) = (join.row_count(), join.paging_state());
            self.note_page(learned, rows, state, partitions_of(cx));
        }
        self.done(join)
    }

    /// Learns from a piece of a scan that filters, which went on from where the last one ended, how long
    /// the nodes take over the ring.
    fn note_passed(&self, cx: &ExecContext<'_>, page: &RowsView<'_>, service_us: u32) {
        let (Some(learned), Some(from)) = (cx.learned(), self.left()) else {
            return;
        };
        let rows = self.join.row_count() + page.row_count;
        let end = match page.paging_state {
            Some(state) => token_of(state),
            // It ended by its LIMIT, nobody knows where.
            None if self.limit.is_some_and(|limit| rows >= limit) => None,
            None => Some(from.up_to),
        };
        let passed = end.and_then(|end| Stretch::new(from.above, end));
        if let Some(passed) = passed {
            learned.note_stretch(passed.tokens(), service_us);
            note_table_pace(cx, passed.tokens(), service_us);
        }
    }

    /// Rows of the page that are still to come, at most.
    pub(in crate::exec) fn wanted(&self) -> Option<usize> {
        let page = self.page_size.map(|p| p - self.join.row_count().min(p));
        let limit = self.limit.map(|l| l - self.join.row_count().min(l));
        match (page, limit) {
            (Some(page), Some(limit)) => Some(page.min(limit)),
            (page, limit) => page.or(limit),
        }
    }

    /// True if a piece has been read already.
    fn has_read(&self) -> bool {
        self.join.pages() > 0
    }
}

#[cfg(test)]
mod tests;
