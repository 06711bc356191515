//! A request that goes to nodes as another one than its client's, and what must be known of the catalogue for that.

pub(crate) mod catalogue;
pub(crate) mod fencing;
pub(crate) mod in_order;
pub mod leases;
pub(crate) mod refusal;
pub(crate) mod renaming;
pub(crate) mod rewritten;
pub(crate) mod schema_read;
pub(crate) mod schema_reads;
pub(crate) mod timed_write;
pub(crate) mod values;
