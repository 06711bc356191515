//! Which copy a read asks, and what.

use std::sync::Arc;
use std::time::Instant;

use helenus_layout::insync::{Members, Read, TABLE};
use helenus_layout::plan::LogicalTable;
use helenus_policy::predict::Estimate;
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{
    Consistency, ExecuteView, Malformed, Opcode, Options, Page, QueryView, ValueRef, Version,
    same_columns, strip_payload, write_asked_page,
};

use crate::copies::{Lists, View};
use crate::copy_rings::RingId;
use crate::execution::copy_owners::Extent;
use crate::execution::in_range::InRange;
use crate::execution::surroundings::{RangePrepare, Surroundings};
use crate::node_request::Prediction;
use crate::query::Query;
use crate::statement::classify::class_of_partition;
use crate::statement::copy_reads::{ReadOfCopy, ReadsOfCopies};
use crate::statement::prepared::{Prepared, Statement};

/// What a client asks of which table.
pub(crate) struct Asked {
    pub table: Arc<LogicalTable>,
    /// The node of each copy.
    pub owners: Box<[NodeIndex]>,
    pub extent: Extent,
    pub level: Consistency,
    /// The statement on each copy that can answer it.
    pub reads: Arc<ReadsOfCopies<Statement>>,
    /// With other values than the client's, if it is a part of what the client asks.
    pub part: Option<Box<PartForm>>,
    /// Copies that may be asked, and the table itself.
    pub candidates: Members,
    /// From which the page before came, if one is continued, and the node's own paging state.
    pub continued: Option<(usize, Box<[u8]>)>,
    pub page_size: Option<i32>,
    /// Whether the client knows the columns of the statement that it has prepared, if it has.
    pub knows_columns: bool,
    pub began: Instant,
    /// The ring by which these are the owners, and the snapshot that says so.
    pub ring: RingId,
    pub epoch: u64,
}

/// How a part of a read is asked for.
pub(crate) struct PartForm {
    /// In the order of the statement's markers.
    pub values: Box<[BoundValue]>,
    /// Rows in a page, of a copy in the table's order and of others.
    pub rows: i32,
    pub rows_to_sort: i32,
    /// What expires does so for all parts at once, in seconds since 1970.
    pub now_in_seconds: Option<i32>,
}

/// A value of a request.
#[derive(Clone, Debug)]
pub(crate) enum BoundValue {
    Set(Box<[u8]>),
    Null,
    Unset,
}

impl BoundValue {
    pub(crate) fn of(value: ValueRef<'_>) -> BoundValue {
        match value {
            ValueRef::Set(bytes) => BoundValue::Set(bytes.into()),
            ValueRef::Null => BoundValue::Null,
            ValueRef::Unset => BoundValue::Unset,
        }
    }

    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            BoundValue::Set(bytes) => ValueRef::Set(bytes),
            BoundValue::Null => ValueRef::Null,
            BoundValue::Unset => ValueRef::Unset,
        }
    }
}

impl Asked {
    pub(super) fn view<'a>(&self, lists: &'a Lists) -> Option<View<'a>> {
        let table = &self.table;
        lists.view((&table.keyspace, &table.name), (&self.owners, self.ring))
    }

    /// The copy that is asked next.
    pub(super) fn next(
        &self,
        around: &Surroundings<'_>,
        view: &View<'_>,
        now_us: u64,
    ) -> Option<(usize, Read)> {
        let reads = &*self.reads;
        let in_sync = view.list(now_us)?.in_sync();
        let candidates = in_sync.intersection(self.candidates);
        let me = view.member.number;
        let (copies, proxies) = (view.copies, view.proxies);
        let begin = |at: usize| {
            let preferred = [u8::try_from(at).ok()?];
            let read = Read::begin(copies, proxies, me, &preferred, Members::EMPTY, now_us)?;
            Some((at, read))
        };
        // It takes any statement, and its replicas share the work.
        if candidates.contains(TABLE) {
            return begin(TABLE);
        }
        let continued = self.continued.as_ref().map(|(from, _)| *from);
        let score = |of: &ReadOfCopy<Statement>| {
            let node = *self.owners.get(of.at)?;
            let is_linked = around.links.has_link(around.query.pool, node);
            let is_sound = around.links.is_sound(node, around.cx.now);
            let work_us = work_us(reads, of, around.query.class);
            let finish_us = around.queues.finish_us(around.cx, node, work_us);
            let trouble = u8::from(!is_linked) * 2 + u8::from(!is_sound);
            let is_elsewhere = continued.is_some_and(|from| from != of.at);
            Some((trouble, is_elsewhere, finish_us))
        };
        let best = |sorts: bool| {
            let fit = reads.iter().filter(|of| candidates.contains(of.at));
            let fit = fit.filter(|of| sorts || of.order.is_none());
            let scored = fit.filter_map(|of| Some((score(of)?, of)));
            let first = scored.min_by(|((one, at, first), _), ((other, of, second), _)| {
                (one, at).cmp(&(other, of)).then(first.total_cmp(second))
            });
            first.map(|(_, of)| of)
        };
        let mut chosen = best(true)?;
        if let Some(order) = &chosen.order
            && let Some(in_order) = best(false)
            && !order.is_tried(self.page_size)
        {
            chosen = in_order;
        }
        begin(chosen.at)
    }

    /// What the table itself is asked, if not what the client has: the page before came from a copy.
    pub(super) fn continued_from_copy(&self) -> Option<(&[u8], i32)> {
        let (from, state) = self.continued.as_ref()?;
        let size = self.page_size.unwrap_or(i32::MAX);
        (*from != TABLE).then_some((state, size))
    }

    /// What a copy is asked: an EXECUTE, once the nodes have prepared its statement.
    pub(super) fn query(
        &self,
        around: &mut Surroundings<'_>,
        on: &ReadOfCopy<Statement>,
    ) -> Result<Query, Malformed> {
        let own = around.query;
        let statement = on.statement().clone();
        // What is put together anew is so for the nodes.
        let version = match self.part {
            Some(_) => around.cx.snapshot.version,
            None => own.version,
        };
        let content = strip_payload(own.header_flags, own.version, &own.body)?;
        let options = match own.opcode {
            Opcode::Execute => ExecuteView::parse(content, own.version)?.options,
            _ => QueryView::parse(content, own.version)?.options,
        };
        let prepared = self.prepared(around, on);
        let payload_len = own.body.len() - content.len();
        let mut body = Vec::with_capacity(own.body.len() + on.text.len() + 32);
        body.extend_from_slice(own.body.get(..payload_len).unwrap_or_default());
        Prepared::write_asked(prepared.as_deref(), &on.text, version, &mut body);
        let options_at = body.len();
        let state = self.continued.as_ref().map(|(_, state)| &**state);
        match &self.part {
            Some(part) => part.write(&options, (on, state), version, &mut body),
            None if prepared.is_none() && own.opcode == Opcode::Execute => {
                options.write_with_state_and_columns(content, version, state, &mut body);
            }
            None => options.write_with_state(content, state, &mut body),
        }
        // It is the only replica.
        let level = body.get_mut(options_at..options_at + 2);
        level
            .ok_or(Malformed("no consistency level"))?
            .copy_from_slice(&Consistency::ONE.0.to_be_bytes());
        let opcode = match prepared {
            Some(_) => Opcode::Execute,
            None => Opcode::Query,
        };
        Ok(Query {
            header_flags: own.header_flags,
            class: self.class(own.class, &statement),
            statement: Some(statement),
            prepared,
            table: own.table.clone(),
            pool: own.pool,
            // It only reads.
            idempotent: true,
            consistency: Consistency::ONE,
            ..Query::new(opcode, version, body)
        })
    }

    fn class(&self, own: Class, statement: &Statement) -> Class {
        match self.extent {
            Extent::Stretch(_) => own,
            Extent::Partition(_) => class_of_partition(statement),
        }
    }

    /// What it is expected to take.
    pub(super) fn prediction(&self, query: &Query, on: &ReadOfCopy<Statement>) -> Prediction {
        match query.class {
            Class::Scan => Prediction::Scan {
                work_us: work_us(&self.reads, on, Class::Scan),
            },
            _ => Prediction::Learned,
        }
    }

    /// What the nodes have prepared, if its result is what the client knows. They are asked where they have not.
    fn prepared(
        &self,
        around: &mut Surroundings<'_>,
        on: &ReadOfCopy<Statement>,
    ) -> Option<Arc<Prepared>> {
        let asked = around.query.prepared.as_ref();
        let asked = asked.filter(|_| around.query.opcode == Opcode::Execute)?;
        let derived = on.statement();
        let known = match &*derived.in_range() {
            InRange::Known(known) => Some(known.clone()),
            _ => None,
        };
        let Some(known) = known else {
            if derived.begin_preparing(around.cx.now) {
                around.todo.prepare = Some(RangePrepare {
                    statement: derived.clone(),
                    derived: derived.clone(),
                    keyspace: None,
                });
            }
            return None;
        };
        let known = around.cx.shared.newest(known);
        let table = &self.table;
        let copy = table.copies.get(on.at)?;
        let of_copy = (&*known.result_metadata, (&*copy.keyspace, &*copy.physical));
        let of_table = (&*asked.result_metadata, (&*table.keyspace, &*table.name));
        let appended = on.order.as_ref().map_or(0, |order| order.appended());
        // A part has its columns told.
        let is_same =
            self.part.is_some() || self.knows_columns && same_columns(of_copy, of_table, appended);
        is_same.then_some(known)
    }
}

impl PartForm {
    /// Appends what follows the statement.
    fn write(
        &self,
        options: &Options<'_>,
        (on, state): (&ReadOfCopy<Statement>, Option<&[u8]>),
        version: Version,
        out: &mut Vec<u8>,
    ) {
        let values: Vec<ValueRef<'_>> = self.values.iter().map(BoundValue::as_ref).collect();
        let size = match on.order {
            Some(_) => self.rows_to_sort,
            None => self.rows,
        };
        let mut options = *options;
        options.now_in_seconds = options.now_in_seconds.or(self.now_in_seconds);
        write_asked_page(&options, &values, Page { size, state }, version, out);
    }
}

/// What a copy's own time counts in 10 s less, if another one was measured meanwhile: a half. A copy that was slow
/// once is asked again.
const HALVED_US: f64 = 10_000_000.0;

/// What the read is expected to take on an idle node, in microseconds: as it was measured, or else in proportion to
/// another copy's time. What was measured long before that counts less and less.
fn work_us(reads: &ReadsOfCopies<Statement>, of: &ReadOfCopy<Statement>, class: Class) -> u32 {
    let seen = |of: &ReadOfCopy<Statement>| {
        let learned = &of.known_statement()?.learned;
        let us = || f64::from(learned.service_us(class));
        learned.has_answers().then(|| (of.measured_us(), us()))
    };
    let in_proportion = |us: f64, cost: f64| us * of.cost / cost.max(f64::MIN_POSITIVE);
    let others = reads.iter().filter(|other| other.at != of.at);
    let last = others.filter_map(|other| Some((seen(other)?, other.cost)));
    let last = last.max_by_key(|((measured_us, _), _)| *measured_us);
    let work_us = match (seen(of), last) {
        (Some((_, us)), None) => us,
        (None, Some(((_, us), cost))) => in_proportion(us, cost),
        (Some((measured_us, us)), Some(((last_us, other_us), cost))) => {
            let expected_us = in_proportion(other_us, cost);
            let newer_us = last_us.saturating_sub(measured_us) as f64;
            expected_us + (us - expected_us) * (-newer_us / HALVED_US).exp2()
        }
        (None, None) => {
            // The cheapest one comes first.
            let least = reads.iter().next().map_or(1.0, |of| of.cost);
            in_proportion(f64::from(Estimate::of_class(class).typical_us()), least)
        }
    };
    work_us as u32
}
