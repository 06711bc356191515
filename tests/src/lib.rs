//! Tests against real Cassandra and real drivers.

pub mod proxy;
pub mod raw;
pub mod relay;
pub mod reporter;
pub mod scripted;

use helenus_cluster::ClusterSpec;

/// The version of Cassandra to test with: `HELENUS_CASSANDRA`, or the one the cluster crate prefers.
pub fn cassandra_version() -> String {
    std::env::var("HELENUS_CASSANDRA")
        .unwrap_or_else(|_| helenus_cluster::DEFAULT_VERSION.to_owned())
}

/// Nodes of that version, for one test.
pub fn ephemeral() -> ClusterSpec {
    ClusterSpec::ephemeral().version(cassandra_version())
}
