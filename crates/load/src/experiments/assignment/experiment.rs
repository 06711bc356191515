//! The settings of the experiment, and the faults it needs.

use crate::experiments::arms::Arm;
use crate::process::Watched;
use crate::workload::ycsb::UserTable;
use anyhow::Result;
use scylla::statement::Consistency;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A scenario of faults and other work on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    Idle,
    /// Every second node is busy with other work.
    Stressed,
    /// One node stands still for a while.
    Frozen,
    /// One node stands still again and again, for a part of a second, as while garbage is collected.
    Stalling,
    /// One node compacts.
    Compacting,
    /// The network to one node is slow.
    SlowNetwork,
    /// Nodes have nothing of the table in memory, and the disk of one is slow.
    SlowDisk,
}

/// Faults and other work on the nodes. Whoever implements it ends each fault when it is dropped.
pub trait Faults {
    /// Starts other work on every second node.
    fn stress(&mut self) -> Result<()>;
    /// Ends that work.
    fn relax(&mut self) -> Result<()>;
    /// Stops one node's process, so that its connections stay open without an answer.
    fn freeze(&mut self) -> Result<()>;
    fn thaw(&mut self) -> Result<()>;
    /// Has one node compact the table again and again, or no longer.
    fn compact(&mut self, keyspace: &str, compacts: bool) -> Result<()>;
    /// Delays what clients and one node send each other, or no longer.
    fn slow_network(&mut self, is_slow: bool) -> Result<()>;
    /// Has the nodes write to their disks what they hold of the table.
    fn flush(&mut self, keyspace: &str) -> Result<()>;
    /// Empties the page cache of what the nodes have written of the table.
    fn evict(&mut self, keyspace: &str) -> Result<()>;
    /// Has one node read from its disk slowly, or no longer.
    fn slow_disk(&mut self, is_slow: bool) -> Result<()>;
}

#[derive(Clone, Debug)]
pub struct Assignment {
    pub users: UserTable,
    /// The first must be [`crate::experiments::arms::TOKEN_AWARE`].
    pub arms: Vec<Arm>,
    /// The program of the arm [`crate::experiments::arms::JAVA`], if that takes part.
    pub java: Option<PathBuf>,
    pub rounds: usize,
    pub scenarios: Vec<Scenario>,
    pub levels: Vec<Consistency>,
    /// Numbers of reading clients in a closed loop.
    pub clients: Vec<usize>,
    /// Clients that scan, at the first of the levels.
    pub scan_clients: usize,
    pub scan_rows_max: i32,
    /// Reads in an open loop, with one node at fault.
    pub rate_per_second: f64,
    /// For how long it is frozen, stalls or compacts; reads without a fault are measured for as long.
    pub freeze: Duration,
    /// Measured before and after that.
    pub around_freeze: Duration,
    /// How many of the levels are measured beside such a node, the first ones.
    pub fault_levels: usize,
    /// For all arms together, before the first round.
    pub warmup: Duration,
    pub cell_warmup: Duration,
    pub cell_time: Duration,
    /// How long a client waits, and what a failed request counts with.
    pub time_out: Duration,
    /// Maximum wait after a fault until the nodes are quick again.
    pub settle_max: Duration,
    /// A cell that would not be done by then is not started.
    pub until: Option<Instant>,
    /// Further processes whose CPU time is recorded: the nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}
