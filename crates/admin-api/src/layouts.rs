//! Layouts, as in the answer of `/api/snapshot`.

use serde::{Deserialize, Serialize};

/// Layouts of all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layouts {
    /// The catalogue as read may be relied on; if not, writes of the tables are refused.
    pub lease_held: bool,
    /// As sentences.
    pub problems: Vec<String>,
    /// In the order of their tables' names, and of the catalogue.
    pub layouts: Vec<Layout>,
}

/// A copy of a table in another clustering order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    pub keyspace: String,
    pub table: String,
    /// The table that holds it.
    pub physical: String,
    /// Clustering columns in its order.
    pub clustering: Vec<String>,
    /// It is read, not only written.
    pub is_read: bool,
    pub reads: u64,
}
