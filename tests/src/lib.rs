//! Tests against real Cassandra and real drivers.

pub mod proxy;
pub mod raw;
