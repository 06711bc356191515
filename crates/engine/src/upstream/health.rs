//! A worker's opinion of a node: whether it can be reached, and whether it is in trouble.

pub(in crate::upstream) mod failure_detector;
pub(in crate::upstream) mod reach;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::stats::{NodeStats, add, sub};

/// Requests make unreachable nodes be tried at most this often.
const DEMAND_PAUSE: Duration = Duration::from_millis(250);

/// One node, as this worker has met it.
pub(super) struct Health {
    /// Failed attempts to connect in a row.
    failures: u32,
    /// When the first of these was that says something of the node; `None` while there is a connection to it.
    lost_at: Option<Instant>,
    /// The last of these has failed because the proxy has no means for connections.
    lacks_means: bool,
    /// Since when it can be reached, if it can.
    there_since: Instant,
    retry_at: Instant,
    /// When a connection was last tried, or asked for.
    tried: Instant,
    /// When the last try began.
    try_began: Instant,
    /// When the last try that has failed began.
    failed_try: Instant,
    /// Such a node is tried last for a while.
    suspect_until: Option<Instant>,
    /// It has joined and is being taught: until then at the latest it is tried last as well.
    held_back_until: Option<Instant>,
    /// Requests in flight over this worker's links, as published.
    in_flight: usize,
    stats: Arc<NodeStats>,
}

impl Health {
    pub(super) fn new(now: Instant, stats: Arc<NodeStats>) -> Health {
        Health {
            failures: 0,
            lost_at: None,
            lacks_means: false,
            there_since: now,
            retry_at: now,
            tried: now,
            try_began: now,
            failed_try: now,
            suspect_until: None,
            held_back_until: None,
            in_flight: 0,
            stats,
        }
    }

    #[inline]
    pub(super) fn stats(&self) -> &NodeStats {
        &self.stats
    }

    /// It does not take a connection. `is_linked`: it answers over another one, so it is not lost, whatever it has
    /// against one more.
    pub(super) fn note_refusal(&mut self, now: Instant, is_linked: bool) {
        if !is_linked {
            self.lost_at.get_or_insert(now);
            self.failed_try = self.try_began;
        }
        self.lacks_means = false;
    }

    /// The proxy has no means for a connection: whether the node would have taken it is not known.
    pub(super) fn note_lack_of_means(&mut self) {
        self.lacks_means = true;
    }

    /// Notes a failure to connect; it is tried again at that instant.
    pub(super) fn note_failure(&mut self, retry_at: Instant) {
        self.retry_at = retry_at;
        self.failures = self.failures.saturating_add(1);
    }

    /// It may be reached again by now: it is tried at once, and a further failure is not its first.
    pub(super) fn try_at(&mut self, now: Instant) {
        self.failures = 1;
        self.retry_at = now;
    }

    /// For how long it could not be reached while another node could, up to now: both may have been cut off by
    /// what lies between. Of one that was lost before the other came back, what has passed since its last failed try
    /// began does not count: it may have been there, and was not tried. Nor does it while the proxy cannot try it.
    pub(super) fn away_beside(&self, other: &Health, now: Instant) -> Duration {
        let until = match self.lacks_means {
            true => self.failed_try,
            false => now,
        };
        match (self.lost_at, other.lost_at) {
            (Some(lost), None) if lost > other.there_since => until.saturating_duration_since(lost),
            (Some(_), None) => self.failed_try.saturating_duration_since(other.there_since),
            _ => Duration::ZERO,
        }
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    #[inline]
    pub(super) fn is_sound(&self, now: Instant) -> bool {
        let is_over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        is_over(self.suspect_until) && is_over(self.held_back_until)
    }

    /// Until when it is tried last because it has joined; `None`: no longer.
    pub(super) fn hold_back(&mut self, until: Option<Instant>) {
        self.held_back_until = until;
    }

    /// True if the pause after its last failure is over.
    pub(super) fn may_be_tried(&self, now: Instant) -> bool {
        self.retry_at <= now
    }

    pub(super) fn note_try(&mut self, now: Instant) {
        self.tried = now;
        self.try_began = now;
    }

    /// It has been reached. Attempts that were made beside that and have failed do not make others wait.
    pub(super) fn clear(&mut self, now: Instant) {
        self.trust(now);
        self.failures = 0;
        self.lacks_means = false;
        self.retry_at = now;
    }

    /// It has answered, maybe over a link that was silent.
    #[inline]
    pub(super) fn trust(&mut self, now: Instant) {
        if self.lost_at.take().is_some() {
            self.there_since = now;
        }
        self.suspect_until = None;
    }

    pub(super) fn suspect(&mut self, until: Instant) {
        self.suspect_until = Some(until);
    }

    /// [`Health::suspect`], unless it is suspect for longer.
    pub(super) fn suspect_at_least(&mut self, until: Instant) {
        self.suspect_until = self.suspect_until.max(Some(until));
    }

    /// Ends the pause before it is tried again, if the last try was long enough ago.
    pub(super) fn hurry(&mut self, now: Instant) -> bool {
        let is_due = self.failures > 0 && is_long_ago(self.tried, now);
        if is_due {
            self.retry_at = now;
            self.tried = now;
        }
        is_due
    }

    pub(super) fn publish_in_flight(&mut self, in_flight: usize) {
        let before = std::mem::replace(&mut self.in_flight, in_flight);
        let gauge = &self.stats.in_flight;
        add(gauge, in_flight.saturating_sub(before) as u64);
        sub(gauge, before.saturating_sub(in_flight) as u64);
    }
}

pub(super) fn is_long_ago(tried: Instant, now: Instant) -> bool {
    now.saturating_duration_since(tried) > DEMAND_PAUSE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_tried_late_was_not_away_by_itself() {
        let begin = crate::testing::begin();
        let at = |s| begin + Duration::from_secs(s);
        let health = || Health::new(begin, Arc::default());
        let fail = |of: &mut Health, began, failed| {
            of.note_try(at(began));
            of.note_refusal(at(failed), false);
            of.note_failure(at(failed));
        };
        // All packets were lost for a while; the one node is reached at 20 s, the other one at 32 s.
        let (mut other, mut node) = (health(), health());
        for (began, failed) in [(1, 6), (15, 20)] {
            fail(&mut other, began, failed);
            fail(&mut node, began, failed);
        }
        assert_eq!(
            node.away_beside(&other, at(32)),
            Duration::ZERO,
            "both are lost"
        );
        other.clear(at(20));
        assert_eq!(node.away_beside(&other, at(32)), Duration::ZERO);
        // It is down for longer.
        fail(&mut node, 32, 37);
        assert_eq!(node.away_beside(&other, at(49)), Duration::from_secs(12));
        node.clear(at(49));
        // The other one was there all the time.
        fail(&mut node, 60, 65);
        assert_eq!(node.away_beside(&other, at(80)), Duration::from_secs(15));
        assert_eq!(other.away_beside(&node, at(80)), Duration::ZERO);
        // A connection that was silent answers again.
        node.trust(at(81));
        assert_eq!(node.away_beside(&other, at(90)), Duration::ZERO);
    }

    #[test]
    fn a_node_is_not_away_while_the_proxy_cannot_try_it() {
        let begin = crate::testing::begin();
        let at = |s| begin + Duration::from_secs(s);
        let health = || Health::new(begin, Arc::default());
        let (other, mut node) = (health(), health());
        for (began, failed) in [(1, 2), (4, 5)] {
            node.note_try(at(began));
            node.note_refusal(at(failed), false);
        }
        node.note_try(at(6));
        node.note_lack_of_means();
        // From when it was lost to when it was last tried.
        assert_eq!(node.away_beside(&other, at(60)), Duration::from_secs(2));
        node.note_try(at(61));
        node.note_refusal(at(62), false);
        assert_eq!(node.away_beside(&other, at(62)), Duration::from_secs(60));
    }

    #[test]
    fn who_reaches_a_node_may_connect_again_at_once() {
        let begin = crate::testing::begin();
        let mut node = Health::new(begin, Arc::default());
        node.note_refusal(begin, false);
        node.note_failure(begin + Duration::from_secs(10));
        assert!(!node.may_be_tried(begin));
        node.clear(begin);
        assert!(node.may_be_tried(begin));
    }
}
