//! Types in which both kinds of client describe statements and responses.

/// A bind marker of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMarker {
    pub name: String,
    /// None if no values can be generated for its type.
    pub cql_type: Option<CqlType>,
}

/// The types that values can be generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqlType {
    Text,
    Blob,
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Varint,
    Counter,
    Float,
    Double,
    Timestamp,
    Date,
    Time,
    Uuid,
    TimeUuid,
}

/// The part of a response that workloads check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub rows: usize,
    /// The cells of the first row, in wire encoding.
    pub first_row: Vec<Option<Vec<u8>>>,
}

impl Response {
    /// A cell of the first row; None if there is no row, or it is null.
    pub fn cell(&self, column: usize) -> Option<&[u8]> {
        self.first_row.get(column)?.as_deref()
    }
}
