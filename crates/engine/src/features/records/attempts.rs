//! Attempts of a client request and their ends, one by one.
//!
//! The last attempt of a request that went whole to one node follows from sums that are kept anyway. Others are
//! noted when they end, while anything is traced: those that failed, those of hedged reads, and parts. Bounded:
//! [`ATTEMPTS_MAX`] for each client request, of about 40 bytes each; none for most.

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::exec::attempt_end::AttemptEnd;

/// Attempts of one client request that are described.
pub(crate) const ATTEMPTS_MAX: usize = 32;

/// One node request at one node, or its wait for one.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// None if it was not sent.
    pub node: Option<NodeIndex>,
    /// In the node's queue, in the proxy, before it was sent, in microseconds.
    pub queued_us: u32,
    /// When it was sent, or had waited enough, since the beginning of 1970.
    pub sent: Duration,
    pub at_node_us: u32,
    pub end: AttemptEnd,
}

/// One that has been noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub node: Option<NodeIndex>,
    pub queued_us: u32,
    pub at_node_us: u32,
    pub ended: Instant,
    pub end: AttemptEnd,
}

/// Those of one client request that have been noted.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    pub noted: Vec<Noted>,
    pub left_out: u32,
    /// Over all of them, in microseconds.
    pub queued_us: u32,
    pub at_node_us: u32,
}

impl Attempts {
    pub(crate) fn note(&mut self, attempt: Noted) {
        self.queued_us = self.queued_us.wrapping_add(attempt.queued_us);
        self.at_node_us = self.at_node_us.wrapping_add(attempt.at_node_us);
        match self.noted.len() < ATTEMPTS_MAX {
            true => self.noted.push(attempt),
            false => self.left_out = self.left_out.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_attempts_the_first_are_described_and_all_are_counted() {
        let mut attempts = Attempts::default();
        for n in 0..1_000 {
            attempts.note(Noted {
                node: Some(NodeIndex(n)),
                queued_us: 1,
                at_node_us: 2,
                ended: crate::testing::begin(),
                end: AttemptEnd::Answered,
            });
        }
        let nodes = attempts.noted.iter().filter_map(|of| of.node);
        assert!(nodes.map(|node| node.0).eq(0..ATTEMPTS_MAX as u16));
        assert_eq!(attempts.left_out, 1_000 - ATTEMPTS_MAX as u32);
        assert_eq!((attempts.queued_us, attempts.at_node_us), (1_000, 2_000));
    }
}
