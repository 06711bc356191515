//! What a write is in a batch with others of its statement.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use helenus_cql::{Kind, modification};

use super::timed_write::timed;
use crate::statement::prepared::{InRange, Prepared, Statement};

/// After a batch that a node has refused, so many writes of the same statement go by themselves.
const ALONE_AFTER_REFUSAL: u32 = 256;
/// So often that number is doubled at most.
const DOUBLED_MAX: u32 = 8;

/// What is kept of a prepared statement; `None` inside if it always goes by itself.
pub(in crate::features) type InPrepared = OnceLock<Option<Box<MergedForm>>>;

/// A write that can share a batch with others of its statement.
#[derive(Debug)]
pub(in crate::features) struct MergedForm {
    /// With the marker. What the nodes know of it is kept in it.
    pub timed: Arc<Statement>,
    /// The marker's number.
    pub timestamp_at: u16,
    /// So many go by themselves first.
    alone: AtomicU32,
    /// Batches that were refused since the last one that was not.
    refused: AtomicU32,
}

impl MergedForm {
    /// Of a statement; `None` if it always goes by itself. It takes as much memory again.
    #[inline]
    pub(super) fn get(prepared: &Prepared) -> Option<&MergedForm> {
        let made = || MergedForm::of(prepared).map(Box::new);
        prepared.features.merge.get_or_init(made).as_deref()
    }

    /// `None` if it must go by itself: it is conditional, adds to what is there, means something else each
    /// time, or says itself when it was written.
    fn of(prepared: &Prepared) -> Option<MergedForm> {
        let statement = &prepared.statement;
        let facts = &statement.facts;
        let is_plain = facts.idempotent_but_for_lists
            && !facts.lwt
            && !facts.counterish
            && !facts.using_timestamp;
        // With IN it may be of several partitions.
        let has_in = match facts.kind {
            Kind::Insert => false,
            _ => modification(&statement.text, facts).is_none_or(|change| !change.ins.is_empty()),
        };
        if !is_plain || has_in {
            return None;
        }
        let (keyspace, _) = prepared.table.as_ref()?;
        let (text, timestamp_at) = timed(&statement.text, facts, keyspace)?;
        let timed = Statement::new(&text);
        // The marker must be where it is said to be, and nothing else have changed.
        let is_as_expected = timed.facts.kind == facts.kind
            && timed.facts.using_timestamp
            && timed.facts.markers == facts.markers + 1;
        is_as_expected.then(|| MergedForm {
            timed: Arc::new(timed),
            timestamp_at,
            alone: AtomicU32::new(0),
            refused: AtomicU32::new(0),
        })
    }

    /// What the nodes have prepared of it.
    pub(super) fn known(&self) -> Option<Arc<Prepared>> {
        match &*self.timed.in_range() {
            InRange::Known(prepared) => Some(prepared.clone()),
            _ => None,
        }
    }

    /// A node has refused a batch of it: the next ones go by themselves, twice as many with each refusal in
    /// a row.
    pub(super) fn note_refused(&self) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        let alone = ALONE_AFTER_REFUSAL << before.min(DOUBLED_MAX);
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// A node has carried out a batch of it.
    pub(super) fn note_done(&self) {
        if self.refused.load(Ordering::Relaxed) > 0 {
            self.refused.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the next one goes by itself because of that.
    pub(super) fn goes_alone(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let alone = &self.alone;
        alone.load(Ordering::Relaxed) > 0
            && alone
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .is_ok()
    }
}
