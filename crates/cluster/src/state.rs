//! The cluster's persistent state: one JSON file in its folder, replaced as a whole at every
//! change.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result, invalid};
use crate::process::Process;
use crate::spec::{ClusterSpec, Place};

const FORMAT: u32 = 1;
const FILE: &str = "cluster.json";

/// Everything a later process must know about a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub format: u32,
    pub spec: ClusterSpec,
    pub ip_prefix: [u8; 3],
    pub nodes: Vec<NodeState>,
}

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeState {
    /// From 1; also the last part of the address.
    pub number: u16,
    pub address: Ipv4Addr,
    pub jmx_port: u16,
    pub place: Place,
    /// Comma-separated; None lets Cassandra allocate tokens.
    pub initial_token: Option<String>,
    /// It bootstraps (streams data in) at its first start.
    pub bootstrap: bool,
    /// It has been ready once.
    pub joined: bool,
    pub process: Option<Process>,
    /// CPU limit in cores.
    pub cpu_cores: Option<f64>,
    /// The dead node whose tokens it takes over at its first start.
    #[serde(default)]
    pub replaces: Option<Ipv4Addr>,
}

impl State {
    pub(crate) fn new(spec: ClusterSpec, ip_prefix: [u8; 3]) -> Self {
        Self {
            format: FORMAT,
            spec,
            ip_prefix,
            nodes: Vec::new(),
        }
    }

    /// Reads the state in `dir`; None if there is no such file.
    pub(crate) fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).during("reading", &path),
        };
        let unreadable = |why: String| {
            invalid(format!(
                "{} cannot be parsed ({why}); if none of its nodes is running, remove the folder",
                path.display()
            ))
        };
        let state: Self =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        if state.format != FORMAT {
            return Err(unreadable(format!("format {}", state.format)));
        }
        Ok(Some(state))
    }

    /// True if any node runs.
    pub(crate) fn runs(&self) -> bool {
        let mut processes = self.nodes.iter().filter_map(|node| node.process);
        processes.any(|process| process.is_alive())
    }

    /// Replaces the state in `dir` atomically.
    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let partial = dir.join("cluster.json.new");
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Io {
            what: format!("encoding {}", path.display()),
            source: error.into(),
        })?;
        fs::write(&partial, text).during("writing", &partial)?;
        fs::rename(&partial, &path).during("replacing", &path)
    }

    pub(crate) fn node(&self, number: u16) -> Result<&NodeState> {
        self.nodes
            .iter()
            .find(|node| node.number == number)
            .ok_or_else(|| self.no_such(number))
    }

    pub(crate) fn node_mut(&mut self, number: u16) -> Result<&mut NodeState> {
        let error = self.no_such(number);
        self.nodes
            .iter_mut()
            .find(|node| node.number == number)
            .ok_or(error)
    }

    /// The nodes, but for one that is being replaced: others forget it.
    pub(crate) fn present(&self) -> impl Iterator<Item = &NodeState> {
        let is_replaced = |node: &NodeState| {
            let mut all = self.nodes.iter();
            all.any(|other| other.replaces == Some(node.address))
        };
        self.nodes.iter().filter(move |node| !is_replaced(node))
    }

    /// Addresses of up to two joined nodes other than a joining one; the node itself if it is the
    /// first.
    pub(crate) fn seeds_for(&self, number: u16) -> Vec<Ipv4Addr> {
        let mut joined: Vec<Ipv4Addr> = self
            .present()
            .filter(|node| node.joined)
            .map(|node| node.address)
            .take(2)
            .collect();
        if joined.is_empty() {
            joined.extend(
                self.nodes
                    .iter()
                    .find(|node| node.number == number)
                    .map(|node| node.address),
            );
        }
        joined
    }

    pub(crate) fn native_address(&self, node: &NodeState) -> SocketAddr {
        SocketAddr::from((node.address, self.spec.native_port))
    }

    /// Where clients of other nodes are told to connect.
    pub(crate) fn announced_address(&self, node: &NodeState) -> SocketAddr {
        let [a, b, c, number] = node.address.octets();
        match self.spec.relayed {
            // Node numbers are far below.
            true => SocketAddr::from(([a, b, c, number | 0x80], self.spec.native_port)),
            false => self.native_address(node),
        }
    }

    fn no_such(&self, number: u16) -> Error {
        let known: Vec<String> = self.nodes.iter().map(|n| n.number.to_string()).collect();
        Error::NoSuchNode {
            node: number,
            known: if known.is_empty() {
                "none".into()
            } else {
                known.join(", ")
            },
        }
    }
}

/// Folder of one node.
pub(crate) fn node_dir(dir: &Path, number: u16) -> PathBuf {
    dir.join(format!("node{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> State {
        let mut state = State::new(
            ClusterSpec::new("t").yaml("a", "b").agent("/a.jar"),
            [127, 0, 7],
        );
        for number in 1..=3 {
            state.nodes.push(NodeState {
                number,
                address: Ipv4Addr::new(127, 0, 7, number as u8),
                jmx_port: 7200 + number,
                place: state.spec.place_of(number),
                initial_token: None,
                bootstrap: false,
                joined: number != 3,
                process: Some(Process {
                    pid: 1,
                    start_ticks: u64::MAX,
                }),
                cpu_cores: Some(0.5),
                replaces: None,
            });
        }
        state
    }

    #[test]
    fn saved_is_loaded() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(State::load(dir.path()).expect("readable"), None);
        sample().save(dir.path()).expect("saved");
        assert_eq!(State::load(dir.path()).expect("readable"), Some(sample()));
    }

    #[test]
    fn damage_is_explained() {
        let dir = tempfile::tempdir().expect("a folder");
        let newer = serde_json::to_string(&State {
            format: 99,
            ..sample()
        })
        .expect("json");
        for text in ["", "{}", newer.as_str()] {
            fs::write(dir.path().join(FILE), text).expect("written");
            let message = State::load(dir.path()).expect_err("damaged").to_string();
            assert!(message.contains("cannot be parsed"), "{message}");
        }
    }

    #[test]
    fn seeds_are_joined_nodes() {
        let mut state = sample();
        let at = |n| Ipv4Addr::new(127, 0, 7, n);
        assert_eq!(state.seeds_for(3), [at(1), at(2)]);
        state.nodes.iter_mut().for_each(|node| node.joined = false);
        assert_eq!(state.seeds_for(1), [at(1)]);
        let message = state.node(9).expect_err("no node 9").to_string();
        assert_eq!(message, "there is no node 9; this cluster has 1, 2, 3");
    }
}
