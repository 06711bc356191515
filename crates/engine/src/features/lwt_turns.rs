//! Conditional writes of one partition take turns, instead of preempting each other in Paxos.

mod graces;
mod queue;
mod slot;
mod taking;

pub(super) use self::graces::Graces as State;
pub use self::queue::SharedTurns;
pub use self::slot::Granted;
pub(super) use self::slot::Slot;
pub(super) use self::taking::{
    deadline, end_waits, leak_check, on_deadline, on_end, on_keep, on_message, on_work, waits,
};

#[cfg(test)]
mod tests;
