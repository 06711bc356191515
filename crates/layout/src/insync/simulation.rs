//! The protocol in virtual time, from one seed: proxies with clocks of their own, nodes, a catalogue, and
//! everything around them failing.
//!
//! - **Proxies** are paused, cut off and killed at any moment; who starts anew knows nothing. Their clocks
//!   run at different rates. What makes them send and judge is the module's own.
//! - **Nodes** freeze, crash and lose their last writes, and apply writes late or twice; messages are lost.
//! - **The catalogue** changes by compare-and-set, whose answers are lost; what timed out may still happen.
//! - A key's value is the greatest that was written, so a history is judged in one pass (`checks.rs`).
//!
//! In some runs the table itself takes turns with its copies (`handover.rs`).
//!
//! After some time nothing fails any more, and all must become quiet and equal.
//!
//! Most rules can be broken on purpose ([`Bug`]), by wrong arguments to the module: the tests assert that
//! the checks notice.

// Lists of proxies are large, and a simulation may move them.
#![allow(clippy::large_enum_variant)]

mod catalogue;
mod checks;
mod comparing;
mod handover;
mod node;
mod proxy;
mod tests;
mod world;

use self::handover::{Task, Wait};
use super::timing::Timing;

/// Real time, in microseconds.
const SECOND: u64 = 1_000_000;
const KEYS: usize = 8;
/// Each of some keys.
const BUCKETS: usize = 4;

fn bucket_of(key: usize) -> usize {
    key % BUCKETS
}

/// What a copy holds of a key: a timestamp and a value. The greater one wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    timestamp: u64,
    value: u64,
}

/// Which reads must not go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarantee {
    /// All: writes are announced.
    AllCopies,
    /// Those of one copy.
    EachCopy,
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    timing: Timing,
    copies: usize,
    hosts: usize,
    guarantee: Guarantee,
    read_timeout_us: u64,
    keys: usize,
    /// Between two requests of clients, at most.
    pause_us: u64,
    faults: Faults,
    /// What a command does meanwhile.
    task: Option<Task>,
    bug: Option<Bug>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    Any,
    /// The last node stops answering after a while, for ever; nothing else goes wrong.
    OneNodeLost,
}

/// Rules of the protocol, left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    AcknowledgedWithoutLease,
    AcknowledgedAtQuorum,
    EvictedNotWaitedFor,
    JoiningNotWaitedFor,
    ComparedBeforeAllWait,
    PromotedWithoutComparison,
    ComparedOneWay,
    TimedOutTakenForDone,
    LastEvicted,
    RestartIgnored,
    MarksIgnored,
    SentBeforeTold,
    NoIntent,
    GivenUpWithItsClient,
    /// Of the commands.
    LeftOut(Wait),
    TableTakenOutBeforeCopiesAreInSync,
    /// Of proxies that know both the table and its copies.
    StageLeaseIgnored,
    TableReadWithoutLease,
    TableNotWaitedForWhileJoining,
}
