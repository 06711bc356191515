//! What is sent to each copy of a write to copies in sync ([`crate::execution::copied_write`]), and to the table itself
//! while it is listed: the client's own statement, with the same timestamp and the same time.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_layout::insync::TABLE;
use helenus_policy::schedule::Class;
use helenus_wire::{
    Consistency, Opcode, Options, ValueRef, Version, flags, query_flags, write, write_flags,
    write_values,
};

use crate::execution::copied_writes::shares::Share;
use crate::execution::fan_out_write::known;
use crate::execution::sent_batch::{ID_LEN, SentBatch};
use crate::keys::PoolKey;
use crate::node_request::Target;
use crate::query::Query;
use crate::statement::copy_rules::at_least_quorum;
use crate::statement::layout_plan::{CopyWrite, Plan};
use crate::statement::place::Place;
use crate::statement::prepared::{InRange, Prepared, Statement};
use crate::stats::TableStats;

/// What is written.
pub(crate) enum Written {
    /// A statement, which may be the text of a batch.
    Statement {
        /// On each copy.
        plan: Arc<Plan<Statement>>,
        /// Whether the client has prepared it.
        is_prepared: bool,
        /// Bytes of its text, or of its id if the nodes had prepared it on all copies.
        len: usize,
    },
    /// The statements of a BATCH.
    Batch(SentBatch),
}

impl Written {
    pub(crate) fn statement(plan: Arc<Plan<Statement>>, is_prepared: bool) -> Written {
        let is_known = is_prepared && plan.copies().iter().all(|of| known(of).is_some());
        let len = if is_known { ID_LEN } else { plan.text_len() };
        Written::Statement {
            plan,
            is_prepared,
            len,
        }
    }
}

/// What is sent to each copy.
pub(crate) struct SentToCopies {
    pub written: Written,
    /// In front of the body; the same for all.
    pub payload: Box<[u8]>,
    /// Behind the statement; the same for all.
    pub options: Box<[u8]>,
    /// In which it is written.
    pub version: Version,
    /// Bytes that a request may have in which texts take the place of what the nodes have not prepared yet. It waits as
    /// long as it has more.
    pub max: usize,
    pub pool: PoolKey,
    pub table: Option<Arc<TableStats>>,
    pub own: Own,
    /// What is prepared of it.
    pub shares: Box<[Rc<Share>]>,
}

/// A write as its client has asked for it.
pub(crate) struct Own {
    pub asked: OwnAsked,
    /// Of names without one.
    pub keyspace: Option<Rc<str>>,
    pub place: Option<Place>,
    pub level: Consistency,
}

/// What a client has asked for.
pub(crate) enum OwnAsked {
    /// Prepared, if the client has prepared it.
    Statement(Arc<Statement>, Option<Arc<Prepared>>),
    /// The statements of a BATCH and what is in front of them.
    Batch(Box<[u8]>),
}

/// Appends what stands behind the statement in a QUERY or EXECUTE, or, without values, behind those in a BATCH, to
/// one copy, which is its only replica.
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
        let statements = match &self.written {
            Written::Statement { len, .. } => *len,
            Written::Batch(batch) => batch.request_len(self.max),
        };
        self.payload.len() + self.options.len() + statements
    }

    /// What is sent to a copy until then: by the ids of statements, once the nodes have prepared them. `None` if it has
    /// to wait for that, or if there is no such copy.
    pub(crate) fn query(&self, copy: usize, send_before: Instant) -> Option<Query> {
        let least = match &self.written {
            Written::Statement { .. } => 32,
            Written::Batch(batch) => batch.least_len(),
        };
        let around = self.payload.len() + self.options.len();
        let mut body = Vec::with_capacity(around + least + 32);
        body.extend_from_slice(&self.payload);
        let (opcode, statement, prepared) = match &self.written {
            Written::Statement {
                plan, is_prepared, ..
            } => {
                let copy = plan.copies().get(copy)?;
                let prepared = is_prepared.then(|| known(copy)).flatten();
                if *is_prepared && prepared.is_none() && around + copy.text.len() > self.max {
                    return None;
                }
                Prepared::write_asked(prepared.as_deref(), &copy.text, self.version, &mut body);
                let opcode = opcode(prepared.is_some());
                // A text is not read for it: names are the copy's, and nothing else is asked of it.
                let statement = is_prepared.then(|| copy.statement().clone());
                (opcode, statement, prepared)
            }
            Written::Batch(batch) => {
                batch.write(copy, self.max, &mut body)?;
                (Opcode::Batch, None, None)
            }
        };
        body.extend_from_slice(&self.options);
        Some(Query {
            header_flags: self.header_flags(),
            statement,
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
        let mut body = Vec::with_capacity(self.byte_len() + 32);
        body.extend_from_slice(&self.payload);
        let (opcode, statement, prepared) = match &own.asked {
            OwnAsked::Statement(statement, prepared) => {
                let text = &*statement.text;
                Prepared::write_asked(prepared.as_deref(), text, self.version, &mut body);
                let opcode = opcode(prepared.is_some());
                (opcode, Some(statement.clone()), prepared.clone())
            }
            OwnAsked::Batch(statements) => {
                body.extend_from_slice(statements);
                (Opcode::Batch, None, None)
            }
        };
        write::u16(&mut body, level.0);
        body.extend_from_slice(self.options.get(2..).unwrap_or_default());
        let query = Query {
            header_flags: self.header_flags(),
            keyspace: own.keyspace.clone(),
            statement,
            prepared,
            table: self.table.clone(),
            pool: self.pool,
            class: Class::Write,
            // It has a timestamp of its own.
            idempotent: true,
            consistency: level,
            send_before: Some(send_before),
            ..Query::new(opcode, self.version, body)
        };
        (query, Target::of(own.place.clone()))
    }

    fn header_flags(&self) -> u8 {
        match self.payload.is_empty() {
            true => 0,
            false => flags::CUSTOM_PAYLOAD,
        }
    }

    /// What the nodes are to prepare, or have prepared, for a copy.
    pub(crate) fn to_prepare(&self, copy: usize) -> Vec<&CopyWrite<Statement>> {
        let plans: Vec<&Plan<Statement>> = match &self.written {
            Written::Statement {
                plan,
                is_prepared: true,
                ..
            } => vec![plan],
            Written::Statement { .. } => Vec::new(),
            Written::Batch(batch) => batch.plans_to_prepare().collect(),
        };
        let of_copy = plans.into_iter().map(|plan| plan.copies().get(copy));
        of_copy.flatten().collect()
    }

    /// Whether the nodes do not prepare some of it for a copy, and have been asked for all.
    pub(crate) fn is_refused(&self, copy: usize) -> bool {
        let mut is_refused = false;
        for of in self.to_prepare(copy) {
            match &*of.statement().in_range() {
                InRange::Known(_) => {}
                InRange::Refused { .. } => is_refused = true,
                InRange::Asked(_) | InRange::Unknown { .. } => return false,
            }
        }
        is_refused
    }

    /// What the nodes have prepared for a copy by this id, or the client for the table itself.
    pub(crate) fn prepared(&self, copy: usize, id: &[u8]) -> Option<Arc<Prepared>> {
        if copy == TABLE {
            let mut own = self.shares.iter().map(|share| &share.prepared);
            return own.find(|prepared| *prepared.id == *id).cloned();
        }
        let mut prepared = self.to_prepare(copy).into_iter().filter_map(known);
        prepared.find(|prepared| *prepared.id == *id)
    }

    /// The nodes do not know any more what has this id on a copy, or on the table itself: its text is sent. So is that
    /// of all others, if it is none that is known. The statements of a BATCH to the table stay as the client has sent them.
    pub(crate) fn forget_prepared(&mut self, copy: usize, id: &[u8]) {
        if copy == TABLE
            && let OwnAsked::Statement(_, prepared) = &mut self.own.asked
            && let Some(prepared) = prepared.take()
        {
            // Its names are of where it was prepared, and not of where it is executed.
            self.own.keyspace = prepared.keyspace.as_deref().map(Into::into);
        }
        let all = self.to_prepare(copy);
        let has_id = |of: &&CopyWrite<Statement>| known(of).is_some_and(|of| *of.id == *id);
        match all.iter().find(|of| has_id(of)) {
            Some(of) => of.statement().forget_range(),
            None => all.iter().for_each(|of| of.statement().forget_range()),
        }
    }
}

fn opcode(is_prepared: bool) -> Opcode {
    match is_prepared {
        true => Opcode::Execute,
        false => Opcode::Query,
    }
}
