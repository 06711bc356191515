//! What is sent to each copy of a write to copies in sync ([`crate::execution::copied_write`]).

use std::sync::Arc;
use std::time::Instant;

use helenus_policy::schedule::Class;
use helenus_wire::{
    Consistency, Opcode, Options, ValueRef, Version, flags, query_flags, write, write_flags,
    write_values,
};

use crate::execution::fan_out_write::known;
use crate::execution::sent_batch::SentBatch;
use crate::keys::PoolKey;
use crate::query::Query;
use crate::statement::layout_plan::{CopyWrite, Plan};
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::TableStats;

/// What is written.
pub(crate) enum Written {
    /// A statement, which may be the text of a batch.
    Statement {
        /// On each copy.
        plan: Arc<Plan<Statement>>,
        /// Whether the client has prepared it.
        is_prepared: bool,
    },
    /// The statements of a BATCH.
    Batch(SentBatch),
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
            Written::Statement { plan, .. } => plan.text_len(),
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
            Written::Statement { plan, is_prepared } => {
                let copy = plan.copies().get(copy)?;
                let prepared = is_prepared.then(|| known(copy)).flatten();
                if *is_prepared && prepared.is_none() && around + copy.text.len() > self.max {
                    return None;
                }
                Prepared::write_asked(prepared.as_deref(), &copy.text, self.version, &mut body);
                let opcode = match prepared {
                    Some(_) => Opcode::Execute,
                    None => Opcode::Query,
                };
                (opcode, Some(copy.statement().clone()), prepared)
            }
            Written::Batch(batch) => {
                batch.write(copy, self.max, &mut body)?;
                (Opcode::Batch, None, None)
            }
        };
        body.extend_from_slice(&self.options);
        let header_flags = match self.payload.is_empty() {
            true => 0,
            false => flags::CUSTOM_PAYLOAD,
        };
        Some(Query {
            header_flags,
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

    /// What the nodes are to prepare, or have prepared, for a copy.
    pub(crate) fn to_prepare(&self, copy: usize) -> Vec<&CopyWrite<Statement>> {
        let plans: Vec<&Plan<Statement>> = match &self.written {
            Written::Statement {
                plan,
                is_prepared: true,
            } => vec![plan],
            Written::Statement { .. } => Vec::new(),
            Written::Batch(batch) => batch.plans_to_prepare().collect(),
        };
        let of_copy = plans.into_iter().map(|plan| plan.copies().get(copy));
        of_copy.flatten().collect()
    }

    /// What the nodes have prepared for a copy by this id.
    pub(crate) fn prepared(&self, copy: usize, id: &[u8]) -> Option<Arc<Prepared>> {
        let mut prepared = self.to_prepare(copy).into_iter().filter_map(known);
        prepared.find(|prepared| *prepared.id == *id)
    }

    /// The nodes do not know any more what has this id on a copy: its text is sent. So is that of all others, if it is
    /// none that is known.
    pub(crate) fn forget_prepared(&self, copy: usize, id: &[u8]) {
        let all = self.to_prepare(copy);
        let has_id = |of: &&CopyWrite<Statement>| known(of).is_some_and(|of| *of.id == *id);
        match all.iter().find(|of| has_id(of)) {
            Some(of) => of.statement().forget_range(),
            None => all.iter().for_each(|of| of.statement().forget_range()),
        }
    }
}
