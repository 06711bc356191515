//! What is sent to each copy of a write to copies in sync ([`crate::execution::copied_write`]), and to the table itself
//! while it is listed: the client's own statement, with the same timestamp and the same time.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_policy::schedule::Class;
use helenus_wire::{
    Consistency, Opcode, Options, ValueRef, Version, flags, query_flags, write, write_flags,
    write_values,
};

use crate::execution::fan_out_write::known;
use crate::keys::PoolKey;
use crate::node_request::Target;
use crate::query::Query;
use crate::statement::copy_rules::at_least_quorum;
use crate::statement::layout_plan::{CopyWrite, Plan};
use crate::statement::place::Place;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::TableStats;

/// What is sent to each copy.
pub(crate) struct SentToCopies {
    /// The statement on each copy.
    pub plan: Arc<Plan<Statement>>,
    /// Whether the client has prepared it.
    pub is_prepared: bool,
    /// In front of the body; the same for all.
    pub payload: Box<[u8]>,
    /// Behind the statement; the same for all.
    pub options: Box<[u8]>,
    /// In which it is written.
    pub version: Version,
    pub pool: PoolKey,
    pub table: Option<Arc<TableStats>>,
    pub own: Own,
}

/// A write as its client has asked for it.
pub(crate) struct Own {
    pub statement: Arc<Statement>,
    /// If the client has prepared it.
    pub prepared: Option<Arc<Prepared>>,
    /// Of names without one.
    pub keyspace: Option<Rc<str>>,
    pub place: Option<Place>,
    pub level: Consistency,
}

/// Appends what stands behind the statement in a QUERY or EXECUTE to one copy, which is its only replica.
pub(crate) fn write_options(
    values: &[ValueRef<'_>],
    timestamp_us: i64,
    (options, now_in_seconds): (&Options<'_>, i32),
    version: Version,
    out: &mut Vec<u8>,
) {
    use query_flags::{NOW_IN_SECONDS, TIMESTAMP, VALUES};
    let is_v5 = version == Version::V5;
    let set = |on: bool, bit: u32| if on { bit } else { 0 };
    let flags = set(!values.is_empty(), VALUES) | TIMESTAMP | set(is_v5, NOW_IN_SECONDS);
    write::u16(out, Consistency::ONE.0);
    write_flags(out, flags, version);
    if !values.is_empty() {
        write_values(out, values);
    }
    write::i64(out, timestamp_us);
    if is_v5 {
        write::i32(out, options.now_in_seconds.unwrap_or(now_in_seconds));
    }
}

impl SentToCopies {
    /// Bytes of one request, about.
    pub(crate) fn byte_len(&self) -> usize {
        self.payload.len() + self.options.len()
    }

    fn copies(&self) -> &[CopyWrite<Statement>] {
        match &*self.plan {
            Plan::Write(copies) => copies,
            Plan::Read(_) | Plan::ReadInPlace(_) | Plan::Refused(_) | Plan::Table => &[],
        }
    }

    /// What is sent to a copy until then: an EXECUTE, once the nodes have prepared the statement.
    pub(crate) fn query(&self, copy: usize, send_before: Instant) -> Option<Query> {
        let copy = self.copies().get(copy)?;
        let statement = copy.statement().clone();
        let prepared = known(copy).filter(|_| self.is_prepared);
        let len = self.payload.len() + copy.text.len() + self.options.len() + 32;
        let mut body = Vec::with_capacity(len);
        body.extend_from_slice(&self.payload);
        Prepared::write_asked(prepared.as_deref(), &copy.text, self.version, &mut body);
        body.extend_from_slice(&self.options);
        let opcode = opcode(prepared.is_some());
        Some(Query {
            header_flags: self.header_flags(),
            statement: Some(statement),
            prepared,
            table: self.table.clone(),
            pool: self.pool,
            class: Class::Write,
            // Whether it is sent again, and where, is decided here alone.
            idempotent: false,
            consistency: Consistency::ONE,
            send_before: Some(send_before),
            ..Query::new(opcode, self.version, body)
        })
    }

    /// What is sent to the table itself until then, and where.
    pub(crate) fn query_of_table(&self, send_before: Instant) -> (Query, Target) {
        let own = &self.own;
        let level = at_least_quorum(own.level);
        let text = &*own.statement.text;
        let len = self.payload.len() + text.len() + self.options.len() + 32;
        let mut body = Vec::with_capacity(len);
        body.extend_from_slice(&self.payload);
        Prepared::write_asked(own.prepared.as_deref(), text, self.version, &mut body);
        write::u16(&mut body, level.0);
        body.extend_from_slice(self.options.get(2..).unwrap_or_default());
        let query = Query {
            header_flags: self.header_flags(),
            keyspace: own.keyspace.clone(),
            statement: Some(own.statement.clone()),
            prepared: own.prepared.clone(),
            table: self.table.clone(),
            pool: self.pool,
            class: Class::Write,
            // It has a timestamp of its own.
            idempotent: true,
            consistency: level,
            send_before: Some(send_before),
            ..Query::new(opcode(own.prepared.is_some()), self.version, body)
        };
        (query, Target::of(own.place.clone()))
    }

    fn header_flags(&self) -> u8 {
        match self.payload.is_empty() {
            true => 0,
            false => flags::CUSTOM_PAYLOAD,
        }
    }

    /// The nodes do not know the statement on a copy any more: its text is sent.
    pub(crate) fn forget_prepared(&self, copy: usize) {
        if let Some(copy) = self.copies().get(copy) {
            copy.statement().forget_range();
        }
    }
}

fn opcode(is_prepared: bool) -> Opcode {
    match is_prepared {
        true => Opcode::Execute,
        false => Opcode::Query,
    }
}
