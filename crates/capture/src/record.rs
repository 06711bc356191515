//! Statements, requests and answers as they are recorded.

use crate::numbers::varint;

/// Bits for the kinds of a statement.
pub mod kinds {
    pub const READ: u8 = 1;
    /// INSERT, UPDATE, DELETE, or a batch of these in one text.
    pub const WRITE: u8 = 2;
    /// It calls a function, so that its answer may differ from time to time.
    pub const CALLS: u8 = 4;
    /// The text is whole: with values in place of `?` it means what the client's did.
    pub const WHOLE: u8 = 8;
    /// Of tables that are each node's own.
    pub const LOCAL: u8 = 16;
}

/// Bits for the properties of a request, beside its statements.
pub mod marks {
    /// It asks for a further page.
    pub const CONTINUES: u8 = 1;
    /// Its values have names.
    pub const NAMED: u8 = 2;
    /// It brings a time of writing.
    pub const TIMESTAMP: u8 = 4;
    /// Conditional.
    pub const CONDITIONAL: u8 = 8;
    /// It wants rows without a description of their columns.
    pub const SKIPS_METADATA: u8 = 16;
}

/// A statement without its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Statement {
    /// With `?` in place of every value; empty if the proxy did not know it.
    pub text: String,
    /// In force where the text does not name it.
    pub keyspace: Option<String>,
    /// See [`kinds`].
    pub kinds: u8,
    /// As the client sent it, if the capture has values.
    pub sent: Option<String>,
}

/// A client's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Tells the connection from the others of its worker.
    pub connection: u64,
    /// Microseconds since the capture began.
    pub arrived_us: u64,
    /// Of the protocol.
    pub opcode: u8,
    /// Its place among [`crate::Start::classes`].
    pub class: u8,
    /// Numbers of the protocol.
    pub consistency: u16,
    pub serial_consistency: Option<u16>,
    /// Rows.
    pub page_size: Option<u32>,
    /// See [`marks`].
    pub marks: u8,
    /// Of a batch: 0 logged, 1 unlogged, 2 of counters.
    pub batch_type: u8,
    /// Hash of the partition key.
    pub key: Option<u64>,
}

impl Request {
    /// True if it wants rows without a description of their columns.
    pub fn skips_metadata(&self) -> bool {
        self.marks & marks::SKIPS_METADATA != 0
    }
}

/// How it was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Microseconds from the arrival to the answer.
    pub took_us: u64,
    /// Bytes of the answer's body, less warnings and what else comes before the message itself.
    pub bytes: u64,
    /// Code of the protocol's error.
    pub error: Option<u32>,
}

/// A bound value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    Null,
    Unset,
    /// Its bytes are not recorded, only how many they are.
    Sized(u32),
    Bytes(Vec<u8>),
}

/// A statement of a request, with its values as [`push_value`] writes them.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a> {
    /// Its number in the chunk.
    pub statement: u32,
    /// How many values it has.
    pub count: usize,
    pub values: &'a [u8],
    /// These have their bytes.
    pub with_bytes: bool,
}

/// Appends a value as [`Bound`] has it. `bytes`: with its bytes.
pub fn push_value(out: &mut Vec<u8>, value: Option<&[u8]>, is_unset: bool, bytes: bool) {
    match value {
        None => varint(out, u64::from(is_unset)),
        Some(value) => {
            varint(out, value.len() as u64 + 2);
            if bytes {
                out.extend_from_slice(value);
            }
        }
    }
}
