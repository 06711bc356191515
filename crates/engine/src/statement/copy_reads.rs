//! A SELECT as it is on each copy that takes the place of its table's replicas and can answer it alone. That is
//! found out once for each text.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use helenus_cql::Facts;
use helenus_layout::plan::{InPlace, LogicalTable, read_in_place};

use crate::statement::of_text::OfText;
use crate::statement::restored_order::RestoredOrder;

/// A copy's time is measured at least as often, in microseconds, as it is read: one that was slow is tried again by
/// one read, and not by as many as pass between two samples.
const MEASURED_EVERY_US: u64 = 2_000_000;

/// The copies that can answer it, the cheapest first.
#[derive(Debug)]
pub(crate) struct ReadsOfCopies<S>(Box<[ReadOfCopy<S>]>);

/// On one copy.
#[derive(Debug)]
pub(crate) struct ReadOfCopy<S> {
    /// Which of the table's copies.
    pub at: usize,
    pub text: Box<str>,
    /// How its answers become the table's, if their rows come in another order.
    pub order: Option<Arc<RestoredOrder>>,
    /// Predicted cost, relative to reading the whole partition.
    pub cost: f64,
    /// It is the client's statement but for the table's name.
    pub is_own: bool,
    statement: OnceLock<Arc<S>>,
    /// When its time was measured last, in the time of the lists; 0: never.
    measured_us: AtomicU64,
}

impl<S: OfText> ReadOfCopy<S> {
    /// `None`: the order of a type is not known here.
    fn of(read: InPlace) -> Option<ReadOfCopy<S>> {
        let order = match &read.restore {
            Some(restore) => Some(Arc::new(RestoredOrder::of(restore)?)),
            None => None,
        };
        Some(ReadOfCopy {
            at: read.at,
            text: read.text.into(),
            order,
            cost: read.cost,
            is_own: read.is_own,
            statement: OnceLock::new(),
            measured_us: AtomicU64::new(0),
        })
    }

    /// As a statement that the nodes can prepare.
    pub(crate) fn statement(&self) -> &Arc<S> {
        let made = || Arc::new(S::of_text(&self.text));
        self.statement.get_or_init(made)
    }
}

impl<S> ReadOfCopy<S> {
    /// The same, if anybody has needed it.
    pub(crate) fn known_statement(&self) -> Option<&Arc<S>> {
        self.statement.get()
    }

    pub(crate) fn note_measured(&self, now_us: u64) {
        self.measured_us.store(now_us, Ordering::Relaxed);
    }

    /// Whether its time was not measured for long: the next answer tells more than most.
    pub(crate) fn is_due(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.measured_us()) >= MEASURED_EVERY_US
    }

    pub(crate) fn measured_us(&self) -> u64 {
        self.measured_us.load(Ordering::Relaxed)
    }
}

impl<S: OfText> ReadsOfCopies<S> {
    pub(crate) fn of(table: &LogicalTable, text: &str, facts: &Facts) -> ReadsOfCopies<S> {
        let reads = read_in_place(table, text, facts).into_iter();
        ReadsOfCopies(reads.filter_map(ReadOfCopy::of).collect())
    }
}

impl<S> ReadsOfCopies<S> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ReadOfCopy<S>> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The read on one copy.
    pub(crate) fn on(&self, at: usize) -> Option<&ReadOfCopy<S>> {
        self.iter().find(|read| read.at == at)
    }
}
