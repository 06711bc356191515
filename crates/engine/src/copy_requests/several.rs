//! A read of several partitions of a table with copies in sync: whether one copy can answer it alone, and else in
//! which parts it is asked for.

use std::cell::OnceCell;

use helenus_cql::{KeyValue, Op, RangeValue, SelectFacts};
use helenus_layout::Layout;
use helenus_layout::insync::Members;
use helenus_layout::plan::{LogicalTable, selectable};
use helenus_wire::{Consistency, Options, PageStart, RowsJoin, ValueRef, code};

use crate::context::Context;
use crate::execution::begin_scan::folds;
use crate::execution::copy_owners::{Extent, NotOne, first_run};
use crate::execution::copy_parts::keys::{KEYS_MAX, Keys, NoKeys};
use crate::execution::copy_parts::state::{At, State};
use crate::execution::copy_parts::{CopyParts, InParts, Inner, Left, PartValue, Together, within};
use crate::execution::copy_read::BoundValue;
use crate::execution::fan_out_write::{bytes_of, in_order};
use crate::execution::layout_read::{identity, unwrap};
use crate::execution::outcome::INVALID_STATE;
use crate::execution::rewriting::Refusal;
use crate::execution::token_splits::Stretch;
use crate::execution::values::integer;
use crate::layout_writes::unordered;
use crate::statement::copy_reads::{ReadOfCopy, ReadsOfCopies};
use crate::statement::copy_rules::because;
use crate::statement::divided::Divided;
use crate::statement::layout_plan::ReadInPlace;
use crate::statement::prepared::Statement;

pub(super) const NO_COPY: &str = "none of them gives the rows as this statement needs them: no copy has the table's own order, and \
                       Helenus does not sort what is aggregated, grouped, DISTINCT, JSON, compared by tuples or \
                       limited by a marker, nor filters without ALLOW FILTERING; select columns, with LIMIT as a number";
const UNREADABLE_BOUNDS: &str = "Helenus cannot read its bounds on token(): bind them as bigint";
const ORDER: &str = "rows of several partitions are not sorted: leave out ORDER BY, or read one partition at a time";
const NOT_TOGETHER: &str = "what it selects cannot be put together from several partitions: COUNT, MIN, MAX and SUM of \
                            whole numbers alone can, without LIMIT; read the rows, or group them by the partition key";
const KEY_VALUES: &str =
    "a value of its partition key is missing, null, or none that Helenus can read: bind each";
const KEY_ORDER: &str = "Helenus does not know in which order nodes take several keys of this type: read the partitions \
                         one by one";
const KEY_LENGTH: &str =
    "one of its partition keys is empty, or longer than 65,535 bytes: leave it out";

/// What nodes say of aggregates of several partitions.
const WITHOUT_KEY: &str = "Aggregation query used without partition key";
const SEVERAL_KEYS: &str = "Aggregation query used on multiple partition keys (IN restriction)";

/// A copy that costs less than this share of what one with the table's order costs is worth asking it key by key.
const WORTH_PARTS: f64 = 0.5;

/// What a client asks of several partitions.
pub(super) struct Several<'a> {
    pub table: &'a std::sync::Arc<LogicalTable>,
    pub statement: &'a Statement,
    pub in_place: &'a ReadInPlace<Statement>,
    pub options: &'a Options<'a>,
    /// Of the markers of what is prepared.
    pub names: Option<&'a [Box<str>]>,
    pub knows_columns: bool,
    /// The level, and how many copies must be in sync for it.
    pub level: Consistency,
    pub needed: usize,
    /// Those of an `IN`, once they have been asked for.
    pub known_keys: OnceCell<Result<Keys, NoKeys>>,
}

/// The statement's own bounds on the ring.
enum Bounds {
    Within(Stretch),
    Nothing,
    Unknown,
}

impl<'a> Several<'a> {
    /// What of the ring it reads, if one copy can be asked for all of it as it came, and is to be. `in_sync`: the
    /// copies in sync of a stretch.
    pub(super) fn alone(
        &self,
        cx: &Context,
        in_sync: impl Fn(Extent) -> Members,
    ) -> Result<Option<Extent>, NotOne> {
        let state = self.options.paging_state;
        let whole = &self.in_place.whole;
        if whole.is_empty() || state.is_some_and(State::is_one) {
            return Ok(None);
        }
        let one_group = |stretch| {
            let run = first_run(&cx.snapshot, self.table, stretch)?;
            Ok((run.stretch == stretch).then_some(Extent::Stretch(stretch)))
        };
        if let Some(extent) = one_group(Stretch::WHOLE)? {
            let continues = state.is_some();
            let is_best = continues || self.is_best_alone(cx, in_sync(extent));
            return Ok(is_best.then_some(extent));
        }
        // A node says what an empty result looks like.
        let nothing = Ok(Some(Extent::Partition(0)));
        match (self.divided(), self.bounds()) {
            (Divided::Keys(_), _) => match self.keys(cx) {
                Ok(keys) if keys.count() == 0 => nothing,
                _ => Ok(None),
            },
            (_, Bounds::Nothing) => nothing,
            (_, Bounds::Within(stretch)) => one_group(stretch),
            (_, Bounds::Unknown) => Ok(None),
        }
    }

    /// Whether keys are better asked for one by one, where one node has all of them.
    fn is_best_alone(&self, cx: &Context, in_sync: Members) -> bool {
        let Divided::Keys(of) = self.divided() else {
            return true;
        };
        let keys = self.keys(cx);
        if keys.as_ref().is_ok_and(|keys| keys.count() == 0) || self.together(cx, 2).is_err() {
            return true;
        }
        let least = |is_fit: fn(&ReadOfCopy<Statement>) -> bool| {
            let known = of.reads.iter().filter(|read| in_sync.contains(read.at));
            let costs = known.filter(|read| is_fit(read)).map(|read| read.cost);
            costs.reduce(f64::min)
        };
        match (least(|read| read.is_own), least(|_| true)) {
            (Some(own), Some(least)) => keys.is_err() || least >= own * WORTH_PARTS,
            (None, Some(_)) => false,
            _ => true,
        }
    }

    fn divided(&self) -> &'a Divided<Statement> {
        let Statement { text, facts, .. } = self.statement;
        self.in_place.divided(self.table, text, facts)
    }

    fn select(&self) -> Option<&'a SelectFacts> {
        self.statement.facts.select.as_deref()
    }

    /// Whether it gives the aggregates of all rows.
    fn is_one_row(&self) -> bool {
        self.select()
            .is_some_and(|select| select.aggregates && !select.group_by)
    }

    fn values(&self) -> Result<Vec<ValueRef<'a>>, Refusal> {
        let values = in_order(&self.options.values, &self.statement.facts, self.names);
        values.map_err(|why| unordered(self.table, why))
    }

    fn keys(&self, cx: &Context) -> Result<&Keys, Refusal> {
        let values = self.values()?;
        let known = self.known_keys.get_or_init(|| {
            let Divided::Keys(of) = self.divided() else {
                return Err(NoKeys::Value);
            };
            let LogicalTable { keyspace, name, .. } = &**self.table;
            let key = cx.snapshot.partition_key(keyspace, name);
            Keys::of(&of.columns, key.ok_or(NoKeys::Value)?, &values)
        });
        known.as_ref().map_err(|why| match why {
            NoKeys::Value => self.refused(KEY_VALUES),
            NoKeys::Order => self.refused(KEY_ORDER),
            NoKeys::Length => self.refused(KEY_LENGTH),
            NoKeys::TooMany(count) => self.refused(&format!(
                "it names {count} partitions, and Helenus asks for {KEYS_MAX} at most, one after the other: name \
                 fewer in each statement"
            )),
        })
    }

    /// What becomes of the rows, or aggregates, of so many parts.
    fn together(&self, cx: &Context, parts: usize) -> Result<Together, Refusal> {
        let (statement, table) = (self.statement, self.table);
        let Some(select) = self.select().filter(|_| parts > 1) else {
            return Ok(Together::Rows(RowsJoin::default()));
        };
        if !select.order_by.is_empty() || select.ann {
            return Err(self.refused(ORDER));
        }
        if !self.is_one_row() && selectable(&statement.text, select) {
            return Ok(Together::Rows(RowsJoin::default()));
        }
        let named = (&*table.keyspace, &*table.name);
        match folds(statement, select, Some(named), &cx.snapshot) {
            true => Ok(Together::Folded(select.folds.as_slice().into(), None)),
            false => Err(self.refused(NOT_TOGETHER)),
        }
    }

    /// The parts that it is asked for in.
    pub(super) fn in_parts(mut self, cx: &Context) -> Result<CopyParts, Refusal> {
        let values = self.values()?;
        let own = |at: u16| {
            let value = values.get(usize::from(at)).copied();
            PartValue::Own(BoundValue::of(value.unwrap_or(ValueRef::Unset)))
        };
        let (reads, meanings, left): (_, Box<[PartValue]>, _) = match self.divided() {
            Divided::Keys(of) => {
                let meaning = |value: &KeyValue| match value {
                    KeyValue::Own(at) => own(*at),
                    KeyValue::Key(column) => PartValue::Key(*column),
                };
                if self.keys(cx)?.count() == 0 {
                    return Err(self.refused(NO_COPY));
                }
                let known = self.known_keys.take().and_then(Result::ok);
                let keys = known.ok_or_else(|| self.refused(KEY_VALUES))?;
                let meanings = of.values.iter().map(meaning).collect();
                (&of.reads, meanings, Left::Keys { keys, next: 0 })
            }
            Divided::Ring(of) => {
                let meaning = |value: &RangeValue| match value {
                    RangeValue::Own(at) => own(*at),
                    RangeValue::Above => PartValue::Above,
                    RangeValue::UpTo => PartValue::UpTo,
                };
                let Bounds::Within(bounds) = self.bounds() else {
                    return Err(self.refused(UNREADABLE_BOUNDS));
                };
                let meanings = of.values.iter().map(meaning).collect();
                (&of.reads, meanings, Left::Ring(bounds))
            }
            Divided::Not(why) => {
                let why =
                    format!("several partitions, of different nodes, are not read by it: {why}");
                return Err(self.refused(&why));
            }
        };
        if reads.is_empty() {
            return Err(self.refused(NO_COPY));
        }
        let (parts, warning) = match &left {
            Left::Keys { keys, .. } => (keys.count(), Some(SEVERAL_KEYS)),
            Left::Ring(_) => (usize::MAX, self.is_unbounded().then_some(WITHOUT_KEY)),
        };
        let together = self.together(cx, parts)?;
        let folds = |select: &SelectFacts| select.aggregates || select.group_by;
        let has_warning = self.select().is_some_and(folds);
        // Of aggregates it says nothing of the rows that are counted.
        let limit = self.limit().filter(|_| !self.is_one_row());
        let (left, inner, limit_left) = match self.options.paging_state {
            None => (left, None, limit),
            Some(state) if matches!(together, Together::Rows(_)) => {
                let goes_on = self.goes_on(cx, state, reads, (left, limit));
                goes_on.ok_or_else(|| Refusal::new(code::PROTOCOL, INVALID_STATE))?
            }
            Some(_) => return Err(Refusal::new(code::PROTOCOL, INVALID_STATE)),
        };
        // Keys and values take about as much again.
        if cx.memory.is_full(bytes_of(&values)) {
            return Err(Refusal::no_memory());
        }
        let of = InParts {
            table: self.table.clone(),
            reads: reads.clone(),
            values: meanings,
            level: self.level,
            needed: self.needed,
            page_size: self.options.page_size,
            knows_columns: self.knows_columns,
            began: cx.now,
            now_in_seconds: i32::try_from(cx.since_1970().as_secs()).ok(),
            warning: warning.filter(|_| has_warning),
            is_continued: self.options.paging_state.is_some(),
        };
        let at = (left, inner);
        Ok(CopyParts::new(of, at, limit_left, together, &cx.memory))
    }

    /// Where a paging state says that it goes on; `None` if the state is none of this statement's.
    fn goes_on(
        &self,
        cx: &Context,
        state: &[u8],
        reads: &ReadsOfCopies<Statement>,
        (left, limit): (Left, Option<usize>),
    ) -> Option<(Left, Option<Inner>, Option<usize>)> {
        let from = |id: u64| {
            let mut copies = 0..self.table.copies.len();
            copies.find(|at| identity(self.table, *at) == id)
        };
        let of_one = match unwrap(state) {
            // It comes from the table itself.
            None if !State::is_one(state) => Some((self.in_own_order(cx, reads)?, state)),
            of_one => of_one,
        };
        let state = match of_one {
            // One alone had all until now, whose state counts for all of it.
            Some((identity, inner)) => {
                let start = PageStart::parse(inner).ok()?;
                State {
                    identity,
                    left: limit.map(|_| start.remaining),
                    at: match &left {
                        Left::Ring(_) => At::InStretch(inner),
                        Left::Keys { .. } => At::InKey(start.key, inner),
                    },
                }
            }
            None => State::parse(state)?,
        };
        let at = from(state.identity)?;
        let limit_left = match (limit, state.left) {
            (None, None) => None,
            (Some(limit), Some(rows)) if rows > 0 => Some(limit.min(rows as usize)),
            _ => return None,
        };
        let layout = &self.table.copies.get(at)?.layout;
        let is_alike = |read: &ReadOfCopy<Statement>| {
            let copy = self.table.copies.get(read.at);
            read.order.is_none() && copy.is_some_and(|copy| copy.layout == *layout)
        };
        let inner = match state.at {
            At::Behind(_) | At::Key(_) => None,
            At::InStretch(inner) | At::InKey(_, inner) => {
                reads.iter().any(is_alike).then_some(())?;
                Some((at, inner.into()))
            }
        };
        let left = match (left, state.at) {
            (Left::Ring(stretch), At::Behind(token)) => {
                let is_within = token >= stretch.above;
                Left::Ring(stretch.behind(token).filter(|_| is_within)?)
            }
            (Left::Ring(stretch), At::InStretch(inner)) => Left::Ring(within(stretch, inner)?),
            (Left::Keys { keys, .. }, At::Key(key) | At::InKey(key, _)) => {
                // Where there is one alone, nodes do not name it.
                let is_only = key.is_empty() && keys.count() == 1;
                let next = if is_only { 0 } else { keys.number_of(key)? };
                Left::Keys { keys, next }
            }
            _ => return None,
        };
        Some((left, inner, limit_left))
    }

    /// A copy that goes on where the table itself has ended, if the table was ever in sync.
    fn in_own_order(&self, cx: &Context, reads: &ReadsOfCopies<Statement>) -> Option<u64> {
        let lists = cx.shared.copies.lists();
        let was_listed = lists.has_listed_table((&self.table.keyspace, &self.table.name));
        was_listed.then_some(())?;
        let own = Layout::own(self.table.clustering.len());
        let is_own = |at: &usize| {
            let copy = self.table.copies.get(*at);
            copy.is_some_and(|copy| copy.layout == own)
        };
        let mut in_order = reads.iter().filter(|read| read.order.is_none());
        let at = in_order.find(|read| is_own(&read.at))?.at;
        Some(identity(self.table, at))
    }

    /// Its LIMIT, if it is one: what is none is left to nodes to say.
    fn limit(&self) -> Option<usize> {
        let term = self.select()?.limit.as_ref()?;
        let rows = self.integer(term)?;
        usize::try_from(rows).ok().filter(|rows| *rows > 0)
    }

    fn integer(&self, term: &helenus_cql::Term) -> Option<i64> {
        let names = self.names.unwrap_or_default();
        integer(term, &self.options.values, names, self.statement)
    }

    fn is_unbounded(&self) -> bool {
        self.select().is_some_and(|select| select.tokens.is_empty())
    }

    /// As a node takes them: the least token is no bound.
    fn bounds(&self) -> Bounds {
        let Stretch {
            mut above,
            mut up_to,
        } = Stretch::WHOLE;
        for relation in self.select().iter().flat_map(|select| &select.tokens) {
            let Some(token) = self.integer(&relation.term) else {
                return Bounds::Unknown;
            };
            let before = token.checked_sub(1);
            match relation.op {
                Op::Greater => above = above.max(token),
                Op::GreaterEqual => above = above.max(before.unwrap_or(token)),
                Op::Less | Op::LessEqual if token == i64::MIN => {}
                Op::LessEqual => up_to = up_to.min(token),
                Op::Less => up_to = up_to.min(before.unwrap_or(token)),
                Op::Equal if token > i64::MIN => {
                    above = above.max(before.unwrap_or(token));
                    up_to = up_to.min(token);
                }
                Op::Equal | Op::NotEqual => return Bounds::Unknown,
            }
        }
        Stretch::new(above, up_to).map_or(Bounds::Nothing, Bounds::Within)
    }

    fn refused(&self, why: &str) -> Refusal {
        Refusal::invalid(because(self.table, why))
    }
}
