//! Codecs that store the JSON documents of a column as compact bytes, and give every document back
//! exactly, to the byte.
//!
//! Everything here is pure and deterministic: no sockets, clock, threads or randomness.
//!
//! From top to bottom:
//!
//! 1. [`Encoder`] and [`Decoder`]: a document to a stored value and back. Each encoded value is decoded
//!    and compared before it is handed out; one that does not come back exactly is kept as it is.
//! 2. [`Codec`]: the ways of storing. Some need what [`learn`] has found in a sample of the column
//!    ([`Learned`]), kept under a number ([`Dictionaries`]).
//! 3. [`SsTable`]: what values take on disk after Cassandra's compression.
//!
//! Bytes from anybody are decoded to an error or to some text. The text is never longer than the caller
//! allows, and no memory is reserved because a length field asks for it.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod bytes;
mod codec;
mod decoder;
mod dictionaries;
mod dictionary_id;
mod encoder;
mod error;
mod format;
mod header;
mod json;
mod learned;
mod shape;
mod sstable;
mod zstd;

#[cfg(test)]
mod tests;

pub use codec::Codec;
pub use decoder::Decoder;
pub use dictionaries::Dictionaries;
pub use dictionary_id::DictionaryId;
pub use encoder::{Encoder, NotEncoded};
pub use error::{DecodeError, LearnedError};
pub use header::MARKER;
pub use json::{DEPTH_MAX, Member, MemberValue, is_json, members, quote};
pub use learned::{Learned, learn};
pub use sstable::{Estimate, SsTable};
