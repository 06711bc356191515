//! How far a node request has come.

use std::time::Instant;

use crate::keys::LinkKey;
use crate::scheduler::{Admission, Waiting};

/// How far a node request has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Between two nodes, or waiting for a link or for a statement to be prepared.
    Unplaced,
    /// In a node's queue.
    Queued(Waiting),
    /// It may go to a node.
    Admitted(Admission),
    /// A node has it, or will have it with the next write to its link.
    ///
    /// The proxy's own node requests take no place there.
    InFlight(Option<Admission>, Flight),
}

/// Where a node request is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub link: LinkKey,
    pub stream: i16,
    pub sent: Instant,
    /// Writes of the link before it was put there.
    pub behind: u64,
}

/// A node request that is taken off its link.
pub(crate) struct Landed {
    pub flight: Flight,
    /// How long it has been there.
    pub us: u64,
}
