//! The settings of the experiment.

use crate::experiments::arms::Arm;
use crate::workload::kv::{KeyValue, Table};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Scale {
    pub table: Table,
    /// One of them is [`crate::experiments::arms::HELENUS`].
    pub arms: Vec<Arm>,
    /// Of the cells.
    pub clients: Vec<usize>,
    pub rounds: usize,
    /// Measured time per arm, cell and round.
    pub cell_time: Duration,
    pub slices: usize,
    /// The longest warm-up before the first cell of each number of nodes.
    pub warmup_max: Duration,
    /// Of each arm, while a node joins.
    pub join_clients: usize,
    /// For how long the steady state before a join is measured.
    pub steady: Duration,
    /// How long after the new node is ready still counts as its joining.
    pub settling: Duration,
    /// Loads of the grid that the ramp is compared with.
    pub grid: Vec<usize>,
    /// Of the ramp and of the grid.
    pub window: Duration,
    pub seed: u64,
}

/// The sessions of an arm.
pub type Sessions = Arc<KeyValue>;
