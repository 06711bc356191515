//! Results of offering an item, and counters.

use super::Class;
use std::fmt;

/// Identifies a waiting item until it is dispatched, expired, removed or drained. Never reused by
/// one schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    pub(super) class: Class,
    pub(super) seq: u64,
}

/// The result of [`super::Schedule::offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a dispatched or refused item must be dealt with"]
pub enum Offer {
    /// Send it now; it is in flight until [`super::Schedule::on_done`] or `on_gone`.
    Dispatch,
    /// `poll_dispatch`, `poll_expired` or `drain` returns it later.
    Queued(Handle),
    Refused(Refusal),
}

/// An item as it is known once it has been answered, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// Its work as predicted when it was offered ([`super::Job::piece_us`]).
    pub predicted_us: u32,
    /// Its work as predicted now, with this answer learned.
    pub known_us: u32,
    /// Time from sending to the answer.
    pub service_us: u32,
    /// The answer is an error: that says nothing of how long the work takes.
    pub is_error: bool,
}

/// Why an item was not even queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The queue of its class is full.
    QueueFull,
    /// It would wait this long, which exceeds its bound.
    TooLate { wait_us: u64 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::QueueFull => f.write_str(
                "too many requests of this kind wait for this node, in this proxy: try again later",
            ),
            Refusal::TooLate { wait_us } => write!(
                f,
                "the node would begin with this request only in about {} ms, longer than it may wait \
                 (scheduling.*_wait_max_ms): try again later",
                wait_us / 1000
            ),
        }
    }
}

/// Totals since the start, per class in [`Class`] order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub dispatched: [u64; Class::COUNT],
    /// Of these, the ones sent before others because they were due.
    pub aged: [u64; Class::COUNT],
    pub done: [u64; Class::COUNT],
    pub refused: [u64; Class::COUNT],
    pub expired: [u64; Class::COUNT],
    /// Taken out of queues that stand.
    pub shed: [u64; Class::COUNT],
}
