//! Tests against real Cassandra and real drivers.

pub mod capturing;
pub mod catalogue;
pub mod collector;
pub mod dashboard;
pub mod kinds;
pub mod pool;
pub mod protobuf;
pub mod proxy;
pub mod raw;
pub mod relay;
pub mod reporter;
pub mod scenes;
pub mod scripted;
pub mod turns;

use helenus_cluster::ClusterSpec;

/// The version of Cassandra to test with: `HELENUS_CASSANDRA`, or the one the cluster crate prefers.
pub fn cassandra_version() -> String {
    std::env::var("HELENUS_CASSANDRA")
        .unwrap_or_else(|_| helenus_cluster::DEFAULT_VERSION.to_owned())
}

/// Nodes of that version, for one test. Hashes of passwords are as cheap as Cassandra allows: with its default,
/// each login costs a tenth of a second.
pub fn ephemeral() -> ClusterSpec {
    ClusterSpec::ephemeral()
        .version(cassandra_version())
        .short_lived()
        .jvm_arg("-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4")
}
