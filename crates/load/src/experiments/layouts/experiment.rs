//! The settings of the experiment, and what it needs of the nodes.

use super::orders::Orders;
use super::queries::Instances;
use super::reads::Reader;
use super::synthetic::Synthetic;
use super::tables::Copies;
use super::writes::Writer;
use crate::experiments::arms::Arm;
use crate::process::Watched;
use anyhow::Result;
use scylla::statement::Consistency;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Actions on the nodes beside queries. Whoever implements it lets a paused node run again when it is
/// dropped.
pub trait Nodes {
    /// Has all nodes write what they hold in memory to disk.
    fn flush(&mut self) -> Result<()>;
    /// Has all nodes merge each table's files into one.
    fn compact(&mut self) -> Result<()>;
    /// Bytes of a keyspace on the disks of all nodes.
    fn disk_bytes(&self, keyspace: &str) -> Result<u64>;
    /// Stops one node's process, so that its connections stay open without an answer.
    fn pause(&mut self) -> Result<()>;
    fn resume(&mut self) -> Result<()>;
}

/// An arm, and the tables that it reads.
#[derive(Clone, Debug)]
pub struct Contender {
    pub arm: Arm,
    /// Index into [`Layouts::copies`].
    pub copies: usize,
    /// It also writes them; one arm does for each.
    pub writes: bool,
    /// It is also measured while a node is paused.
    pub with_paused_node: bool,
}

#[derive(Clone, Debug)]
pub struct Layouts {
    pub orders: Arc<Orders>,
    pub instances: Arc<Instances>,
    pub copies: Vec<Copies>,
    /// The first must be [`crate::experiments::arms::TOKEN_AWARE`], which reads the best single layout.
    pub arms: Vec<Contender>,
    /// For the correlation of predicted and measured costs.
    pub synthetic: Vec<Synthetic>,
    pub replication: usize,
    pub rounds: usize,
    /// Consistency levels of the reads.
    pub levels: Vec<Consistency>,
    /// Reading clients.
    pub clients: usize,
    pub writing_clients: usize,
    /// Rows that each writing arm writes one by one in each round.
    pub measured_rows: usize,
    /// How often each synthetic query is asked on each layout.
    pub repetitions: usize,
    /// For all arms together, before the first round.
    pub warmup: Duration,
    pub cell_warmup: Duration,
    pub cell_time: Duration,
    /// How long a client waits, and what a failed request counts with.
    pub time_out: Duration,
    /// Maximum wait until the nodes are quick again after one was paused.
    pub settle_max: Duration,
    /// For how long an arm is asked all instances of a query at ALL, before the first round.
    pub check_time: Duration,
    /// Filled tables are merged into one file each. Those that fit into the nodes' memory get no
    /// second file before the reads.
    pub compacts: bool,
    /// A cell that would not be done by then is not started, but for the first round of reads without a paused
    /// node.
    pub until: Option<Instant>,
    /// Further processes whose CPU time is recorded: the nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}

/// An arm's sessions.
pub struct Open {
    /// One for each consistency level.
    pub(super) readers: Vec<Arc<Reader>>,
    pub(super) writer: Option<Arc<Writer>>,
}
