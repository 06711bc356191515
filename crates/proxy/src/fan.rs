//! A page of a scan, or aggregates, read from several parts of the ring at once.
//!
//! Nearly all of the page is read as parts, each the statement with `token(…) > a AND token(…) <= b`
//! in its text; the rest, from where the parts end, is one more piece, which asks for exactly the rows
//! that are missing. So the page is as full as a node's would be, and ends where that would end. Its
//! paging state is the last piece's, with the rows of the parts taken off what is left of the LIMIT:
//! it belongs to the client's own statement. When anything goes wrong the page is read as any other.
//!
//! A part is asked for with the columns' specifications ([`crate::in_range`]): they must be those that
//! came with the client's PREPARE, or it would take the rows for something else.

use std::sync::Arc;

use helenus_policy::ring::{NodeIndex, ReplicaSets};
use helenus_policy::schedule::Class;
use helenus_policy::token::Token;
use helenus_wire::{
    ErrorBody, Header, Opcode, Page, PageStart, ResultKind, RowsJoin, RowsView, code, flags,
    result_kind,
};

use crate::cut::{Cuts, options};
use crate::fold::{fold, rows_counted};
use crate::in_range::RangeForm;
use crate::request::{Origin, Request};
use crate::stats::add;
use crate::understand::Place;
use crate::worker::{Key, State};

/// The page size of aggregates whose clients name none: what nodes take.
const COUNT_PAGE: usize = 10_000;
/// What nodes say of aggregates without a partition key; the parts have at least its token.
const COUNT_WARNING: &str = "Aggregation query used without partition key";

/// What a row is taken to cost that is aggregated but not counted, in microseconds.
const FOLDED_ROW_US: u64 = 20;

/// The parts of a page.
#[derive(Debug)]
pub struct Fan {
    /// The requests for them, and how they are put.
    pub children: Vec<Key>,
    form: RangeForm,
    /// The answers of those that have come.
    parts: Vec<Option<Vec<u8>>>,
    /// How long the nodes took for these, in microseconds.
    service_us: u64,
    /// Rows that are expected of all of them.
    expected: f64,
    /// Predicted work of one, in microseconds, and its rows.
    part_us: u32,
    part_rows: u32,
    /// Where each part is kept, if the order asks for that.
    owners: Vec<NodeIndex>,
    missing: usize,
    /// The tokens up to which they go.
    cuts: Vec<i64>,
    /// Whether the last one goes to the end of what the statement asks for.
    to_end: bool,
    skip_metadata: bool,
}

/// The last piece of a page that was read in parts.
#[derive(Debug)]
pub struct Tail {
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
    pub fn finish(&self, join: &mut RowsJoin) {
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
    pub fn byte_len(&self) -> usize {
        self.parts.iter().flatten().map(Vec::len).sum()
    }

    /// What the nodes' schedules shall know of each part that is still to come.
    fn job(&self) -> PartJob {
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
        let missing = self.owners.iter().zip(&self.parts);
        let mut nodes: Vec<NodeIndex> = missing
            .filter(|(_, part)| part.is_none())
            .map(|(owner, _)| *owner)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len().max(1) as u16
    }
}

/// A node's answer to a part.
#[derive(Clone, Copy)]
pub struct PartAnswer<'a> {
    pub header: Header,
    /// Tracing id, warnings and payload.
    pub prelude: &'a [u8],
    /// The body behind them.
    pub content: &'a [u8],
    /// From sending to the answer.
    pub service_us: u32,
}

impl PartAnswer<'_> {
    pub fn has_rows(&self) -> bool {
        self.header.opcode == Opcode::Result as u8
            && matches!(result_kind(self.content), Ok(ResultKind::Rows))
    }
}

/// A part's place among other work: it belongs to a page of which so much is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartJob {
    /// Predicted work of all parts that are still to come, and of this one, in microseconds.
    pub work_us: u32,
    pub piece_us: u32,
    /// Rows of all that are still to come.
    pub rows: u32,
    /// Nodes that have parts which are still to come.
    pub nodes_left: u16,
}

impl State {
    /// Reads a request's page in parts, if that is worth it; false if it must go as it is.
    pub fn begin_fan(&mut self, key: Key) -> bool {
        let Some(Cuts {
            tokens: cuts,
            to_end,
            rows,
        }) = self.plan_fan(key)
        else {
            return self.forget_folds(key);
        };
        let above = |index: usize| index.checked_sub(1).map(|before| cuts[before]);
        let may = self.prepare_range(key);
        let Some(request) = self.requests.get(key.index as usize) else {
            return false;
        };
        let Some(scan) = request.scan.as_ref().filter(|scan| may || scan.is_folded()) else {
            return false;
        };
        let form = self.range_form(request);
        let bodies: Option<Vec<Vec<u8>>> = (0..cuts.len())
            .map(|index| {
                let size = scan.wanted().unwrap_or(COUNT_PAGE);
                let page = Page {
                    size: i32::try_from(size).ok()?,
                    state: scan.state().filter(|_| index == 0),
                };
                self.range_body(request, &form, above(index), Some(cuts[index]), page)
            })
            .collect();
        let Some(bodies) = bodies else {
            return self.forget_folds(key);
        };
        let (opcode, prepared) = (form.opcode(), form.prepared().cloned());
        let owners = self.owners_of_parts(key, &cuts);
        let Some(request) = self.request(key) else {
            return false;
        };
        let skip_metadata = options(request).is_some_and(|(_, skips)| skips);
        let (Some(scan), Some(statement)) = (request.scan.as_mut(), &request.statement) else {
            return false;
        };
        let part_rows = (rows / cuts.len() as f64).ceil() as u32;
        let fan = Fan {
            children: Vec::with_capacity(cuts.len()),
            form,
            parts: (0..cuts.len()).map(|_| None).collect(),
            service_us: 0,
            expected: rows,
            part_us: statement.learned.pieces().work_us(part_rows),
            part_rows,
            owners,
            missing: cuts.len(),
            to_end,
            skip_metadata,
            cuts: cuts.clone(),
        };
        let job = fan.job();
        scan.fan = Some(fan);
        let begin = scan.ends().map_or(i64::MIN, |(begin, _)| begin);
        let owners = scan.owners();
        let keyspace = match (&prepared, &request.prepared) {
            // It has its own.
            (Some(_), _) => None,
            (_, Some(prepared)) => prepared.keyspace.as_deref().map(Into::into),
            _ => request.keyspace.clone(),
        };
        let (statement, table) = (request.statement.clone(), request.table.clone());
        let pool = request.pool;
        let consistency = request.consistency;
        add(&self.shared.stats.global.scans_in_parts, 1);
        let version = self.snapshot.version;
        let mut children = Vec::with_capacity(bodies.len());
        for (index, body) in bodies.into_iter().enumerate() {
            let origin = Origin::Part(key, index as u16);
            let child = self.insert_request(Request {
                keyspace: keyspace.clone(),
                prepared: prepared.clone(),
                statement: statement.clone(),
                table: table.clone(),
                part: Some(job),
                pool,
                class: Class::Scan,
                idempotent: true,
                consistency,
                ..Request::new(origin, opcode, version, body, self.now)
            });
            let place = self.place_behind(above(index).unwrap_or(begin), owners.clone());
            self.plan_for(child, place.as_ref(), false);
            children.push(child);
        }
        let scan = self.request(key).and_then(|request| request.scan.as_mut());
        if let Some(fan) = scan.and_then(|scan| scan.fan.as_mut()) {
            fan.children.clone_from(&children);
        }
        for child in children {
            // One before it may have been refused.
            match self.request(key).is_some_and(|parent| parent.in_parts()) {
                true => self.route(child),
                false => self.drop_request(child),
            }
        }
        true
    }

    /// The nodes at which the parts of a page are kept, if the order in force asks for that.
    fn owners_of_parts(&self, key: Key, cuts: &[i64]) -> Vec<NodeIndex> {
        let scan = self.requests.get(key.index as usize);
        let begin = scan.and_then(|r| r.scan.as_ref()?.ends()).map(|e| e.0);
        let (Some(ring), Some(begin)) = (&self.snapshot.ring, begin) else {
            return Vec::new();
        };
        if !self.shared.config.scheduling.order().ranges_ordered() {
            return Vec::new();
        }
        let behind = |token: i64| ring.slot(&Token::Murmur3(token.saturating_add(1)));
        std::iter::once(begin)
            .chain(cuts.iter().copied())
            .take(cuts.len())
            .filter_map(|token| ring.owner(behind(token)))
            .collect()
    }

    /// Aggregates that cannot be had in parts go as they are. False.
    fn forget_folds(&mut self, key: Key) -> bool {
        if let Some(request) = self.request(key)
            && request.scan.as_ref().is_some_and(|scan| scan.is_folded())
        {
            request.scan = None;
        }
        false
    }

    /// Where a part that begins behind a token is kept.
    fn place_behind(&self, token: i64, owners: Option<Arc<ReplicaSets>>) -> Option<Place> {
        let ring = self.snapshot.ring.as_ref()?;
        Some(Place {
            slot: ring.slot(&Token::Murmur3(token.saturating_add(1))),
            owners: owners?,
        })
    }

    /// A part has been answered, or (`None`) will never be.
    pub fn on_part(&mut self, parent: Key, index: u16, answer: Option<PartAnswer<'_>>) {
        let now = self.now;
        let Some(request) = self.request(parent) else {
            return;
        };
        request.progress = now;
        if request.by_owner.is_some() {
            return self.on_owner(parent, index, answer);
        }
        let Some(scan) = request.scan.as_mut() else {
            return;
        };
        let folds = &scan.folds;
        let Some(fan) = scan.fan.as_mut() else { return };
        let opcode = fan.form.opcode();
        let rows = answer.filter(PartAnswer::has_rows);
        let (Some(answer), Some(part)) = (rows, fan.parts.get_mut(usize::from(index))) else {
            if let (Some(answer), Some(statement)) = (answer, &request.statement)
                && answer.header.opcode == Opcode::Error as u8
            {
                match ErrorBody::parse(answer.content).map(|error| error.code) {
                    // Whether it is the statement that a node will not have, its text will show.
                    Ok(code::INVALID | code::SYNTAX) if !statement.distrust_range() => {
                        statement.learned.note_not_in_parts();
                    }
                    // Forgotten here, too.
                    Ok(code::UNPREPARED) => statement.forget_range(),
                    _ => {}
                }
            }
            return self.abandon_fan(parent);
        };
        let PartAnswer {
            header,
            prelude,
            content,
            service_us,
        } = answer;
        let fits = RowsView::parse(content).is_ok_and(|page| {
            if let Some(statement) = &request.statement {
                let rows = rows_counted(folds, &page).unwrap_or(page.row_count);
                statement
                    .learned
                    .note_piece(service_us, rows, page.byte_len());
            }
            let prepared = request.prepared.as_ref();
            prepared.is_none_or(|p| page.has_metadata(&p.result_metadata))
        });
        if !fits || part.is_some() {
            return self.abandon_fan(parent);
        }
        *part = Some(content.to_vec());
        fan.service_us += u64::from(service_us);
        let before = fan.job();
        fan.missing -= 1;
        let complete = fan.missing == 0;
        let job = fan.job();
        let as_before =
            job.work_us.leading_zeros() == before.work_us.leading_zeros() && fan.owners.is_empty();
        let children = match as_before {
            true => Vec::new(),
            // Not of the same rank any more.
            false => fan.children.clone(),
        };
        if header.flags & flags::WARNING != 0 {
            scan.note_warnings(prelude, opcode);
        }
        let wanted = self.is_wanted(parent);
        self.in_flight_bytes += content.len();
        if !wanted {
            self.abandon_parts(parent);
            self.drop_request(parent);
        } else if self.in_flight_bytes > self.shared.config.limits.in_flight_bytes_max {
            self.abandon_fan(parent);
        } else if complete {
            self.join_parts(parent);
        } else {
            for child in children {
                self.reprioritise(child, job);
            }
        }
    }

    /// Whether anyone still waits for a request.
    pub fn is_wanted(&mut self, key: Key) -> bool {
        let Some(request) = self.request(key) else {
            return false;
        };
        let (session, shared) = (request.session, !request.followers.is_empty());
        shared || self.session(session).is_some()
    }

    /// Reads the page as any other.
    fn abandon_fan(&mut self, key: Key) {
        if self.abandon_parts(key) {
            let now = self.now;
            if let Some(request) = self.request(key) {
                request.progress = now;
            }
            self.route(key);
        }
    }

    /// Forgets the parts, and takes those that wait out of the nodes' queues. What is in flight comes
    /// back to nobody.
    fn abandon_parts(&mut self, key: Key) -> bool {
        let scan = self.request(key).and_then(|request| request.scan.as_mut());
        let Some(fan) = scan.and_then(|scan| scan.fan.take()) else {
            return false;
        };
        self.in_flight_bytes -= fan.byte_len();
        self.forget_folds(key);
        self.drop_waiting(&fan.children);
        true
    }

    /// Takes those of a page's parts that wait out of the nodes' queues.
    pub fn drop_waiting(&mut self, children: &[Key]) {
        for child in children {
            if self.request(*child).is_some_and(|c| c.waiting.is_some()) {
                self.drop_request(*child);
            }
        }
    }

    /// The last piece of a page that was read in parts has failed: true if the page now begins anew, as
    /// any other, which may well succeed or else says what the client should hear.
    pub fn abandon_tail(&mut self, key: Key) -> bool {
        let Some(request) = self.request(key) else {
            return false;
        };
        let plain = request.scan.as_mut().and_then(|scan| scan.drop_tail());
        let Some(bytes) = plain else { return false };
        request.attempts = 0;
        self.in_flight_bytes -= bytes;
        self.route(key);
        true
    }

    fn join_parts(&mut self, key: Key) {
        let Some(request) = self.request(key) else {
            return;
        };
        let Some(scan) = request.scan.as_mut() else {
            return;
        };
        if scan.is_folded() {
            return self.fold_parts(key);
        }
        let Some(fan) = scan.fan.take() else { return };
        if let Some(statement) = &request.statement {
            let rows = |content: &Vec<u8>| RowsView::parse(content).map_or(0, |p| p.row_count);
            let rows: usize = fan.parts.iter().flatten().map(rows).sum();
            statement.learned.note_expected(rows, fan.expected);
        }
        let wanted = scan.wanted().unwrap_or(usize::MAX);
        let tail = Tail {
            opcode: fan.form.opcode(),
            body: Vec::new(),
            remaining: scan.remaining(),
            skip_metadata: fan.skip_metadata,
        };
        let mut join = RowsJoin::with_capacity(fan.byte_len());
        // How many parts are whole.
        let mut whole = 0;
        for content in fan.parts.iter().flatten() {
            let Ok(page) = RowsView::parse(content) else {
                break;
            };
            // The page ends in this part: it is asked again, for just the rows that are missing.
            let ends = join.row_count() + page.row_count >= wanted || page.paging_state.is_some();
            if ends || join.push(&page).is_err() {
                break;
            }
            whole += 1;
        }
        self.in_flight_bytes -= fan.byte_len();
        if whole == fan.cuts.len() && fan.to_end {
            return self.finish_parts(key, join, &tail);
        }
        let size = i32::try_from(wanted - join.row_count()).unwrap_or(i32::MAX);
        let page = Page { size, state: None };
        // Not even the first part, which may begin within a partition: as any other page.
        let above = usize::checked_sub(whole, 1).map(|last| fan.cuts[last]);
        let body = above.and_then(|above| {
            let request = self.requests.get(key.index as usize)?;
            self.range_body(request, &fan.form, Some(above), None, page)
        });
        let (Some(above), Some(body)) = (above, body) else {
            return self.route(key);
        };
        self.in_flight_bytes += join.byte_len();
        let Some(request) = self.request(key) else {
            return;
        };
        let (Some(scan), Some(statement)) = (request.scan.as_mut(), &request.statement) else {
            return;
        };
        let tail = Tail { body, ..tail };
        scan.begin_tail(join, tail, statement);
        let owners = scan.owners();
        let place = self.place_behind(above, owners);
        self.plan_for(key, place.as_ref(), false);
        self.route(key);
    }

    /// The parts are all that there is.
    fn finish_parts(&mut self, key: Key, mut join: RowsJoin, tail: &Tail) {
        let Some(request) = self.request(key) else {
            return;
        };
        let Some(scan) = request.scan.take() else {
            return;
        };
        tail.finish(&mut join);
        let mut warnings = Vec::new();
        let header_flags = scan.write_warnings(&mut warnings);
        if let Some(statement) = &request.statement {
            scan.note_density(statement, join.row_count(), None);
        }
        let body = join.into_body(warnings);
        let version = self.snapshot.version;
        self.answer_clients(key, Opcode::Result, header_flags, &body, version);
    }

    /// The aggregates of all parts are made into one row.
    fn fold_parts(&mut self, key: Key) {
        let Some(request) = self.request(key) else {
            return;
        };
        let Some(scan) = request.scan.as_ref() else {
            return;
        };
        let Some(fan) = scan.fan.as_ref() else { return };
        let pages = fan.parts.iter().flatten();
        let pages: Option<Vec<RowsView<'_>>> = pages.map(|p| RowsView::parse(p).ok()).collect();
        let folded = pages.and_then(|pages| {
            let counts = pages.iter().map(|page| rows_counted(&scan.folds, page));
            let rows: Option<usize> = counts.sum();
            // Where rows are not counted, their number is only used for how large parts shall be.
            let rows = rows.unwrap_or((fan.service_us / FOLDED_ROW_US) as usize);
            let row = fold(&scan.folds, &pages)?;
            let mut join = RowsJoin::with_capacity(row.len());
            join.push(&pages.first()?.with_rows(&row, 1)).ok()?;
            Some((join, rows))
        });
        let Some((mut join, rows)) = folded else {
            // Values of which only the nodes know the order, or how they add up.
            if let Some(statement) = &request.statement {
                statement.learned.note_not_in_parts();
            }
            return self.abandon_fan(key);
        };
        let skip_metadata = fan.skip_metadata;
        let bytes = fan.byte_len();
        let Some(mut scan) = request.scan.take() else {
            return;
        };
        let statement = request.statement.as_ref();
        let select = statement.and_then(|s| s.facts.select.as_deref());
        if select.is_some_and(|select| select.tokens.is_empty()) {
            scan.warn_first(COUNT_WARNING);
        }
        if let (Some(statement), Some((begin, end))) = (&request.statement, scan.ends()) {
            statement
                .learned
                .note_density(rows, end.wrapping_sub(begin) as u64);
        }
        if skip_metadata {
            join.skip_metadata();
        }
        let mut warnings = Vec::new();
        let header_flags = scan.write_warnings(&mut warnings);
        let body = join.into_body(warnings);
        self.in_flight_bytes -= bytes;
        let version = self.snapshot.version;
        self.answer_clients(key, Opcode::Result, header_flags, &body, version);
    }
}
