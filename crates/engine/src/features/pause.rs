//! Requests that wait because an operator has paused their role or keyspace, and go on when that is over.

mod held;
mod hold_back;
pub mod operator_pause;
mod resume;

pub(super) use self::held::{HeldRequest, HoldGate as State};
pub(super) use self::hold_back::{adopt, deadline, on_deadline, on_request};
pub use self::operator_pause::{Changed, Holds as Shared};
pub(super) use self::resume::{on_late, on_work};

#[cfg(test)]
mod tests;
