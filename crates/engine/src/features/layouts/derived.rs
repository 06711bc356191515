//! Layouts in keyspaces of their own (*derived*): each is written by a request of its own, beside the table's.
//!
//! ```text
//!             ┌─> table, at the client's level ─┐
//! client ── INSERT                              ├─> the client is answered
//!             └─> each layout, at ANY ──────────┘
//! ```
//!
//! All have one timestamp: the client's, or one that the proxy gives where the client gives none. At ANY a
//! coordinator that is up takes the write, and keeps a hint for each replica that is not: what it has taken comes
//! there, tombstones included, as all that Cassandra hints. So:
//!
//! - What is acknowledged is in the table at its level, and each layout's coordinator has taken it.
//! - What the table refuses may be in a layout, and for a while after that layouts are sent only what their table has
//!   taken. If it is not known whether the table has a write, layouts get it. Either way the partition is *doubted*
//!   before the client is answered: somebody compares it with the table ([`Output::Doubted`]).
//! - A write that the layouts cannot be told exactly, a conditional one for instance, is the table's alone, and the
//!   partition is doubted. While it is, the table is read ([`Doubts`]).
//! - A layout that no coordinator has taken a write for is *missing* it ([`Output::Missed`]), and its client hears
//!   that nobody knows: it is not read any more until it has been compared. So is one with a range none of whose
//!   replicas has been up for nearly as long as hints are kept, as whoever keeps the catalogue sees: after that,
//!   coordinators take what they do not keep.
//! - A table that is truncated is emptied first, then its layouts, and these are compared as a whole
//!   ([`Output::Truncated`]): what is written at that moment may stay in one of them.
use std::time::Instant;

mod clock;
mod doubts;
mod followed_write;
mod news;
mod parts;

use self::clock::Clock;
pub use self::doubts::{Doubts, Told};
pub(super) use self::followed_write::{FollowedWrite, Partitions};
pub use self::news::{Doubted, Missed, Output};
pub(super) use self::parts::{Parts, batch_timestamp};

/// What all workers of a proxy share.
#[derive(Debug)]
pub struct Shared {
    /// The times of writes whose clients give none.
    pub(super) clock: Clock,
    pub doubts: Doubts,
}

impl Shared {
    pub(in crate::features) fn new(now: Instant) -> Shared {
        Shared {
            clock: Clock::default(),
            doubts: Doubts::new(now),
        }
    }
}
