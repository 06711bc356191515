//! The kinds of cells, so that some of them can be measured alone.

use anyhow::{Result, anyhow};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellKind {
    /// Whole tables, one client.
    Idle,
    Aggregates,
    /// 100 keys by `IN`.
    In,
    /// Point reads and scans in a closed loop.
    Mixed,
    /// The client without a driver.
    Plain,
    /// Point reads beside large partitions and 1,000 keys by `IN`.
    LargeReads,
    /// Look-ups in an index beside scans.
    Index,
    /// Scans of a table with wide partitions.
    Wide,
    /// Point reads and scans at a fixed rate.
    OpenLoop,
    Storm,
}

impl CellKind {
    pub const ALL: [CellKind; 10] = [
        CellKind::Idle,
        CellKind::Aggregates,
        CellKind::In,
        CellKind::Mixed,
        CellKind::Plain,
        CellKind::LargeReads,
        CellKind::Index,
        CellKind::Wide,
        CellKind::OpenLoop,
        CellKind::Storm,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CellKind::Idle => "idle",
            CellKind::Aggregates => "aggregates",
            CellKind::In => "in",
            CellKind::Mixed => "mixed",
            CellKind::Plain => "plain",
            CellKind::LargeReads => "large-reads",
            CellKind::Index => "index",
            CellKind::Wide => "wide",
            CellKind::OpenLoop => "open-loop",
            CellKind::Storm => "storm",
        }
    }
}

impl fmt::Display for CellKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CellKind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = CellKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let known = CellKind::ALL.map(CellKind::name).join(", ");
            anyhow!("no kind of cell is called {text:?}; there are {known}")
        })
    }
}
