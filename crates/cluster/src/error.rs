//! Errors, with messages that tell the user what to change.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program this crate runs is not installed.
    #[error(
        "`{program}` was not found; install it (Debian/Ubuntu: `apt install {package}`) and try again"
    )]
    MissingProgram {
        /// The name of the program.
        program: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// Maven did not deliver the jars.
    #[error(
        "could not fetch Cassandra {version} with Maven; check the version and the network, then try again\n{output}"
    )]
    Download {
        /// The version asked for.
        version: String,
        /// Maven's output.
        output: String,
    },
    /// A node's process exited, or was not ready in time.
    #[error("node {node} {what}\n{log}")]
    NodeFailed {
        /// Number of the node, from 1.
        node: u16,
        /// The event, as the rest of a sentence.
        what: String,
        /// The last relevant lines of its log, and where the log is.
        log: String,
    },
    /// `nodetool` ended with an error.
    #[error("nodetool {args} on node {node} failed:\n{output}")]
    Nodetool {
        /// Number of the node, from 1.
        node: u16,
        /// The arguments.
        args: String,
        /// The output of nodetool.
        output: String,
    },
    /// There is no node of this number.
    #[error("there is no node {node}; this cluster has {known}")]
    NoSuchNode {
        /// The number asked for.
        node: u16,
        /// The numbers there are.
        known: String,
    },
    /// There is no cluster in this folder.
    #[error("no cluster in {}; start one with `helenus cluster up`", .0.display())]
    NoCluster(PathBuf),
    /// Another process manages this cluster at the moment.
    #[error("{} is being managed by another process; wait for it to finish", .0.display())]
    Busy(PathBuf),
    /// An invalid setting, or one that differs from the existing cluster's.
    #[error("{0}")]
    Invalid(String),
    /// A node sent an error or an unexpected response.
    #[error("{0}")]
    Cql(String),
    /// CPU limits are not available on this machine.
    #[error("cannot limit processor time: {0}")]
    CpuCap(String),
    /// Limits on the use of disks are not available on this machine.
    #[error("cannot limit the use of a disk: {0}")]
    DiskCap(String),
    /// Reading, writing, starting or connecting failed.
    #[error("{what}: {source}")]
    Io {
        /// The step that was attempted.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds what was attempted to an IO error.
pub(crate) trait Context<T> {
    fn during(self, what: &str, path: &Path) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn during(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: format!("{what} {}", path.display()),
            source,
        })
    }
}

/// An [`Error::Invalid`] from a sentence.
pub(crate) fn invalid(sentence: impl Into<String>) -> Error {
    Error::Invalid(sentence.into())
}
