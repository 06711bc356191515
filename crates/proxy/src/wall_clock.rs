//! What time it is for people, and for what other machines are told.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 before.
pub(crate) fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |since| since.as_millis() as i64)
}
