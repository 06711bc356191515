//! The settings of the experiment.

use crate::experiments::arms::Arm;
use crate::process::Watched;
use crate::workload::kv::{KeyValue, Table};
use std::sync::Arc;
use std::time::Duration;

/// A driver that always asks the first replica of a key.
pub const FIRST_REPLICA: &str = "direct-first-replica";

/// The experiment's settings.
#[derive(Clone, Debug)]
pub struct Hot {
    pub table: Table,
    /// [`FIRST_REPLICA`] and [`crate::experiments::arms::TOKEN_AWARE`] must be among them.
    pub arms: Vec<Arm>,
    /// Numbers of clients in a closed loop.
    pub clients: Vec<usize>,
    /// Of all reads, how many are for the hot key.
    pub hot_share: f64,
    /// Reads per second in the open loop, or the share of what the token-aware driver reaches.
    pub rate: Rate,
    pub rounds: usize,
    /// Measured time per arm, cell and round.
    pub cell_time: Duration,
    pub slices: usize,
    /// For all arms together.
    pub warmup: Duration,
    /// The nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    PerSecond(f64),
    /// 0 to 1.
    Share(f64),
}

/// The sessions of an arm.
pub type Sessions = Arc<KeyValue>;
