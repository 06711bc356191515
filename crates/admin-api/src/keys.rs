//! The partitions that are asked for most: the answer of `/api/keys`, and a part of that of `/api/snapshot`.

use serde::{Deserialize, Serialize};

/// The hottest partitions of a proxy. Rates are means of the last ten seconds or so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Keys {
    /// Values of keys are shown (`admin.show_keys`).
    pub keys_shown: bool,
    /// Predicted work of all partitions, in microseconds per second.
    pub work_us_per_s: f64,
    /// The most that a partition that is not listed has of it.
    pub floor_us_per_s: f64,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    /// The hottest first.
    pub keys: Vec<Key>,
}

/// One partition, as one role asks for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Key {
    pub keyspace: String,
    pub table: String,
    /// `None` where it cannot be told, or without authentication.
    pub role: Option<String>,
    /// A number of the role: there may be several with one name, or without. 0 without authentication.
    pub role_number: u32,
    /// A number, as a text: programs read numbers of this size inexactly.
    pub token: String,
    /// `None` unless keys are shown.
    pub key: Option<String>,
    /// Of all predicted work, 0 to 1: at least this.
    pub share: f64,
    /// Predicted work in microseconds per second: at most so much, and at least `error_us_per_s` less.
    pub work_us_per_s: f64,
    pub error_us_per_s: f64,
    /// Of that, what reads have not cost because they shared another's answer.
    pub shared_us_per_s: f64,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    /// Of answers.
    pub bytes_per_s: f64,
    /// Its reads go to all of its replicas.
    pub spread: bool,
}
