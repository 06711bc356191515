//! Nodes that are away for nearly as long as others keep hints for them: as a proxy sees them, with time as an argument.
//!
//! For a replica that is down, a coordinator keeps a hint, but not if that has been down for longer than
//! `max_hint_window`: what is written at ANY then is acknowledged, and nobody has it.
//!
//! A coordinator also keeps nothing while its oldest hint for a node is older than that
//! (`hint_window_persistent_enabled`). So a node that was away counts anew only once it has been back for as long, or for
//! a tenth of the window: by then hints have come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::waits::refresh;

/// How a proxy sees a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Up,
    Down,
    /// It is not asked, so only reports tell of it.
    Unused,
    /// It is not asked, and was reported as down.
    ReportedDown,
    /// It has left the cluster.
    Gone,
}

/// Nodes that were seen to go, by their index.
#[derive(Debug, Default)]
pub struct Away {
    nodes: BTreeMap<usize, Lost>,
    /// When none of them was up the last time.
    cut_off: Option<Instant>,
}

/// Once some node is up again, others need some time to be, too.
const REUNION: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Lost {
    since: Instant,
    /// Since when it is back.
    back: Option<Instant>,
    /// Known from a report, so that a report tells of its return.
    is_reported: bool,
}

impl Away {
    /// Notes how nodes are. `window`: for how long hints are kept.
    pub fn look(&mut self, nodes: impl IntoIterator<Item = Sight>, window: Duration, now: Instant) {
        let mut is_cut_off = true;
        for (at, sight) in nodes.into_iter().enumerate() {
            is_cut_off &= sight != Sight::Up;
            match sight {
                Sight::Down => self.note_down(at, false, now),
                Sight::ReportedDown => self.note_down(at, true, now),
                Sight::Unused if self.nodes.get(&at).is_some_and(|of| of.is_reported) => {
                    self.note_up(at, window, now);
                }
                Sight::Up => self.note_up(at, window, now),
                Sight::Gone => {
                    self.nodes.remove(&at);
                }
                Sight::Unused => {}
            }
        }
        if is_cut_off {
            // The proxy may be cut off, and does not know how they are: those that are away later have been all the time, for
            // all that it knows.
            self.cut_off = Some(now);
        }
    }

    fn note_down(&mut self, at: usize, is_reported: bool, now: Instant) {
        let lost = Lost {
            since: now,
            back: None,
            is_reported,
        };
        self.nodes.entry(at).or_insert(lost).back = None;
    }

    fn note_up(&mut self, at: usize, window: Duration, now: Instant) {
        let Some(lost) = self.nodes.get_mut(&at) else {
            return;
        };
        let back = *lost.back.get_or_insert(now);
        let least = back.saturating_duration_since(lost.since).min(window / 10);
        if now.saturating_duration_since(back) >= least {
            self.nodes.remove(&at);
        }
    }

    /// True if the proxy was cut off just now: who is away it does not know yet.
    fn is_cut_off(&self, now: Instant) -> bool {
        let since = self.cut_off.map(|at| now.saturating_duration_since(at));
        since.is_some_and(|time| time < REUNION)
    }

    /// Nodes that have been away for nearly as long as hints are kept, while there was a layout of this age.
    pub fn for_long(&self, window: Duration, age: Duration, now: Instant) -> BTreeSet<usize> {
        if self.is_cut_off(now) {
            return BTreeSet::new();
        }
        // Other proxies need some time to hear of it. A connection that breaks and is opened again is no node that went.
        let most = (window / 10 * 9).max(refresh());
        let is_long_away = |lost: &Lost| {
            let time = now.saturating_duration_since(lost.since).min(age);
            lost.back.is_none() && time >= most
        };
        let nodes = self.nodes.iter().filter(|(_, lost)| is_long_away(lost));
        nodes.map(|(at, _)| *at).collect()
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
    fn a_node_is_away_for_long_before_hints_are_kept_no_more_if_the_layout_is_as_old() {
        let (begin, s) = (begin(), Duration::from_secs);
        let (window, old) = (s(1_000), s(1_000_000));
        let mut away = Away::default();
        let mut look = |second: u64, sight| {
            away.look([Sight::Up, sight], window, begin + s(second));
            let for_long = |age| away.for_long(window, age, begin + s(second));
            (for_long(old).contains(&1), for_long(s(899)).contains(&1))
        };
        assert_eq!(look(0, Sight::Up), (false, false));
        assert_eq!(look(10, Sight::Down), (false, false));
        assert_eq!(look(909, Sight::Down), (false, false));
        assert_eq!(look(910, Sight::Unused), (true, false));
        assert_eq!(look(911, Sight::Up), (false, false));
        // Not back for long enough.
        assert_eq!(look(1_000, Sight::Down), (true, false));
        assert_eq!(look(1_001, Sight::Gone), (false, false));
    }
}
