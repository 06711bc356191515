//! Encoded columns, as in the answer of `/api/snapshot`.

use serde::{Deserialize, Serialize};

use crate::Name;

/// Encoded columns of all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Encodings {
    /// The catalogue as read may be relied on; if not, reads and writes of the tables are refused.
    pub lease_held: bool,
    /// As sentences.
    pub problems: Vec<String>,
    /// By keyspace, table and name.
    pub columns: Vec<EncodedColumn>,
}

/// One column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncodedColumn {
    pub keyspace: String,
    pub table: String,
    pub column: String,
    /// As the catalogue names it.
    pub state: Name,
    /// The codec of new values.
    pub codec: Name,
    /// The number of its dictionary, if the codec has one.
    pub dictionary: Option<u32>,
}
