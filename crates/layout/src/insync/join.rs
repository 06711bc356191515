//! How a copy, or a proxy, comes back.
//!
//! ```text
//! joining in the catalogue ─ a lease passes ─ comparison ─ in sync in the catalogue
//! ```
//!
//! After the lease every write is acknowledged by somebody who waits for the newcomer. What was
//! acknowledged before is in every copy in sync, so comparing the newcomer with one of them after that
//! moment leaves nothing out. It does not matter who put the newcomer into the catalogue, nor if several
//! proxies carry on with it at once.
//!
//! A copy is compared in **both directions**. What the other has is written to the newcomer. What only the
//! newcomer has was not acknowledged: a write that reached it before it was evicted, of a proxy that may be
//! gone. It is written to all copies ([`super::Write`]), or else reads of the newcomer would show what reads
//! of the others do not.
//!
//! A proxy that joins reads which intents the others have recorded ([`super::Marks`]).

use super::known::Known;
use super::list::State;

/// Carries on with a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    member: usize,
    since: u64,
    boot: u32,
    compare_from_us: u64,
    compared: bool,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinStep {
    /// Until then some proxy may not wait for the newcomer yet; or there is no lease.
    Wait,
    /// Compare it now with a member in sync. If anything fails, begin the comparison again.
    Compare,
    /// Promote it, by compare-and-set on the list that was last read.
    Promote,
    /// It is joining no longer, or has begun anew.
    Over,
}

impl Join {
    /// None if the member is not joining by the list that was last read. The lease is counted from now, at
    /// which this proxy knows that the member is joining.
    pub fn begin<const N: usize>(known: &Known<N>, member: usize, now_us: u64) -> Option<Join> {
        let list = known.last_read()?;
        (list.state(member) == State::Joining).then(|| Join {
            member,
            since: list.since(member),
            boot: list.boot(member),
            compare_from_us: now_us.saturating_add(known.timing().outlast_us()),
            compared: false,
        })
    }

    pub fn member(&self) -> usize {
        self.member
    }

    /// The version with which it joined: [`super::List::promote`] asks for it.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// A comparison that began after [`JoinStep::Compare`] has come to its end, with all that it wrote
    /// acknowledged, and the newcomer's node was on its start number `boot` all the time.
    pub fn on_compared(&mut self, boot: u32) {
        self.compared = boot == self.boot;
    }

    pub fn next<const N: usize>(&self, known: &Known<N>, now_us: u64) -> JoinStep {
        let is_same = known.last_read().is_some_and(|list| {
            list.state(self.member) == State::Joining && list.since(self.member) == self.since
        });
        if !is_same {
            JoinStep::Over
        } else if now_us < self.compare_from_us || known.list(now_us).is_none() {
            JoinStep::Wait
        } else if self.compared {
            JoinStep::Promote
        } else {
            JoinStep::Compare
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{Copies, LISTED_MAX};
    use super::super::members::Members;
    use super::super::timing::Timing;
    use super::*;

    #[test]
    fn what_was_compared_before_all_wait_is_not_promoted() {
        let mut known = Known::new(Timing::TESTED);
        let two = Copies::new(Members::first(2), [1; LISTED_MAX]);
        let joining = two.evict(1).and_then(|l| l.join(1, 2)).expect("joins");
        known.adopt(joining, 900, 950);
        let mut join = Join::begin(&known, 1, 950).expect("it is joining");
        join.on_compared(2);
        assert_eq!(join.next(&known, 960), JoinStep::Wait);
        known.adopt(joining, 1_900, 1_950);
        assert_eq!(join.next(&known, 1_950), JoinStep::Promote);
        assert_eq!(join.next(&known, 2_900), JoinStep::Wait, "without a lease");
    }

    #[test]
    fn a_newcomer_is_compared_after_a_lease_and_then_promoted() {
        let mut known = Known::new(Timing::TESTED);
        let three = Copies::new(Members::first(3), [1; LISTED_MAX]);
        let joining = three.evict(1).and_then(|l| l.join(1, 2)).expect("joins");
        known.adopt(three, 0, 0);
        assert_eq!(Join::begin(&known, 1, 0), None);
        known.adopt(joining, 0, 0);
        let mut join = Join::begin(&known, 1, 50).expect("it is joining");
        known.adopt(joining, 900, 950);
        assert_eq!(join.next(&known, 1_049), JoinStep::Wait);
        assert_eq!(join.next(&known, 1_050), JoinStep::Compare);
        assert_eq!(join.next(&known, 1_900), JoinStep::Wait, "without a lease");
        join.on_compared(1);
        assert_eq!(join.next(&known, 1_060), JoinStep::Compare, "restarted");
        join.on_compared(2);
        assert_eq!(join.next(&known, 1_060), JoinStep::Promote);
        let anew = joining.evict(1).and_then(|l| l.join(1, 2)).expect("joins");
        known.adopt(anew, 1_100, 1_100);
        assert_eq!(join.next(&known, 1_110), JoinStep::Over);
    }
}
