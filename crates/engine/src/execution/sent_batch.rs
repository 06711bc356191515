//! The statements of a BATCH of one partition, as they are sent to each copy: in an unlogged batch, which is one
//! mutation to Cassandra as long as it is of one partition of one table.

use std::sync::Arc;

use helenus_wire::{ValueRef, write, write_values};

use crate::execution::fan_out_write::{UNLOGGED, bytes_of, known};
use crate::statement::layout_plan::Plan;
use crate::statement::prepared::Statement;

/// Bytes of an id, which is an MD5 hash, with its length.
pub(super) const ID_LEN: usize = 18;

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
    /// Bytes of the statements in a request, about: by their ids as far as they are prepared, and with the texts in
    /// place of those that are not known yet.
    by_ids: usize,
    with_texts: usize,
    /// The same of the last one.
    last_by_id: usize,
    last_with_text: usize,
}

impl SentBatch {
    /// Adds a statement.
    pub(crate) fn push(
        &mut self,
        (plan, is_prepared): (Arc<Plan<Statement>>, bool),
        values: &[ValueRef<'_>],
    ) {
        self.values.reserve(2 + bytes_of(values));
        write_values(&mut self.values, values);
        // Most batches have one statement many times.
        let last = self.children.last();
        let is_last =
            |last: &Child| last.is_prepared == is_prepared && Arc::ptr_eq(&last.plan, &plan);
        if !last.is_some_and(is_last) {
            let text_len = plan.text_len();
            let is_known = is_prepared && plan.copies().iter().all(|of| known(of).is_some());
            self.last_by_id = 5 + if is_prepared { ID_LEN } else { text_len };
            self.last_with_text = 5 + if is_known { ID_LEN } else { text_len };
        }
        self.by_ids += self.last_by_id;
        self.with_texts += self.last_with_text;
        self.children.push(Child {
            plan,
            is_prepared,
            values_end: self.values.len(),
        });
    }

    /// Bytes that it holds, with what the texts in it are on each copy.
    pub(crate) fn byte_len(&self) -> usize {
        let mut plans: Vec<&Arc<Plan<Statement>>> = Vec::new();
        let texts = self.children.iter().filter(|child| !child.is_prepared);
        plans.extend(texts.map(|child| &child.plan));
        // One that follows itself, mostly.
        plans.dedup_by(|one, other| Arc::ptr_eq(one, other));
        plans.sort_unstable_by_key(|plan| Arc::as_ptr(plan));
        plans.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let of_plans: usize = plans.iter().map(|plan| plan.byte_len()).sum();
        self.children.capacity() * size_of::<Child>() + self.values.capacity() + of_plans
    }

    #[cfg(test)]
    pub(crate) fn plans(&self) -> impl Iterator<Item = &Plan<Statement>> {
        self.children.iter().map(|child| &*child.plan)
    }

    /// Bytes of it in a request, about, by the ids of what is prepared: fewer are never sent.
    pub(crate) fn least_len(&self) -> usize {
        self.by_ids + self.values.len()
    }

    /// The same as it would be sent now, of which no more than `max` is, unless it never has less.
    pub(crate) fn request_len(&self, max: usize) -> usize {
        match self.with_texts + self.values.len() {
            len if len <= max => len,
            _ => self.least_len(),
        }
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

    /// Appends the BATCH to a copy, without what stands behind its statements; `None` if there is no such copy, or if,
    /// as long as the nodes have not prepared all, `out` would have more bytes than `max`.
    pub(crate) fn write(&self, copy: usize, max: usize, out: &mut Vec<u8>) -> Option<()> {
        let count = u16::try_from(self.children.len()).ok()?;
        out.push(UNLOGGED);
        write::u16(out, count);
        // Most batches have one statement many times.
        let (mut last, mut prepared) = (None, None);
        let mut values_start = 0;
        let mut is_to_be_prepared = false;
        for child in &self.children {
            let of_copy = child.plan.copies().get(copy)?;
            // Texts of clients are not prepared.
            if child.is_prepared && last.is_none_or(|last| !Arc::ptr_eq(last, &child.plan)) {
                (last, prepared) = (Some(&child.plan), known(of_copy));
            }
            match prepared.as_ref().filter(|_| child.is_prepared) {
                Some(prepared) => {
                    out.push(1);
                    write::short_bytes(out, &prepared.id);
                }
                None => {
                    is_to_be_prepared |= child.is_prepared;
                    if is_to_be_prepared && out.len() + of_copy.text.len() > max {
                        return None;
                    }
                    out.push(0);
                    write::long_string(out, &of_copy.text);
                }
            }
            out.extend_from_slice(self.values.get(values_start..child.values_end)?);
            values_start = child.values_end;
        }
        (!is_to_be_prepared || out.len() <= max).then_some(())
    }
}
