//! What layouts and encoded columns have in common: a request that goes to nodes as another one than its client's, and what is known of the catalogue.

pub(crate) mod fencing;
pub mod leases;
pub(crate) mod prepare_range;
pub(crate) mod refusal;
pub(crate) mod renaming;
pub(crate) mod timed_write;
pub(crate) mod values;
