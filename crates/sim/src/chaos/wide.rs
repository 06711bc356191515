//! The table with clustering columns, `ks.g`, and its layouts: the same rows in other clustering orders.
//!
//! What is said of them ([`Statement`]), what a node holds of them ([`Partition`]), what a SELECT gives
//! ([`Select`]), and what clients may see ([`Histories`]).

mod history;
mod order;
mod partition;
mod select;
mod statement;
pub(super) mod texts;

pub(super) use self::history::{Histories, Scan};
pub(super) use self::order::Order;
pub(super) use self::partition::{Change, Partition, Written};
pub(super) use self::select::Select;
pub(super) use self::statement::{Action, Statement, columns, markers, read, read_with, table};

/// The table's own name, that of its keyspace, and those of its clustering columns in its own order.
pub(super) const TABLE: &str = "g";
pub(super) const KEYSPACE: &str = "ks";
/// The keyspace of derived layouts.
pub(super) const LAYOUTS: &str = "ks__layouts";
pub(super) const CLUSTERING: [&str; 3] = ["a", "b", "c"];
/// Each clustering column has so many values, from 0 on.
pub(super) const VALUES: i64 = 3;

/// Values of the clustering columns, in the table's own order.
pub(super) type Row = [i64; 3];

/// All rows that a partition can have.
pub(super) fn all_rows() -> impl Iterator<Item = Row> {
    let values = || 0..VALUES;
    values().flat_map(move |a| values().flat_map(move |b| values().map(move |c| [a, b, c])))
}
