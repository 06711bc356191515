//! A page of a scan, read from several parts of the ring at once.
//!
//! How many rows lie on a stretch of the ring is learned from the pages before. Nine tenths of the
//! page are read as parts, each the statement with `token(…) > a AND token(…) <= b` spliced in; the
//! rest, from where the parts end, is one more piece, which asks for exactly the rows that are
//! missing. So the page is as full as a node's would be, and ends where that would end. Its paging
//! state is the last piece's, with the rows of the parts taken off what is left of the LIMIT: it
//! belongs to the client's own statement. When anything goes wrong the page is read as any other.
//!
//! A part is a QUERY even of a prepared statement, with the columns' specifications: they must be
//! those that came with PREPARE, or the client would take the rows for something else.

use std::sync::Arc;

use helenus_cql::{Op, takes_token_range, token_range};
use helenus_policy::ring::ReplicaSets;
use helenus_policy::schedule::Class;
use helenus_policy::token::{Partitioner, Token, murmur3_token};
use helenus_wire::{
    ExecuteView, Header, Opcode, Options, Page, PageStart, QueryView, ResultKind, RowsJoin,
    RowsView, flags, query_flags, result_kind, write_query,
};

use crate::prepared::Statement;
use crate::request::{Origin, Request};
use crate::scan::integer;
use crate::stats::add;
use crate::understand::Place;
use crate::worker::{Key, State};

/// A part has at least `parallel_rows` divided by this.
const PARTS: usize = 8;
const PARTS_MAX: u64 = 64;
/// How far the rows on the ring may be from what is expected, least and most, as part of the page: so
/// much of it is left to the last piece.
const ERROR_MIN: f64 = 0.02;
const ERROR_MAX: f64 = 0.5;
/// Larger pages are read piece by piece, so that parts do not pile up.
const PAGE_ROWS_MAX: usize = 100_000;

/// The parts of a page.
#[derive(Debug)]
pub struct Fan {
    /// The requests for them.
    children: Vec<Key>,
    /// The answers of those that have come.
    parts: Vec<Option<Vec<u8>>>,
    /// Rows that are expected of all of them.
    expected: f64,
    /// Predicted work of one, in microseconds, and its rows.
    part_us: u32,
    part_rows: u32,
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
    /// QUERY in the nodes' version.
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
        }
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
}

/// How a page is cut.
struct Cuts {
    /// The tokens up to which each part goes.
    tokens: Vec<i64>,
    /// Whether nothing that is asked for is behind the last.
    to_end: bool,
    /// Rows expected.
    rows: f64,
}

/// The statement's own bounds on the ring: above the first, up to the second.
pub fn bounds(
    statement: &Statement,
    options: &Options<'_>,
    names: &[Box<str>],
) -> Option<(i64, i64)> {
    let tokens = &statement.facts.select.as_deref()?.tokens;
    let (mut above, mut up_to) = (i64::MIN, i64::MAX);
    for relation in tokens {
        let value = integer(&relation.term, &options.values, names, statement)?;
        match relation.op {
            Op::Greater => above = value,
            Op::GreaterEqual => above = value.checked_sub(1)?,
            Op::LessEqual => up_to = value,
            Op::Less => up_to = value.checked_sub(1)?,
            _ => return None,
        }
    }
    (above < up_to).then_some((above, up_to))
}

/// A request's options for its parts, and whether metadata must be left out afterwards.
fn options(request: &Request) -> Option<(Options<'_>, bool)> {
    match request.opcode {
        Opcode::Query => {
            let view = QueryView::parse(&request.body, request.version).ok()?;
            Some((view.options, false))
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(&request.body, request.version).ok()?;
            let prepared = request.prepared.as_ref()?;
            let known = prepared.result_metadata_id.as_deref();
            if view.result_metadata_id.is_some() && view.result_metadata_id != known {
                return None;
            }
            let skips = view.options.flags & query_flags::SKIP_METADATA != 0;
            let mut options = view.options;
            options.flags &= !query_flags::SKIP_METADATA;
            Some((options, skips))
        }
        _ => None,
    }
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
            return false;
        };
        let above = |index: usize| index.checked_sub(1).map(|before| cuts[before]);
        let bodies: Option<Vec<Vec<u8>>> = (0..cuts.len())
            .map(|index| {
                let scan = self.requests[key.index as usize].scan.as_ref()?;
                let page = Page {
                    size: i32::try_from(scan.wanted()?).ok()?,
                    state: scan.state().filter(|_| index == 0),
                };
                self.range_body(key, above(index), Some(cuts[index]), page)
            })
            .collect();
        let (Some(bodies), Some(request)) = (bodies, self.requests.get_mut(key.index as usize))
        else {
            return false;
        };
        let skip_metadata = options(request).is_some_and(|(_, skips)| skips);
        let (Some(scan), Some(statement)) = (request.scan.as_mut(), &request.statement) else {
            return false;
        };
        let part_rows = (rows / cuts.len() as f64).ceil() as u32;
        let fan = Fan {
            children: Vec::with_capacity(cuts.len()),
            parts: (0..cuts.len()).map(|_| None).collect(),
            expected: rows,
            part_us: statement.learned.pieces().work_us(part_rows),
            part_rows,
            missing: cuts.len(),
            to_end,
            skip_metadata,
            cuts: cuts.clone(),
        };
        let job = fan.job();
        scan.fan = Some(fan);
        let begin = scan.ends().map_or(i64::MIN, |(begin, _)| begin);
        let owners = scan.owners();
        let keyspace = match &request.prepared {
            Some(prepared) => prepared.keyspace.as_deref().map(Into::into),
            None => request.keyspace.clone(),
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
                statement: statement.clone(),
                table: table.clone(),
                part: Some(job),
                pool,
                class: Class::Scan,
                idempotent: true,
                consistency,
                ..Request::new(origin, Opcode::Query, version, body, self.now)
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
            self.route(child);
        }
        true
    }

    /// Where a part that begins behind a token is kept.
    fn place_behind(&self, token: i64, owners: Option<Arc<ReplicaSets>>) -> Option<Place> {
        let ring = self.snapshot.ring.as_ref()?;
        Some(Place {
            slot: ring.slot(&Token::Murmur3(token.saturating_add(1))),
            owners: owners?,
        })
    }

    /// Cuts a page, if that is worth it: where one owner ends and the next begins, so that each part is
    /// read where it is kept and nothing is read in vain; and further where that is too much at a time.
    fn plan_fan(&self, key: Key) -> Option<Cuts> {
        let request = self.requests.get(key.index as usize)?;
        let scan = request.scan.as_ref()?;
        let statement = request.statement.as_ref()?;
        let scheduling = &self.shared.config.scheduling;
        let rows_min = scheduling.parallel_rows;
        let wanted = scan.wanted()?;
        let ring = self.snapshot.ring.as_ref()?;
        let worth = rows_min > 0 && (rows_min..=PAGE_ROWS_MAX).contains(&wanted);
        if !worth || !scan.is_paged() || ring.partitioner() != Partitioner::Murmur3 {
            return None;
        }
        let (density, error) = statement.learned.rows_per_token()?;
        options(request)?;
        let (begin, end) = scan.ends()?;
        let left = end.wrapping_sub(begin) as u64;
        let rows = wanted as f64 * (1.0 - (2.0 * error).clamp(ERROR_MIN, ERROR_MAX));
        let span = (rows / density) as u64;
        let to_end = span >= left;
        let span = span.min(left);
        let last = begin.wrapping_add_unsigned(span);
        let tokens = |rows: usize| (rows as f64 / density) as u64;
        let least = tokens((rows_min / PARTS).max(1))
            .max(span / PARTS_MAX)
            .max(1);
        let most = if self.others_lately() || self.scans_about() {
            tokens(statement.learned.rows_of(scheduling.piece_kib * 1024))
        } else {
            // Twice as many as can be in flight: those that come back early make room.
            let at_once = self.nodes.len() as u64 * u64::from(scheduling.scan_slots_idle);
            span / (2 * at_once).max(1)
        };
        let most = most.max(least);
        let mut tokens = Vec::new();
        let mut above = begin;
        let mut slot = ring.slot(&Token::Murmur3(begin.saturating_add(1)));
        let beyond = |token: i64, above: i64| token.wrapping_sub(above) as u64;
        loop {
            // Small neighbours together.
            let mut owned = last;
            while let Some(Token::Murmur3(end)) = ring.end_token(slot)
                && end < last
            {
                owned = end;
                if end > above && beyond(end, above) >= least / 2 {
                    break;
                }
                owned = last;
                slot += 1;
            }
            let pieces = beyond(owned, above).div_ceil(most).max(1);
            let step = beyond(owned, above) / pieces;
            for _ in 1..pieces {
                above = above.wrapping_add_unsigned(step);
                tokens.push(above);
            }
            above = owned;
            tokens.push(owned);
            if owned == last {
                break;
            }
        }
        (tokens.len() > 1).then_some(Cuts {
            tokens,
            to_end,
            rows: span as f64 * density,
        })
    }

    /// QUERY of a request's statement over a part of the ring, in the nodes' version.
    fn range_body(
        &self,
        key: Key,
        above: Option<i64>,
        up_to: Option<i64>,
        page: Page<'_>,
    ) -> Option<Vec<u8>> {
        let request = self.requests.get(key.index as usize)?;
        let statement = request.statement.as_ref()?;
        let facts = &statement.facts;
        let select = facts.select.as_deref()?;
        let (prepared, session) = (request.prepared.as_ref(), request.keyspace.as_deref());
        let (keyspace, table) = match prepared {
            Some(prepared) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t))?,
            None => statement.table(session)?,
        };
        let columns = self.snapshot.partition_key(keyspace, table)?;
        let columns: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
        if !takes_token_range(facts, select, &columns) {
            return None;
        }
        let range = token_range(&statement.text, facts, select, &columns, above, up_to)?;
        let (options, _) = options(request)?;
        let keyspace = match prepared {
            _ if facts.keyspace.is_some() => None,
            Some(prepared) => prepared.keyspace.as_deref(),
            None => session,
        };
        let mut body = Vec::with_capacity(range.text.len() + request.body.len());
        let version = self.snapshot.version;
        write_query(
            &range.text,
            &options,
            &range.markers_gone,
            page,
            version,
            keyspace,
            &mut body,
        )
        .then_some(body)
    }

    /// A part has been answered, or (`None`) will never be.
    pub fn on_part(
        &mut self,
        parent: Key,
        index: u16,
        answer: Option<(Header, &[u8], &[u8], u32)>,
    ) {
        let now = self.now;
        let Some(request) = self.request(parent) else {
            return;
        };
        request.progress = now;
        let Some(scan) = request.scan.as_mut() else {
            return;
        };
        let Some(fan) = scan.fan.as_mut() else { return };
        let rows = answer.filter(|(header, _, content, _)| {
            header.opcode == Opcode::Result as u8
                && matches!(result_kind(content), Ok(ResultKind::Rows))
        });
        let (Some((header, prelude, content, service_us)), Some(part)) =
            (rows, fan.parts.get_mut(usize::from(index)))
        else {
            return self.abandon_fan(parent);
        };
        let fits = RowsView::parse(content).is_ok_and(|page| {
            if let Some(statement) = &request.statement {
                let (rows, bytes) = (page.row_count, page.byte_len());
                statement.learned.note_piece(service_us, rows, bytes);
            }
            let prepared = request.prepared.as_ref();
            prepared.is_none_or(|p| page.has_metadata(&p.result_metadata))
        });
        if !fits || part.is_some() {
            return self.abandon_fan(parent);
        }
        *part = Some(content.to_vec());
        let before = fan.job();
        fan.missing -= 1;
        let complete = fan.missing == 0;
        let job = fan.job();
        let children = match job.work_us.leading_zeros() == before.work_us.leading_zeros() {
            true => Vec::new(),
            // Not of the same rank any more.
            false => fan.children.clone(),
        };
        if header.flags & flags::WARNING != 0 {
            scan.note_warnings(prelude, Opcode::Query);
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
    fn is_wanted(&mut self, key: Key) -> bool {
        let Some(request) = self.request(key) else {
            return false;
        };
        let (session, shared) = (request.session, !request.followers.is_empty());
        shared || self.session(session).is_some()
    }

    /// Reads the page as any other.
    fn abandon_fan(&mut self, key: Key) {
        if self.abandon_parts(key) {
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
        for child in fan.children {
            if self.request(child).is_some_and(|c| c.waiting.is_some()) {
                self.drop_request(child);
            }
        }
        true
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
        let Some(fan) = scan.fan.take() else { return };
        if let Some(statement) = &request.statement {
            let rows = |content: &Vec<u8>| RowsView::parse(content).map_or(0, |p| p.row_count);
            let rows: usize = fan.parts.iter().flatten().map(rows).sum();
            statement.learned.note_expected(rows, fan.expected);
        }
        let wanted = scan.wanted().unwrap_or(usize::MAX);
        let tail = Tail {
            body: Vec::new(),
            remaining: scan.remaining(),
            skip_metadata: fan.skip_metadata,
        };
        let mut join = RowsJoin::default();
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
        let body = above.and_then(|above| self.range_body(key, Some(above), None, page));
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
        scan.begin_tail(join, Tail { body, ..tail }, statement);
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
        let mut body = Vec::new();
        let header_flags = scan.write_warnings(&mut body);
        join.write(&mut body);
        if let Some(statement) = &request.statement {
            scan.note_density(statement, join.row_count(), None);
        }
        let version = self.snapshot.version;
        self.answer_clients(key, Opcode::Result, header_flags, &body, version);
    }
}

/// The token of the last row before a paging state's page.
pub fn token_of(state: &[u8]) -> Option<i64> {
    let start = PageStart::parse(state).ok()?;
    (!start.key.is_empty()).then(|| murmur3_token(start.key))
}
