//! Reads of many partitions: in pieces, in parts of the ring, in stretches of it, key by key.

pub(crate) mod aggregate;
pub(crate) mod begin;
pub(crate) mod fold;
pub(crate) mod front;
pub(crate) mod gather;
pub(crate) mod in_range;
pub(crate) mod last_part;
pub(crate) mod multi_get;
mod owners_of_keys;
pub(crate) mod paged;
pub(crate) mod piece;
pub(crate) mod plan_parts;
pub(crate) mod ring_parts;
pub(crate) mod scatter_gather;
pub(crate) mod stretch_window;
pub(crate) mod stretches;
pub(crate) mod tail;
pub(crate) mod token_splits;
pub(crate) mod warnings;
