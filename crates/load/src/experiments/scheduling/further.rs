//! Cells beyond the paper's: other work that is long, other work that must not wait, and fixed rates.
//!
//! - **Large reads.** Point reads at a fixed rate beside clients that read large partitions page by page
//!   and 1,000 keys by `IN`.
//! - **Index.** Look-ups in an index, which reach all nodes but read a few rows, beside scans.
//! - **Wide partitions.** Scans of a table in which one partition fills more than a page.
//! - **Open loop.** Points and scans at a fixed rate, a share of what the direct driver can do, which is
//!   measured first in each round. Nobody's gain is another's load then, and each latency counts from
//!   when the query was due.

use super::mix::Mix;
use super::selection::CellKind;
use crate::experiments::arms::{HELENUS, TOKEN_AWARE};
use std::time::Duration;

pub(super) mod indexed;
mod measure;
pub(super) mod queries;
pub(super) mod wide;

pub use indexed::Indexed;
pub use wide::Wide;

#[derive(Clone, Debug)]
pub struct Further {
    pub wide: Wide,
    pub indexed: Indexed,
    /// Clients that read large partitions and many keys.
    pub readers: usize,
    /// Clients that scan beside look-ups in the index.
    pub scanners: usize,
    /// Point reads beside the large reads.
    pub points_per_second: f64,
    pub look_ups_per_second: f64,
    /// Numbers of clients that scan wide partitions.
    pub wide_clients: Vec<usize>,
    pub open_mixes: Vec<Mix>,
    /// The rate of the open loop, as a share of what the direct driver can do.
    pub open_share: f64,
    /// Clients with which that is measured, and for how long.
    pub capacity_clients: usize,
    pub capacity_time: Duration,
    /// For how long queries are sent in each cell with a fixed rate.
    pub time: Duration,
    /// Only direct and Helenus with its defaults, and only in the first round.
    pub short: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FurtherCell {
    LargeReads,
    LookUps,
    WideScans(usize),
    OpenLoop(Mix),
}

impl Further {
    pub(super) fn cells(&self) -> Vec<FurtherCell> {
        let wide = self.wide_clients.iter().map(|&n| FurtherCell::WideScans(n));
        let open = self
            .open_mixes
            .iter()
            .map(|&mix| FurtherCell::OpenLoop(mix));
        let beside = [FurtherCell::LargeReads, FurtherCell::LookUps];
        beside.into_iter().chain(wide).chain(open).collect()
    }

    pub(super) fn takes_part(&self, arm: &str) -> bool {
        !self.short || [TOKEN_AWARE, HELENUS].contains(&arm)
    }

    pub(super) fn name(&self, cell: FurtherCell) -> String {
        match cell {
            FurtherCell::LargeReads => {
                let (rate, readers) = (self.points_per_second, self.readers);
                format!("points, {rate}/s beside {readers} clients with large reads")
            }
            FurtherCell::LookUps => {
                let (rate, scanners) = (self.look_ups_per_second, self.scanners);
                format!("look-ups in an index, {rate}/s beside {scanners} scanning clients")
            }
            FurtherCell::WideScans(clients) => {
                format!("scans of wide partitions, {clients} clients")
            }
            FurtherCell::OpenLoop(mix) => {
                let percent = self.open_share * 100.0;
                format!("open loop, {mix}, {percent:.0} % of direct's capacity")
            }
        }
    }

    /// The name of what runs beside a cell.
    pub(super) fn beside_name(&self, cell: FurtherCell) -> Option<String> {
        match cell {
            FurtherCell::LargeReads => Some(format!("large reads, {} clients", self.readers)),
            FurtherCell::LookUps => {
                let scanners = self.scanners;
                Some(format!("scans, {scanners} clients beside look-ups"))
            }
            FurtherCell::WideScans(_) | FurtherCell::OpenLoop(_) => None,
        }
    }
}

/// True if a kind of cell reads tables of its own.
pub(super) fn has_own_tables(kind: CellKind) -> bool {
    [CellKind::LargeReads, CellKind::Index, CellKind::Wide].contains(&kind)
}

impl FurtherCell {
    pub(super) fn kind(self) -> CellKind {
        match self {
            FurtherCell::LargeReads => CellKind::LargeReads,
            FurtherCell::LookUps => CellKind::Index,
            FurtherCell::WideScans(_) => CellKind::Wide,
            FurtherCell::OpenLoop(_) => CellKind::OpenLoop,
        }
    }
}
