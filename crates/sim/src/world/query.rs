//! A query on its way: its parts by node, and the reads that it sends.

use crate::data::Segment;
use helenus_policy::schedule::{Handle, Job};

pub(super) struct Query {
    pub(super) client: u32,
    /// The node or proxy that coordinates it.
    pub(super) at: u32,
    pub(super) is_point: bool,
    pub(super) began_us: u64,
    pub(super) parts: Vec<Part>,
    pub(super) over: bool,
    pub(super) refused: bool,
}

/// What a query wants from one node, piece after piece.
pub(super) struct Part {
    pub(super) segment: Segment,
    pub(super) begun: bool,
    /// Not yet asked for.
    pub(super) rows_left: u32,
    /// A piece was asked for and has not come back.
    pub(super) busy: bool,
    pub(super) waiting: Option<Handle>,
}

impl Part {
    pub(super) fn is_complete(&self) -> bool {
        self.begun && !self.busy && self.rows_left == 0
    }
}

/// A piece of a query's part, on its way.
pub(super) struct Read {
    pub(super) query: u32,
    pub(super) part: u32,
    pub(super) node: u32,
    pub(super) rows: u32,
    pub(super) sent_us: u64,
    pub(super) job: Job,
}

impl Query {
    /// Nodes that hold something of it that has not come back.
    pub(super) fn nodes_left(&self) -> u16 {
        let left = self.parts.iter().filter(|part| !part.is_complete());
        left.count() as u16
    }

    /// Rows that have not been asked for.
    pub(super) fn rows_left(&self) -> u32 {
        self.parts.iter().map(|part| part.rows_left).sum()
    }
}
