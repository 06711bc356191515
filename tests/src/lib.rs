//! Tests against real Cassandra and real drivers.
