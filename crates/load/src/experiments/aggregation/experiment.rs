//! The settings of the experiment.

use crate::experiments::arms::Arm;
use crate::process::Watched;
use crate::workload::cas::Counters;
use crate::workload::kv::Table;
use crate::workload::ycsb::UserTable;
use std::time::{Duration, Instant};

pub(super) const CAS_CLIENTS: usize = 50;

/// The cells an arm takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Every cell.
    All,
    /// INSERTs and reads at saturation, YCSB and equal rates: the direct round-robin client.
    Throughput,
    /// INSERTs and reads at saturation only: the paper's aggregation windows.
    Window,
    /// The hot-key cells only.
    HotKey,
    /// The compare-and-set cell only.
    Cas,
}

/// One of the alternatives compared.
#[derive(Clone, Debug)]
pub struct Contender {
    pub arm: Arm,
    pub part: Part,
}

#[derive(Clone, Debug)]
pub struct Aggregation {
    /// Keys have 8 bytes; values of 12 bytes make the paper's items of 20.
    pub table: Table,
    pub users: UserTable,
    pub counters: Counters,
    /// The first must be `TOKEN_AWARE`, the second `ROUND_ROBIN`.
    pub arms: Vec<Contender>,
    /// The cells to measure, some of [`CELL_KINDS`](super::CELL_KINDS); all if empty.
    pub only: Vec<String>,
    pub rounds: usize,
    pub clients: Vec<usize>,
    /// Clients of the YCSB and hot-key cells.
    pub clients_usual: usize,
    /// Plain connections, one request at a time on each.
    pub many_clients: usize,
    /// Before the first round, for all arms together.
    pub warmup: Duration,
    pub cell_warmup: Duration,
    pub cell_time: Duration,
    /// No phase starts after this time, and cells are shortened to meet it.
    pub until: Option<Instant>,
    /// Further processes whose CPU time is recorded: the nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}

impl Aggregation {
    pub(super) fn arms(&self) -> impl Iterator<Item = &Arm> + Clone {
        self.arms.iter().map(|contender| &contender.arm)
    }
}
