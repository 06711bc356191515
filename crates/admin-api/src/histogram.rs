//! Counts of times.

use serde::{Deserialize, Serialize};

/// Times by the buckets into which they fall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    pub count: u64,
    /// Of all times, in microseconds.
    pub sum_us: u64,
    /// Index and count of each bucket that is not empty, in order; bounds are in `bounds_us` of the snapshot.
    pub buckets: Vec<(usize, u64)>,
}
