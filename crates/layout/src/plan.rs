//! How statements on a table with layouts are carried out: a SELECT on the layout that reads the
//! fewest rows, if its answer is the table's own or can be put into the table's order; a write on the table and all its layouts.
//!
//! A layout is a table of the same keyspace with the same columns, the same partition key and another
//! order of clustering columns, each of which keeps its direction. Statements for it are derived from
//! the client's text by splicing, so the markers stay and their order with them.
//!
//! Whatever is not understood reads the table, and is not written: an answer never differs from the
//! table's own, and a layout never from the table.
//!
//! Limits: a user's function with the name of one of Cassandra's is taken for Cassandra's. Of a key that
//! was written in two ways that are equal (`1.0` and `1.00` as decimals), Cassandra keeps one or the
//! other, in a layout not always the same one as in the table.

mod expected_share;
mod functions;
mod logical_table;
mod order_free;
mod question;
mod read;
mod restore;
mod splice;
mod write;

#[cfg(test)]
mod tests;

pub use logical_table::{
    ClusteringColumn, Column, Copy, LogicalTable, is_one_cell, may_hold_time, partition_name,
};
pub use read::{Ranked, rank, read_and_sort, read_from};
pub use restore::{ROWS_MAX, Restore, SORTABLE, SortKey};
pub use splice::{qualified, qualified_table};
pub use write::{Write, write};
