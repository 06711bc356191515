//! State of conditional writes.

use helenus_policy::turns::Condition;

use crate::features::lwt_turns::queue::{Turn, Write};
use crate::statement::condition::condition_of;

/// A request's state.
#[derive(Debug, Default)]
pub(in crate::features) struct Slot {
    pub(super) turn: Option<Turn>,
    /// Its condition's outcome, by its answer.
    pub(super) condition: Condition,
}

impl Slot {
    pub(in crate::features) fn is_waiting(&self) -> bool {
        matches!(self.turn, Some(Turn::Waits(_)))
    }

    pub(in crate::features) fn has_turn(&self) -> bool {
        matches!(self.turn, Some(Turn::Has(_)))
    }

    /// A node has answered with rows.
    #[inline]
    pub(in crate::features) fn on_rows(&mut self, content: &[u8]) {
        if self.turn.is_some() {
            self.condition = condition_of(content);
        }
    }
}

/// A conditional write of a worker may go on, with its turn or without.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    pub(super) write: Write,
    pub(super) with_turn: bool,
}
