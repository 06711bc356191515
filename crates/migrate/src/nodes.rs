//! The nodes of a cluster as commands see them, past the proxies.

pub mod access;
pub(crate) mod asked;
pub mod cluster;
pub(crate) mod grants;
pub(crate) mod hints;
pub(crate) mod progress;
pub(crate) mod reading;
pub mod ring;
pub(crate) mod row;
pub mod table;
