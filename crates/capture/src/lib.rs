//! Captures: a sample of what a proxy was asked, in a file.
//!
//! A file is [`MAGIC`], a version, and blocks. Each block is a head and some bytes. The head is a kind (one byte), the
//! number of these bytes (at most [`BLOCK_BYTES_MAX`]), their CRC-32, and the CRC-32 of the head so far (four bytes each,
//! little endian; version 1 has no checksums). Kinds:
//!
//! | kind | what |
//! |---|---|
//! | 1 | [`Start`], the first block |
//! | 2 | a chunk: requests of one worker, in the order in which they were answered |
//! | 3 | [`Mark`]: the time, and how many requests are missing so far |
//! | 4 | [`End`], the last block, unless the file was cut off |
//!
//! A chunk defines the statements that it uses, so that any chunk can be missing without harm to the others.
//! Numbers are LEB128; what is optional is a number that is one more, or 0.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod blocks;
mod chunk;
mod error;
mod follow;
mod framing;
mod limits;
mod numbers;
mod parse;
mod read;
mod record;
#[cfg(test)]
mod tests;

pub use blocks::{End, Mark, Reason, Start};
pub use chunk::Chunk;
pub use error::FormatError;
pub use follow::{Event, Follower};
pub use limits::{
    BLOCK_BYTES_MAX, MAGIC, MIRROR_NAME, PARTS_MAX, RECORD_BYTES_MAX, TEXT_BYTES_MAX, VALUES_MAX,
    VERSION,
};
pub use parse::Recorded;
pub use read::Reader;
pub use record::{Answer, Bound, Request, Statement, Value, kinds, marks, push_value};
