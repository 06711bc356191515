//! What one proxy knows of a list, and until when it may rely on it.
//!
//! **Leases cut both ways.** Who reads relies on the list until the lease runs out. Who counts without a
//! member must therefore wait until nobody can hold a lease on a list that has it: for a while a member
//! that has left *lingers*, and is waited for like the others. Whether this proxy has evicted it or only
//! heard of it makes no difference: it counts from when this proxy first knew.

use super::list::{List, State};
use super::members::Members;
use super::timing::Timing;

/// Times are microseconds of the proxy's monotonic clock. Wherever a time is an argument in this module,
/// `now_us` is read *after* what it comes with has arrived, and `sent_us` *before* the request was sent:
/// a proxy may be stopped between any two instructions.
#[derive(Clone, Debug)]
pub struct Known<const N: usize> {
    timing: Timing,
    list: Option<List<N>>,
    lease_until_us: u64,
    /// Until when somebody may still rely on a member that is out.
    lingers_until_us: [u64; N],
    /// When this proxy heard of a member's present state.
    heard_us: [u64; N],
    /// Since when a member was last in sync that is so no longer, and until when what it answers counts.
    was_in_sync: [(u64, u64); N],
    /// When this proxy heard that a member is out, of one that has been out since then, or out and then joining.
    left_us: [Option<u64>; N],
}

impl<const N: usize> Known<N> {
    pub fn new(timing: Timing) -> Known<N> {
        Known {
            timing,
            list: None,
            lease_until_us: 0,
            lingers_until_us: [0; N],
            heard_us: [0; N],
            was_in_sync: [(0, 0); N],
            left_us: [None; N],
        }
    }

    /// The catalogue has this list: a read or a compare-and-set that was sent at `sent_us` says so.
    /// Answers that have been overtaken by newer ones change nothing.
    pub fn adopt(&mut self, list: List<N>, sent_us: u64, now_us: u64) {
        if let Some(known) = self.list
            && known.version() > list.version()
        {
            return;
        }
        let outlasted = now_us.saturating_add(self.timing.outlast_us());
        let others = |member| (0..N).filter(move |m| *m != member);
        for member in 0..N {
            let could_be_read = match &self.list {
                // Nothing can have happened in between.
                Some(known) if known.version() == list.version() => false,
                Some(known) if known.version() + 1 == list.version() => {
                    known.state(member) == State::InSync
                }
                // To be read it must have joined, come in sync and left. A regrouping leaves several members at once.
                Some(known)
                    if known.state(member) == State::Out
                        && list.since(member) < known.version() + 3
                        && others(member).all(|m| list.since(m) != list.since(member)) =>
                {
                    false
                }
                Some(known) => known.since(member) != list.since(member),
                None => list.since(member) > 0,
            };
            let heard = |known: &List<N>| known.since(member) == list.since(member);
            if !self.list.as_ref().is_some_and(heard) {
                self.heard_us[member] = now_us;
            }
            if let Some(known) = &self.list
                && known.state(member) == State::InSync
                && known.since(member) != list.since(member)
            {
                self.was_in_sync[member] = (known.since(member), self.lease_until_us);
            }
            if could_be_read && list.state(member) == State::Out {
                self.lingers_until_us[member] = outlasted;
            }
            self.left_us[member] = self.left_by(&list, member, now_us);
        }
        let lease_until_us = sent_us.saturating_add(self.timing.lease_us);
        self.lease_until_us = self.lease_until_us.max(lease_until_us);
        self.list = Some(list);
    }

    /// Since when a member is out, by a list that is read now.
    fn left_by(&self, list: &List<N>, member: usize, now_us: u64) -> Option<u64> {
        let known = self.list.as_ref();
        let is_same = known.is_some_and(|known| known.since(member) == list.since(member));
        // Otherwise it may have been listed in between, by versions that this proxy has not seen, or, where other
        // members change at once, in ranges that are here since a regrouping.
        let was_out = known.is_some_and(|known| {
            let is_same = |m| m == member || known.since(m) == list.since(m);
            known.state(member) == State::Out
                && known.version() + 1 == list.version()
                && (0..N).all(is_same)
        });
        let left_us = self.left_us[member].filter(|_| is_same || was_out);
        match list.state(member) {
            State::InSync => None,
            State::Joining => left_us,
            State::Out => left_us.or(Some(now_us)),
        }
    }

    /// Whether all that was sent to a member before it was out, or by somebody who did not know that yet, has arrived or
    /// never will: it has been out, or out and then joining, for so long.
    pub fn is_past(&self, member: usize, now_us: u64) -> bool {
        let left_us = self.left_us.get(member).copied().flatten();
        let past_us = self.timing.outlast_us() + self.timing.late_outlast_us();
        left_us.is_some_and(|left_us| now_us >= left_us.saturating_add(past_us))
    }

    /// The list, if it may be relied on.
    pub fn list(&self, now_us: u64) -> Option<&List<N>> {
        self.list.as_ref().filter(|_| now_us < self.lease_until_us)
    }

    /// For how long it may still be relied on.
    pub fn lease_left_us(&self, now_us: u64) -> u64 {
        self.lease_until_us.saturating_sub(now_us)
    }

    /// The list as it was last read, to be changed by compare-and-set.
    pub fn last_read(&self) -> Option<&List<N>> {
        self.list.as_ref()
    }

    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Until when the list may be relied on; 0 if it was never read.
    pub fn lease_until_us(&self) -> u64 {
        self.lease_until_us
    }

    /// The same by the times of another clock, which is behind this one by `least_us` to `most_us`: a lease ends
    /// no later by it, and what is waited for no earlier.
    #[must_use]
    pub fn behind(&self, least_us: u64, most_us: u64) -> Known<N> {
        let waits = |us: u64| us.saturating_sub(least_us);
        Known {
            lease_until_us: self.lease_until_us.saturating_sub(most_us),
            lingers_until_us: self.lingers_until_us.map(waits),
            heard_us: self.heard_us.map(waits),
            left_us: self.left_us.map(|left_us| left_us.map(waits)),
            was_in_sync: self
                .was_in_sync
                .map(|(since, until_us)| (since, until_us.saturating_sub(most_us))),
            ..self.clone()
        }
    }

    /// The same, not to be relied on until it is read again.
    #[must_use]
    pub fn without_lease(&self) -> Known<N> {
        Known {
            lease_until_us: 0,
            ..self.clone()
        }
    }

    /// All that somebody may rely on, now or before the next lease: those in sync, those joining, and
    /// those that linger. None without a lease.
    pub fn required(&self, now_us: u64) -> Option<Members> {
        let list = self.list(now_us)?;
        let lingers = |member: &usize| now_us < self.lingers_until_us[*member];
        let lingering: Members = (0..N).filter(lingers).collect();
        Some(list.listed().union(lingering))
    }

    /// Since which version a member is in sync; or was, if it has left and the lease on the list before still runs:
    /// nobody acknowledges anything without that member yet.
    pub fn counts_since(&self, member: usize, now_us: u64) -> Option<u64> {
        let list = self.list(now_us)?;
        if list.state(member) == State::InSync {
            return Some(list.since(member));
        }
        let (since, until_us) = self.was_in_sync.get(member)?;
        (now_us < *until_us).then_some(*since)
    }

    /// Whether a member that was asked at `asked_us` may be evicted because it has not answered. One that
    /// has joined since has as much time from then.
    pub fn is_overdue(&self, member: usize, asked_us: u64, now_us: u64) -> bool {
        let is_listed = |list: &List<N>| list.state(member) != State::Out;
        let heard_us = self.heard_us.get(member).copied().unwrap_or(0);
        let waited_us = now_us.saturating_sub(asked_us.max(heard_us));
        self.list(now_us).is_some_and(is_listed) && waited_us >= self.timing.patience_us
    }

    /// Whether a proxy is out, holds no lease any more, and all that it has sent has arrived or never will.
    pub fn is_gone(&self, member: usize, now_us: u64) -> bool {
        let Some(lingers_until_us) = self.lingers_until_us.get(member) else {
            return false;
        };
        let gone_us = lingers_until_us.saturating_add(self.timing.late_outlast_us());
        let is_out = |list: &List<N>| list.state(member) == State::Out;
        self.list(now_us).is_some_and(is_out) && now_us >= gone_us
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{Copies, LISTED_MAX};
    use super::*;

    const TIMING: Timing = Timing {
        late_us: 500,
        ..Timing::TESTED
    };

    fn three() -> Copies {
        Copies::new(Members::first(3), [1; LISTED_MAX])
    }

    #[test]
    fn a_lease_runs_from_when_the_read_was_sent() {
        let mut known = Known::new(TIMING);
        assert_eq!((known.list(0), known.lease_until_us()), (None, 0));
        known.adopt(three(), 100, 900);
        assert_eq!(known.lease_until_us(), 1_100);
        assert_eq!(known.list(1_099), Some(&three()));
        assert_eq!(known.lease_left_us(1_099), 1);
        assert_eq!(known.list(1_100), None);
        assert_eq!(known.lease_left_us(1_200), 0);
        known.adopt(three(), 50, 950);
        assert!(known.list(1_099).is_some(), "an older read ends nothing");
        assert_eq!(known.last_read(), Some(&three()));
    }

    #[test]
    fn who_has_left_lingers_for_a_lease_from_when_that_was_known() {
        let mut known = Known::new(TIMING);
        known.adopt(three(), 0, 0);
        let evicted = three().evict(2).expect("others are in sync");
        known.adopt(evicted, 100, 150);
        for sent_us in [200, 1_000] {
            known.adopt(evicted, sent_us, sent_us + 10);
        }
        assert_eq!(known.required(1_149), Some(Members::first(3)));
        assert_eq!(known.required(1_150), Some(Members::first(2)));
        assert_eq!(known.required(2_000), None, "without a lease nobody counts");
        assert!(!known.is_gone(2, 1_649) && known.is_gone(2, 1_650));
        assert!(!known.is_gone(0, 1_650), "it is in sync");
    }

    #[test]
    fn what_was_sent_to_a_member_before_it_was_out_is_past_after_a_lease_and_the_time_for_what_is_late()
     {
        let mut known = Known::new(TIMING);
        known.adopt(three(), 0, 0);
        assert!(!known.is_past(2, 9_000), "it is in sync");
        let evicted = three().evict(2).expect("others are in sync");
        known.adopt(evicted, 100, 150);
        known.adopt(evicted, 200, 210);
        assert!(!known.is_past(2, 1_649) && known.is_past(2, 1_650));
        let mut again = known.clone();
        again.adopt(evicted.leave_anew(2).expect("it is out"), 300, 310);
        assert!(!again.is_past(2, 1_649) && again.is_past(2, 1_650));
        let unseen = evicted.join(2, 1).and_then(|list| list.evict(2));
        again.adopt(
            unseen.and_then(|list| list.leave_anew(2)).expect("out"),
            400,
            410,
        );
        assert!(!again.is_past(2, 1_909) && again.is_past(2, 1_910));
        let joining = evicted.join(2, 1).expect("it is out");
        let mut seen = known.clone();
        seen.adopt(joining, 300, 310);
        seen.adopt(joining, 400, 410);
        assert!(!seen.is_past(2, 1_649) && seen.is_past(2, 1_650));
        assert!(seen.behind(50, 80).is_past(2, 1_600));
        // Out anew: what was sent meanwhile may be on its way.
        let anew = joining.evict(2).expect("it may");
        seen.adopt(anew, 500, 510);
        assert!(!seen.is_past(2, 2_009) && seen.is_past(2, 2_010));
        seen.adopt(
            anew.join(2, 1)
                .and_then(|list| list.promote(2, 5))
                .expect("in sync"),
            600,
            610,
        );
        assert!(!seen.is_past(2, 9_000));
        // It may have joined, and left, unseen.
        let other = anew
            .evict(1)
            .and_then(|list| list.join(2, 1))
            .expect("joins");
        known.adopt(other, 300, 310);
        assert!(!known.is_past(2, 9_000));
        let mut late = Known::new(TIMING);
        late.adopt(joining, 300, 310);
        assert!(!late.is_past(2, 9_000), "who knows since when");
        let mut late = Known::new(TIMING);
        late.adopt(evicted, 300, 310);
        assert!(!late.is_past(2, 1_809) && late.is_past(2, 1_810));
    }

    #[test]
    fn what_was_sent_to_other_ranges_before_a_regrouping_is_not_past() {
        let evicted = three().evict(2).expect("others are in sync");
        let mut known = Known::new(TIMING);
        known.adopt(evicted, 0, 0);
        // Ranges have come in which it was in sync.
        let mut since = [0; LISTED_MAX];
        since[..3].fill(evicted.version() + 1);
        let (version, two) = (evicted.version() + 1, Members::first(2));
        let regrouped = Copies::from_parts(version, two, Members::EMPTY, since, [1; LISTED_MAX]);
        known.adopt(regrouped, 9_000, 9_000);
        assert!(!known.is_past(2, 10_499) && known.is_past(2, 10_500));
        let anew = regrouped.leave_anew(2).expect("it is out");
        known.adopt(anew, 9_100, 9_100);
        assert!(known.is_past(2, 10_500), "alone");
    }

    #[test]
    fn who_may_have_been_back_meanwhile_lingers_anew() {
        let mut known = Known::new(TIMING);
        let evicted = three().evict(2).expect("others are in sync");
        known.adopt(evicted, 0, 0);
        assert_eq!(known.required(0), Some(Members::first(3)), "who knows when");
        let back = evicted.join(2, 1).and_then(|l| l.promote(2, 3));
        let evicted_again = back.and_then(|l| l.evict(2)).expect("out, in and out");
        known.adopt(evicted_again, 5_000, 5_000);
        assert_eq!(known.required(5_999), Some(Members::first(3)));
        known.adopt(evicted, 5_900, 5_950);
        assert_eq!(known.last_read(), Some(&evicted_again), "it was overtaken");
        // Out anew, together with another change: it cannot have been in sync.
        let anew = evicted.leave_anew(2).and_then(|l| l.evict(1));
        let mut known = Known::new(TIMING);
        known.adopt(evicted, 0, 0);
        known.adopt(evicted, 1_900, 1_900);
        known.adopt(anew.expect("another is in sync"), 2_000, 2_000);
        assert_eq!(
            known.required(2_500),
            Some(Members::first(2)),
            "1 may be read"
        );
    }

    #[test]
    fn by_another_clock_leases_end_early_and_waits_late() {
        let mut known = Known::new(TIMING);
        known.adopt(three(), 10_000, 10_000);
        known.adopt(
            three().evict(2).expect("others are in sync"),
            10_100,
            10_150,
        );
        let other = known.behind(9_000, 9_030);
        // Until 11,100 and 11,150 by the first clock.
        assert_eq!(other.lease_until_us(), 2_070);
        assert_eq!(other.required(2_069), Some(Members::first(3)));
        let mut renewed = known.clone();
        renewed.adopt(
            three().evict(2).expect("others are in sync"),
            11_000,
            11_000,
        );
        let renewed = renewed.behind(9_000, 9_030);
        assert_eq!(renewed.required(2_149), Some(Members::first(3)));
        assert_eq!(renewed.required(2_150), Some(Members::first(2)));
        // Asked at 1,000 by the other clock, and heard of at 10,000 by the first.
        assert!(!renewed.is_overdue(0, 900, 1_099) && renewed.is_overdue(0, 900, 1_100));
        assert!(!renewed.is_gone(2, 2_649) && renewed.is_gone(2, 2_650));
        let never = Known::<LISTED_MAX>::new(TIMING).behind(9_000, 9_030);
        assert_eq!((never.lease_until_us(), never.last_read()), (0, None));
    }

    #[test]
    fn who_has_left_counts_until_the_lease_on_the_list_before_ends() {
        let mut known = Known::new(TIMING);
        known.adopt(three(), 0, 10);
        known.adopt(three(), 100, 110);
        assert_eq!(known.counts_since(2, 500), Some(1));
        let evicted = three().evict(2).expect("others are in sync");
        for sent_us in [500, 1_000] {
            known.adopt(evicted, sent_us, sent_us + 10);
        }
        let of = |known: &Known<LISTED_MAX>, us: [u64; 2]| us.map(|us| known.counts_since(2, us));
        assert_eq!(of(&known, [1_099, 1_100]), [Some(1), None]);
        assert_eq!(known.counts_since(0, 1_999), Some(1));
        assert_eq!(known.counts_since(0, 2_000), None, "without a lease");
        assert_eq!(of(&known.behind(50, 80), [1_019, 1_020]), [Some(1), None]);
        let back = evicted.join(2, 1).and_then(|list| list.promote(2, 3));
        known.adopt(back.expect("it comes back"), 1_050, 1_060);
        assert_eq!(known.counts_since(2, 1_070), Some(4));
    }

    #[test]
    fn without_a_lease_the_list_is_known_and_not_relied_on() {
        let mut known = Known::new(TIMING);
        known.adopt(three(), 10_000, 10_000);
        let known = known.without_lease();
        assert_eq!(
            (known.list(10_000), known.last_read()),
            (None, Some(&three()))
        );
        assert_eq!(known.required(10_000), None);
    }

    #[test]
    fn who_was_only_joining_does_not_linger() {
        let mut known = Known::new(TIMING);
        let joining = three().evict(2).and_then(|l| l.join(2, 1)).expect("joins");
        known.adopt(joining, 0, 0);
        known.adopt(joining.evict(2).expect("it may"), 10, 10);
        assert_eq!(known.required(10), Some(Members::first(2)));
    }
}
