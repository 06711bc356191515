//! Parts of the ring that a page, or aggregates, are read in: each the statement with
//! `token(…) > a AND token(…) <= b`, asked of an owner.

use std::sync::Arc;

use helenus_policy::ring::{NodeIndex, ReplicaSets, Ring};
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;
use helenus_policy::token::Token;
use helenus_wire::{Opcode, Page, RowsView, flags};

use crate::exec::context::ExecContext;
use crate::exec::outcome::Response;
use crate::exec::scan::front::Came;
use crate::exec::scan::gather::Gather;
use crate::exec::scan::in_range::{RangeForm, RangeQuery, range_form};
use crate::exec::scan::token_splits::{Stretch, options};
use crate::exec::scan::warnings::Warnings;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::{Prediction, Target};
use crate::pipeline::query::Query;
use crate::pipeline::retry::resendable::Resendable;
use crate::rewrite::values::clamp;
use crate::scheduler::PartJob;
use crate::statement::place::Place;
use crate::stats::add;

/// Parts of an aggregate that may be under way at a time, however few the nodes' scan permits are.
const UNDER_WAY_MIN: usize = 32;
/// Fewer parts than this do not show that their prediction is wrong.
const CAME_MIN: usize = 3;
/// How often a part is sent again, halving aside.
pub(crate) const RETRIES_MAX: u8 = 2;

/// One stretch of the ring.
#[derive(Debug)]
pub(crate) struct Range {
    /// `None`: where the page begins.
    pub above: Option<i64>,
    pub up_to: i64,
    /// Where it is kept, if the order asks for that.
    owner: Option<NodeIndex>,
    /// How often it was sent again, and how often halved.
    pub retries: u8,
    pub halved: u8,
    pub came: Option<Came>,
    /// Those of its answer, which are the client's only if its rows are.
    pub warnings: Warnings,
}

impl Range {
    pub(crate) fn new(above: Option<i64>, up_to: i64) -> Range {
        Range {
            above,
            up_to,
            owner: None,
            retries: 0,
            halved: 0,
            came: None,
            warnings: Warnings::default(),
        }
    }

    /// A stretch that has been halved so often.
    pub(crate) fn of(stretch: Stretch, halved: u8) -> Range {
        Range {
            halved,
            ..Range::new(Some(stretch.above), stretch.up_to)
        }
    }

    /// Its stretch, if it does not begin where a page begins.
    pub(crate) fn stretch(&self) -> Option<Stretch> {
        Stretch::new(self.above?, self.up_to)
    }
}

/// The request that all parts have in common.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Rows to ask each for.
    pub page_size: i32,
    /// Where the first part begins, if not at the statement's start.
    pub state: Option<Vec<u8>>,
    /// The statement's own bounds on the ring.
    pub bounds: Stretch,
    /// The token behind which the first part begins.
    pub above: i64,
    pub owners: Option<Arc<ReplicaSets>>,
}

/// How many parts may be under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtOnce {
    All,
    /// As many as keep the nodes busy, so that none waits for longer than scans may.
    Few,
}

/// The parts of a page, or of an aggregate.
#[derive(Debug)]
pub(crate) struct RingParts {
    /// How they are asked for.
    form: RangeForm,
    asked: Asked,
    at_once: AtOnce,
    pub gather: Gather<Range>,
    /// How many of them have been sent: those in front.
    sent: usize,
    /// Rows that were read for those that have come.
    pub rows: usize,
    /// Rows that are expected of all of them.
    expected: f64,
    /// Predicted work of one, in microseconds, and its rows.
    part_us: u32,
    part_rows: u32,
    /// Time that the parts which have come took, added up, in microseconds.
    took_us: u64,
    /// The time that decides what has expired, for all of its parts, in seconds since 1970. The client's
    /// own goes before it.
    now_in_seconds: Option<i32>,
    /// True if the client wants no metadata although the parts have them.
    pub skip_metadata: bool,
}

impl RingParts {
    /// Without parts so far.
    pub(crate) fn new(cx: &ExecContext<'_>, asked: Asked, at_once: AtOnce) -> RingParts {
        let seconds = cx.engine.since_1970().as_secs();
        RingParts {
            form: range_form(cx.query, cx.engine),
            asked,
            at_once,
            gather: Gather::default(),
            sent: 0,
            rows: 0,
            expected: 0.0,
            part_us: 0,
            part_rows: 0,
            took_us: 0,
            now_in_seconds: i32::try_from(seconds).ok(),
            skip_metadata: skips_metadata(cx.query),
        }
    }

    /// Asks for the rest as is best by now.
    pub(crate) fn adopt_form(&mut self, cx: &ExecContext<'_>) {
        self.form = range_form(cx.query, cx.engine);
    }

    /// Expects `rows` rows in all of `parts` parts.
    pub(crate) fn expect(&mut self, rows: f64, parts: usize, work_us: impl FnOnce(u32) -> u32) {
        self.expected = rows;
        self.part_rows = (rows / parts.max(1) as f64).ceil() as u32;
        self.part_us = work_us(self.part_rows);
    }

    /// Rows that had been expected of the parts that have come.
    pub(crate) fn expected_of_those(&self) -> f64 {
        let came = self.gather.len() - self.gather.missing();
        self.expected * came as f64 / self.gather.len().max(1) as f64
    }

    /// Adds parts and sends what may be under way at a time; false, with nothing sent, if they cannot be
    /// expressed or there is no room for them.
    pub(crate) fn launch(&mut self, cx: &mut ExecContext<'_>, ranges: Vec<Range>) -> bool {
        let at_once = match self.at_once {
            AtOnce::Few => ranges.len().min(UNDER_WAY_MIN),
            AtOnce::All => ranges.len(),
        };
        // Each has the client's values, or its text.
        let bytes = cx.query.body.len() * at_once;
        if cx.memory().is_full(bytes) {
            return false;
        }
        let first = self.gather.len();
        self.add(cx, ranges);
        if self.body(cx, first).is_none() {
            return false;
        }
        self.send_unsent(cx)
    }

    /// Adds parts that are not sent yet.
    pub(crate) fn add(&mut self, cx: &ExecContext<'_>, ranges: Vec<Range>) {
        let scheduling = &cx.engine.shared.config.scheduling;
        let ordered = scheduling.order().ranges_ordered();
        let ring = cx.engine.snapshot.nodes().ring().filter(|_| ordered);
        for mut range in ranges {
            range.owner = ring.and_then(|ring| self.owner(ring, &range));
            self.gather.push(range);
        }
    }

    fn owner(&self, ring: &Ring, range: &Range) -> Option<NodeIndex> {
        let above = range.above.unwrap_or(self.asked.above);
        ring.owner(ring.slot(&Token::Murmur3(above.saturating_add(1))))
    }

    /// Sends parts that have not been sent; false if one cannot be.
    pub(crate) fn send_unsent(&mut self, cx: &mut ExecContext<'_>) -> bool {
        let most = match self.at_once {
            AtOnce::All => usize::MAX,
            // Those that come back early make room.
            AtOnce::Few => (2 * cx.scan_permits()).max(UNDER_WAY_MIN),
        };
        while self.sent < self.gather.len() && self.under_way() < most {
            self.sent += 1;
            if !self.send(cx, self.sent - 1, None) {
                return false;
            }
        }
        true
    }

    /// Sends a part: to these nodes, if there are any, or else to its owners.
    pub(crate) fn send(
        &mut self,
        cx: &mut ExecContext<'_>,
        at: usize,
        untried: Option<Plan>,
    ) -> bool {
        let (Some(body), Ok(number)) = (self.body(cx, at), u16::try_from(at)) else {
            return false;
        };
        let above = self.gather.parts()[at].of.above;
        let above = above.unwrap_or(self.asked.above);
        let target = match untried.filter(|plan| !plan.is_empty()) {
            Some(plan) => Target::Planned(plan),
            None => self.behind(cx, above),
        };
        let query = self.query(cx, body);
        let child = cx.send_part(number, query, Prediction::Part(self.job()), target);
        self.gather.sent(at, child);
        true
    }

    /// Sends a part again, after a failure.
    pub(crate) fn send_again(
        &mut self,
        cx: &mut ExecContext<'_>,
        at: usize,
        untried: Option<Plan>,
    ) -> bool {
        add(&cx.engine.shared.stats.global.scan_parts_retried, 1);
        self.send(cx, at, untried)
    }

    /// Where what begins behind a token is kept.
    pub(crate) fn behind(&self, cx: &ExecContext<'_>, token: i64) -> Target {
        let place = || {
            let ring = cx.engine.snapshot.nodes().ring()?;
            Some(Place {
                slot: ring.slot(&Token::Murmur3(token.saturating_add(1))),
                token: None,
                owners: self.asked.owners.clone()?,
            })
        };
        Target::of(place())
    }

    /// A node request over a part of the ring, of this body.
    pub(crate) fn query(&self, cx: &ExecContext<'_>, body: Vec<u8>) -> Query {
        let own = cx.query;
        let prepared = self.form.prepared().cloned();
        let keyspace = match (&prepared, &own.prepared) {
            // It has its own.
            (Some(_), _) => None,
            (_, Some(prepared)) => prepared.keyspace.as_deref().map(Into::into),
            _ => own.keyspace.clone(),
        };
        Query {
            keyspace,
            prepared,
            statement: own.statement.clone(),
            table: own.table.clone(),
            pool: own.pool,
            class: Class::Scan,
            resendable: Resendable::Always,
            consistency: own.consistency,
            ..Query::new(self.form.opcode(), cx.engine.snapshot.version(), body)
        }
    }

    /// The body of a part's node request.
    fn body(&self, cx: &ExecContext<'_>, at: usize) -> Option<Vec<u8>> {
        let range = &self.gather.parts().get(at)?.of;
        let page = Page {
            size: self.asked.page_size,
            state: self
                .asked
                .state
                .as_deref()
                .filter(|_| range.above.is_none()),
        };
        self.range_body(cx, range.above, Some(range.up_to), page)
    }

    /// The body of the statement over a part of the ring.
    pub(crate) fn range_body(
        &self,
        cx: &ExecContext<'_>,
        above: Option<i64>,
        up_to: Option<i64>,
        page: Page<'_>,
    ) -> Option<Vec<u8>> {
        let range = RangeQuery {
            query: cx.query,
            snapshot: &cx.engine.snapshot,
            form: &self.form,
            bounds: self.asked.bounds,
            now_in_seconds: self.now_in_seconds,
        };
        range.body(above, up_to, page)
    }

    pub(crate) fn opcode(&self) -> Opcode {
        self.form.opcode()
    }

    /// How many have been sent and have not come back.
    fn under_way(&self) -> usize {
        (self.sent + self.gather.missing()).saturating_sub(self.gather.len())
    }

    /// How many have been sent: those in front.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// The job that the nodes' schedules are told of each part that is still to come.
    fn job(&self) -> PartJob {
        let missing = u32::try_from(self.gather.missing()).unwrap_or(u32::MAX);
        PartJob {
            work_us: self.part_us.saturating_mul(missing),
            piece_us: self.part_us,
            rows: match self.is_ordered() && self.at_once == AtOnce::All {
                // The page's count, as in the paper: what has come of it shows in the nodes left.
                true => clamp(usize::try_from(self.asked.page_size).unwrap_or(usize::MAX)),
                false => self.part_rows.saturating_mul(missing),
            },
            nodes_left: self.nodes_left(),
        }
    }

    /// How many nodes have parts that are still to come.
    fn nodes_left(&self) -> u16 {
        let missing = self.gather.parts().iter().filter(|part| !part.has_come());
        let mut nodes: Vec<NodeIndex> = missing.filter_map(|part| part.of.owner).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len().max(1) as u16
    }

    fn is_ordered(&self) -> bool {
        let mut parts = self.gather.parts().iter();
        parts.any(|part| part.of.owner.is_some())
    }

    /// Keeps the answer to a part. The parts that are left have another rank among other work then.
    pub(crate) fn keep(
        &mut self,
        cx: &mut ExecContext<'_>,
        index: u16,
        page: &RowsView<'_>,
        rows: usize,
        response: &Response<'_>,
    ) {
        let before = self.job();
        if !self.gather.keep(index, response.content) {
            return;
        }
        cx.memory().add(response.content.len());
        self.rows += rows;
        self.took_us += u64::from(response.service_us);
        let came = self.gather.len() - self.gather.missing();
        self.part_us = predicted_anew(self.part_us, self.took_us, came);
        if let Some(range) = self.gather.part_mut(index) {
            range.came = Some(Came {
                rows: page.row_count,
                goes_on: page.paging_state.is_some(),
            });
            if response.header.flags & flags::WARNING != 0 {
                range.warnings.note(response.prelude);
            }
        }
        let job = self.job();
        let as_before = job.work_us.leading_zeros() == before.work_us.leading_zeros();
        if !as_before || self.is_ordered() {
            let children = self.gather.children().into_iter();
            let again = children.map(|child| (child, job));
            cx.todo.reprioritise.extend(again);
        }
    }

    /// Releases the parts, of which the first `used` have been used.
    pub(crate) fn discard(&self, cx: &mut ExecContext<'_>, used: usize) {
        cx.memory().sub(self.gather.byte_len());
        let children = self.gather.children();
        let in_flight = children.iter().filter(|child| cx.is_in_flight(**child));
        let wasted = self.gather.contents().count().saturating_sub(used) + in_flight.count();
        add(
            &cx.engine.shared.stats.global.scan_parts_wasted,
            wasted as u64,
        );
        cx.todo.reprioritise.clear();
        cx.cancel_queued(&children);
    }

    pub(crate) fn children(&self) -> Vec<NodeRequestKey> {
        self.gather.children()
    }

    /// Adds the warnings of the first `used` parts.
    pub(crate) fn warn_of(&self, used: usize, warnings: &mut Warnings) {
        for part in self.gather.parts().iter().take(used) {
            warnings.extend(&part.of.warnings);
        }
    }
}

/// Predicted work of a part, once so many have taken so long in all: what takes far longer than predicted
/// goes behind others of that prediction.
fn predicted_anew(part_us: u32, took_us: u64, came: usize) -> u32 {
    let mean_us = u32::try_from(took_us / came.max(1) as u64).unwrap_or(u32::MAX);
    match came >= CAME_MIN && mean_us / 2 > part_us {
        true => mean_us,
        false => part_us,
    }
}

/// True if a query's answer has no metadata, as its client knows it.
pub(crate) fn skips_metadata(query: &Query) -> bool {
    options(query).is_some_and(|(_, skips)| skips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_take_far_longer_are_predicted_anew() {
        assert_eq!(predicted_anew(1_000, 90_000, 2), 1_000, "too few");
        assert_eq!(predicted_anew(1_000, 90_000, 3), 30_000);
        assert_eq!(predicted_anew(1_000, 5_400, 3), 1_000, "near enough");
        assert_eq!(
            predicted_anew(30_000, 9_000, 9),
            30_000,
            "a busy node is slower"
        );
        assert_eq!(predicted_anew(0, u64::MAX, 3), u32::MAX);
    }
}
