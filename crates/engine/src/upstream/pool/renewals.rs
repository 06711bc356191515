//! When links may be replaced most of whose streams wait for answers that nobody wants any more: of a node one at once,
//! and the next after a pause each. The node may say that it is there and answer nothing else: new connections do not
//! change that, and cost it logins.

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashMap;

/// From one of them to the next.
const PAUSE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Default)]
pub(in crate::upstream) struct Renewals {
    /// By node: when the next one may be, after all that have been claimed.
    next: FxHashMap<NodeIndex, Instant>,
}

impl Renewals {
    /// One more link is to be replaced; from when on it may be.
    pub(in crate::upstream) fn claim(&mut self, node: NodeIndex, now: Instant) -> Instant {
        let next = self.next.entry(node).or_insert(now);
        let from = now.max(*next);
        *next = from + PAUSE;
        from
    }

    /// True if all that have been claimed may be.
    pub(in crate::upstream) fn are_due(&self, node: NodeIndex, now: Instant) -> bool {
        let next = self.next.get(&node);
        next.is_none_or(|next| *next <= now + PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_may_be_at_once_and_each_further_one_after_a_pause() {
        let begin = crate::testing::begin();
        let at = |s| begin + Duration::from_secs(s);
        let (mut renewals, node) = (Renewals::default(), NodeIndex(0));
        assert!(renewals.are_due(node, begin));
        assert_eq!(renewals.claim(node, begin), begin);
        assert!(renewals.are_due(node, begin));
        assert_eq!(renewals.claim(node, at(1)), at(5));
        assert!(!renewals.are_due(node, at(4)) && renewals.are_due(node, at(5)));
        assert_eq!(renewals.claim(node, at(6)), at(10));
        assert_eq!(renewals.claim(NodeIndex(1), at(6)), at(6));
        assert_eq!(renewals.claim(node, at(60)), at(60));
    }
}
