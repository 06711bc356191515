//! Numbers of the format, and its bounds.

/// Applications of this name send captured requests on. Their requests are not recorded: if they send them to
/// the proxy that records, these would be sent on for ever.
pub const MIRROR_NAME: &str = "helenus-mirror";
pub const MAGIC: &[u8; 8] = b"HELENUSC";
/// Of files that are written. Those of version 1 are read as well.
pub const VERSION: u8 = 2;
/// Bytes of a block at most.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;
/// Bytes of what is recorded of one request, at most; of larger ones, nothing is.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Values of one statement that are recorded, at most.
pub const VALUES_MAX: usize = 1_024;
/// Statements of a batch that are recorded, at most.
pub const PARTS_MAX: usize = 1_024;
/// Bytes of a statement's text. A text that is cut off cannot be played.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of different statements that a reader keeps, with what it needs to find them.
pub(crate) const STATEMENT_BYTES_MAX: usize = 1 << 30;
/// Of a value: no request of any protocol version is larger.
pub(crate) const VALUE_BYTES_MAX: u32 = 256 << 20;
/// No capture lasts longer: two days, in microseconds.
pub(crate) const ARRIVED_US_MAX: u64 = 2 * 24 * 3600 * 1_000_000;

pub(crate) const START: u8 = 1;
pub(crate) const CHUNK: u8 = 2;
pub(crate) const MARK: u8 = 3;
pub(crate) const END: u8 = 4;

/// Entries of a chunk.
pub(crate) const DEFINED: u8 = 1;
pub(crate) const RECORD: u8 = 2;
