//! The settings of the experiment.

use super::further::{Further, has_own_tables};
use super::mix::Mixed;
use super::plain::Plain;
use super::selection::CellKind;
use super::tables::Tables;
use crate::experiments::arms::Arm;
use crate::process::Watched;
use std::time::{Duration, Instant};

/// Kinds of query, by index.
pub const KINDS: [&str; 2] = ["point", "scan"];

#[derive(Clone, Copy, Debug)]
pub struct Storm {
    pub scan_clients: usize,
    /// Point reads, in an open loop.
    pub points_per_second: f64,
    pub time: Duration,
    /// Run it only in the first round, and not for the round-robin arm.
    pub short: bool,
}

#[derive(Clone, Debug)]
pub struct Scheduling {
    pub tables: Tables,
    /// The first must be `TOKEN_AWARE`, the baseline.
    pub arms: Vec<Arm>,
    pub rounds: usize,
    pub mixed: Vec<Mixed>,
    /// Maximum time for which a cell sends queries.
    pub cell_time: Option<Duration>,
    pub storm: Option<Storm>,
    pub plain: Option<Plain>,
    pub further: Option<Further>,
    /// The kinds of cell that are measured of all these.
    pub kinds: Vec<CellKind>,
    /// Driver sessions of each arm, which its clients share.
    pub sessions: usize,
    /// How long a client waits for a whole query, and the latency that a failed one counts with.
    pub time_out: Duration,
    /// Maximum before the first round.
    pub warmup: Duration,
    /// Maximum wait after each turn until the nodes are fast again.
    pub settle_max: Duration,
    /// Empty the page cache before each cell.
    pub drop_caches: bool,
    /// A cell that would not be done by then is not started.
    pub until: Option<Instant>,
    /// Further processes whose CPU time is recorded: the nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}

impl Scheduling {
    /// The plain client, if it is measured.
    pub(super) fn plain(&self) -> Option<&Plain> {
        let plain = self.plain.as_ref();
        plain.filter(|_| self.kinds.contains(&CellKind::Plain))
    }

    /// The further cells, if some are measured that read tables of their own.
    pub(super) fn with_own_tables(&self) -> Option<&Further> {
        let further = self.further.as_ref();
        further.filter(|_| self.kinds.iter().copied().any(has_own_tables))
    }
}
