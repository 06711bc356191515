//! Reads of many partitions, in pieces.
//!
//! A node cannot be told to stop a scan, but it can be asked for less: the proxy asks for a few rows
//! at a time, by the paging of the protocol itself, and joins the pages into the one that the client
//! asked for. Between two pieces others may go first. LIMIT, PER PARTITION LIMIT, DISTINCT and
//! filters keep their meaning, since the node counts on across pages, and the paging state that the
//! client gets is the node's own.

use std::sync::Arc;

use helenus_cql::{Fold, Literal, Name, Op, SelectFacts, Term};
use helenus_policy::ring::ReplicaSets;
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{
    ExecuteView, Header, JoinedBody, Opcode, Options, Page, PageStart, QueryView, Reader, RowsJoin,
    RowsView, ValueRef, Values, flags, page_key, write,
};

use crate::engine::{Engine, RequestKey};
use crate::execution::aggregate::note_as_it_is;
use crate::execution::multi_get::ByOwner;
use crate::execution::scatter_gather::{Fan, Tail};
use crate::execution::token_splits::{Stretch, bounds, token_of};
use crate::node::response::USE_WARNING;
use crate::request::Request;
use crate::snapshot::Snapshot;
use crate::statement::analyze::Place;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::add;

pub(crate) use crate::statement::pieces::comes_in_pieces;

/// Rows of the first piece of a statement whose rows are not known yet, at most, and their size.
const ROWS_AT_FIRST: usize = 100;
const ROW_BYTES_AT_FIRST: usize = 1_024;
/// The same for a scan alone whose client names a page size.
const ROWS_ALONE: usize = 10_000;
/// Every piece costs a node something beside its rows. So pieces are larger by this where at most other
/// scans would have to wait for them.
const AMONG_SCANS: usize = 2;

/// Whether a result shows which partitions its rows are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partitions {
    Visible,
    Hidden,
}

/// What is sent for a scan that has no parts under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// A few rows at a time.
    Pieces,
    /// The client's own request.
    AsItIs,
}

/// A scan that is under way.
#[derive(Debug)]
pub(crate) struct Scan {
    flow: Flow,
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
    /// The statement's bounds on the ring.
    bounds: Option<Stretch>,
    /// What was left of them when the page began.
    begin: Option<Stretch>,
    /// Rows left of the statement's LIMIT, or of 2³¹ − 1, when the page began.
    remaining: u32,
    /// Aggregates, which are had from those of parts, or the statement goes as it is.
    pub folds: Box<[Fold]>,
    /// The parts that the page is being read in.
    pub fan: Option<Fan>,
    /// Whether it has been cut.
    pub was_cut: bool,
    /// A node has refused a part of it. If the nodes answer the request as it is, its parts are to blame,
    /// else the request itself.
    pub parts_refused: bool,
    /// The time that decides what has expired, for all of its parts, in seconds since 1970. The client's
    /// own goes before it.
    pub now_in_seconds: Option<i32>,
    /// The last piece of a page that was read in parts.
    tail: Option<Tail>,
    /// Predicted work of the rest, and of the next piece, in microseconds.
    work_us: u32,
    piece_us: u32,
}

impl Scan {
    /// The page to ask for next; `None`: what the client asks for.
    pub(crate) fn page(&self) -> Option<Page<'_>> {
        (self.flow == Flow::Pieces).then(|| Page {
            size: i32::try_from(self.ask).unwrap_or(i32::MAX),
            state: self.state.as_deref(),
        })
    }

    /// From now on the client's own request is sent, of this predicted work.
    pub(crate) fn go_as_it_is(&mut self, work_us: u32) {
        self.flow = Flow::AsItIs;
        (self.work_us, self.piece_us) = (work_us, work_us);
    }

    pub(crate) fn is_as_it_is(&self) -> bool {
        self.flow == Flow::AsItIs
    }

    /// The last piece of a page that was read in parts, in the nodes' version.
    pub(crate) fn tail_request(&self) -> Option<(Opcode, &[u8])> {
        let tail = self.tail.as_ref()?;
        Some((tail.opcode, &tail.body))
    }

    /// The statement's own bounds on the ring.
    pub(crate) fn bounds(&self) -> Option<Stretch> {
        self.bounds
    }

    /// Where the next piece begins, if not at the statement's start.
    pub(crate) fn state(&self) -> Option<&[u8]> {
        self.state.as_deref()
    }

    /// Whether aggregates are selected, and nothing else.
    pub(crate) fn is_folded(&self) -> bool {
        !self.folds.is_empty()
    }

    pub(crate) fn owners(&self) -> Option<Arc<ReplicaSets>> {
        self.owners.clone()
    }

    /// Rows left of the statement's LIMIT, or of 2³¹ − 1, when the page began.
    pub(crate) fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The part of the ring that is still to be read. Rows of the partition at whose token it begins may
    /// be left, too.
    pub(crate) fn left(&self) -> Option<Stretch> {
        let bounds = self.bounds?;
        match self.state.as_deref() {
            Some(state) => bounds.behind(token_of(state)?),
            None => Some(bounds),
        }
    }

    /// Goes on behind the rows of the parts with a piece that asks for just the rows that are missing.
    pub(crate) fn begin_tail(&mut self, join: RowsJoin, tail: Tail, statement: &Statement) {
        self.join = join;
        self.tail = Some(tail);
        let rows = self.wanted().map_or(u32::MAX, clamp);
        self.piece_us = statement.learned.pieces().work_us(rows);
        self.work_us = self.piece_us;
    }

    /// Goes on from the paging state of the last part whose rows these are.
    pub(crate) fn begin_with(&mut self, join: RowsJoin) {
        self.state = join.paging_state().map(<[u8]>::to_vec);
        self.join = join;
    }

    /// Forgets the parts, if the next piece is the one behind them; the bytes that were kept.
    pub(crate) fn drop_tail(&mut self) -> Option<usize> {
        self.tail.take()?;
        Some(std::mem::take(&mut self.join).byte_len())
    }

    /// Keeps the warnings of a piece.
    pub(crate) fn note_warnings(&mut self, prelude: &[u8], opcode: Opcode) {
        note_warnings(&mut self.warnings, prelude, opcode);
    }

    /// Puts a warning in front of those of the pieces.
    pub(crate) fn warn_first(&mut self, warning: &str) {
        self.warnings.insert(0, warning.to_owned());
    }

    /// Writes the warnings of all pieces; the flag that announces them.
    pub(crate) fn write_warnings(&self, out: &mut Vec<u8>) -> u8 {
        write_warnings(&self.warnings, out)
    }

    /// Learns from a page, with its paging state, how the statement's rows lie on the ring.
    pub(crate) fn note_page(
        &self,
        statement: &Statement,
        rows: usize,
        state: Option<&[u8]>,
        partitions: Partitions,
    ) {
        let learned = &statement.learned;
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
            return learned.note_partition_rows(rows as f64);
        }
        let Some(stretch) = end.and_then(|end| Stretch::new(begin.above, end)) else {
            return;
        };
        if partitions == Partitions::Hidden {
            learned.note_partition_passed();
        }
        // Of pages in parts that is noted with them.
        if let Some(density) = learned.rows_per_token().filter(|_| !self.was_cut) {
            learned.note_expected(rows, density * stretch.tokens() as f64);
        }
        learned.note_density(rows, stretch.tokens());
    }

    /// Whether a piece has been read already.
    pub(crate) fn has_begun(&self) -> bool {
        self.join.pages() > 0
    }

    /// Rows that the piece under way was asked for.
    pub(crate) fn asked(&self) -> u32 {
        clamp(self.ask)
    }

    /// Predicted work of the rest and of the next piece, in microseconds, and the rows still wanted.
    pub(crate) fn predicted(&self) -> (u32, u32, u32) {
        let rows = match self.flow {
            Flow::Pieces => clamp(self.wanted().unwrap_or(usize::MAX)),
            Flow::AsItIs => 1,
        };
        (self.work_us, self.piece_us, rows)
    }

    /// Bytes kept.
    pub(crate) fn byte_len(&self) -> usize {
        self.join.byte_len()
    }

    /// Rows of the page that are still to come, at most.
    pub(crate) fn wanted(&self) -> Option<usize> {
        let page = self.page_size.map(|p| p - self.join.row_count().min(p));
        let limit = self.limit.map(|l| l - self.join.row_count().min(l));
        match (page, limit) {
            (Some(page), Some(limit)) => Some(page.min(limit)),
            (page, limit) => page.or(limit),
        }
    }
}

/// Whether a statement's one row can be had from those of parts.
fn folds(
    statement: &Statement,
    select: &SelectFacts,
    table: Option<(&str, &str)>,
    snapshot: &Snapshot,
) -> bool {
    let may = |(keyspace, table): (&str, &str)| {
        let reversed =
            |column: &Name| snapshot.compares_in_reverse(keyspace, table, column.as_str());
        !snapshot.folds_shadowed.contains(keyspace) && !select.extremes_of.iter().any(reversed)
    };
    // Where nothing else is selected, nor anything done with it.
    (select.is_count_rows() || !select.folds.is_empty() && table.is_some_and(may))
        // What a function gives, such as now(), is one value for the whole.
        && statement.facts.restricted_by_values()
        && !select.json
        && !select.group_by
        && select.limit.is_none()
        && select.order_by.is_empty()
}

impl Engine {
    /// What a scan needs to come in pieces; `None` if it must go as it is.
    pub(crate) fn begin_scan(
        &self,
        header: Header,
        opcode: Opcode,
        content: &[u8],
        version: helenus_wire::Version,
        (statement, prepared): (&Statement, Option<&Prepared>),
        keyspace: Option<&str>,
    ) -> Option<(Box<Scan>, Option<Place>)> {
        let select = statement.facts.select.as_deref()?;
        let scheduling = &self.cx.shared.config.scheduling;
        let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
        let table = match prepared {
            Some(prepared) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t)),
            None => statement.table(keyspace),
        };
        let keyspace = table.map(|(keyspace, _)| keyspace);
        let folded = folds(statement, select, table, &self.cx.snapshot);
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
            flow: Flow::Pieces,
            page_size: page_size.map(|size| size as usize),
            limit,
            state: options.paging_state.map(<[u8]>::to_vec),
            ask: 0,
            join: RowsJoin::default(),
            warnings: Vec::new(),
            owners: keyspace.and_then(|keyspace| self.cx.snapshot.keyspaces.get(keyspace).cloned()),
            bounds: bounds(statement, &options, names),
            begin: None,
            remaining,
            folds: match folded {
                true => select.folds.as_slice().into(),
                false => Box::default(),
            },
            fan: None,
            was_cut: false,
            parts_refused: false,
            now_in_seconds: None,
            tail: None,
            work_us: 0,
            piece_us: 0,
        });
        scan.begin = scan.left();
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
        let ring = self.cx.snapshot.ring.as_ref()?;
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
    pub(crate) fn plan_piece(&self, scan: &mut Scan, statement: &Statement) {
        let known = statement.learned.pieces();
        let others = self.others_lately();
        let larger = if others { 1 } else { AMONG_SCANS };
        let alone = !others && !self.scans_about();
        let scheduling = &self.cx.shared.config.scheduling;
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
    pub(crate) fn on_piece(
        &mut self,
        key: RequestKey,
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
        let opcode = request.opcode;
        let Some(mut scan) = request.scan.take() else {
            return Piece::Last;
        };
        let page = match RowsView::parse(content) {
            Ok(page) => page,
            Err(e) => {
                self.cx.memory.sub(scan.byte_len());
                return Piece::Broken(e.to_string());
            }
        };
        if std::mem::take(&mut scan.parts_refused) {
            self.blame_parts(&statement);
        }
        if scan.is_as_it_is() {
            note_as_it_is(&scan, &statement, &page, service_us);
            return Piece::Whole;
        }
        let bytes = page.byte_len();
        statement
            .learned
            .note_piece(service_us, page.row_count, bytes);
        let partitions = self.look_at_partitions(key, &page);
        let enough = page.row_count >= scan.wanted().unwrap_or(usize::MAX);
        if !scan.has_begun() && (enough || page.paging_state.is_none()) {
            scan.note_page(&statement, page.row_count, page.paging_state, partitions);
            return Piece::Whole;
        }
        let joined = scan.join.push(&page);
        if header.flags & flags::WARNING != 0 {
            scan.note_warnings(prelude, opcode);
        }
        if joined.is_ok() {
            self.cx.memory.add(bytes);
        }
        if joined.is_err()
            && let Some(bytes) = scan.drop_tail()
        {
            // The parts have no paging state of their own to go on from.
            self.cx.memory.sub(bytes);
            return self.go_on(key, scan, &statement);
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
            scan.note_page(&statement, rows, state, partitions);
            self.cx.memory.sub(scan.byte_len());
            *out = std::mem::take(&mut scan.join).into_body(warnings);
            return Piece::Last;
        }
        if self.cx.memory.is_full(0) {
            self.cx.memory.sub(scan.byte_len());
            return Piece::TooLarge;
        }
        scan.state = scan.join.paging_state().map(<[u8]>::to_vec);
        self.go_on(key, scan, &statement)
    }

    /// Learns from rows how many are in a partition, if they show it.
    pub(crate) fn look_at_partitions(
        &mut self,
        key: RequestKey,
        page: &RowsView<'_>,
    ) -> Partitions {
        let random = self.cx.random();
        let request = self.requests.get(key);
        let Some(columns) = request.and_then(|r| self.partition_columns(r)) else {
            return Partitions::Hidden;
        };
        let statement = request.and_then(|r| r.statement.as_ref());
        if let Some(learned) = statement.map(|s| &s.learned)
            && learned.wants_partitions(page.row_count, random)
            && let Some(rows) = rows_in_partition(page, &columns)
        {
            learned.note_partition_rows(rows);
        }
        Partitions::Visible
    }

    /// Nodes answer a statement as it is, but have refused its parts.
    fn blame_parts(&self, statement: &Statement) {
        add(&self.cx.shared.stats.global.scans_not_in_parts, 1);
        let table = statement
            .facts
            .table
            .as_ref()
            .map_or("?", |name| name.as_str());
        tracing::info!(
            table,
            "nodes answer a statement as it is but refuse its parts: it is read whole for a while"
        );
        statement.learned.suspend(self.cx.now);
    }

    /// Whether a request's result shows which partitions its rows are in.
    pub(crate) fn partitions_of(&self, request: &Request) -> Partitions {
        match self.partition_columns(request) {
            Some(_) => Partitions::Visible,
            None => Partitions::Hidden,
        }
    }

    /// Puts a scan back for its next piece.
    pub(crate) fn go_on(
        &mut self,
        key: RequestKey,
        mut scan: Box<Scan>,
        statement: &Statement,
    ) -> Piece {
        self.plan_piece(&mut scan, statement);
        let place = self.place_of_scan(&scan, (statement, None), None);
        let now = self.cx.now;
        if let Some(request) = self.request(key) {
            request.scan = Some(scan);
            request.attempts = 0;
            request.progress = now;
        }
        self.plan_for(key, place.as_ref(), false);
        match self.is_wanted(key) {
            true => Piece::More,
            false => Piece::Unwanted,
        }
    }
}

/// What a piece was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
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
pub(crate) fn kept_bytes(request: &Request) -> usize {
    let kept = |scan: &Scan| scan.byte_len() + scan.fan.as_ref().map_or(0, Fan::byte_len);
    let by_owner = request.by_owner.as_deref().map_or(0, ByOwner::byte_len);
    by_owner + request.scan.as_deref().map_or(0, kept)
}

/// Writes warnings, if there are any; the flag that announces them.
pub(crate) fn write_warnings(warnings: &[String], out: &mut Vec<u8>) -> u8 {
    if warnings.is_empty() {
        return 0;
    }
    let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
    write::string_list(out, &warnings);
    flags::WARNING
}

/// Adds the warnings of an answer that are not known yet.
pub(crate) fn note_warnings(known: &mut Vec<String>, prelude: &[u8], opcode: Opcode) {
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

/// How many rows of a page are in the partition of a row, on average over the rows. These columns make
/// up the partition key.
fn rows_in_partition(page: &RowsView<'_>, columns: &[usize]) -> Option<f64> {
    let mut cells: Vec<_> = columns.iter().map(|column| page.rows_by(*column)).collect();
    let mut before: Vec<Option<&[u8]>> = Vec::new();
    let mut row = Vec::with_capacity(columns.len());
    let (mut run, mut squares) = (0_f64, 0_f64);
    for _ in 0..page.row_count {
        row.clear();
        for column in &mut cells {
            row.push(column.next()?.ok()?.1);
        }
        if row != before {
            squares += run * run;
            run = 0.0;
            std::mem::swap(&mut row, &mut before);
        }
        run += 1.0;
    }
    squares += run * run;
    (page.row_count > 0).then(|| squares / page.row_count as f64)
}

fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// An integer in a statement, as it is written or bound.
pub(crate) fn integer(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of rows with these two columns, without specifications of them.
    fn rows(rows: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [2, 4, 2, rows.len() as i32] {
            write::i32(&mut out, number);
        }
        for (a, b) in rows {
            write::bytes(&mut out, Some(a.as_bytes()));
            write::bytes(&mut out, Some(b.as_bytes()));
        }
        out
    }

    #[test]
    fn rows_tell_how_many_are_in_a_partition() {
        let body = rows(&[
            ("a", "x"),
            ("a", "y"),
            ("b", "y"),
            ("b", "y"),
            ("b", "y"),
            ("c", "y"),
        ]);
        let page = RowsView::parse(&body).expect("rows");
        let of = |columns: &[usize]| rows_in_partition(&page, columns);
        assert_eq!(of(&[0]), Some((4.0 + 9.0 + 1.0) / 6.0));
        assert_eq!(of(&[1]), Some((1.0 + 25.0) / 6.0));
        assert_eq!(of(&[1, 0]), Some((1.0 + 1.0 + 9.0 + 1.0) / 6.0));
        let nothing = rows(&[]);
        let nothing = RowsView::parse(&nothing).expect("rows");
        assert_eq!(rows_in_partition(&nothing, &[0]), None);
    }
}
