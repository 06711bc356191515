//! Requests of nodes, tables and layouts in some of the last hour: the answer of `/api/summary`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Name;

/// The answer of `/api/summary`. Rates are per second of `ms`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Begin of the time that its steps cover, in milliseconds since the zero of the history.
    pub from_ms: u64,
    /// End of that time.
    pub to_ms: u64,
    /// How long its steps have lasted.
    pub ms: u64,
    /// The zero of the history, in milliseconds since 1970.
    pub zero_unix_ms: u64,
    pub classes: BTreeMap<Name, Class>,
    /// All that are in the cluster, and those that have left it and were there in that time.
    pub nodes: Vec<Node>,
    /// Tables and layouts only as far as they were used.
    pub tables: Vec<Table>,
    pub layouts: Vec<Layout>,
}

/// Requests of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    pub per_s: f64,
    #[serde(flatten)]
    pub latency: Latency,
}

/// In microseconds; `None` without requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    pub mean_us: Option<f64>,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
}

/// Requests of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub address: String,
    /// Its place in the list of `/api/snapshot`: a node that has left and its successor may share an address.
    pub number: usize,
    /// It has left the cluster since.
    pub gone: bool,
    pub requests_per_s: f64,
    pub reads_per_s: f64,
    pub errors_per_s: f64,
    pub timeouts_per_s: f64,
    pub bytes_in_per_s: f64,
    pub bytes_out_per_s: f64,
    /// `None` if there were no frames.
    pub requests_per_frame: Option<f64>,
    /// For how many seconds it had no link that it should have.
    pub down_s: f64,
    /// For how many seconds it was ejected.
    pub ejected_s: f64,
    #[serde(flatten)]
    pub latency: Latency,
    /// Requests per second by part of the time; `None` where nothing is known.
    pub points: Vec<Option<f64>>,
}

/// Requests of one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    pub keyspace: String,
    pub table: String,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub errors_per_s: f64,
    #[serde(flatten)]
    pub latency: Latency,
}

/// Reads of one layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    pub keyspace: String,
    /// The table that holds it.
    pub physical: String,
    pub reads_per_s: f64,
}
