//! The beat of an engine.

use std::time::Duration;

/// How often what is due by time is looked for.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// A worker that has not run for longer than this cannot say that a node was silent.
pub(crate) const STILL_MAX: Duration = Duration::from_millis(400);
