//! Recent events. A client that comes from another process may have been with neither when an event came: it is told
//! what it has not been told there.
//!
//! Each process hears of an event over a control connection of its own, a little earlier or later than the
//! other, and events have no numbers. So two of the same content, at most a second apart, count as one. An
//! event twice does no harm, so in doubt it is told again. Events that a client was told of within the last
//! second before it came, and that this process has not heard of, are remembered for the rest of that second.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::Hasher;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};

use crate::keys::SessionKey;
use crate::shared::EventKind;

/// Longer than a client is on its way, and than one control connection hears of something after another.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
const REMEMBERED_MAX: usize = 64;
/// At most so long after another process one hears of the same.
const APART_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct RecentEvents(VecDeque<(Instant, EventKind, Rc<[u8]>)>);

/// An event that a client has had from another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Told {
    digest: u64,
    ago: Duration,
}

impl RecentEvents {
    pub(super) fn note(&mut self, now: Instant, kind: EventKind, body: &[u8]) {
        while self.0.len() >= REMEMBERED_MAX || self.0.front().is_some_and(|of| is_old(of.0, now)) {
            self.0.pop_front();
        }
        self.0.push_back((now, kind, body.into()));
    }

    /// Those of these kinds, as bits of [`EventKind`], that have come since then.
    pub(super) fn since(&self, then: Instant, kinds: u8) -> Vec<Rc<[u8]>> {
        let late = self.of_kinds(kinds).filter(|(at, _)| *at >= then);
        late.map(|(_, body)| body.clone()).collect()
    }

    /// Recent events that a client of these kinds has been told, for another process.
    pub(super) fn told(&self, now: Instant, kinds: u8) -> Vec<Told> {
        let late = self.of_kinds(kinds).filter(|(at, _)| !is_old(*at, now));
        let told = late.map(|(at, body)| Told {
            digest: digest(body),
            ago: now.saturating_duration_since(at),
        });
        told.collect()
    }

    /// Recent events for a client of these kinds from another process, but for those that it was told there (`told`).
    /// Leaves in `told` those that have not been heard of here.
    pub(super) fn untold(&self, now: Instant, kinds: u8, told: &mut Vec<Told>) -> Vec<Rc<[u8]>> {
        let late = self.of_kinds(kinds).filter(|(at, _)| !is_old(*at, now));
        let untold = late.filter(|(at, body)| {
            let (ago, digest) = (now.saturating_duration_since(*at), digest(body));
            let is_same = |of: &Told| of.digest == digest && of.ago.abs_diff(ago) <= APART_MAX;
            match told.iter().position(is_same) {
                Some(at) => {
                    told.remove(at);
                    false
                }
                None => true,
            }
        });
        untold.map(|(_, body)| body.clone()).collect()
    }

    fn of_kinds(&self, kinds: u8) -> impl Iterator<Item = (Instant, &Rc<[u8]>)> {
        let wanted = self
            .0
            .iter()
            .filter(move |(_, kind, _)| kinds & *kind as u8 != 0);
        wanted.map(|(at, _, body)| (*at, body))
    }
}

/// Events that clients were told by the process that they came from, and this one may hear of a little later: when
/// each was told last, and how often.
#[derive(Default)]
pub(super) struct ToldElsewhere(FxHashMap<(SessionKey, u64), (Instant, u32)>);

impl ToldElsewhere {
    pub(super) fn note(&mut self, now: Instant, client: SessionKey, told: &[Told]) {
        for of in told.iter().filter(|of| of.ago <= APART_MAX) {
            let Some(at) = now.checked_sub(of.ago) else {
                continue;
            };
            // Each has been told once at least.
            let (last, times) = self.0.entry((client, of.digest)).or_insert((at, 0));
            *last = at.max(*last);
            *times += 1;
        }
    }

    /// True if a client has been told this, within the last second.
    pub(super) fn takes(&mut self, now: Instant, client: SessionKey, body: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let Entry::Occupied(mut told) = self.0.entry((client, digest(body))) else {
            return false;
        };
        let (at, times) = told.get_mut();
        let was_told = now.saturating_duration_since(*at) <= APART_MAX;
        *times -= 1;
        if *times == 0 {
            told.remove();
        }
        was_told
    }

    /// Forgets what this process would have heard of by now.
    pub(super) fn forget(&mut self, now: Instant) {
        self.0
            .retain(|_, (at, _)| now.saturating_duration_since(*at) <= APART_MAX);
    }
}

fn digest(body: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(body);
    hasher.finish()
}

fn is_old(then: Instant, now: Instant) -> bool {
    now.saturating_duration_since(then) > REMEMBERED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_remembered_for_a_while_and_not_too_many() {
        let begin = crate::testing::begin();
        let mut events = RecentEvents::default();
        for number in 0..2 * REMEMBERED_MAX as u8 {
            events.note(begin, EventKind::Schema, &[number]);
        }
        events.note(begin, EventKind::Status, &[]);
        let schema = EventKind::Schema as u8;
        let known = events.untold(begin + REMEMBERED_FOR, schema, &mut Vec::new());
        assert_eq!(known.len(), REMEMBERED_MAX - 1);
        assert_eq!(known.last().map(|body| body[0]), Some(127));
        let all = schema | EventKind::Status as u8;
        let untold = |at| events.untold(at, all, &mut Vec::new());
        assert_eq!(untold(begin).len(), REMEMBERED_MAX);
        assert_eq!(events.told(begin, all).len(), REMEMBERED_MAX);
        let later = begin + REMEMBERED_FOR + Duration::from_millis(1);
        assert!(untold(later).is_empty());
        assert!(events.told(later, all).is_empty());
        events.note(later, EventKind::Schema, &[]);
        assert_eq!(events.0.len(), 1);
    }

    #[test]
    fn only_what_was_not_told_elsewhere_is_told() {
        let begin = crate::testing::begin();
        let (mut there, mut here) = (RecentEvents::default(), RecentEvents::default());
        let at = |ms| begin + Duration::from_millis(ms);
        let schema = EventKind::Schema as u8;
        // One hears of the first two a little later than the other.
        for (event, ms) in [(1, 0), (2, 600), (1, 3_000)] {
            there.note(at(ms), EventKind::Schema, &[event]);
        }
        for (event, ms) in [(1, 200), (2, 500), (1, 3_010)] {
            here.note(at(ms), EventKind::Schema, &[event]);
        }
        let told = there.told(at(3_100), schema);
        assert_eq!(told.len(), 3);
        let untold = |here: &RecentEvents| here.untold(at(3_105), schema, &mut told.clone());
        assert!(untold(&here).is_empty());
        // Two more on its way, of which one is like another before.
        here.note(at(3_103), EventKind::Schema, &[1]);
        here.note(at(3_104), EventKind::Schema, &[3]);
        let numbers = |events: Vec<Rc<[u8]>>| events.iter().map(|body| body[0]).collect::<Vec<_>>();
        assert_eq!(numbers(untold(&here)), [1, 3]);
        // The event that it was told long before was another one.
        let mut here = RecentEvents::default();
        here.note(at(3_000), EventKind::Schema, &[2]);
        assert_eq!(numbers(untold(&here)), [2]);
        // And what has come while it was nowhere.
        assert_eq!(numbers(there.since(at(600), schema)), [2, 1]);
        assert!(there.since(at(0), EventKind::Status as u8).is_empty());
    }

    #[test]
    fn what_was_told_elsewhere_is_taken_as_often_as_it_was_and_for_a_second() {
        let begin = crate::testing::begin();
        let at = |ms| begin + Duration::from_millis(ms);
        let client = SessionKey::default();
        let told = |ms| Told {
            digest: digest(b"x"),
            ago: Duration::from_millis(ms),
        };
        let mut elsewhere = ToldElsewhere::default();
        elsewhere.note(at(2_000), client, &[told(1_001), told(600), told(10)]);
        let now = at(2_100);
        assert!(!elsewhere.takes(now, client, b"y"));
        assert!(elsewhere.takes(now, client, b"x") && elsewhere.takes(now, client, b"x"));
        assert!(!elsewhere.takes(now, client, b"x"), "the oldest is too old");
        elsewhere.note(at(2_000), client, &[told(600)]);
        assert!(!elsewhere.takes(at(2_401), client, b"x"), "too late");
        elsewhere.note(at(2_000), client, &[told(600)]);
        elsewhere.forget(at(2_400));
        assert_eq!(elsewhere.0.len(), 1);
        elsewhere.forget(at(2_401));
        assert!(elsewhere.0.is_empty());
    }
}
