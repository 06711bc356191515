//! The statements of a BATCH of one partition, as they are sent to each copy: in an unlogged batch, which is one
//! mutation to Cassandra as long as it is of one partition of one table.

use std::sync::Arc;

use helenus_wire::{ValueRef, write, write_values};

use crate::execution::fan_out_write::{UNLOGGED, bytes_of, known};
use crate::statement::layout_plan::Plan;
use crate::statement::prepared::Statement;

/// One of the statements.
struct Child {
    /// On each copy.
    plan: Arc<Plan<Statement>>,
    /// Whether the client has prepared it.
    is_prepared: bool,
    /// Where its values end among those of all.
    values_end: usize,
}

/// The statements of a batch.
#[derive(Default)]
pub(crate) struct SentBatch {
    children: Vec<Child>,
    /// Of one statement after the other, as they are sent.
    values: Vec<u8>,
    /// Bytes of the statements in a request, about.
    statements_len: usize,
}

impl SentBatch {
    /// Adds a statement. `own_len`: bytes of it as its client has sent it.
    pub(crate) fn push(
        &mut self,
        (plan, is_prepared): (Arc<Plan<Statement>>, bool),
        own_len: usize,
        values: &[ValueRef<'_>],
    ) {
        self.values.reserve(2 + bytes_of(values));
        write_values(&mut self.values, values);
        self.children.push(Child {
            plan,
            is_prepared,
            values_end: self.values.len(),
        });
        self.statements_len += 5 + own_len;
    }

    /// Bytes that it holds.
    pub(crate) fn byte_len(&self) -> usize {
        self.children.capacity() * size_of::<Child>() + self.values.capacity()
    }

    /// Bytes of it in a request, about.
    pub(crate) fn request_len(&self) -> usize {
        self.statements_len + self.values.len()
    }

    pub(crate) fn plans(&self) -> impl Iterator<Item = &Plan<Statement>> {
        self.children.iter().map(|child| &*child.plan)
    }

    /// Those of statements that their client has prepared, each once as long as one follows another.
    pub(crate) fn plans_to_prepare(&self) -> impl Iterator<Item = &Plan<Statement>> {
        let prepared = self.children.iter().filter(|child| child.is_prepared);
        let mut last = None;
        let plans = prepared.map(|child| &child.plan).filter(move |plan| {
            let is_other = last.is_none_or(|last| !Arc::ptr_eq(last, plan));
            last = Some(*plan);
            is_other
        });
        plans.map(|plan| &**plan)
    }

    /// Appends the BATCH to a copy, without what stands behind its statements; `None` if there is no such copy.
    pub(crate) fn write(&self, copy: usize, out: &mut Vec<u8>) -> Option<()> {
        let count = u16::try_from(self.children.len()).ok()?;
        out.push(UNLOGGED);
        write::u16(out, count);
        // Most batches have one statement many times.
        let (mut last, mut prepared) = (None, None);
        let mut values_start = 0;
        for child in &self.children {
            let of_copy = child.plan.copies().get(copy)?;
            if last.is_none_or(|last| !Arc::ptr_eq(last, &child.plan)) {
                (last, prepared) = (Some(&child.plan), known(of_copy));
            }
            match prepared.as_ref().filter(|_| child.is_prepared) {
                Some(prepared) => {
                    out.push(1);
                    write::short_bytes(out, &prepared.id);
                }
                None => {
                    out.push(0);
                    write::long_string(out, &of_copy.text);
                }
            }
            out.extend_from_slice(self.values.get(values_start..child.values_end)?);
            values_start = child.values_end;
        }
        Some(())
    }
}
