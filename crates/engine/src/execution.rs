//! How one request of a client is carried out by several of nodes.

pub mod aggregate;
pub mod fold;
pub mod front;
pub mod in_range;
pub mod multi_get;
pub mod paged_scan;
pub mod retry;
pub mod scatter_gather;
pub mod token_splits;
