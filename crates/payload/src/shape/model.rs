//! The model of a column's documents.

use super::frequencies::Frequencies;
use super::slot::Slot;
use super::spelling::Spelling;
use super::words::Vocabulary;

/// The slot of places that the sample did not have.
pub(super) const UNKNOWN: u32 = 0;
/// The slot of whole documents.
pub(super) const ROOT: u32 = 1;

/// The shape of a column's documents, as learned.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Documents without white space as 0, with spaces after commas and colons as 1.
    pub(super) styles: Frequencies,
    pub(super) spelling: Spelling,
    pub(super) vocabulary: Vocabulary,
    /// [`UNKNOWN`], [`ROOT`] and others; their numbers are checked when a shape is read.
    pub(super) slots: Vec<Slot>,
}

impl Shape {
    pub(super) fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize]
    }
}
