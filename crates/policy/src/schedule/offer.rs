//! What became of an offered item, and what has been counted.

use super::Class;
use std::fmt;

/// Names an item that waits, until it is dispatched, expired, removed or drained.
/// Never used twice by one schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    pub(super) class: Class,
    pub(super) seq: u64,
}

/// What became of an offered item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a dispatched or refused item must be dealt with"]
pub enum Offer {
    /// Send it now; it is in flight until [`super::Schedule::on_done`] or `on_gone`.
    Dispatch,
    /// It comes out of `poll_dispatch`, `poll_expired` or `drain` later.
    Queued(Handle),
    Refused(Refusal),
}

/// What is known of an item in flight once it has been answered, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// Its work as it was predicted when it was offered ([`super::Job::piece_us`]).
    pub predicted_us: u32,
    /// Its work as it would be predicted now, with what this answer has taught.
    pub known_us: u32,
    /// From sending to the answer.
    pub service_us: u32,
}

/// Why an item was not even queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// As many of its class wait already as may.
    QueueFull,
    /// It would wait this long, and so beyond its bound.
    TooLate { wait_us: u64 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::QueueFull => f.write_str("too many requests of this kind wait for this node"),
            Refusal::TooLate { wait_us } => write!(
                f,
                "the node would begin with this request only in about {} ms",
                wait_us / 1000
            ),
        }
    }
}

/// Totals since the start, for each class in [`Class`] order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub dispatched: [u64; Class::COUNT],
    /// Of these, served before others because they were due.
    pub aged: [u64; Class::COUNT],
    pub done: [u64; Class::COUNT],
    pub refused: [u64; Class::COUNT],
    pub expired: [u64; Class::COUNT],
}
