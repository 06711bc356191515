//! Small things that know nothing of Cassandra.

pub(crate) mod rate_limited_warning;
pub(crate) mod recent;
pub(crate) mod registry;
pub(crate) mod sampling;
pub(crate) mod sync;
pub(crate) mod tick;
