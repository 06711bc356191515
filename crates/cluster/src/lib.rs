//! Real Cassandra nodes on loopback, from Maven jars.
//!
//! ```no_run
//! use helenus_cluster::{Cluster, ClusterSpec, Consistency};
//!
//! let cluster = Cluster::up(ClusterSpec::ephemeral().nodes(3))?;
//! println!("contact points: {:?}", cluster.contact_points());
//! let rows = cluster.connect(1)?.query("SELECT key FROM system.local", Consistency::One)?;
//! assert_eq!(rows.len(), 1);
//! // Dropped here: all nodes end and their data is removed.
//! # Ok::<(), helenus_cluster::Error>(())
//! ```

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod addresses;
mod agent;
mod cgroup;
mod class_archive;
mod cluster;
mod cql;
mod disk;
mod error;
mod guard;
mod jars;
mod java;
mod node;
mod paths;
mod private_file;
mod process;
mod spec;
mod state;
mod status;
mod tls;
mod tokens;
mod yaml;

pub use agent::find_agent;
pub use cluster::{Cluster, Progress};
pub use cql::{Connection, Consistency, Rows};
pub use disk::{DiskLimits, DiskThrottle};
pub use error::{Error, Result};
pub use paths::cluster_dir;
pub use process::{Process, RunState};
pub use spec::{ClientTls, ClusterSpec, DEFAULT_VERSION, Partitioner, Place};
pub use status::{NodeStatus, Status};
pub use tls::{CLIENT_IDENTITY, TlsFiles};

/// Fetches the jars of a Cassandra version unless the cache has them; returns their folder.
///
/// # Errors
/// If Maven is missing or cannot fetch them.
pub fn fetch(version: &str, progress: Progress) -> Result<std::path::PathBuf> {
    jars::ensure(version, &*progress)
}

/// Archives the classes that a node of a Cassandra version loads, unless the cache has an archive that fits
/// this machine's Java; returns its file, or none if this Java makes none. Nodes with [`ClusterSpec::short_lived`] start from it. It takes the
/// start of one node.
///
/// # Errors
/// If the jars cannot be fetched, or that node does not start.
pub fn archive_classes(version: &str, progress: Progress) -> Result<Option<std::path::PathBuf>> {
    let lib = jars::ensure(version, &*progress)?;
    class_archive::ensure(&lib, |arguments| {
        progress("archiving the classes of a node (once)");
        let spec = ClusterSpec::ephemeral().version(version).short_lived();
        let spec = arguments.into_iter().fold(spec, ClusterSpec::jvm_arg);
        let mut cluster = Cluster::up(spec)?;
        // It is written when the node ends by itself.
        cluster.stop(1)?;
        cluster.down(false)
    })
}
