//! When a copy that is out may join again, and which proxy sees to that.
//!
//! A copy that joins is waited for by every write, so one whose node comes and goes must not join each time.

use super::known::Known;
use super::list::State;

/// A copy joins when it has been out for so long, as far as this proxy knows, and its node answers;
const PAUSE_MIN_US: u64 = 2_000_000;
/// after each attempt twice as late, up to so long,
const PAUSE_MAX_US: u64 = 300_000_000;
/// until it has stayed in sync for so long.
const STAYED_US: u64 = 600_000_000;

/// Of several proxies in sync the one with the lowest number brings copies back and resynchronises buckets. Others may
/// do the same at the same time, by a list that is older: lists change by compare-and-set, and comparing twice is
/// harmless.
pub fn is_caretaker<const N: usize>(proxies: &Known<N>, me: usize, now_us: u64) -> bool {
    let list = proxies.list(now_us);
    list.is_some_and(|list| list.in_sync().iter().next() == Some(me))
}

/// What one proxy remembers of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comeback {
    state: Option<State>,
    since_us: u64,
    attempts: u32,
}

impl Comeback {
    /// The list says this of the copy.
    pub fn on_state(&mut self, state: State, now_us: u64) {
        if self.state != Some(state) {
            (self.state, self.since_us) = (Some(state), now_us);
        }
        let stayed_us = now_us.saturating_sub(self.since_us);
        if state == State::InSync && stayed_us >= STAYED_US {
            self.attempts = 0;
        }
    }

    /// An attempt to let it join is made.
    pub fn on_attempt(&mut self, now_us: u64) {
        self.attempts = self.attempts.saturating_add(1);
        self.since_us = now_us;
    }

    /// Whether it may join.
    pub fn is_due(&self, now_us: u64) -> bool {
        let pause_us = (PAUSE_MIN_US << self.attempts.min(16)).min(PAUSE_MAX_US);
        self.state == Some(State::Out) && now_us.saturating_sub(self.since_us) >= pause_us
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{PROXIES_MAX, Proxies};
    use super::super::members::Members;
    use super::super::timing::Timing;
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn one_that_comes_and_goes_joins_later_each_time() {
        let mut copy = Comeback::default();
        let mut now_us = 5 * SECOND;
        let mut waited_s = Vec::new();
        for _ in 0..10 {
            copy.on_state(State::Out, now_us);
            let out_us = now_us;
            while !copy.is_due(now_us) {
                now_us += SECOND;
                copy.on_state(State::Out, now_us);
            }
            waited_s.push((now_us - out_us) / SECOND);
            copy.on_attempt(now_us);
            copy.on_state(State::Joining, now_us);
            assert!(!copy.is_due(now_us + 1_000 * SECOND), "it is joining");
            copy.on_state(State::InSync, now_us + SECOND);
            now_us += 2 * SECOND;
        }
        assert_eq!(waited_s, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        copy.on_state(State::InSync, now_us);
        now_us += 600 * SECOND;
        copy.on_state(State::InSync, now_us);
        copy.on_state(State::Out, now_us);
        assert!(copy.is_due(now_us + 2 * SECOND), "it had stayed");
    }

    #[test]
    fn an_attempt_that_came_to_nothing_is_not_made_again_at_once() {
        let mut copy = Comeback::default();
        copy.on_state(State::Out, 0);
        copy.on_attempt(9 * SECOND);
        assert!(!copy.is_due(12 * SECOND) && copy.is_due(13 * SECOND));
    }

    #[test]
    fn the_first_proxy_in_sync_sees_to_copies_while_it_has_a_lease() {
        let mut proxies = Known::<PROXIES_MAX>::new(Timing::TESTED);
        let list = Proxies::new(Members::first(3), [0; PROXIES_MAX]);
        let list = list
            .evict(0)
            .and_then(|list| list.join(0, 0))
            .expect("joins");
        proxies.adopt(list, 0, 0);
        let who = |now_us| (0..3).filter(move |me| is_caretaker(&proxies, *me, now_us));
        assert_eq!(who(999).collect::<Vec<_>>(), [1], "0 is joining");
    }
}
