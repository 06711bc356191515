//! A read of several partitions of a table whose replicas are copies in sync: one part after the other, each asked
//! of one copy as a read of one partition is ([`crate::execution::copy_read`]).
//!
//! - **A part** is one key of an `IN`, in the order in which nodes take them, or one stretch of the ring whose copies
//!   have the same owners throughout, in the order of the ring.
//! - **A page** is filled from as many parts as it takes, and never holds more rows than its client has asked for.
//!   A part goes on where its page has ended, on a copy with the same order. What a copy's rows have to be sorted
//!   for is one key, of which all rows must come at once: if they do not fit what is left of the page, the page ends
//!   before that key.
//! - **LIMIT** counts over all parts, and what is left of it stands in the paging state ([`state`]).
//! - **Aggregates** are those of the parts put together ([`crate::execution::fold`]).
//! - **Each part** is judged by itself when it has come: it has what was acknowledged before it was asked for. Like
//!   any read of several partitions it is no picture of one moment.
//! - **After 5 s** a page ends with the rows that it has. What has no pages ends after `limits.page_timeout_ms` with a
//!   time-out, as scans do ([`crate::expiry`]).

pub(crate) mod keys;
pub(crate) mod state;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_cql::Fold;
use helenus_layout::insync::{Members, TABLE};
use helenus_layout::plan::{Copy, LogicalTable, ROWS_MAX};
use helenus_policy::ring::NodeIndex;
use helenus_policy::token::murmur3_token;
use helenus_wire::{
    Consistency, Malformed, Opcode, Reader, RowsJoin, RowsView, code, flags, strip_prelude,
};

use crate::execution::copy_owners::{Extent, first_run, owners_now};
use crate::execution::copy_parts::keys::Keys;
use crate::execution::copy_parts::state::{At, State};
use crate::execution::copy_read::{Asked, BoundValue, CopyRead, NOT_LISTED, PartForm};
use crate::execution::fold::fold;
use crate::execution::layout_read::{identity, unwrap};
use crate::execution::outcome::{Step, Told};
use crate::execution::ring_parts::skips_metadata;
use crate::execution::surroundings::Surroundings;
use crate::execution::token_splits::{Stretch, token_of};
use crate::execution::values::clamp;
use crate::execution::warnings::Warnings;
use crate::memory::{Held, Ledger};
use crate::statement::copy_reads::ReadsOfCopies;
use crate::statement::copy_rules::{because, too_few, unavailable};
use crate::statement::prepared::Statement;

/// Rows that are asked for at a time where the client does not page.
const ROWS_AT_ONCE: i32 = 5_000;
/// When a page ends although it has room.
const PAGE_TIME: Duration = Duration::from_secs(5);

const CHANGED: &str = "Helenus: the copies of the table, or the nodes that hold them, have changed while it was read; \
                       try again";
const NOT_FOLDED: &str = "Helenus cannot put the aggregates of several partitions together for these types: read the \
                          rows, or one partition at a time";

/// What all parts have in common.
pub(crate) struct InParts {
    pub table: Arc<LogicalTable>,
    /// The statement of one part on each copy.
    pub reads: Arc<ReadsOfCopies<Statement>>,
    /// In the order of its markers.
    pub values: Box<[PartValue]>,
    pub level: Consistency,
    /// How many copies of each part must be in sync.
    pub needed: usize,
    pub page_size: Option<i32>,
    pub knows_columns: bool,
    pub began: Instant,
    pub now_in_seconds: Option<i32>,
    /// What a node says of the whole.
    pub warning: Option<&'static str>,
    /// It begins where a page before has ended.
    pub is_continued: bool,
}

/// The meaning of a marker of a part's statement.
#[derive(Debug)]
pub(crate) enum PartValue {
    Own(BoundValue),
    /// This column of the partition key.
    Key(usize),
    Above,
    UpTo,
}

impl InParts {
    fn byte_len(&self) -> usize {
        let of_value = |value: &PartValue| match value {
            PartValue::Own(BoundValue::Set(bytes)) => bytes.len(),
            _ => 0,
        };
        let values: usize = self.values.iter().map(of_value).sum();
        size_of::<CopyParts>() + size_of_val(&*self.values) + values
    }
}

/// What is still to be read. It begins with the part that is asked for.
#[derive(Debug)]
pub(crate) enum Left {
    Keys { keys: Keys, next: usize },
    Ring(Stretch),
}

/// What becomes of the parts' rows.
#[derive(Debug)]
pub(crate) enum Together {
    Rows(RowsJoin),
    /// The content of the answer that has the aggregates so far.
    Folded(Box<[Fold]>, Option<Vec<u8>>),
}

/// The copy that a page came from, and the node's own state.
pub(crate) type Inner = (usize, Box<[u8]>);

pub(crate) struct CopyParts {
    of: InParts,
    left: Left,
    /// Where the part goes on, if some of it has been read.
    inner: Option<Inner>,
    /// Rows that are left of the page, and of the LIMIT.
    page_left: Option<usize>,
    limit_left: Option<usize>,
    together: Together,
    /// Whether the client knows the columns, and wants them left out.
    skips_columns: bool,
    warnings: Warnings,
    tracing_id: Option<[u8; 16]>,
    /// The part that is read.
    read: Option<CopyRead>,
    held: Held,
}

impl std::fmt::Debug for CopyParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CopyParts({:?})", self.read)
    }
}

/// What becomes of parts that copies do not give.
pub(super) enum AfterCopies {
    Nothing,
    /// The table itself is read from the beginning.
    Table,
    /// It cannot go on where copies have ended, which will not come back.
    InvalidState,
}

/// What has come of a part, as an answer of the table.
pub(crate) struct PartAnswer<'a> {
    pub copy: usize,
    pub header_flags: u8,
    pub body: &'a [u8],
}

impl CopyParts {
    pub(crate) fn new(
        of: InParts,
        (left, inner): (Left, Option<Inner>),
        limit_left: Option<usize>,
        together: Together,
        ledger: &Rc<Ledger>,
    ) -> CopyParts {
        let size = of.page_size.and_then(|size| usize::try_from(size).ok());
        let mut parts = CopyParts {
            of,
            left,
            inner,
            page_left: size.filter(|size| *size > 0),
            limit_left,
            together,
            skips_columns: false,
            warnings: Warnings::default(),
            tracing_id: None,
            read: None,
            held: Held::new(ledger, 0),
        };
        parts.held.set(parts.byte_len());
        parts
    }

    pub(crate) fn table(&self) -> &Arc<LogicalTable> {
        &self.of.table
    }

    /// What is left where copies could not be read: the table itself may be in sync by now.
    pub(super) fn after_copies(&self, around: &Surroundings<'_>) -> AfterCopies {
        let named = (&*self.of.table.keyspace, &*self.of.table.name);
        let ring = around.cx.snapshot.copy_rings.with_groups(named.0, named.1);
        let now_us = around.cx.shared.copies.us(around.cx.now);
        let lists = around.cx.shared.copies.lists();
        match lists.table_in_sync(named, ring, now_us) {
            None => AfterCopies::Nothing,
            Some(_) if !self.of.is_continued => AfterCopies::Table,
            Some(_) if lists.has_copies_in_sync(named) => AfterCopies::Nothing,
            Some(_) => AfterCopies::InvalidState,
        }
    }

    /// The part that is read.
    pub(crate) fn read(&self) -> Option<&CopyRead> {
        self.read.as_ref()
    }

    pub(super) fn read_mut(&mut self) -> Option<&mut CopyRead> {
        self.read.as_mut()
    }

    /// Whether its rows are a page, and no aggregates.
    fn is_page(&self) -> bool {
        matches!(self.together, Together::Rows(_))
    }

    /// Asks for what comes next.
    pub(super) fn send(&mut self, around: &mut Surroundings<'_>) -> Step<'static> {
        match self.asked(around) {
            Ok(asked) => {
                let read = self.read.insert(CopyRead::new(asked));
                read.send(around)
            }
            Err(why) => Step::Told(Box::new(why)),
        }
    }

    /// What is asked of the copies of the next part.
    fn asked(&mut self, around: &Surroundings<'_>) -> Result<Asked, Told> {
        let snapshot = &around.cx.snapshot;
        let table = self.of.table.clone();
        let now = snapshot.layouts.replaced(&table.keyspace, &table.name);
        let now = now.filter(|now| now.has_copies_of(&table));
        let now = now.ok_or_else(|| told(code::OVERLOADED, CHANGED.to_owned()))?;
        let invalid = |why: &str| told(code::INVALID, because(&table, why));
        let (extent, owners) = match &self.left {
            Left::Keys { keys, next } => {
                let key = keys.key(*next);
                let key = key.ok_or_else(|| invalid("a partition key is empty or too long"))?;
                let token = murmur3_token(&key);
                let owners = owners_now(snapshot, &table, token).collect::<Result<_, _>>();
                (Extent::Partition(token), owners)
            }
            Left::Ring(stretch) => match first_run(snapshot, &table, *stretch) {
                Ok(run) => (Extent::Stretch(run.stretch), Ok(run.owners)),
                Err(why) => (Extent::Stretch(*stretch), Err(why)),
            },
        };
        let owners: Box<[_]> = owners.map_err(|why| invalid(&why.text()))?;
        self.has_enough(around, &owners)?;
        let from = self
            .inner
            .as_ref()
            .and_then(|(from, _)| table.copies.get(*from));
        let may_be_asked = |at: &usize| {
            let copy = now.copies.get(*at);
            let is_alike = |of: &Copy| from.is_none_or(|from| from.layout == of.layout);
            copy.is_some_and(|copy| copy.readable && is_alike(copy))
        };
        let reads = self.of.reads.iter();
        let reads = reads.filter(|read| from.is_none() || read.order.is_none());
        let candidates: Members = reads.map(|read| read.at).filter(may_be_asked).collect();
        let ring = snapshot.copy_rings.of(&table.keyspace, &table.name);
        Ok(Asked {
            part: Some(Box::new(self.form(extent))),
            table,
            owners,
            extent,
            level: self.of.level,
            reads: self.of.reads.clone(),
            candidates,
            continued: self.inner.take(),
            page_size: self.of.page_size,
            knows_columns: self.of.knows_columns,
            began: around.cx.now,
            ring,
            epoch: snapshot.epoch,
        })
    }

    /// As many copies of the part as the level asks for must be in sync.
    fn has_enough(&self, around: &Surroundings<'_>, owners: &[NodeIndex]) -> Result<(), Told> {
        let (shared, table) = (&around.cx.shared, &self.of.table);
        let lists = shared.copies.lists();
        let now_us = shared.copies.us(around.cx.now);
        let named = (&*table.keyspace, &*table.name);
        let ring = around.cx.snapshot.copy_rings.of(named.0, named.1);
        let view = lists.view(named, (owners, ring));
        let list = view.as_ref().and_then(|view| view.list(now_us));
        let list = list.filter(|_| shared.layouts.is_held(around.cx.now));
        let list = list.ok_or_else(|| told(code::OVERLOADED, NOT_LISTED.to_owned()))?;
        let (level, needed) = (self.of.level, self.of.needed);
        let alive = list.in_sync().minus(Members::of(TABLE)).len();
        if alive < needed {
            return Err(Told {
                code: code::UNAVAILABLE,
                text: too_few(table, level, (needed, alive)),
                fields: unavailable(level, needed, alive),
                version: None,
            });
        }
        Ok(())
    }

    fn form(&self, extent: Extent) -> PartForm {
        let set = |bytes: &[u8]| BoundValue::Set(bytes.into());
        let bound = |wanted: fn(Stretch) -> i64| match extent {
            Extent::Stretch(stretch) => set(&wanted(stretch).to_be_bytes()),
            Extent::Partition(_) => BoundValue::Unset,
        };
        let of_key = |column: usize| match &self.left {
            Left::Keys { keys, next } => keys.column(*next, column).map(set),
            Left::Ring(_) => None,
        };
        let value = |value: &PartValue| match value {
            PartValue::Own(value) => value.clone(),
            PartValue::Key(column) => of_key(*column).unwrap_or(BoundValue::Unset),
            PartValue::Above => bound(|stretch| stretch.above),
            PartValue::UpTo => bound(|stretch| stretch.up_to),
        };
        let at_once = usize::try_from(ROWS_AT_ONCE).unwrap_or(usize::MAX);
        let rows = match self.is_page() {
            true => {
                let rows = self.page_left.unwrap_or(at_once);
                rows.min(self.limit_left.unwrap_or(usize::MAX))
            }
            false => self.page_left.unwrap_or(at_once),
        };
        let most = i32::try_from(ROWS_MAX + 1).unwrap_or(i32::MAX);
        PartForm {
            values: self.of.values.iter().map(value).collect(),
            rows: i32::try_from(rows).unwrap_or(i32::MAX).max(1),
            rows_to_sort: self.of.page_size.filter(|size| *size > 0).unwrap_or(most),
            now_in_seconds: self.of.now_in_seconds,
        }
    }

    /// Takes in what has come of a part, and asks for the next.
    pub(super) fn take(
        &mut self,
        around: &mut Surroundings<'_>,
        answer: &PartAnswer<'_>,
    ) -> Step<'static> {
        match self.take_rows(around, answer) {
            Ok(step) => step,
            Err(why) => Step::Broken(why.to_string()),
        }
    }

    fn take_rows(
        &mut self,
        around: &mut Surroundings<'_>,
        answer: &PartAnswer<'_>,
    ) -> Result<Step<'static>, Malformed> {
        let (prelude, content) = strip_prelude(answer.header_flags, answer.body)?;
        self.note_prelude((answer.header_flags, prelude), around.query.opcode)?;
        let page = RowsView::parse(content)?;
        if !around.is_wanted {
            return Ok(Step::Unwanted);
        }
        let from = identity(&self.of.table, answer.copy);
        let (inner, rows) = match &mut self.together {
            Together::Folded(folds, so_far) => {
                if !fold_into(folds, so_far, &page, content) {
                    let why = because(&self.of.table, NOT_FOLDED);
                    return Ok(Step::Told(Box::new(told(code::INVALID, why))));
                }
                (None, 0)
            }
            Together::Rows(join) => {
                let rows = page.row_count.min(self.limit_left.unwrap_or(usize::MAX));
                let on = self.of.reads.on(answer.copy);
                let is_sorted = on.is_some_and(|on| on.order.is_some());
                if is_sorted && self.page_left.is_some_and(|left| rows > left) {
                    // All rows of a key have come to be sorted, and do not fit any more.
                    let state = self.state(from, None)?;
                    return Ok(self.finish(around, Some(state)));
                }
                let kept = page.first_rows(rows);
                let kept = kept.ok_or(Malformed("fewer rows than announced"))?;
                if join.pages() == 0 {
                    let known = around.query.prepared.as_ref();
                    let is_known = known.is_some_and(|of| page.has_metadata(&of.result_metadata));
                    self.skips_columns = is_known && skips_metadata(around.query);
                }
                if join.push(&page.with_rows(kept, rows)).is_err() {
                    let why = told(code::OVERLOADED, CHANGED.to_owned());
                    return Ok(Step::Told(Box::new(why)));
                }
                let wrapped = page.paging_state.and_then(unwrap);
                (wrapped.map(|(_, inner)| inner), rows)
            }
        };
        let of_page = self.page_left.as_mut().filter(|_| rows > 0);
        of_page
            .into_iter()
            .for_each(|left| *left = left.saturating_sub(rows));
        self.limit_left = self.limit_left.map(|left| left - rows);
        self.held.set(self.byte_len());
        if around.memory().is_full(0) {
            return Ok(Step::NoMemory);
        }
        let goes_on = self.limit_left != Some(0) && self.goes_on(answer.copy, inner)?;
        if !goes_on {
            return Ok(self.finish(around, None));
        }
        let late = around.cx.now.saturating_duration_since(self.of.began) >= PAGE_TIME;
        let is_full = self.page_left.is_some_and(|left| left == 0 || late);
        if self.is_page() && is_full {
            let inner = self.inner.take();
            let state = self.state(from, inner.as_ref().map(|(_, state)| &**state))?;
            return Ok(self.finish(around, Some(state)));
        }
        Ok(self.send(around))
    }

    /// Notes where the next part begins, or this one goes on; false if nothing is left.
    fn goes_on(&mut self, copy: usize, inner: Option<&[u8]>) -> Result<bool, Malformed> {
        let asked = self.read.as_ref().map(CopyRead::extent);
        self.inner = inner.map(|state| (copy, state.into()));
        match (&mut self.left, inner) {
            (Left::Keys { .. }, Some(_)) => Ok(true),
            (Left::Keys { keys, next }, None) => {
                *next += 1;
                Ok(*next < keys.count())
            }
            (Left::Ring(left), Some(state)) => {
                let within = within(*left, state).ok_or(Malformed("the paging state"))?;
                *left = within;
                Ok(true)
            }
            (Left::Ring(left), None) => match asked {
                Some(Extent::Stretch(read)) => {
                    let behind = left.behind(read.up_to);
                    *left = behind.unwrap_or(*left);
                    Ok(behind.is_some())
                }
                _ => Ok(false),
            },
        }
    }

    /// The paging state of what is left.
    fn state(&self, identity: u64, inner: Option<&[u8]>) -> Result<Vec<u8>, Malformed> {
        let key = match &self.left {
            Left::Keys { keys, next } => keys.key(*next).ok_or(Malformed("the next key"))?,
            Left::Ring(_) => Vec::new(),
        };
        let at = match (&self.left, inner) {
            (Left::Keys { .. }, None) => At::Key(&key),
            (Left::Keys { .. }, Some(state)) => At::InKey(&key, state),
            (Left::Ring(left), None) => At::Behind(left.above),
            (Left::Ring(_), Some(state)) => At::InStretch(state),
        };
        let state = State {
            identity,
            left: self.limit_left.map(clamp),
            at,
        };
        Ok(state.write())
    }

    /// The client gets what has come.
    fn finish(&mut self, around: &Surroundings<'_>, state: Option<Vec<u8>>) -> Step<'static> {
        let mut join = match &mut self.together {
            Together::Rows(join) => std::mem::take(join),
            Together::Folded(_, so_far) => {
                let content = so_far.take().unwrap_or_default();
                let mut join = RowsJoin::with_capacity(content.len());
                let pushed = RowsView::parse(&content).map(|page| {
                    let known = around.query.prepared.as_ref();
                    let is_known = known.is_some_and(|of| page.has_metadata(&of.result_metadata));
                    self.skips_columns = is_known && skips_metadata(around.query);
                    join.push(&page)
                });
                if !matches!(pushed, Ok(Ok(()))) {
                    return Step::Broken("no aggregates".to_owned());
                }
                join
            }
        };
        join.set_paging_state(state);
        if self.skips_columns {
            join.skip_metadata();
        }
        let mut prelude = Vec::new();
        let mut header_flags = 0;
        if let Some(id) = self.tracing_id {
            prelude.extend_from_slice(&id);
            header_flags |= flags::TRACING;
        }
        if let Some(warning) = self.of.warning {
            self.warnings.put_first(warning);
        }
        header_flags |= self.warnings.write(&mut prelude);
        self.held.set(0);
        let body = join.into_body(prelude);
        Step::Done { header_flags, body }
    }

    /// Bytes of what is kept.
    fn byte_len(&self) -> usize {
        let keys = match &self.left {
            Left::Keys { keys, .. } => keys.byte_len(),
            Left::Ring(_) => 0,
        };
        let rows = match &self.together {
            Together::Rows(join) if join.pages() > 0 => join.byte_len(),
            Together::Rows(_) => 0,
            Together::Folded(_, so_far) => so_far.as_ref().map_or(0, Vec::len),
        };
        self.of.byte_len() + keys + rows
    }

    fn note_prelude(
        &mut self,
        (header_flags, prelude): (u8, &[u8]),
        opcode: Opcode,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(prelude);
        if header_flags & flags::TRACING != 0 {
            let id = reader.uuid()?;
            self.tracing_id.get_or_insert(id);
        }
        if header_flags & flags::WARNING != 0 {
            self.warnings.note(reader.rest(), opcode);
        }
        Ok(())
    }
}

/// What is left of a stretch where a node's own state is in it; `None` if it is not.
pub(crate) fn within(stretch: Stretch, state: &[u8]) -> Option<Stretch> {
    let token = token_of(state)?;
    // Some of its rows may be left.
    let left = Stretch::new(token.checked_sub(1)?, stretch.up_to)?;
    (left.above >= stretch.above).then_some(left)
}

/// Puts a part's aggregates to those before; false if that is not known here.
fn fold_into(
    folds: &[Fold],
    so_far: &mut Option<Vec<u8>>,
    page: &RowsView<'_>,
    content: &[u8],
) -> bool {
    let Some(known) = so_far.take() else {
        // It is the only one, or the next one tells.
        *so_far = Some(content.to_vec());
        return true;
    };
    let Ok(first) = RowsView::parse(&known) else {
        return false;
    };
    let Some(row) = fold(folds, &[first, page.clone()]) else {
        return false;
    };
    let mut join = RowsJoin::with_capacity(row.len());
    if join.push(&page.with_rows(&row, 1)).is_err() {
        return false;
    }
    *so_far = Some(join.into_body(Vec::new()).to_vec());
    true
}

fn told(code: i32, text: String) -> Told {
    Told {
        code,
        text,
        fields: Vec::new(),
        version: None,
    }
}
