//! The catalogue as commands use it: which tables have layouts or encoded columns.

mod belief;
pub(crate) mod claim;
mod entries;
pub(crate) mod flags;
mod keyspace;
pub(crate) mod noted;
pub(crate) mod settle;

pub use belief::read;
pub(crate) use belief::{lost, tables, told_lost};
pub use entries::Known;
pub(crate) use entries::{
    Needs, change, create, entries_of_all, key, later_than, name, now_ms, original, read_all,
    read_with_losses,
};
pub(crate) use keyspace::{level, spread, tables as tables_of_keyspace};
