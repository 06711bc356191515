//! A cluster as the process that manages it holds it, and what it can tell without looking at a node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use crate::cql::{Access, Connection};
use crate::error::Result;
use crate::guard::Guard;
use crate::process::Process;
use crate::spec::ClientTls;
use crate::state::State;
use crate::tls::TlsFiles;

/// Receives one line of text per step of a long operation.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// For how long a connection may take to open.
pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(20);

/// A running (or stopped) cluster, managed by this process alone while this value exists.
pub struct Cluster {
    pub(super) dir: PathBuf,
    pub(super) state: State,
    pub(super) lib: PathBuf,
    pub(super) access: Access,
    pub(super) progress: Progress,
    pub(super) children: BTreeMap<u16, Child>,
    /// Nodes that were started a second time.
    pub(super) second_tries: BTreeSet<u16>,
    pub(super) guard: Option<Guard>,
    pub(super) _lock: File,
}

impl Cluster {
    /// Folder of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where node `number` keeps the files of its tables, in a folder for each keyspace.
    pub fn data_dir(&self, number: u16) -> PathBuf {
        crate::state::node_dir(&self.dir, number).join("data")
    }

    /// The last relevant lines of node `number`'s log.
    pub fn log_tail(&self, number: u16) -> String {
        crate::node::log_tail(&self.dir, number)
    }

    /// Numbers of the nodes.
    pub fn nodes(&self) -> Vec<u16> {
        self.state.nodes.iter().map(|node| node.number).collect()
    }

    /// Where clients connect, in the order of the nodes.
    pub fn contact_points(&self) -> Vec<SocketAddr> {
        let nodes = self.state.nodes.iter();
        nodes.map(|node| self.state.native_address(node)).collect()
    }

    /// Where clients connect to node `number`.
    pub fn address(&self, number: u16) -> Result<SocketAddr> {
        Ok(self.state.native_address(self.state.node(number)?))
    }

    /// Where node `number` tells clients to connect, if the cluster is relayed; else where they do.
    pub fn announced_address(&self, number: u16) -> Result<SocketAddr> {
        Ok(self.state.announced_address(self.state.node(number)?))
    }

    /// The file with the secret that the nodes' agents share with proxies, if they have the agent.
    pub fn report_secret_file(&self) -> Option<PathBuf> {
        let has_agent = self.state.spec.agent.is_some();
        has_agent.then(|| crate::agent::secret_file(&self.dir))
    }

    /// Certificates and keys, if the cluster uses TLS.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        (self.state.spec.tls != ClientTls::Off).then(|| TlsFiles::at(&self.dir))
    }

    /// A plain connection to node `number`, as superuser if passwords are enabled.
    pub fn connect(&self, number: u16) -> Result<Connection> {
        self.connect_for(number, CONNECT_PATIENCE)
    }

    /// [`Self::connect`], where a statement may take as long as `patience`.
    pub fn connect_for(&self, number: u16, patience: Duration) -> Result<Connection> {
        Connection::open(self.address(number)?, &self.access, patience)
    }

    /// The process of node `number`, if it was ever started; it may have exited.
    pub fn process(&self, number: u16) -> Result<Option<Process>> {
        Ok(self.state.node(number)?.process)
    }

    pub(super) fn say(&self, line: impl AsRef<str>) {
        (self.progress)(line.as_ref());
    }
}
