//! The last hour, and what has happened in it: the answers of `/api/history` and `/api/events`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Name;

/// The answer of `/api/history`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// Start of the proxy, in milliseconds since 1970. Changes with a restart.
    pub started_unix_ms: u64,
    /// Time of the answer, in milliseconds since 1970.
    pub now_unix_ms: u64,
    /// The zero of the times of steps and events, in milliseconds since 1970 by the clock as it is now.
    pub zero_unix_ms: u64,
    /// Names of the counters that steps have numbers of in `counters`.
    pub counters: Vec<Name>,
    /// Upper bounds of the buckets of latencies in microseconds, exclusive.
    pub bounds_us: Vec<u64>,
    /// Upper bounds of the buckets of queries sent together, the last of which has none.
    pub packed_bounds: Vec<u32>,
    /// Short steps; `None` where they are not asked for, as with the following two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fine: Option<Series>,
    /// Long steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coarse: Option<Series>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<NewEvents>,
}

/// Steps of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// How long each is meant to be, in milliseconds.
    pub step_ms: u64,
    /// How many are kept.
    pub steps_max: usize,
    /// The number of the next step.
    pub next: u64,
    /// The oldest first.
    pub steps: Vec<Step>,
}

/// The counts of one step. Pairs are index and value, one after the other, of what is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Its number.
    pub seq: u64,
    /// When it ended, in milliseconds since the zero of the history.
    pub end_ms: u64,
    /// How long it has lasted, in milliseconds.
    pub ms: u64,
    /// Pairs, by [`History::counters`].
    pub counters: Vec<u64>,
    /// Classes of requests that there were.
    pub classes: BTreeMap<Name, Class>,
    /// User and system time of all threads, in microseconds.
    pub cpu_us: u64,
    /// Reads and writes of connections to nodes.
    pub link_calls: u64,
    pub sent: Frames,
    pub received: Frames,
    pub gauges: Gauges,
}

/// Requests of one class in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    /// Pairs, by bucket ([`History::bounds_us`]).
    pub latency: Vec<u64>,
    pub latency_sum_us: u64,
    /// Pairs, by bucket, of those that waited.
    pub waits: Vec<u64>,
    pub waits_sum_us: u64,
    /// Sent to nodes; of scans, pieces.
    pub dispatched: u64,
    /// Of these, those that had waited for half of their bound and went first.
    pub aged: u64,
    /// Immediately or after waiting.
    pub refused: u64,
}

/// Frames by the queries they carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frames {
    pub queries: u64,
    /// Pairs, by bucket ([`History::packed_bounds`]).
    pub frames: Vec<u64>,
}

/// How things stood in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gauges {
    /// At its end, as `links`, `nodes`, `resident_bytes` and `window_us` are.
    pub clients: u64,
    pub links: u64,
    /// Without those of data centres that are not asked.
    pub nodes: u64,
    /// The fewest of its seconds.
    pub nodes_up: u64,
    /// The most of its seconds, as of all that follows up to `queued_by_class`: without a link that they should have.
    pub nodes_down: u64,
    pub nodes_ejected: u64,
    /// Down or ejected.
    pub nodes_out: u64,
    pub in_flight: u64,
    pub queued: u64,
    /// In the order system, point, multi, slice, write, lwt, scan, other.
    pub queued_by_class: Vec<u64>,
    pub resident_bytes: u64,
    /// How long links wait for more queries, in microseconds.
    pub window_us: u64,
}

/// Events since those that were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewEvents {
    /// The number of the next event.
    pub next: u64,
    /// The oldest first.
    pub events: Vec<NewEvent>,
}

/// An event by the time of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewEvent {
    /// In milliseconds since the zero of the history.
    pub at_ms: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// The answer of `/api/events`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// The latest first.
    pub events: Vec<PastEvent>,
}

/// An event by the clock of the wall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PastEvent {
    /// In milliseconds since 1970.
    pub at_unix_ms: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// Something that has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Its number.
    pub seq: u64,
    pub kind: Name,
    /// `bad`, `good` or `note`.
    pub severity: Name,
    pub text: Box<str>,
}
