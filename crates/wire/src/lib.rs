//! The CQL native protocol, versions 3 to 5: envelopes, frames, bodies and the exact conversion of
//! bodies between versions.
//!
//! Pure: bytes in, bytes out. No sockets, clocks, threads or randomness.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod blocks;
mod compress;
mod convert;
mod decoder;
mod encoder;
mod envelope;
mod error;
pub mod frame;
mod merged;
mod packed;
mod page;
mod reader;
mod request;
mod result;
mod splice;
mod types;
pub mod write;

pub use compress::{Compression, compress_body, decompress_body};
pub use convert::{ConvertError, Converted, RequestContext, convert_request, convert_response};
pub use decoder::{DecodeError, Decoder, Flow};
pub use encoder::Encoder;
pub use envelope::{HEADER_LEN, Header, Opcode, Version, flags};
pub use error::{ErrorBody, code};
pub use merged::{begin_unlogged_batch, end_batch, push_batch_child};
pub use packed::{PACKED_BUCKETS, Packed};
pub use page::{JoinedBody, OtherColumns, PageStart, RowsJoin, is_paging_state, page_key};
pub use reader::{Malformed, Reader};
pub use request::{
    BatchChild, BatchView, Consistency, ExecuteView, Options, Page, PrepareView, PreparedIds,
    QueryView, ValueRef, Values, query_flags, strip_payload, write_execute, write_query,
    write_query_of,
};
pub use result::{
    PreparedView, ResultKind, RowsView, columns_of_table, result_kind, strip_prelude,
};
pub use splice::{BatchStatement, TableName, same_columns, without_result_columns, write_batch};
pub use types::{ColumnSpec, ColumnType};

/// The largest body accepted in either direction, in bytes. Cassandra's own default for
/// `native_transport_max_frame_size` (pre-v5 envelopes) is 16 MiB; answers may be larger than
/// requests, so the limit for what nodes send is [`MAX_RESPONSE_BODY`].
pub const MAX_REQUEST_BODY: usize = 16 * 1024 * 1024;
/// The largest body accepted from a node before a connection is ready for requests, in bytes.
pub const MAX_HANDSHAKE_ANSWER: usize = 64 * 1024;
/// The largest body accepted from a node, in bytes.
pub const MAX_RESPONSE_BODY: usize = 256 * 1024 * 1024;
