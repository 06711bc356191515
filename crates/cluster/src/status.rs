//! The current status of a cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::process::RunState;
use crate::state::{State, node_dir};

/// A cluster at a point in time.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub dir: PathBuf,
    /// Version of Cassandra.
    pub version: String,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
}

/// A node at a point in time.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// From 1.
    pub node: u16,
    /// Where clients connect.
    pub address: SocketAddr,
    /// Data centre.
    pub dc: String,
    /// Rack.
    pub rack: String,
    /// The state of its process.
    pub state: RunState,
    /// Its pid, while it has one.
    pub pid: Option<u32>,
    /// It has been a ready member of the ring.
    pub joined: bool,
    /// It answers clients now; a paused node is not asked.
    pub answers: bool,
    /// How many nodes it knows, including itself; None if it does not answer.
    pub sees: Option<usize>,
    /// Port on 127.0.0.1 for nodetool.
    pub jmx_port: u16,
    /// CPU limit, in cores.
    pub cpu_cores: Option<f64>,
    /// Its log.
    pub log: PathBuf,
}

impl Status {
    /// True if every node answers and sees all others.
    pub fn is_whole(&self) -> bool {
        !self.nodes.is_empty()
            && self
                .nodes
                .iter()
                .all(|node| node.answers && node.sees == Some(self.nodes.len()))
    }

    /// `sees` asks a node how many nodes it knows.
    pub(crate) fn of(
        state: &State,
        dir: &Path,
        sees: impl Fn(SocketAddr) -> Option<usize>,
    ) -> Self {
        let nodes = state.nodes.iter().map(|node| {
            let address = state.native_address(node);
            let run = node
                .process
                .map_or(RunState::Gone, |process| process.state());
            let sees = (run == RunState::Running).then(|| sees(address)).flatten();
            NodeStatus {
                node: node.number,
                address,
                dc: node.place.dc.clone(),
                rack: node.place.rack.clone(),
                state: run,
                pid: node
                    .process
                    .filter(|_| run != RunState::Gone)
                    .map(|p| p.pid),
                joined: node.joined,
                answers: sees.is_some(),
                sees,
                jmx_port: node.jmx_port,
                cpu_cores: node.cpu_cores,
                log: node_dir(dir, node.number).join("logs/system.log"),
            }
        });
        Self {
            name: state.spec.name.clone(),
            dir: dir.to_owned(),
            version: state.spec.version.clone(),
            nodes: nodes.collect(),
        }
    }
}
