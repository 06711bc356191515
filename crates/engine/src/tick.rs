//! The beat of an engine.

use std::time::Duration;

/// How often what is due by time is looked for.
pub(crate) const TICK: Duration = Duration::from_millis(100);
