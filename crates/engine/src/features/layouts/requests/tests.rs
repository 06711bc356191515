//! Requests about a table with layouts, through a whole engine, with a client and a node that say what the
//! test has them say.

mod asked;
mod derived;
mod fencing;
mod reads;
mod rules;
mod schema;
mod sorted;
mod table_first;
mod writes;

/// A node's paging state: behind a partition, with a few rows left.
const STATE: &[u8] = b"\x01k\0\x05\x05";
