//! Nodes, as in the answers of `/api/snapshot` and `/api/nodes`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Histogram, Name};

/// A node as the proxy sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub address: String,
    /// Its place in the list, for as long as the proxy runs.
    pub number: usize,
    pub dc: String,
    pub rack: String,
    pub release_version: String,
    /// `None`: not known.
    pub processors: Option<u32>,
    /// `up`, `down`, `unused` or `gone`.
    pub state: Name,
    pub links_up: u64,
    pub in_flight: u64,
    /// Requests that wait for it.
    pub queued: u64,
    /// Scan permits in use.
    pub scan_slots_taken: u64,
    /// Scan permits in force.
    pub scan_slots: u64,
    /// The score by which replicas are chosen: predicted finish of a request of one millisecond of work.
    pub score_us: u64,
    /// How many times as long as predicted its answers take.
    pub slowdown: f64,
    /// Share of requests that fail, 0 to 1.
    pub failures: f64,
    /// Predicted work outstanding there, in microseconds.
    pub outstanding_us: u64,
    /// Workers that have ejected it.
    pub ejected: u64,
    /// Requests in flight from one worker that the schedule allows now.
    pub window: u64,
    /// Its report on itself: `None` if `assignment.reports` is off.
    pub report: Option<Report>,
    /// By name.
    pub counters: BTreeMap<Name, u64>,
    pub latency: Histogram,
    pub packed_out: Packed,
    pub packed_in: Packed,
}

/// Frames by the queries they carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Packed {
    pub queries: u64,
    /// By bucket; bounds are in `packed_bounds` of the snapshot.
    pub frames: Vec<u64>,
}

/// The report of a node's agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub connected: bool,
    pub received: u64,
    pub rejected: u64,
    /// Workers to whom the last one contradicts what they see.
    pub contradicted: u64,
    /// Age of the last one in milliseconds: `None` if there was none.
    pub age_ms: Option<u64>,
    /// Share of the heap in use, 0 to 1.
    pub memory: Option<f32>,
    pub resources: Option<Resources>,
}

/// A node's use of its resources. Shares are 0 to 1, `None` if the node cannot measure them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Of the processors that the node may use: by it and all that shares them with it.
    pub cpu: Option<f32>,
    /// Of these processors, by Cassandra alone.
    pub cpu_process: Option<f32>,
    /// Of all processors of the machine.
    pub cpu_machine: Option<f32>,
    /// Of the time in which the busiest disk had something to do.
    pub disk: Option<f32>,
    /// Of the time in which the collector stopped the node.
    pub collecting: Option<f32>,
    /// Mean number of requests at that disk.
    pub disk_queue: f32,
    /// Processors that the node may use.
    pub cores: f32,
    /// In bytes.
    pub heap_used: u64,
    /// In bytes.
    pub heap_max: u64,
    /// Time that the collector has taken since the node was started, in milliseconds.
    pub collected_ms: u64,
    pub read_pending: u32,
    pub read_active: u32,
    pub read_max: u32,
    pub mutation_pending: u32,
    pub mutation_active: u32,
    pub mutation_max: u32,
    pub compactions_pending: u32,
}
