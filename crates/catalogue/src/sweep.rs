//! When the sweep of derived layouts compares what, and when it may delete: as what it sees tells, with time as an
//! argument.

mod pending;
mod quiet;

pub use self::pending::{Due, Left, Pending, Waits};
pub use self::quiet::{Free, HINTS_UNSEEN_MAX};
