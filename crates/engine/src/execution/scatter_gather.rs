//! A page of a scan, or aggregates, read from several parts of the ring at once.
//!
//! Nearly all of the page is read as parts, each the statement with `token(…) > a AND token(…) <= b`
//! in its text; the rest, from where the parts end, is one more piece, which asks for exactly the rows
//! that are missing. So the page is as full as a node's would be, and ends where that would end. Its
//! paging state is the last piece's, with the rows of the parts taken off what is left of the LIMIT:
//! it belongs to the client's own statement. If a part has more rows than the page has room for, the
//! page keeps the whole parts in front of it ([`crate::execution::front`]); the others are counted as wasted and
//! learned from. Failed parts: [`crate::execution::retry`]. Aggregates: [`crate::execution::aggregate`].
//!
//! A part is asked for with the columns' specifications ([`crate::execution::in_range`]): they must be those that
//! came with the client's PREPARE, or it would take the rows for something else.

use std::sync::Arc;

use helenus_policy::ring::{NodeIndex, ReplicaSets};
use helenus_policy::route::Plan;
use helenus_policy::schedule::Class;
use helenus_policy::token::Token;
use helenus_wire::{
    ErrorBody, Header, Opcode, Page, PageStart, ResultKind, RowsJoin, RowsView, code, flags,
    result_kind,
};

use crate::engine::{Engine, NodeState, RequestKey};
use crate::execution::aggregate::{Beside, Rest, rows_folded};
use crate::execution::fold::fold;
use crate::execution::front::{Came, Front, Then, front};
use crate::execution::in_range::{Preparation, RangeForm};
use crate::execution::paged_scan::{Piece, Scan};
use crate::execution::retry::PartFailure;
use crate::execution::token_splits::{Cuts, Stretch, options};
use crate::request::{Origin, Request};
use crate::statement::analyze::Place;
use crate::statement::learned::Learned;
use crate::stats::add;

/// The page size of aggregates whose clients name none: what nodes take.
const AGGREGATE_PAGE: usize = 10_000;
/// Parts of an aggregate that may be under way at a time, however few the nodes' scan slots are.
const UNDER_WAY_MIN: usize = 32;

/// The parts of a page, or of an aggregate.
#[derive(Debug)]
pub(crate) struct Fan {
    /// How they are asked for.
    pub form: RangeForm,
    pub parts: Vec<Part>,
    /// How many of them have been sent: those in front.
    pub sent: usize,
    /// How many have not come back.
    pub missing: usize,
    /// Rows that were read for those that have.
    pub rows: usize,
    /// Rows that are expected of all of them.
    expected: f64,
    /// Predicted work of one, in microseconds, and its rows.
    part_us: u32,
    part_rows: u32,
    /// Whether a page's last part goes to the end of what the statement asks for.
    to_end: bool,
    /// What has not been sent yet of an aggregate.
    pub rest: Option<Rest>,
    pub skip_metadata: bool,
}

/// One stretch of the ring.
#[derive(Debug)]
pub(crate) struct Part {
    /// `None`: where the page begins.
    above: Option<i64>,
    up_to: i64,
    /// The request for it.
    child: RequestKey,
    /// Where it is kept, if the order asks for that.
    owner: Option<NodeIndex>,
    /// How often it was sent again, and how often halved.
    pub retries: u8,
    pub halved: u8,
    answer: Option<Answered>,
}

/// A part that has come.
#[derive(Debug)]
struct Answered {
    content: Vec<u8>,
    came: Came,
}

/// The last piece of a page that was read in parts.
#[derive(Debug)]
pub(crate) struct Tail {
    /// QUERY or EXECUTE in the nodes' version.
    pub opcode: Opcode,
    pub body: Vec<u8>,
    /// Rows left of the statement's LIMIT when the page began.
    remaining: u32,
    /// Whether the client wants no metadata although the parts have them.
    skip_metadata: bool,
}

impl Tail {
    /// Makes the page that the client gets of all its rows.
    pub(crate) fn finish(&self, join: &mut RowsJoin) {
        let state = self.state(join);
        join.set_paging_state(state);
        if self.skip_metadata {
            join.skip_metadata();
        }
    }

    /// The client's paging state in place of the last piece's.
    fn state(&self, join: &RowsJoin) -> Option<Vec<u8>> {
        let rows = u32::try_from(join.row_count()).unwrap_or(u32::MAX);
        let remaining = self.remaining.saturating_sub(rows);
        let start = PageStart::parse(join.paging_state()?).ok()?;
        (remaining > 0).then(|| start.with_remaining(remaining).write())
    }
}

impl Fan {
    /// Without parts so far.
    pub(crate) fn new(form: RangeForm, skip_metadata: bool) -> Fan {
        Fan {
            form,
            parts: Vec::new(),
            sent: 0,
            missing: 0,
            rows: 0,
            expected: 0.0,
            part_us: 0,
            part_rows: 0,
            to_end: true,
            rest: None,
            skip_metadata,
        }
    }

    /// Expects `rows` rows in all of `parts` parts.
    pub(crate) fn expect(&mut self, rows: f64, parts: usize, work_us: impl FnOnce(u32) -> u32) {
        self.expected = rows;
        self.part_rows = (rows / parts.max(1) as f64).ceil() as u32;
        self.part_us = work_us(self.part_rows);
    }

    /// Adds a part that has not been sent.
    pub(crate) fn push(&mut self, part: Part) {
        self.parts.push(part);
        self.missing += 1;
    }

    /// How many have been sent and have not come back.
    fn under_way(&self) -> usize {
        (self.sent + self.missing).saturating_sub(self.parts.len())
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.contents().map(<[u8]>::len).sum()
    }

    /// The answers that have come.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        let answers = self.parts.iter().filter_map(|part| part.answer.as_ref());
        answers.map(|answer| &answer.content[..])
    }

    /// Whether a request is for the part of this number, and that is still wanted.
    pub(crate) fn awaits(&self, index: u16, child: RequestKey) -> bool {
        let part = self.parts.get(usize::from(index));
        part.is_some_and(|part| part.child == child)
    }

    /// The requests for those that are under way.
    pub(crate) fn children(&self) -> Vec<RequestKey> {
        let sent = self.parts.iter().take(self.sent);
        let missing = sent.filter(|part| part.answer.is_none());
        missing.map(|part| part.child).collect()
    }

    /// What the nodes' schedules shall know of each part that is still to come.
    pub(crate) fn job(&self) -> PartJob {
        let missing = u32::try_from(self.missing).unwrap_or(u32::MAX);
        PartJob {
            work_us: self.part_us.saturating_mul(missing),
            piece_us: self.part_us,
            rows: self.part_rows.saturating_mul(missing),
            nodes_left: self.nodes_left(),
        }
    }

    /// How many nodes have parts that are still to come.
    fn nodes_left(&self) -> u16 {
        let missing = self.parts.iter().filter(|part| part.answer.is_none());
        let mut nodes: Vec<NodeIndex> = missing.filter_map(|part| part.owner).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len().max(1) as u16
    }

    fn is_ordered(&self) -> bool {
        self.parts.iter().any(|part| part.owner.is_some())
    }

    /// What a page of `wanted` rows is made of, once that is known.
    fn front(&self, wanted: usize) -> Option<Front> {
        let came = |part: &Part| part.answer.as_ref().map(|answer| answer.came);
        front(self.parts.iter().map(came), wanted, self.to_end)
    }

    /// Rows that had been expected of the parts that have come.
    fn expected_of_those(&self) -> f64 {
        let came = self.parts.len() - self.missing;
        self.expected * came as f64 / self.parts.len().max(1) as f64
    }
}

impl Part {
    pub(crate) fn new(above: Option<i64>, up_to: i64) -> Part {
        Part {
            above,
            up_to,
            child: RequestKey::default(),
            owner: None,
            retries: 0,
            halved: 0,
            answer: None,
        }
    }

    /// Of an aggregate.
    pub(crate) fn of(stretch: Stretch) -> Part {
        Part::new(Some(stretch.above), stretch.up_to)
    }

    /// Of an aggregate, halved so often.
    pub(crate) fn half(stretch: Stretch, halved: u8) -> Part {
        Part {
            halved,
            ..Part::of(stretch)
        }
    }

    pub(crate) fn child(&self) -> RequestKey {
        self.child
    }

    /// Its stretch, if it does not begin where a page begins.
    pub(crate) fn stretch(&self) -> Option<Stretch> {
        Stretch::new(self.above?, self.up_to)
    }
}

/// A node's answer to a part.
#[derive(Clone, Copy)]
pub(crate) struct PartAnswer<'a> {
    pub header: Header,
    /// Tracing id, warnings and payload.
    pub prelude: &'a [u8],
    /// The body behind them.
    pub content: &'a [u8],
    /// From sending to the answer.
    pub service_us: u32,
}

impl PartAnswer<'_> {
    pub(crate) fn has_rows(&self) -> bool {
        self.header.opcode == Opcode::Result as u8
            && matches!(result_kind(self.content), Ok(ResultKind::Rows))
    }
}

/// What became of a part.
pub(crate) enum PartOutcome<'a> {
    Answered(PartAnswer<'a>),
    Failed(PartFailure<'a>),
}

impl<'a> PartOutcome<'a> {
    /// Of a node's answer. `untried`: where the part could have gone next.
    pub(crate) fn of_answer(answer: PartAnswer<'a>, untried: Option<Plan>) -> PartOutcome<'a> {
        if answer.header.opcode == Opcode::Error as u8
            && let Ok(error) = ErrorBody::parse(answer.content)
        {
            return PartOutcome::Failed(PartFailure::of_node(error, untried));
        }
        PartOutcome::Answered(answer)
    }

    pub(crate) fn answer(self) -> Option<PartAnswer<'a>> {
        match self {
            PartOutcome::Answered(answer) => Some(answer),
            PartOutcome::Failed(_) => None,
        }
    }
}

/// A part's place among other work: it belongs to a page of which so much is left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartJob {
    /// Predicted work of all parts that are still to come, and of this one, in microseconds.
    pub work_us: u32,
    pub piece_us: u32,
    /// Rows of all that are still to come.
    pub rows: u32,
    /// Nodes that have parts which are still to come.
    pub nodes_left: u16,
}

impl Engine {
    /// Reads a request's page, or its aggregates, in parts, if that is worth it; false if it must go as
    /// it is.
    pub(crate) fn begin_fan(&mut self, key: RequestKey) -> bool {
        let scan = self.request(key).and_then(|request| request.scan.as_ref());
        match scan.is_some_and(|scan| scan.is_folded()) {
            true => self.begin_aggregate(key),
            false => self.begin_page(key),
        }
    }

    fn begin_page(&mut self, key: RequestKey) -> bool {
        let Some(Cuts {
            tokens,
            to_end,
            rows,
        }) = self.plan_page(key)
        else {
            return false;
        };
        if self.prepare_range(key) != Preparation::Done || !self.open_fan(key) {
            return false;
        }
        if let Some((scan, learned)) = self.scan_and_learned(key)
            && let Some(fan) = scan.fan.as_mut()
        {
            fan.to_end = to_end;
            fan.expect(rows, tokens.len(), |rows| learned.pieces().work_us(rows));
        }
        let above = |index: usize| index.checked_sub(1).map(|before| tokens[before]);
        let parts = tokens.iter().enumerate();
        let parts = parts.map(|(index, token)| Part::new(above(index), *token));
        let launched = self.launch(key, parts.collect());
        if !launched && let Some(request) = self.request(key) {
            // Nothing has been sent.
            let scan = request.scan.as_mut();
            scan.and_then(|scan| scan.fan.take());
        }
        launched
    }

    /// Whether a request's answer has no metadata, as its client knows it.
    pub(crate) fn skips_metadata(&self, key: RequestKey) -> bool {
        let options = self.requests.get(key).and_then(options);
        options.is_some_and(|(_, skips)| skips)
    }

    /// Begins to read a request in parts, of which there are none yet.
    pub(crate) fn open_fan(&mut self, key: RequestKey) -> bool {
        let Some(request) = self.requests.get(key) else {
            return false;
        };
        let form = self.range_form(request);
        let skip_metadata = options(request).is_some_and(|(_, skips)| skips);
        let seconds = self.cx.since_1970().as_secs();
        let scan = self.request(key).and_then(|request| request.scan.as_mut());
        let Some(scan) = scan else { return false };
        scan.now_in_seconds = i32::try_from(seconds).ok();
        scan.fan = Some(Fan::new(form, skip_metadata));
        true
    }

    /// A request's scan, and what is known of its statement.
    pub(crate) fn scan_and_learned(&mut self, key: RequestKey) -> Option<(&mut Scan, &Learned)> {
        let request = self.request(key)?;
        let learned = &request.statement.as_ref()?.learned;
        Some((request.scan.as_deref_mut()?, learned))
    }

    /// The parts that a request is being read in.
    pub(crate) fn fan(&mut self, key: RequestKey) -> Option<&mut Fan> {
        self.request(key)?.scan.as_mut()?.fan.as_mut()
    }

    /// Adds parts to a request and sends what may be under way at a time; false, with nothing sent, if
    /// they cannot be expressed.
    pub(crate) fn launch(&mut self, key: RequestKey, parts: Vec<Part>) -> bool {
        let ordered = self.cx.shared.config.scheduling.order().ranges_ordered();
        let snapshot = self.cx.snapshot.clone();
        let ring = snapshot.ring.as_ref().filter(|_| ordered);
        let Some((scan, _)) = self.scan_and_learned(key) else {
            return false;
        };
        let begin = scan.left().map_or(i64::MIN, |left| left.above);
        let sent_at_once = match scan.is_folded() {
            true => parts.len().min(UNDER_WAY_MIN),
            false => parts.len(),
        };
        let Some(request) = self.requests.get(key) else {
            return false;
        };
        // Each has the client's values, or its text.
        if self.cx.memory.is_full(request.body.len() * sent_at_once) {
            return false;
        }
        let Some((scan, _)) = self.scan_and_learned(key) else {
            return false;
        };
        let Some(fan) = scan.fan.as_mut() else {
            return false;
        };
        let first = fan.parts.len();
        for mut part in parts {
            let behind = Token::Murmur3(part.above.unwrap_or(begin).saturating_add(1));
            part.owner = ring.and_then(|ring| ring.owner(ring.slot(&behind)));
            fan.push(part);
        }
        let expressible = self.part_body(key, first).is_some();
        let Some((scan, _)) = self.scan_and_learned(key).filter(|_| expressible) else {
            return false;
        };
        if !std::mem::replace(&mut scan.was_cut, true) {
            add(&self.cx.shared.stats.global.scans_in_parts, 1);
        }
        self.send_unsent(key);
        true
    }

    /// Sends parts of a request that have not been sent: those of a page all at once, those of an
    /// aggregate, which may be many, as others come back. So none waits for longer than scans may.
    pub(crate) fn send_unsent(&mut self, key: RequestKey) {
        let slots = |node: &NodeState| node.schedule.scan_slots() as usize;
        let slots: usize = self.nodes.iter().map(slots).sum();
        let mut children = Vec::new();
        while let Some((scan, _)) = self.scan_and_learned(key) {
            let folded = scan.is_folded();
            let Some(fan) = scan.fan.as_mut() else { break };
            let at = fan.sent;
            // Those that come back early make room.
            let room = !folded || fan.under_way() < (2 * slots).max(UNDER_WAY_MIN);
            if at == fan.parts.len() || !room {
                break;
            }
            fan.sent += 1;
            let Some(child) = self.insert_part(key, at, None) else {
                self.abandon_fan(key);
                break;
            };
            children.push(child);
        }
        for child in children {
            self.route(child);
        }
    }

    /// The body of a part's request.
    fn part_body(&self, key: RequestKey, at: usize) -> Option<Vec<u8>> {
        let request = self.requests.get(key);
        let request = request?;
        let scan = request.scan.as_ref()?;
        let fan = scan.fan.as_ref()?;
        let part = fan.parts.get(at)?;
        let size = scan.wanted().unwrap_or(AGGREGATE_PAGE);
        let page = Page {
            size: i32::try_from(size).ok()?,
            state: scan.state().filter(|_| part.above.is_none()),
        };
        self.range_body(request, &fan.form, part.above, Some(part.up_to), page)
    }

    /// Makes the request for a part. `plan`: the nodes to try, if not its owners.
    pub(crate) fn insert_part(
        &mut self,
        key: RequestKey,
        at: usize,
        plan: Option<Plan>,
    ) -> Option<RequestKey> {
        let body = self.part_body(key, at)?;
        let (now, version) = (self.cx.now, self.cx.snapshot.version);
        let request = self.request(key)?;
        let scan = request.scan.as_ref()?;
        let fan = scan.fan.as_ref()?;
        let above = fan.parts.get(at)?.above;
        let above = above.or_else(|| Some(scan.left()?.above));
        let owners = scan.owners();
        let prepared = fan.form.prepared().cloned();
        let keyspace = match (&prepared, &request.prepared) {
            // It has its own.
            (Some(_), _) => None,
            (_, Some(prepared)) => prepared.keyspace.as_deref().map(Into::into),
            _ => request.keyspace.clone(),
        };
        let origin = Origin::Part(key, u16::try_from(at).ok()?);
        let child = Request {
            keyspace,
            prepared,
            statement: request.statement.clone(),
            table: request.table.clone(),
            part: Some(fan.job()),
            pool: request.pool,
            class: Class::Scan,
            idempotent: true,
            consistency: request.consistency,
            plan,
            ..Request::new(origin, fan.form.opcode(), version, body, now)
        };
        let child = self.insert_request(child);
        if plan.is_none_or(|plan| plan.is_empty()) {
            let place = above.and_then(|above| self.place_behind(above, owners));
            self.plan_for(child, place.as_ref(), false);
        }
        let (scan, _) = self.scan_and_learned(key)?;
        scan.fan.as_mut()?.parts.get_mut(at)?.child = child;
        Some(child)
    }

    /// Where a part that begins behind a token is kept.
    fn place_behind(&self, token: i64, owners: Option<Arc<ReplicaSets>>) -> Option<Place> {
        let ring = self.cx.snapshot.ring.as_ref()?;
        Some(Place {
            slot: ring.slot(&Token::Murmur3(token.saturating_add(1))),
            owners: owners?,
        })
    }

    /// A part has been answered or has failed. `child`: the request for it.
    pub(crate) fn on_part(
        &mut self,
        child: RequestKey,
        parent: RequestKey,
        index: u16,
        outcome: PartOutcome<'_>,
    ) {
        let now = self.cx.now;
        let Some(request) = self.request(parent) else {
            return;
        };
        request.progress = now;
        if request.by_owner.is_some() {
            return match outcome {
                // The statement is the client's own: it hears that its columns have changed.
                PartOutcome::Failed(failure)
                    if failure.is_of_overload() || failure.is_unprepared() =>
                {
                    self.take_by_owner(parent);
                    self.fail_parts(parent, &failure);
                }
                outcome => self.on_owner(parent, index, outcome.answer()),
            };
        }
        // The page may have gone on without it, or the part may be another one by now.
        if !request.awaits_part(index, child) {
            return;
        }
        match outcome {
            PartOutcome::Answered(answer) => self.on_part_answered(parent, index, answer),
            PartOutcome::Failed(failure) => self.on_part_failed(parent, index, failure),
        }
    }

    fn on_part_answered(&mut self, parent: RequestKey, index: u16, answer: PartAnswer<'_>) {
        let PartAnswer {
            header,
            prelude,
            content,
            service_us,
        } = answer;
        let page = RowsView::parse(content).ok();
        let Some(page) = page.filter(|_| answer.has_rows()) else {
            return self.abandon_fan(parent);
        };
        let Some(request) = self.request(parent) else {
            return;
        };
        let known = request.prepared.as_ref();
        let fits = page.new_metadata_id.is_none()
            && known.is_none_or(|p| page.has_metadata(&p.result_metadata));
        if !fits {
            // The columns have changed since the nodes have prepared it.
            if let Some(statement) = &request.statement {
                statement.forget_range();
            }
            return self.abandon_fan(parent);
        }
        let now = self.cx.now;
        let Some((scan, learned)) = self.scan_and_learned(parent) else {
            return;
        };
        let folded = scan.is_folded();
        if folded && fold(&scan.folds, std::slice::from_ref(&page)).is_none() {
            // Values of which only the nodes know the order, or how they add up.
            learned.suspend(now);
            return self.abandon_fan(parent);
        }
        let beside = match scan.fan.as_ref().is_some_and(|fan| fan.parts.len() > 1) {
            true => Beside::Others,
            false => Beside::Nothing,
        };
        let rows = match folded {
            true => rows_folded(&scan.folds, &page, service_us, beside),
            false => page.row_count,
        };
        learned.note_piece(service_us, rows, page.byte_len());
        if !folded {
            self.look_at_partitions(parent, &page);
        }
        let Some((scan, _)) = self.scan_and_learned(parent) else {
            return;
        };
        let wanted_rows = scan.wanted().unwrap_or(usize::MAX);
        let Some(fan) = scan.fan.as_mut() else { return };
        let before = fan.job();
        fan.rows += rows;
        fan.missing -= 1;
        let part = &mut fan.parts[usize::from(index)];
        part.child = RequestKey::default();
        part.answer = Some(Answered {
            content: content.to_vec(),
            came: Came {
                rows: page.row_count,
                goes_on: page.paging_state.is_some(),
            },
        });
        let complete = match folded {
            true => fan.missing == 0,
            false => fan.front(wanted_rows).is_some(),
        };
        let job = fan.job();
        let as_before =
            job.work_us.leading_zeros() == before.work_us.leading_zeros() && !fan.is_ordered();
        let children = match as_before {
            true => Vec::new(),
            // Not of the same rank any more.
            false => fan.children(),
        };
        let opcode = fan.form.opcode();
        if header.flags & flags::WARNING != 0 {
            scan.note_warnings(prelude, opcode);
        }
        let wanted = self.is_wanted(parent);
        self.cx.memory.add(content.len());
        if !wanted {
            self.abandon_parts(parent);
            self.drop_request(parent);
        } else if self.cx.memory.is_full(0) {
            self.abandon_fan(parent);
        } else if complete && folded {
            self.advance_aggregate(parent);
        } else if complete {
            self.join_parts(parent);
        } else {
            for child in children {
                self.reprioritise(child, job);
            }
            self.send_unsent(parent);
        }
    }

    /// Reads the page as any other, or sends the aggregate as it is.
    pub(crate) fn abandon_fan(&mut self, key: RequestKey) {
        if self.abandon_parts(key) {
            let now = self.cx.now;
            if let Some(request) = self.request(key) {
                request.progress = now;
            }
            self.route_whole(key);
        }
    }

    /// Sends a request whose parts are given up. It may have been planned before there were links.
    fn route_whole(&mut self, key: RequestKey) {
        let plan = self.request(key).and_then(|request| request.plan);
        if plan.is_none_or(|plan| plan.is_empty()) {
            self.plan_for(key, None, false);
        }
        self.route(key);
    }

    /// Forgets the parts, and takes those that wait out of the nodes' queues. What is in flight comes
    /// back to nobody.
    fn abandon_parts(&mut self, key: RequestKey) -> bool {
        let scan = self.request(key).and_then(|request| request.scan.as_mut());
        let Some(fan) = scan.and_then(|scan| scan.fan.take()) else {
            return false;
        };
        self.go_as_it_is(key);
        self.discard(&fan, 0);
        true
    }

    /// Releases parts, of which the first `used` have been used.
    pub(crate) fn discard(&mut self, fan: &Fan, used: usize) {
        self.cx.memory.sub(fan.byte_len());
        let children = fan.children();
        let in_flight = |child: &&RequestKey| {
            let child = self.requests.get(**child);
            child.is_some_and(|child| child.at.is_some())
        };
        let in_flight = children.iter().filter(in_flight).count();
        let wasted = fan.contents().count().saturating_sub(used) + in_flight;
        add(
            &self.cx.shared.stats.global.scan_parts_wasted,
            wasted as u64,
        );
        self.drop_waiting(&children);
    }

    /// Takes those of a page's parts that wait out of the nodes' queues.
    pub(crate) fn drop_waiting(&mut self, children: &[RequestKey]) {
        for child in children {
            if self.request(*child).is_some_and(|c| c.waiting.is_some()) {
                self.drop_request(*child);
            }
        }
    }

    /// The last piece of a page that was read in parts has failed: true if the page now begins anew, as
    /// any other, which may well succeed or else says what the client should hear. What is overloaded is
    /// not asked again.
    pub(crate) fn abandon_tail(&mut self, key: RequestKey, code: i32) -> bool {
        let now = self.cx.now;
        let Some(request) = self.request(key).filter(|_| code != code::OVERLOADED) else {
            return false;
        };
        let plain = request.scan.as_mut().and_then(|scan| scan.drop_tail());
        let Some(bytes) = plain else { return false };
        request.attempts = 0;
        request.progress = now;
        // Those that the tail has left are its owners, not the page's, and may be none.
        request.plan = None;
        self.cx.memory.sub(bytes);
        self.route_whole(key);
        true
    }

    /// Makes a page of the parts at its front.
    fn join_parts(&mut self, key: RequestKey) {
        let skips_metadata = self.skips_metadata(key);
        let Some((scan, learned)) = self.scan_and_learned(key) else {
            return;
        };
        let wanted = scan.wanted().unwrap_or(usize::MAX);
        let remaining = scan.remaining();
        let Some(mut fan) = scan.fan.take() else {
            return;
        };
        fan.skip_metadata &= skips_metadata;
        let Some(Front { parts, mut then }) = fan.front(wanted) else {
            return;
        };
        learned.note_expected(fan.rows, fan.expected_of_those());
        let mut tail = Tail {
            opcode: fan.form.opcode(),
            body: Vec::new(),
            remaining,
            skip_metadata: fan.skip_metadata,
        };
        let mut join = RowsJoin::with_capacity(fan.byte_len());
        let mut used = 0;
        for content in fan.contents().take(parts) {
            let page = RowsView::parse(content);
            if !page.is_ok_and(|page| join.push(&page).is_ok()) {
                then = Then::Rows;
                break;
            }
            used += 1;
        }
        self.discard(&fan, used);
        match then {
            Then::End => {
                tail.finish(&mut join);
                self.answer_joined(key, join);
            }
            Then::Engine => {
                tail.finish(&mut join);
                self.go_on_behind(key, join, wanted);
            }
            Then::Rows => {
                let size = i32::try_from(wanted - join.row_count()).unwrap_or(i32::MAX);
                let page = Page { size, state: None };
                // Not even the first part, which may begin within a partition: as any other page.
                let above = usize::checked_sub(used, 1).map(|last| fan.parts[last].up_to);
                let body = above.and_then(|above| {
                    let request = self.requests.get(key)?;
                    self.range_body(request, &fan.form, Some(above), None, page)
                });
                let (Some(above), Some(body)) = (above, body) else {
                    return self.route_whole(key);
                };
                tail.body = body;
                self.begin_tail(key, join, tail, above);
            }
        }
    }

    /// A page's rows are complete, or the client's statement goes on behind them, piece by piece.
    fn go_on_behind(&mut self, key: RequestKey, join: RowsJoin, wanted: usize) {
        if join.row_count() >= wanted || join.paging_state().is_none() {
            return self.answer_joined(key, join);
        }
        self.cx.memory.add(join.byte_len());
        let Some(request) = self.request(key) else {
            return;
        };
        let (Some(mut scan), Some(statement)) = (request.scan.take(), request.statement.clone())
        else {
            return;
        };
        scan.begin_with(join);
        match self.go_on(key, scan, &statement) {
            Piece::Unwanted => self.drop_request(key),
            _ => self.route(key),
        }
    }

    /// The rows that are missing are behind the parts.
    fn begin_tail(&mut self, key: RequestKey, join: RowsJoin, tail: Tail, above: i64) {
        self.cx.memory.add(join.byte_len());
        let Some(request) = self.request(key) else {
            return;
        };
        let (Some(scan), Some(statement)) = (request.scan.as_mut(), &request.statement) else {
            return;
        };
        scan.begin_tail(join, tail, statement);
        let owners = scan.owners();
        let place = self.place_behind(above, owners);
        self.plan_for(key, place.as_ref(), false);
        self.route(key);
    }

    /// A page is complete with the rows of its parts.
    fn answer_joined(&mut self, key: RequestKey, join: RowsJoin) {
        let Some(request) = self.requests.get(key) else {
            return;
        };
        let partitions = self.partitions_of(request);
        let Some(request) = self.request(key) else {
            return;
        };
        let Some(scan) = request.scan.take() else {
            return;
        };
        let mut warnings = Vec::new();
        let header_flags = scan.write_warnings(&mut warnings);
        if let Some(statement) = &request.statement {
            scan.note_page(statement, join.row_count(), join.paging_state(), partitions);
        }
        let body = join.into_body(warnings);
        let version = self.cx.snapshot.version;
        self.answer_clients(key, Opcode::Result, header_flags, body, version);
    }
}
