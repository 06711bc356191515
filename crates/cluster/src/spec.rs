//! The specification of a cluster: settings, defaults and validation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Context, Result, invalid};

/// The version used by default.
pub const DEFAULT_VERSION: &str = "5.0.6";

/// How keys become tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partitioner {
    /// Cassandra's default: hashed tokens.
    #[default]
    Murmur3Partitioner,
    /// The token is the key; needs [`ClusterSpec::initial_tokens`].
    ByteOrderedPartitioner,
}

/// Encryption between clients and nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientTls {
    /// Plain text.
    #[default]
    Off,
    /// The nodes present certificates; clients need none.
    Server,
    /// The nodes present certificates, but plain text is accepted on the same port.
    Optional,
    /// Clients must also present a certificate of the cluster's authority.
    Mutual,
}

/// Data centre and rack of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Data centre.
    pub dc: String,
    /// Rack.
    pub rack: String,
}

/// The specification of a cluster. Start from [`ClusterSpec::new`] or [`ClusterSpec::ephemeral`],
/// change what differs, and pass it to [`crate::Cluster::up`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSpec {
    pub(crate) name: String,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) nodes: u16,
    pub(crate) version: String,
    pub(crate) heap_mib: u32,
    pub(crate) direct_mib: u32,
    pub(crate) ip_prefix: Option<[u8; 3]>,
    pub(crate) native_port: u16,
    pub(crate) storage_port: u16,
    pub(crate) partitioner: Partitioner,
    pub(crate) num_tokens: u16,
    pub(crate) initial_tokens: Vec<String>,
    pub(crate) auth: bool,
    pub(crate) tls: ClientTls,
    pub(crate) places: Vec<Place>,
    pub(crate) yaml: BTreeMap<String, String>,
    pub(crate) jvm_args: Vec<String>,
    pub(crate) max_protocol_version: Option<u8>,
    #[serde(rename = "agents")]
    pub(crate) java_agents: Vec<String>,
    /// Absent in files of clusters created before there was an agent.
    #[serde(default)]
    pub(crate) agent: Option<PathBuf>,
    pub(crate) class_path: Vec<PathBuf>,
    /// Absent in files of clusters created before it was known.
    #[serde(default)]
    pub(crate) short_lived: bool,
    /// Absent in files of clusters created before there were relays.
    #[serde(default)]
    pub(crate) relayed: bool,
    pub(crate) ephemeral: bool,
    pub(crate) ready_timeout_s: u64,
}

impl ClusterSpec {
    /// A cluster that stays until [`crate::Cluster::down`]: one node, 1 GiB heap.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            dir: None,
            nodes: 1,
            version: DEFAULT_VERSION.to_owned(),
            heap_mib: 1024,
            direct_mib: 512,
            ip_prefix: None,
            native_port: 9042,
            storage_port: 7000,
            partitioner: Partitioner::default(),
            num_tokens: 16,
            initial_tokens: Vec::new(),
            auth: false,
            tls: ClientTls::default(),
            places: Vec::new(),
            yaml: BTreeMap::new(),
            jvm_args: Vec::new(),
            max_protocol_version: None,
            java_agents: Vec::new(),
            agent: None,
            class_path: Vec::new(),
            short_lived: false,
            relayed: false,
            ephemeral: false,
            ready_timeout_s: 180,
        }
    }

    /// A small cluster that belongs to the caller's process: it uses a fresh temporary folder and
    /// is removed, with its data, when the [`crate::Cluster`] is dropped or the process dies.
    pub fn ephemeral() -> Self {
        Self {
            ephemeral: true,
            heap_mib: 512,
            direct_mib: 256,
            ..Self::new("ephemeral")
        }
    }

    /// It stays when the caller's process ends, as one of [`Self::new`] does.
    pub fn outliving(mut self) -> Self {
        self.ephemeral = false;
        self
    }

    /// Folder of the cluster, instead of one in the user's state folder.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// How many nodes to start with (1 to 50).
    pub fn nodes(mut self, nodes: u16) -> Self {
        self.nodes = nodes;
        self
    }

    /// Version of Cassandra, such as `5.0.6` or `4.1.10`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Java heap of each node, in MiB.
    pub fn heap_mib(mut self, mib: u32) -> Self {
        self.heap_mib = mib;
        self
    }

    /// Off-heap buffers of each node, in MiB.
    pub fn direct_mib(mut self, mib: u32) -> Self {
        self.direct_mib = mib;
        self
    }

    /// First three parts of the nodes' addresses (`127.x.y`); the node's number is the fourth.
    /// By default a free one is chosen.
    pub fn ip_prefix(mut self, prefix: [u8; 3]) -> Self {
        self.ip_prefix = Some(prefix);
        self
    }

    /// Port for clients, the same on each node.
    pub fn native_port(mut self, port: u16) -> Self {
        self.native_port = port;
        self
    }

    /// Partitioner.
    pub fn partitioner(mut self, partitioner: Partitioner) -> Self {
        self.partitioner = partitioner;
        self
    }

    /// Tokens per node (1 to 256).
    pub fn num_tokens(mut self, num_tokens: u16) -> Self {
        self.num_tokens = num_tokens;
        self
    }

    /// Explicit tokens, one comma-separated list per node in order. Without them, a Murmur3 ring
    /// is divided evenly.
    pub fn initial_tokens(mut self, tokens: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.initial_tokens = tokens.into_iter().map(Into::into).collect();
        self
    }

    /// Enables or disables passwords and permissions. The first superuser is
    /// `cassandra`/`cassandra`.
    pub fn auth(mut self, on: bool) -> Self {
        self.auth = on;
        self
    }

    /// Encryption between clients and nodes; see [`crate::Cluster::tls_files`].
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// Data centre and rack of the next node. Nodes beyond the list start over at its beginning;
    /// without a list all are in `datacenter1`, `rack1`.
    pub fn place(mut self, dc: impl Into<String>, rack: impl Into<String>) -> Self {
        self.places.push(Place {
            dc: dc.into(),
            rack: rack.into(),
        });
        self
    }

    /// Sets a key of `cassandra.yaml` to a value in YAML's flow form (`5s`, `true`, `{a: b}`).
    pub fn yaml(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.yaml.insert(key.into(), value.into());
        self
    }

    /// An additional argument for `java`.
    pub fn jvm_arg(mut self, arg: impl Into<String>) -> Self {
        self.jvm_args.push(arg.into());
        self
    }

    /// Highest protocol version the nodes know: 4 makes them look like nodes before 4.0.
    pub fn max_protocol_version(mut self, version: u8) -> Self {
        self.max_protocol_version = Some(version);
        self
    }

    /// A Java agent (`path.jar` or `path.jar=options`); its jar is also added to the class path.
    pub fn java_agent(mut self, agent: impl Into<String>) -> Self {
        self.java_agents.push(agent.into());
        self
    }

    /// Helenus's own agent in every node, including those added later: the jar, as found by
    /// [`crate::find_agent`].
    pub fn agent(mut self, jar: impl Into<PathBuf>) -> Self {
        self.agent = Some(jar.into());
        self
    }

    /// For nodes that live for minutes, as in tests: without Java's optimizing compiler and concurrent
    /// collector, which cost them more than they gain (40 % and then a fifth of the CPU time of a start),
    /// and from the archive of [`crate::archive_classes`], if there is one (another fifth).
    pub fn short_lived(mut self) -> Self {
        self.short_lived = true;
        self
    }

    /// An additional jar or folder on the nodes' class path.
    pub fn class_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.class_path.push(path.into());
        self
    }

    /// Nodes tell clients to connect to [`crate::Cluster::announced_address`], where they do not
    /// listen: for a relay in front of each.
    pub fn relayed(mut self) -> Self {
        self.relayed = true;
        self
    }

    /// How long the nodes may take to become ready, in seconds.
    pub fn ready_timeout_s(mut self, seconds: u64) -> Self {
        self.ready_timeout_s = seconds;
        self
    }

    /// The folder that the cluster's own will be in, or is, as far as it exists already: it is on the
    /// same storage.
    pub fn existing_folder(&self) -> Result<PathBuf> {
        let folder = match &self.dir {
            Some(dir) => std::path::absolute(dir).during("finding", dir)?,
            None if self.ephemeral => std::env::temp_dir(),
            None => crate::paths::cluster_dir(&self.name)?,
        };
        let existing = folder.ancestors().find(|ancestor| ancestor.is_dir());
        Ok(existing.unwrap_or(&folder).to_path_buf())
    }

    /// Rejects invalid settings before anything is started.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |sentence: String| Err(invalid(sentence));
        if !(1..=50).contains(&self.nodes) {
            return refuse(format!("{} nodes: choose 1 to 50", self.nodes));
        }
        if self.heap_mib < 256 {
            return refuse(format!(
                "a heap of {} MiB is too small for Cassandra; use 512 or more",
                self.heap_mib
            ));
        }
        if !(1..=256).contains(&self.num_tokens) {
            return refuse(format!("{} tokens: choose 1 to 256", self.num_tokens));
        }
        if let Some(prefix) = self.ip_prefix
            && prefix[0] != 127
        {
            return refuse(
                "the nodes listen on loopback only: the address must start with 127".into(),
            );
        }
        if let Some(version) = self.max_protocol_version
            && !(3..=5).contains(&version)
        {
            return refuse(format!("protocol version {version}: choose 3, 4 or 5"));
        }
        if self.initial_tokens.is_empty() {
            if self.partitioner == Partitioner::ByteOrderedPartitioner {
                return refuse(
                    "ByteOrderedPartitioner needs an initial token for each node".into(),
                );
            }
        } else if self.initial_tokens.len() != usize::from(self.nodes) {
            return refuse(format!(
                "{} lists of initial tokens for {} nodes",
                self.initial_tokens.len(),
                self.nodes
            ));
        }
        let plain = |word: &str| {
            !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        for place in &self.places {
            if !plain(&place.dc) || !plain(&place.rack) {
                return refuse(format!("{place:?}: use letters, digits, `-`, `_` and `.`"));
            }
        }
        for (key, value) in &self.yaml {
            if !plain(key) || value.trim().is_empty() || value.contains(['\n', '\r']) {
                return refuse(format!(
                    "cassandra.yaml override `{key}: {value}`: want a plain key and a value on one line"
                ));
            }
        }
        Ok(())
    }

    /// Data centre and rack of node `number` (from 1).
    pub(crate) fn place_of(&self, number: u16) -> Place {
        let index = usize::from(number) - 1;
        match self.places.len() {
            0 => Place {
                dc: "datacenter1".into(),
                rack: "rack1".into(),
            },
            count => self.places[index % count].clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_repeat() {
        let spec = ClusterSpec::new("t").place("a", "1").place("b", "2");
        let dcs: Vec<String> = (1..=3).map(|n| spec.place_of(n).dc).collect();
        assert_eq!(dcs, ["a", "b", "a"]);
        assert_eq!(ClusterSpec::new("t").place_of(7).rack, "rack1");
    }

    #[test]
    fn what_exists_of_a_clusters_folder_is_found() {
        let temporary = ClusterSpec::ephemeral()
            .existing_folder()
            .expect("a folder");
        assert_eq!(temporary, std::env::temp_dir());
        let base = tempfile::tempdir().expect("a folder");
        let spec = ClusterSpec::new("t").dir(base.path().join("not/yet"));
        assert_eq!(spec.existing_folder().expect("a folder"), base.path());
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let good = || ClusterSpec::new("t");
        assert!(good().check().is_ok());
        let bad = [
            good().nodes(0),
            good().nodes(51),
            good().heap_mib(100),
            good().num_tokens(0),
            good().ip_prefix([10, 0, 0]),
            good().max_protocol_version(2),
            good().partitioner(Partitioner::ByteOrderedPartitioner),
            good().nodes(2).initial_tokens(["00"]),
            good().place("dc 1", "r"),
            good().yaml("a", "b\nc: d"),
            good().yaml("a b", "c"),
            good().yaml("a", " "),
        ];
        for spec in bad {
            assert!(spec.check().is_err(), "{spec:?}");
        }
    }
}
