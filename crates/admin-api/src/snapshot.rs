//! The answer of `/api/snapshot`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Encodings, Histogram, Keys, Layouts, Name, Node};

/// A proxy as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The proxy's own.
    pub version: Name,
    /// Start of the proxy, in milliseconds since 1970. Differs after a restart, when all counters begin anew.
    pub started_unix_ms: u64,
    /// Time of the answer, in milliseconds since 1970.
    pub now_unix_ms: u64,
    /// The cluster's name.
    pub cluster: String,
    /// Protocol version used with nodes; a guess until one has responded.
    pub protocol: u8,
    pub local_dc: String,
    /// Grows whenever the proxy's view of the cluster is replaced; 0 until a node has told of it.
    pub epoch: u64,
    pub ready: bool,
    /// Why not.
    pub ready_reason: Option<String>,
    /// Connected now.
    pub clients: usize,
    pub clients_max: usize,
    pub clients_by_name: Vec<ClientKind>,
    /// Prepared statements that the proxy knows.
    pub prepared: usize,
    /// Memory in use; `None` where the system does not tell.
    pub resident_bytes: Option<u64>,
    /// User and system time of all threads; `None` where the system does not tell.
    pub cpu_seconds: Option<f64>,
    /// How long links wait for more queries, in microseconds.
    pub window_us: u64,
    /// Counters of the whole proxy, by name.
    pub totals: BTreeMap<Name, u64>,
    /// Upper bounds of the buckets of all counts of queries sent together; the last bucket has none.
    pub packed_bounds: Vec<u32>,
    /// Upper bounds of the buckets of all latencies in microseconds, exclusive.
    pub bounds_us: Vec<u64>,
    pub classes: Vec<Class>,
    /// In the order in which the proxy has met them; each keeps its place.
    pub nodes: Vec<Node>,
    pub tables: Vec<Table>,
    /// The partitions that are asked for most.
    pub hot: Keys,
    /// `None` if `layouts.enabled` is off.
    pub layouts: Option<Layouts>,
    /// `None` if `payload.enabled` is off.
    pub encodings: Option<Encodings>,
}

/// Clients with the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientKind {
    pub driver: Box<str>,
    pub driver_version: Box<str>,
    pub application: Box<str>,
    pub application_version: Box<str>,
    /// How many there are now.
    pub clients: u64,
}

/// Requests of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    pub class: Name,
    pub latency: Histogram,
    /// Waiting now. This and the following fields cover the schedules of all nodes; for scans they count pieces.
    pub queued: u64,
    /// Sent to nodes.
    pub dispatched: u64,
    /// Of these, those that had waited for half of their bound and went first.
    pub aged: u64,
    /// Immediately or after waiting.
    pub refused: u64,
    /// Only of those that waited.
    pub waits: Histogram,
}

/// Requests of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    pub keyspace: String,
    pub table: String,
    pub reads: u64,
    pub writes: u64,
    pub errors: u64,
    pub latency: Histogram,
}
