//! Second attempts of reads that take much longer than usual, at another replica (hedging).
//!
//! A read that is slower than about 49 of 50 of its statement, and than `SLOW_MIN`, is asked of the next
//! of its replicas as well. The first answer counts. The other attempt is taken out of its queue, or, if a
//! node has it, its answer is dropped when it comes. An error counts only if there is no other attempt.
//!
//! Second attempts are at most 2 % of what is sent, with a reserve (`features/hedge/budget.rs`) for a node that stops
//! in the middle of many reads, and at most 2 % of the bytes that nodes answer are read twice; none goes to a node for which anything waits. Only reads of a partition or
//! of several are repeated: not scans, not what is long work, not SERIAL reads, and never writes.
//!
//! Source: J. Dean and L. Barroso, "The tail at scale" (CACM 2013); that the delay should come from the
//! distribution: T. Kaler, Y. He, S. Elnikety, "Optimal reissue policies for reducing tail latency" (SPAA
//! 2017).

mod attempts;
mod budget;

pub(super) use self::attempts::{deadline, on_answered, on_deadline, on_sent};
pub(super) use self::budget::Hedging as State;
