//! How what workers have recorded is written as JSON: times, nodes, what was asked.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helenus_engine::features::records::Described;
use helenus_engine::snapshot::Snapshot;
use helenus_policy::ring::NodeIndex;
use serde::Serialize;

/// A request, and its client.
#[derive(Clone, Debug, Serialize)]
pub(in crate::admin) struct AskedView {
    /// With `?` in place of values. Null if nobody here knows what was asked.
    statement: Option<String>,
    /// In force where the statement does not name it.
    keyspace: Option<String>,
    /// Null where it cannot be told, or without authentication.
    role: Option<String>,
    /// Null if the client has left.
    client: Option<String>,
    opcode: &'static str,
}

impl From<Described> for AskedView {
    fn from(of: Described) -> AskedView {
        AskedView {
            statement: text(of.statement),
            keyspace: text(of.keyspace),
            role: text(of.role),
            client: of.client.map(|client| client.to_string()),
            opcode: of.opcode.name(),
        }
    }
}

pub(in crate::admin) fn text(of: Option<Arc<str>>) -> Option<String> {
    of.map(|of| of.to_string())
}

/// Milliseconds since the beginning of 1970.
pub(in crate::admin) fn unix_ms(at: Duration) -> u64 {
    at.as_millis() as u64
}

/// [`unix_ms`] of a time of the wall clock.
pub(in crate::admin) fn since_1970_ms(time: SystemTime) -> u64 {
    unix_ms(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A node's address.
pub(in crate::admin) fn node_name(snapshot: &Snapshot, node: NodeIndex) -> String {
    let node = snapshot.nodes().get(node);
    node.map_or_else(|| "unknown".to_owned(), |node| node.address().to_string())
}

/// To a thousandth.
pub(in crate::admin) fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
