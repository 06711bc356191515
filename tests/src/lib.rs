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

/// Nodes of that version, for one test. They look at the clock every 20 ms instead of 2 ms, which is most of what idle ones
/// cost, and measure each other's times as roughly.
pub fn ephemeral() -> ClusterSpec {
    exact().jvm_arg("-Dcassandra.approximate_time_precision_ms=20")
}

/// Those that choose replicas by their times as nodes do by default. Hashes of passwords are as cheap as Cassandra allows:
/// with its default, each login costs a tenth of a second.
pub fn exact() -> ClusterSpec {
    ClusterSpec::ephemeral()
        .version(cassandra_version())
        .short_lived()
        .jvm_arg("-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4")
}
