//! The stretches of the ring that a page of a filtering scan is read in: those under way, and what is left.

use std::collections::VecDeque;

use helenus_policy::route::Plan;
use helenus_wire::{Opcode, Page};

use crate::exec::context::ExecContext;
use crate::exec::scan::in_range::{Preparation, prepare_range};
use crate::exec::scan::plan_parts::{StretchPlan, stretch_us};
use crate::exec::scan::ring_parts::{Asked, AtOnce, RingParts};
use crate::exec::scan::token_splits::{Stretch, end_of_first};
use crate::exec::scan::warnings::Warnings;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::{Prediction, Target};
use crate::stats::add;

/// Stretches of a page at most. The last one takes all that is left.
const STRETCHES_MAX: u16 = 4_096;
/// A text that clients have not prepared is worth preparing for one page of so many stretches.
const STRETCHES_TO_PREPARE: u16 = 64;
/// Stretches under way at once at most, and how often their number doubles.
const AT_ONCE_MAX: usize = 16;
const DOUBLINGS_MAX: u32 = 4;

/// A stretch that a node was asked for.
#[derive(Debug)]
pub(in crate::exec) struct Sent {
    pub number: u16,
    /// `None`: where the page begins.
    above: Option<i64>,
    pub up_to: i64,
    /// Where it goes on within that, and the token there.
    pub state: Option<Vec<u8>>,
    pub from: i64,
    /// Rows it was asked for.
    pub size: usize,
    pub child: Option<NodeRequestKey>,
    /// Its answer, while those before it are missing.
    pub content: Option<Vec<u8>>,
    /// Those of its answer, which are the client's only if its rows are.
    pub warnings: Warnings,
    pub retries: u8,
    pub shortened: u8,
}

impl Sent {
    /// The stretch of it that has not been read.
    pub(in crate::exec) fn left(&self) -> Option<Stretch> {
        Stretch::new(self.from, self.up_to)
    }
}

/// The stretches of a page.
#[derive(Debug)]
pub(in crate::exec) struct Stretches {
    /// How they are asked for.
    pub parts: RingParts,
    /// Those that were sent and are not in the page yet, in the order of the ring.
    pub window: VecDeque<Sent>,
    /// The stretch that has not been sent.
    unsent: Option<Stretch>,
    pub end: i64,
    /// How many have been sent.
    count: u16,
    /// Tokens of the next one.
    tokens: u64,
    /// True if several may be under way at once.
    pub alone: bool,
    answered: u32,
    pub empty: u32,
    /// Tokens that were passed so far, and the time that took the nodes.
    pub passed: u64,
    pub took_us: u64,
}

/// The rows that a page lacks.
pub(in crate::exec) struct Lacking<'a> {
    /// Where it begins, if not at the statement's start.
    pub state: Option<&'a [u8]>,
    /// Rows; `None`: all.
    pub rows: Option<usize>,
    /// Rows to ask a stretch for.
    pub size: usize,
}

impl Stretches {
    /// Without any so far.
    pub(in crate::exec) fn new(
        cx: &ExecContext<'_>,
        asked: Asked,
        left: Stretch,
        plan: &StretchPlan,
    ) -> Stretches {
        Stretches {
            parts: RingParts::new(cx, asked, AtOnce::Few),
            window: VecDeque::new(),
            unsent: Some(left),
            end: left.up_to,
            count: 0,
            tokens: plan.tokens,
            alone: plan.alone,
            answered: 0,
            empty: 0,
            passed: 0,
            took_us: 0,
        }
    }

    pub(in crate::exec) fn find(&mut self, number: u16) -> Option<&mut Sent> {
        self.window.iter_mut().find(|sent| sent.number == number)
    }

    pub(in crate::exec) fn children(&self) -> Vec<NodeRequestKey> {
        self.window.iter().filter_map(|sent| sent.child).collect()
    }

    pub(in crate::exec) fn awaits(&self, number: u16, child: NodeRequestKey) -> bool {
        let mut window = self.window.iter();
        window.any(|sent| sent.number == number && sent.child == Some(child))
    }

    /// Bytes of the answers that are kept.
    pub(in crate::exec) fn byte_len(&self) -> usize {
        let contents = self.window.iter().filter_map(|sent| sent.content.as_ref());
        contents.map(Vec::len).sum()
    }

    /// Forgets those behind the first `kept`.
    pub(in crate::exec) fn discard(&mut self, cx: &mut ExecContext<'_>, kept: usize) {
        let gone: Vec<Sent> = self.window.drain(kept.min(self.window.len())..).collect();
        let mut wasted = 0;
        for sent in &gone {
            if let Some(content) = &sent.content {
                cx.memory().sub(content.len());
                wasted += 1;
            }
        }
        let children: Vec<NodeRequestKey> = gone.iter().filter_map(|sent| sent.child).collect();
        let in_flight = children.iter().filter(|child| cx.is_in_flight(**child));
        wasted += in_flight.count() as u64;
        add(&cx.engine.shared.stats.global.scan_parts_wasted, wasted);
        cx.cancel_queued(&children);
    }

    /// How many may be under way now.
    fn at_once(&self, cx: &ExecContext<'_>) -> usize {
        let may = cx.engine.shared.config.scheduling.in_parts();
        if !may || !self.alone || cx.others_lately() {
            return 1;
        }
        let doubled = 1 << self.answered.min(DOUBLINGS_MAX);
        let permits = usize::try_from(cx.scan_permits_idle()).unwrap_or(usize::MAX);
        permits.clamp(1, AT_ONCE_MAX.min(doubled))
    }

    /// Rows that are expected of those that are under way.
    fn rows_expected(&self, cx: &ExecContext<'_>) -> f64 {
        let learned = cx.learned();
        let density = learned.and_then(|learned| learned.spread.rows_per_token());
        let stretches = self.window.iter().filter_map(Sent::left);
        let tokens: f64 = stretches.map(|stretch| stretch.tokens() as f64).sum();
        density.unwrap_or(0.0) * tokens
    }

    /// Sends as many as may be under way; false if one cannot be expressed.
    pub(in crate::exec) fn send_more(
        &mut self,
        cx: &mut ExecContext<'_>,
        page: &Lacking<'_>,
    ) -> bool {
        let wanted = page.rows.map_or(f64::INFINITY, |rows| rows as f64);
        while let Some(unsent) = self.unsent {
            let is_enough = self.rows_expected(cx) >= wanted;
            let is_full = is_enough || self.window.len() >= self.at_once(cx);
            if is_full && !self.window.is_empty() {
                break;
            }
            let is_text = self.parts.opcode() == Opcode::Query;
            if is_text
                && may_prepare(cx.query.prepared.is_some(), self.count)
                && prepare_range(cx, None) == Preparation::Done
            {
                self.parts.adopt_form(cx);
            }
            let Some(ring) = cx.engine.snapshot.nodes().ring() else {
                return false;
            };
            let still = u64::from(STRETCHES_MAX.saturating_sub(self.count).max(1));
            let tokens = self.tokens.max(unsent.tokens() / still).max(1);
            let up_to = end_of_first(ring, unsent, tokens);
            let is_first = self.count == 0;
            self.window.push_back(Sent {
                number: self.count,
                above: (!is_first).then_some(unsent.above),
                up_to,
                state: page.state.filter(|_| is_first).map(<[u8]>::to_vec),
                from: unsent.above,
                size: page.size,
                child: None,
                content: None,
                warnings: Warnings::default(),
                retries: 0,
                shortened: 0,
            });
            self.count = self.count.saturating_add(1);
            self.unsent = unsent.behind(up_to);
            if !self.send(cx, self.window.len() - 1, None) {
                return false;
            }
        }
        true
    }

    /// Notes how long a stretch took that went on up to a token, if that is known.
    pub(in crate::exec) fn note_answer(
        &mut self,
        cx: &ExecContext<'_>,
        number: u16,
        end: impl FnOnce(&Sent) -> Option<i64>,
        service_us: u32,
    ) {
        self.answered = self.answered.saturating_add(1);
        let target_us = stretch_us(cx, self.alone);
        let Some(sent) = self.find(number) else {
            return;
        };
        sent.child = None;
        let passed = end(sent).and_then(|end| Stretch::new(sent.from, end));
        let (Some(passed), Some(learned)) = (passed, cx.learned()) else {
            return;
        };
        let tokens = passed.tokens();
        learned.note_stretch(tokens, service_us);
        self.tokens = learned.pace().next(tokens, service_us, target_us);
        self.passed = self.passed.saturating_add(tokens);
        self.took_us += u64::from(service_us);
    }

    /// Sends a stretch: to these nodes, if there are any, or else to its owners; false if it cannot be
    /// expressed.
    pub(in crate::exec) fn send(
        &mut self,
        cx: &mut ExecContext<'_>,
        at: usize,
        untried: Option<Plan>,
    ) -> bool {
        let Some(sent) = self.window.get(at) else {
            return false;
        };
        let page = Page {
            size: i32::try_from(sent.size).unwrap_or(i32::MAX),
            state: sent.state.as_deref(),
        };
        let body = self
            .parts
            .range_body(cx, sent.above, Some(sent.up_to), page);
        let (Some(body), Some(left)) = (body, sent.left()) else {
            return false;
        };
        let target = match untried.filter(|plan| !plan.is_empty()) {
            Some(plan) => Target::Planned(plan),
            None => self.parts.behind(cx, sent.from),
        };
        let work = self.predict(cx, left);
        let query = self.parts.query(cx, body);
        let child = cx.send_part(sent.number, query, work, target);
        add(&cx.engine.shared.stats.global.scan_pieces, 1);
        if let Some(sent) = self.window.get_mut(at) {
            sent.child = Some(child);
            sent.content = None;
            sent.warnings = Warnings::default();
        }
        true
    }

    fn predict(&self, cx: &ExecContext<'_>, stretch: Stretch) -> Prediction {
        let tokens = stretch.tokens();
        let left = Stretch::new(stretch.above, self.end).map_or(tokens, Stretch::tokens);
        let own = cx.learned().map(|learned| learned.pace());
        let own_us = |tokens| own.and_then(|pace| pace.us_of(tokens));
        let table = cx.query.table.as_ref().map(|table| table.pace());
        let size = cx.table_size();
        let us_of = |tokens| {
            let of_table = || table.and_then(|pace| pace.us_of(tokens));
            let of_size = || size.map(|size| size.us_of(tokens));
            own_us(tokens).or_else(of_table).or_else(of_size)
        };
        let known = own_us(tokens).is_some();
        let most_us = stretch_us(cx, self.alone);
        let piece_us = us_of(tokens).unwrap_or(most_us).max(1);
        Prediction::Stretch {
            work_us: us_of(left).unwrap_or(piece_us).max(piece_us),
            piece_us,
            tokens,
            known,
        }
    }

    /// One of the window, and those behind it, count as not sent; from now on one goes at a time.
    pub(in crate::exec) fn put_back(&mut self, cx: &mut ExecContext<'_>, at: usize) {
        let from = self.window.get(at).map(|sent| sent.from);
        self.discard(cx, at);
        if let Some(from) = from {
            self.unsent = Stretch::new(from, self.end);
        }
        self.alone = false;
    }

    /// A stretch takes too long: it is sent again as one of so many tokens, alone.
    pub(in crate::exec) fn shorten(
        &mut self,
        cx: &mut ExecContext<'_>,
        at: usize,
        tokens: u64,
    ) -> bool {
        self.discard(cx, at + 1);
        let Some(sent) = self.window.get_mut(at) else {
            return false;
        };
        let Some(left) = sent.left() else {
            return false;
        };
        sent.up_to = left.first(tokens).up_to;
        sent.shortened += 1;
        self.unsent = Stretch::new(sent.up_to, self.end);
        self.tokens = tokens;
        self.alone = false;
        self.send(cx, at, None)
    }
}

/// True if the nodes may be asked to prepare the statement before the stretch of this number. Of texts
/// that clients have not prepared the pages are counted, not the stretches: the nodes would prepare
/// each text that is never asked again.
fn may_prepare(is_prepared: bool, number: u16) -> bool {
    is_prepared || number == 0 || number >= STRETCHES_TO_PREPARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_text_counts_once_unless_it_has_very_many_stretches() {
        let asked = |is_prepared, stretches: u16| {
            let numbers = 0..stretches;
            numbers.filter(|n| may_prepare(is_prepared, *n)).count()
        };
        assert_eq!(asked(false, STRETCHES_TO_PREPARE), 1);
        assert_eq!(asked(false, STRETCHES_TO_PREPARE + 1), 2);
        assert_eq!(asked(true, 5), 5);
    }
}
