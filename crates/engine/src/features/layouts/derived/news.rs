//! What workers tell of derived layouts.

/// News of derived layouts for whoever keeps the catalogue.
#[derive(Debug)]
pub enum Output {
    Doubted(Doubted),
    Missed(Missed),
    /// Keyspace and name of a table that has been truncated, or may have been. What was written meanwhile may be in a layout
    /// alone, or in the table alone.
    Truncated(String, String),
}

/// It is not known whether a table has a write that its layouts have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubted {
    /// Keyspace and name.
    pub table: (String, String),
    /// Of the partitions that were written, where they are known.
    pub tokens: Vec<Option<i64>>,
}

/// A layout has missed a write that its table has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Of the table that holds it.
    pub keyspace: String,
    pub physical: String,
    pub why: String,
}
