//! Since when no node has kept hints.
//!
//! Nodes write hints down every 10 s and tell of those in files that are closed, which happens every 10 s
//! again, unless hand-off is paused, and only while the node that they are for is up. So the hint of a write
//! shows after [`HINTS_UNSEEN_MAX`] in which all nodes are up.

use std::time::{Duration, Instant};

/// How long a node may have a hint and not tell of it.
pub const HINTS_UNSEEN_MAX: Duration = Duration::from_secs(20);

/// Since when all nodes have answered at each look, and none had hints.
#[derive(Debug, Default)]
pub struct Free(Option<Looks>);

/// The first and the last of several looks.
#[derive(Clone, Copy, Debug)]
struct Looks {
    first: Instant,
    last: Instant,
}

/// What came and went between looks that are further apart is not known.
const APART_MAX: Duration = Duration::from_secs(15);

impl Free {
    /// True if all nodes have been free for that long, by the look that has just ended.
    pub fn is_for(&mut self, now: Instant, is_free: bool, time: Duration) -> bool {
        if !is_free {
            self.0 = None;
            return false;
        }
        let known = self
            .0
            .filter(|looks| now.duration_since(looks.last) <= APART_MAX);
        let first = known.map_or(now, |looks| looks.first);
        self.0 = Some(Looks { first, last: now });
        now.duration_since(first) >= time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::disallowed_methods)]
    fn begin() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_hint_or_a_silent_node_begins_the_quiet_time_anew() {
        let (begin, s) = (begin(), Duration::from_secs);
        let mut free = Free::default();
        assert!(!free.is_for(begin, true, s(20)));
        assert!(!free.is_for(begin + s(10), true, s(20)));
        assert!(!free.is_for(begin + s(19), true, s(20)));
        assert!(!free.is_for(begin + s(20), false, s(20)));
        assert!(!free.is_for(begin + s(22), true, s(20)));
        assert!(!free.is_for(begin + s(32), true, s(20)));
        assert!(!free.is_for(begin + s(41), true, s(20)));
        assert!(free.is_for(begin + s(42), true, s(20)));
        // Nobody has looked for a while.
        let later = begin + s(60);
        assert!(!free.is_for(later, true, s(20)));
        assert!(!free.is_for(later + s(10), true, s(20)));
        assert!(free.is_for(later + s(20), true, s(20)));
        assert!(Free::default().is_for(begin, true, s(0)), "one node");
    }
}
