//! Reads of many partitions, in pieces.
//!
//! A node cannot be told to stop a scan, but it can be asked for less: the proxy asks for a few rows
//! at a time, by the paging of the protocol itself, and joins the pages into the one that the client
//! asked for. Between two pieces others may go first. LIMIT, PER PARTITION LIMIT, DISTINCT and
//! filters keep their meaning, since the node counts on across pages, and the paging state that the
//! client gets is the node's own.

use std::sync::Arc;

use helenus_cql::{Fold, Literal, Op, SelectFacts, Term};
use helenus_policy::ring::ReplicaSets;
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{
    ExecuteView, Header, JoinedBody, Opcode, Options, Page, PageStart, QueryView, Reader, RowsJoin,
    RowsView, ValueRef, Values, flags, page_key, write,
};

use crate::answer::USE_WARNING;
use crate::by_owner::ByOwner;
use crate::cut::{bounds, token_of};
use crate::fan::{Fan, Tail};
use crate::prepared::{Prepared, Statement};
use crate::request::Request;
use crate::snapshot::Snapshot;
use crate::understand::Place;
use crate::worker::{Key, State};

/// Rows of the first piece of a statement whose rows are not known yet, at most, and their size.
const ROWS_AT_FIRST: usize = 100;
const ROW_BYTES_AT_FIRST: usize = 1_024;
/// The same for a scan alone whose client names a page size.
const ROWS_ALONE: usize = 10_000;
/// Every piece costs a node something beside its rows. So pieces are larger by this where at most other
/// scans would have to wait for them.
const AMONG_SCANS: usize = 2;

/// A scan that is under way.
#[derive(Debug)]
pub struct Scan {
    /// Rows that the client wants in this page; `None`: all.
    page_size: Option<usize>,
    /// Rows that the statement wants in all, if it says so.
    limit: Option<usize>,
    /// Where the next piece begins.
    state: Option<Vec<u8>>,
    /// Rows to ask for next.
    ask: usize,
    join: RowsJoin,
    warnings: Vec<String>,
    owners: Option<Arc<ReplicaSets>>,
    /// The statement's bounds on the ring: above the first, up to the second.
    ends: Option<(i64, i64)>,
    /// The same for what was left when the page began.
    begin: Option<(i64, i64)>,
    /// Rows left of the statement's LIMIT, or of 2³¹ − 1, when the page began.
    remaining: u32,
    /// Aggregates, which are had from those of parts, or the statement goes as it is.
    pub folds: Box<[Fold]>,
    /// The parts that the page is being read in.
    pub fan: Option<Fan>,
    /// The last piece of a page that was read in parts.
    tail: Option<Tail>,
    /// Predicted work of the rest, and of the next piece, in microseconds.
    work_us: u32,
    piece_us: u32,
}

impl Scan {
    /// The page to ask for next.
    pub fn page(&self) -> Page<'_> {
        Page {
            size: i32::try_from(self.ask).unwrap_or(i32::MAX),
            state: self.state.as_deref(),
        }
    }

    /// The last piece of a page that was read in parts, in the nodes' version.
    pub fn tail_request(&self) -> Option<(Opcode, &[u8])> {
        let tail = self.tail.as_ref()?;
        Some((tail.opcode, &tail.body))
    }

    /// The statement's own bounds on the ring: above the first, up to the second.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        self.ends
    }

    /// Where the next piece begins, if not at the statement's start.
    pub fn state(&self) -> Option<&[u8]> {
        self.state.as_deref()
    }

    /// Whether aggregates are selected, and nothing else.
    pub fn is_folded(&self) -> bool {
        !self.folds.is_empty()
    }

    pub fn owners(&self) -> Option<Arc<ReplicaSets>> {
        self.owners.clone()
    }

    /// Rows left of the statement's LIMIT, or of 2³¹ − 1, when the page began.
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The part of the ring that is still to be read: above the first token, up to the second. Rows of
    /// the first token's own partition may be left, too.
    pub fn ends(&self) -> Option<(i64, i64)> {
        let (above, up_to) = self.ends?;
        match self.state.as_deref() {
            Some(state) => Some((token_of(state)?, up_to)),
            None => Some((above, up_to)),
        }
    }

    /// Goes on behind the rows of the parts.
    pub fn begin_tail(&mut self, join: RowsJoin, tail: Tail, statement: &Statement) {
        self.join = join;
        self.tail = Some(tail);
        let rows = self.wanted().map_or(u32::MAX, clamp);
        self.piece_us = statement.learned.pieces().work_us(rows);
        self.work_us = self.piece_us;
    }

    /// Forgets the parts, if the next piece is the one behind them; the bytes that were kept.
    pub fn drop_tail(&mut self) -> Option<usize> {
        self.tail.take()?;
        Some(std::mem::take(&mut self.join).byte_len())
    }

    /// Keeps the warnings of a piece.
    pub fn note_warnings(&mut self, prelude: &[u8], opcode: Opcode) {
        note_warnings(&mut self.warnings, prelude, opcode);
    }

    /// Puts a warning in front of those of the pieces.
    pub fn warn_first(&mut self, warning: &str) {
        self.warnings.insert(0, warning.to_owned());
    }

    /// Writes the warnings of all pieces; the flag that announces them.
    pub fn write_warnings(&self, out: &mut Vec<u8>) -> u8 {
        write_warnings(&self.warnings, out)
    }

    /// Learns how densely the statement's rows lie on the ring, from a page with its paging state.
    pub fn note_density(&self, statement: &Statement, rows: usize, state: Option<&[u8]>) {
        let Some((above, up_to)) = self.begin else {
            return;
        };
        let end = match state {
            Some(state) => token_of(state),
            // It ended by its LIMIT, nobody knows where.
            None if self.limit.is_some_and(|limit| rows >= limit) => None,
            None => Some(up_to),
        };
        if let Some(end) = end.filter(|end| *end > above) {
            let span = end.wrapping_sub(above) as u64;
            statement.learned.note_density(rows, span);
        }
    }

    /// Whether a piece has been read already.
    pub fn has_begun(&self) -> bool {
        self.join.pages() > 0
    }

    /// Predicted work of the rest and of the next piece, in microseconds, and the rows still wanted.
    pub fn predicted(&self) -> (u32, u32, u32) {
        let rows = self.wanted().unwrap_or(usize::MAX);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        (self.work_us, self.piece_us, rows)
    }

    /// Bytes kept.
    pub fn byte_len(&self) -> usize {
        self.join.byte_len()
    }

    /// Rows of the page that are still to come, at most.
    pub fn wanted(&self) -> Option<usize> {
        let page = self.page_size.map(|p| p - self.join.row_count().min(p));
        let limit = self.limit.map(|l| l - self.join.row_count().min(l));
        match (page, limit) {
            (Some(page), Some(limit)) => Some(page.min(limit)),
            (page, limit) => page.or(limit),
        }
    }
}

/// Whether a statement's one row can be had from those of parts.
fn folds(select: &SelectFacts, keyspace: Option<&str>, snapshot: &Snapshot) -> bool {
    let own = |keyspace| !snapshot.folds_shadowed.contains(keyspace);
    // Where nothing else is selected, nor anything done with it.
    (select.is_count_rows() || !select.folds.is_empty() && keyspace.is_some_and(own))
        && !select.json
        && !select.group_by
        && select.limit.is_none()
        && select.order_by.is_empty()
}

/// Whether the pages of a statement's result can be joined into larger ones.
pub fn comes_in_pieces(select: &SelectFacts) -> bool {
    // Aggregates go over all rows whatever the page, and user-defined ones look like any function.
    !select.calls
        && !select.aggregates
        && !select.group_by
        && !select.ann
        && select.order_by.is_empty()
}

impl State {
    /// What a scan needs to come in pieces; `None` if it must go as it is.
    pub fn begin_scan(
        &self,
        header: Header,
        opcode: Opcode,
        content: &[u8],
        version: helenus_wire::Version,
        (statement, prepared): (&Statement, Option<&Prepared>),
        keyspace: Option<&str>,
    ) -> Option<(Box<Scan>, Option<Place>)> {
        let select = statement.facts.select.as_deref()?;
        let scheduling = &self.shared.config.scheduling;
        let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
        let keyspace = match prepared {
            Some(prepared) => prepared.table.as_ref().map(|table| &*table.0),
            None => statement.table(keyspace).map(|table| table.0),
        };
        let folded = folds(select, keyspace, &self.snapshot);
        if !(scheduling.in_pieces() || scheduling.in_parts())
            || header.flags & own != 0
            || !(folded || comes_in_pieces(select))
        {
            return None;
        }
        let options = match opcode {
            Opcode::Query => QueryView::parse(content, version).ok()?.options,
            Opcode::Execute => ExecuteView::parse(content, version).ok()?.options,
            _ => return None,
        };
        // The node has something to say about that.
        if options.page_size == Some(0) || (folded && options.paging_state.is_some()) {
            return None;
        }
        // A negative one means no paging, as none at all.
        let page_size = options.page_size.filter(|size| *size > 0);
        if !scheduling.in_pieces() && !folded && page_size.is_none() {
            return None;
        }
        let names = prepared.map_or(&[][..], |p| &p.names);
        let limit = select.limit.as_ref();
        let limit = limit.and_then(|term| integer(term, &options.values, names, statement));
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        // On its later pages, the state says what is left of the LIMIT.
        let start = options.paging_state.map(PageStart::parse);
        let (limit, remaining) = match start {
            Some(Ok(start)) => (limit.map(|_| start.remaining as usize), start.remaining),
            _ => (limit, limit.map_or(i32::MAX as u32, clamp)),
        };
        let mut scan = Box::new(Scan {
            page_size: page_size.map(|size| size as usize),
            limit,
            state: options.paging_state.map(<[u8]>::to_vec),
            ask: 0,
            join: RowsJoin::default(),
            warnings: Vec::new(),
            owners: keyspace.and_then(|keyspace| self.snapshot.keyspaces.get(keyspace).cloned()),
            ends: bounds(statement, &options, names),
            begin: None,
            remaining,
            folds: match folded {
                true => select.folds.as_slice().into(),
                false => Box::default(),
            },
            fan: None,
            tail: None,
            work_us: 0,
            piece_us: 0,
        });
        scan.begin = scan.ends();
        self.plan_piece(&mut scan, statement);
        let place = self.place_of_scan(&scan, (statement, prepared), Some(&options));
        Some((scan, place))
    }

    /// Where a scan begins: at the key of its paging state, at its lower bound, or at the ring's start.
    fn place_of_scan(
        &self,
        scan: &Scan,
        (statement, prepared): (&Statement, Option<&Prepared>),
        options: Option<&Options<'_>>,
    ) -> Option<Place> {
        let ring = self.snapshot.ring.as_ref()?;
        let slot = match (scan.state.as_deref().and_then(page_key), options) {
            (Some(key), _) => ring.slot_of_key(key)?,
            (None, None) => return None,
            (None, Some(options)) => {
                let names = prepared.map_or(&[][..], |p| &p.names);
                let tokens = &statement.facts.select.as_deref()?.tokens;
                let above = tokens
                    .iter()
                    .find(|t| matches!(t.op, Op::Greater | Op::GreaterEqual));
                match (above, ring.partitioner()) {
                    (None, _) => 0,
                    (Some(bound), Partitioner::Murmur3) => {
                        let token = integer(&bound.term, &options.values, names, statement)?;
                        ring.slot(&Token::Murmur3(token.saturating_add(1)))
                    }
                    // A bound in bytes is seldom written as a constant: any node may do it.
                    (Some(_), Partitioner::ByteOrdered) => return None,
                }
            }
        };
        Some(Place {
            slot,
            owners: scan.owners.clone()?,
        })
    }

    /// Decides how many rows to ask for next, and predicts the work.
    fn plan_piece(&self, scan: &mut Scan, statement: &Statement) {
        let known = statement.learned.pieces();
        let others = self.others_lately();
        let larger = if others { 1 } else { AMONG_SCANS };
        let alone = !others && !self.scans_about();
        let scheduling = &self.shared.config.scheduling;
        let bytes_max = scheduling.piece_kib * 1024 * larger;
        let rows_at_first = (bytes_max / ROW_BYTES_AT_FIRST).min(ROWS_AT_FIRST * larger);
        let rows_max = match known.samples() {
            _ if !scheduling.in_pieces() => usize::MAX,
            // Nobody would have to wait.
            0 if alone => scan.page_size.map_or(rows_at_first, |p| p.min(ROWS_ALONE)),
            0 => rows_at_first,
            _ => statement.learned.rows_of(bytes_max),
        };
        let wanted = scan.wanted();
        // Pieces of one size: a small one at the end would cost as much as a large one.
        scan.ask = wanted
            .map_or(rows_max, |wanted| {
                wanted.div_ceil(wanted.div_ceil(rows_max.max(1)).max(1))
            })
            .clamp(1, i32::MAX as usize);
        scan.piece_us = known.work_us(clamp(scan.ask));
        // Without a bound nobody knows how much is left; what has come already is a fair guess.
        let rest = wanted.unwrap_or(scan.ask + scan.join.row_count());
        let further = rest.saturating_sub(scan.ask).div_ceil(scan.ask);
        let further = u32::try_from(further).unwrap_or(u32::MAX);
        scan.work_us = scan.piece_us.saturating_mul(further.saturating_add(1));
    }

    /// Takes in a piece; true if more must come before the client has its page.
    ///
    /// `out` gets the body for the client when it is complete: prelude and content.
    pub fn on_piece(
        &mut self,
        key: Key,
        header: &mut Header,
        (prelude, content): (&[u8], &[u8]),
        service_us: u32,
        out: &mut JoinedBody,
    ) -> Piece {
        let Some(request) = self.request(key) else {
            return Piece::Last;
        };
        let Some(statement) = request.statement.clone() else {
            return Piece::Last;
        };
        let (opcode, session) = (request.opcode, request.session);
        let Some(mut scan) = request.scan.take() else {
            return Piece::Last;
        };
        let page = match RowsView::parse(content) {
            Ok(page) => page,
            Err(e) => {
                self.in_flight_bytes -= scan.byte_len();
                return Piece::Broken(e.to_string());
            }
        };
        let bytes = page.byte_len();
        statement
            .learned
            .note_piece(service_us, page.row_count, bytes);
        let enough = page.row_count >= scan.wanted().unwrap_or(usize::MAX);
        if !scan.has_begun() && (enough || page.paging_state.is_none()) {
            scan.note_density(&statement, page.row_count, page.paging_state);
            return Piece::Whole;
        }
        let joined = scan.join.push(&page);
        if header.flags & flags::WARNING != 0 {
            scan.note_warnings(prelude, opcode);
        }
        if joined.is_ok() {
            self.in_flight_bytes += bytes;
        }
        if joined.is_err()
            && let Some(bytes) = scan.drop_tail()
        {
            // The parts have no paging state of their own to go on from.
            self.in_flight_bytes -= bytes;
            return self.go_on(key, scan, &statement, session);
        }
        if let Some(tail) = scan.tail.take() {
            tail.finish(&mut scan.join);
        }
        // Other columns: the schema has changed meanwhile. The client gets what belongs together,
        // and its next page begins with the others.
        let more = scan.join.paging_state().is_some() && scan.wanted() != Some(0) && joined.is_ok();
        if !more {
            header.flags &= !flags::WARNING;
            let mut warnings = Vec::new();
            header.flags |= scan.write_warnings(&mut warnings);
            let (rows, state) = (scan.join.row_count(), scan.join.paging_state());
            scan.note_density(&statement, rows, state);
            self.in_flight_bytes -= scan.byte_len();
            *out = std::mem::take(&mut scan.join).into_body(warnings);
            return Piece::Last;
        }
        if self.in_flight_bytes > self.shared.config.limits.in_flight_bytes_max {
            self.in_flight_bytes -= scan.byte_len();
            return Piece::TooLarge;
        }
        scan.state = scan.join.paging_state().map(<[u8]>::to_vec);
        self.go_on(key, scan, &statement, session)
    }

    /// Puts a scan back for its next piece.
    fn go_on(
        &mut self,
        key: Key,
        mut scan: Box<Scan>,
        statement: &Statement,
        session: Key,
    ) -> Piece {
        self.plan_piece(&mut scan, statement);
        let place = self.place_of_scan(&scan, (statement, None), None);
        let now = self.now;
        if let Some(request) = self.request(key) {
            request.scan = Some(scan);
            request.attempts = 0;
            request.progress = now;
        }
        self.plan_for(key, place.as_ref(), false);
        let shared = self.request(key).is_some_and(|r| !r.followers.is_empty());
        if shared || self.session(session).is_some() {
            Piece::More
        } else {
            Piece::Unwanted
        }
    }
}

/// What a piece was.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// The next one must be asked for.
    More,
    /// The client is gone.
    Unwanted,
    /// The client's page, as the node has sent it.
    Whole,
    /// The client's page is complete.
    Last,
    /// The node's answer cannot be understood.
    Broken(String),
    /// There is no room for so many rows.
    TooLarge,
}

/// Releases what a request that ends early has kept of its scan.
pub fn kept_bytes(request: &Request) -> usize {
    let kept = |scan: &Scan| scan.byte_len() + scan.fan.as_ref().map_or(0, Fan::byte_len);
    let by_owner = request.by_owner.as_deref().map_or(0, ByOwner::byte_len);
    by_owner + request.scan.as_deref().map_or(0, kept)
}

/// Writes warnings, if there are any; the flag that announces them.
pub fn write_warnings(warnings: &[String], out: &mut Vec<u8>) -> u8 {
    if warnings.is_empty() {
        return 0;
    }
    let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
    write::string_list(out, &warnings);
    flags::WARNING
}

/// Adds the warnings of an answer that are not known yet.
pub fn note_warnings(known: &mut Vec<String>, prelude: &[u8], opcode: Opcode) {
    let Ok(warnings) = Reader::new(prelude).string_list() else {
        return;
    };
    for warning in warnings {
        let about_use = opcode == Opcode::Execute && warning.starts_with(USE_WARNING);
        if !about_use && !known.iter().any(|k| k == warning) {
            known.push(warning.to_owned());
        }
    }
}

fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// An integer in a statement, as it is written or bound.
pub fn integer(
    term: &Term,
    values: &Values<'_>,
    names: &[Box<str>],
    statement: &Statement,
) -> Option<i64> {
    let value = match term {
        Term::Literal(Literal::Int(number)) => return i64::try_from(*number).ok(),
        Term::Marker(index) if values.named => values.named(names.get(*index as usize)?),
        Term::Marker(index) => values.get(*index as usize),
        Term::NamedMarker(index) if values.named => {
            let markers = &statement.facts.named_markers;
            values.named(markers.iter().find(|(_, i)| i == index)?.0.as_str())
        }
        Term::NamedMarker(index) => values.get(*index as usize),
        _ => None,
    };
    match value {
        Some(ValueRef::Set(bytes)) => match bytes.len() {
            4 => Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
            8 => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
            _ => None,
        },
        _ => None,
    }
}
