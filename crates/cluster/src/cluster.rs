//! A cluster: bringing it up, changing it, taking it down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use crate::cql::{Access, Connection};
use crate::error::{Context, Error, Result, invalid};
use crate::guard::Guard;
use crate::process::RunState;
use crate::spec::{ClientTls, ClusterSpec, Partitioner};
use crate::state::{NodeState, State};
use crate::status::Status;
use crate::tls::TlsFiles;
use crate::{addresses, cgroup, jars, node, paths, tokens};
use folder::{check_same, fresh_temporary_dir, lock, refuse_foreign, remove_dir};
use handle::CONNECT_PATIENCE;
use ready::peers;
use running::end_orphans;

mod folder;
mod handle;
mod ready;
mod running;
mod starting;

pub use handle::{Cluster, Progress};

const NODES_MAX: u16 = 60;

impl Cluster {
    /// Brings a cluster up and waits until every node answers and sees all others.
    pub fn up(spec: ClusterSpec) -> Result<Self> {
        Self::up_with(spec, Arc::new(|_| {}))
    }

    /// Like [`Cluster::up`], reporting each step. An existing cluster in the folder is taken over:
    /// running nodes are kept, the others are started.
    pub fn up_with(spec: ClusterSpec, progress: Progress) -> Result<Self> {
        spec.check()?;
        let lib = jars::ensure(&spec.version, &*progress)?;
        let dir = match &spec.dir {
            Some(dir) => std::path::absolute(dir).during("finding", dir)?,
            None if spec.ephemeral => fresh_temporary_dir(),
            None => paths::cluster_dir(&spec.name)?,
        };
        refuse_foreign(&dir)?;
        fs::create_dir_all(&dir).during("creating", &dir)?;
        let lock = lock(&dir)?;
        let (state, fresh) = match State::load(&dir)? {
            Some(state) => {
                check_same(&spec, &state.spec, &dir)?;
                progress(&format!(
                    "{} already contains a cluster of {} nodes: using it",
                    dir.display(),
                    state.nodes.len()
                ));
                (state, false)
            }
            None => {
                end_orphans(&dir, &[], &*progress)?;
                (found(&spec, &dir)?, true)
            }
        };
        let mut cluster = Self {
            access: Access::default(),
            children: BTreeMap::new(),
            second_tries: BTreeSet::new(),
            guard: None,
            _lock: lock,
            dir,
            state,
            lib,
            progress,
        };
        // From here on, dropping `cluster` cleans up after an ephemeral cluster that failed.
        cluster.state.save(&cluster.dir)?;
        if cluster.state.spec.ephemeral {
            cluster.guard = Some(Guard::start(&cluster.dir)?);
        }
        cluster.access = access(&cluster.dir, &cluster.state)?;
        if !fresh {
            cluster.end_unknown()?;
        }
        let all = cluster.nodes();
        match cluster.start_many(&all) {
            Ok(()) => Ok(cluster),
            Err(error) => {
                if fresh && !cluster.state.spec.ephemeral {
                    for number in all {
                        cluster.kill(number)?;
                    }
                    let dir = cluster.dir.display();
                    cluster.say(format!(
                        "the nodes were ended and {dir} is kept for its logs; \
                         `helenus cluster down` removes it"
                    ));
                }
                Err(error)
            }
        }
    }

    /// Takes over the cluster in `dir` unchanged, without starting anything.
    pub fn open(dir: &Path, progress: Progress) -> Result<Self> {
        let dir = std::path::absolute(dir).during("finding", dir)?;
        if !dir.is_dir() {
            return Err(Error::NoCluster(dir));
        }
        let lock = lock(&dir)?;
        let state = State::load(&dir)?.ok_or_else(|| Error::NoCluster(dir.clone()))?;
        let lib = jars::ensure(&state.spec.version, &*progress)?;
        Ok(Self {
            access: access(&dir, &state)?,
            children: BTreeMap::new(),
            second_tries: BTreeSet::new(),
            guard: None,
            _lock: lock,
            dir,
            state,
            lib,
            progress,
        })
    }

    /// The status of the cluster in `dir`, even while another process manages it.
    pub fn status_of(dir: &Path) -> Result<Status> {
        let state = State::load(dir)?.ok_or_else(|| Error::NoCluster(dir.to_owned()))?;
        let access = access(dir, &state)?;
        Ok(Status::of(&state, dir, |address| sees(address, &access)))
    }

    /// The current status of the cluster.
    pub fn status(&self) -> Status {
        Status::of(&self.state, &self.dir, |address| {
            sees(address, &self.access)
        })
    }

    /// Adds a node, which bootstraps (streams in its share of the data), and waits until it is
    /// ready. Returns its number.
    pub fn add_node(&mut self) -> Result<u16> {
        self.add_node_with(None)
    }

    /// Like [`Cluster::add_node`] with explicit tokens.
    pub fn add_node_with(&mut self, initial_token: Option<String>) -> Result<u16> {
        self.join(initial_token, None)
    }

    /// Like [`Cluster::add_node`]; the node is limited to so many cores from its start, as by
    /// [`Cluster::cpu_cap`].
    pub fn add_capped_node(&mut self, cores: f64) -> Result<u16> {
        self.join(None, Some(cores))
    }

    fn join(&mut self, initial_token: Option<String>, cpu_cores: Option<f64>) -> Result<u16> {
        let ordered = self.state.spec.partitioner == Partitioner::ByteOrderedPartitioner;
        if ordered && initial_token.is_none() {
            return Err(invalid(
                "ByteOrderedPartitioner needs an initial token for the new node",
            ));
        }
        self.join_as(|node| NodeState {
            initial_token,
            cpu_cores,
            ..node
        })
    }

    /// Replaces the dead node `number` by a new one, which takes over its tokens and streams their data from
    /// the other replicas: what had only one is lost. Returns the new node's number.
    pub fn replace_node(&mut self, number: u16) -> Result<u16> {
        let dead = self.state.node(number)?.clone();
        if self.run_state(number)? != RunState::Gone {
            return Err(invalid(format!(
                "node {number} runs, and Cassandra replaces dead nodes only: `helenus cluster stop --kill \
                 {number}` ends it, `helenus cluster remove {number}` takes it out with its data"
            )));
        }
        if !dead.joined {
            return Err(invalid(format!(
                "node {number} has never joined the ring: take it out with `helenus cluster remove {number}`"
            )));
        }
        if self.running().is_empty() {
            return Err(invalid("no node runs that a new one could join"));
        }
        let new = self.join_as(|node| NodeState {
            place: dead.place.clone(),
            cpu_cores: dead.cpu_cores,
            replaces: Some(dead.address),
            ..node
        })?;
        self.forget_node(number)?;
        self.state.node_mut(new)?.replaces = None;
        self.state.save(&self.dir)?;
        Ok(new)
    }

    /// Starts a new node, and waits until it has joined. `with`: what is special about it.
    fn join_as(&mut self, with: impl FnOnce(NodeState) -> NodeState) -> Result<u16> {
        let number = self.state.nodes.iter().map(|n| n.number).max().unwrap_or(0) + 1;
        if number > NODES_MAX {
            return Err(invalid(format!("no more than {NODES_MAX} nodes")));
        }
        let node = with(new_node(&self.state, number, None, true)?);
        let address = self.state.native_address(&node);
        self.state.nodes.push(node);
        self.state.save(&self.dir)?;
        self.say(format!(
            "starting node {number} at {address}; it joins the ring"
        ));
        let begin = Instant::now();
        self.second_tries.remove(&number);
        self.spawn(number)?;
        self.wait_ready(&[number])?;
        self.say_ready(1, begin);
        Ok(number)
    }

    /// Decommissions node `number` (its data streams to the others), stops it and removes its
    /// folder.
    pub fn remove_node(&mut self, number: u16) -> Result<()> {
        self.state.node(number)?;
        if self.state.nodes.len() == 1 {
            return Err(invalid("the last node cannot be removed; use `down`"));
        }
        let joined = self.state.node(number)?.joined;
        if joined {
            if self.run_state(number)? != RunState::Running {
                return Err(invalid(format!(
                    "node {number} must run to hand its data over; \
                     start it first with `helenus cluster start {number}`"
                )));
            }
            self.say(format!("node {number} is leaving the ring"));
            // Without --force Cassandra refuses if a keyspace has as many replicas as there are
            // nodes.
            self.nodetool(number, &["decommission", "--force"])?;
        }
        self.forget_node(number)?;
        let rest = self.running();
        self.wait_ready(&rest)
    }

    /// Ends node `number` and removes its folder.
    fn forget_node(&mut self, number: u16) -> Result<()> {
        self.kill(number)?;
        self.state.nodes.retain(|node| node.number != number);
        self.state.save(&self.dir)?;
        cgroup::remove(&self.group(number));
        remove_dir(&crate::state::node_dir(&self.dir, number))
    }

    /// Runs nodetool against node `number` and returns its output.
    pub fn nodetool(&self, number: u16, args: &[&str]) -> Result<String> {
        let mut command = self.nodetool_command(number, args)?;
        let output = command.output().map_err(crate::java::missing)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(Error::Nodetool {
            node: number,
            args: args.join(" "),
            output: text + &String::from_utf8_lossy(&output.stderr),
        })
    }

    /// A command that runs nodetool against node `number`.
    pub fn nodetool_command(&self, number: u16, args: &[&str]) -> Result<Command> {
        let port = self.state.node(number)?.jmx_port.to_string();
        let mut command = node::tool(&self.lib, &self.dir, "org.apache.cassandra.tools.NodeTool")?;
        command.args(["-h", "127.0.0.1", "-p", &port]).args(args);
        Ok(command)
    }

    /// Sets a key of `cassandra.yaml` as [`ClusterSpec::yaml`] does, for nodes started from now on.
    pub fn set_yaml(&mut self, key: &str, value: &str) -> Result<()> {
        let spec = self.state.spec.clone().yaml(key, value);
        spec.check()?;
        self.state.spec = spec;
        self.state.save(&self.dir)
    }

    /// Stops all nodes and removes the cluster's folder, unless `keep_data`.
    pub fn down(mut self, keep_data: bool) -> Result<()> {
        self.take_down(keep_data)
    }

    fn take_down(&mut self, keep_data: bool) -> Result<()> {
        if keep_data {
            let all = self.nodes();
            self.end(&all)?;
        } else {
            // The data is removed anyway, so the nodes need not flush it.
            for number in self.nodes() {
                self.kill(number)?;
            }
        }
        self.end_unknown()?;
        for number in self.nodes() {
            self.reap(number);
            cgroup::remove(&self.group(number));
        }
        if !keep_data {
            remove_dir(&self.dir)?;
            addresses::release(self.state.ip_prefix, &self.dir);
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // An ephemeral cluster that was taken down has dismissed its guard.
        if self.guard.is_some()
            && let Err(error) = self.take_down(false)
        {
            self.say(format!("cleaning up {}: {error}", self.dir.display()));
        }
    }
}

/// A new cluster's state: addresses, ports and tokens.
fn found(spec: &ClusterSpec, dir: &Path) -> Result<State> {
    let prefix = addresses::reserve(spec, dir)?;
    let mut state = State::new(spec.clone(), prefix);
    for number in 1..=spec.nodes {
        let index = number - 1;
        let initial_token = match spec.initial_tokens.get(usize::from(index)) {
            Some(tokens) => tokens.clone(),
            None => tokens::murmur3(index, spec.nodes, spec.num_tokens),
        };
        let node = new_node(&state, number, Some(initial_token), false)?;
        state.nodes.push(node);
    }
    Ok(state)
}

fn new_node(
    state: &State,
    number: u16,
    initial_token: Option<String>,
    bootstrap: bool,
) -> Result<NodeState> {
    let used: Vec<u16> = state.nodes.iter().map(|node| node.jmx_port).collect();
    Ok(NodeState {
        number,
        address: addresses::node_address(state.ip_prefix, number),
        jmx_port: addresses::free_jmx_port(&used)?,
        place: state.spec.place_of(number),
        initial_token,
        bootstrap,
        joined: false,
        process: None,
        cpu_cores: None,
        replaces: None,
    })
}

fn access(dir: &Path, state: &State) -> Result<Access> {
    let spec = &state.spec;
    Ok(Access {
        tls: match spec.tls {
            ClientTls::Off => None,
            _ => Some(TlsFiles::ensure(dir, state)?.client_config()?),
        },
        login: spec.auth.then(|| ("cassandra".into(), "cassandra".into())),
        version: spec.max_protocol_version.unwrap_or(4).min(4),
    })
}

fn sees(address: SocketAddr, access: &Access) -> Option<usize> {
    let mut connection = Connection::open(address, access, CONNECT_PATIENCE).ok()?;
    peers(&mut connection).ok().map(|peers| peers.len() + 1)
}
