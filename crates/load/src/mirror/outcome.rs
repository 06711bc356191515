//! The outcome of a mirrored capture.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::counted::Interval;
use crate::replay::Group;

/// How far it has come.
#[derive(Clone, Debug)]
pub struct Progress {
    pub since_began: Duration,
    /// Reads sent in a second since the last time.
    pub sent_per_s: f64,
    pub dropped: u64,
    /// Requests that the proxy had no room for.
    pub lost: u64,
    /// For how long the read whose turn is next should have been sent.
    pub behind: Duration,
    /// Of the clients and of each endpoint, since the last time.
    pub of: Vec<Interval>,
    /// Answers that were not the same, errors not among them.
    pub differences: u64,
}

/// The outcome, as it is shown and written.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// `clients`, then each endpoint.
    pub arms: Vec<String>,
    pub seconds: f64,
    /// Reads that were sent and answered, or failed.
    pub played: u64,
    /// Reads that were not sent because it fell behind.
    pub dropped: u64,
    /// Of these: more were behind than may be.
    pub dropped_behind: u64,
    /// They would have taken too much memory.
    pub dropped_bytes: u64,
    /// They were too old when their turn came.
    pub dropped_late: u64,
    /// Requests of any kind that the proxy could not record.
    pub lost: u64,
    /// Reads that waited for their turn or for an answer when it ended.
    pub unfinished: u64,
    /// Everything, then classes, then statements, the most frequent first. With one endpoint, `different` counts its
    /// answers of another size.
    pub groups: Vec<Group>,
    /// Why requests were not played.
    pub not_played: BTreeMap<String, u64>,
    /// Why it ended before its time.
    pub broken_off: Option<String>,
}
