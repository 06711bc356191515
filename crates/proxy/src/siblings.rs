//! The other proxies of the cluster: which there are, and whether they work.

pub(crate) mod names;
pub(crate) mod peers;
