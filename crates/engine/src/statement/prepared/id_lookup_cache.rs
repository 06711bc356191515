//! Which unknown prepared statements have been looked up of late, and for whom: clients may send any ids, and who
//! sends many does not keep those of others from being looked up.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

/// An id is looked up at most this often.
const PAUSE: Duration = Duration::from_secs(10);
/// Bytes of an id at most: an MD5.
const ID_MAX: usize = 16;
const REMEMBERED_MAX: usize = 1024;

/// A role at an address.
pub(crate) type Asker = (u32, Option<IpAddr>);

/// Ids that were looked up of late.
#[derive(Default)]
pub struct IdLookups {
    ids: FxHashMap<Box<[u8]>, (Instant, Asker)>,
    /// How many of them each has asked for.
    askers: FxHashMap<Asker, usize>,
    /// None of them is old before.
    none_old_before: Option<Instant>,
}

impl IdLookups {
    /// True if this id is due, which is noted.
    pub(crate) fn is_due(&mut self, id: &[u8], asker: Asker, now: Instant) -> bool {
        // No id of Cassandra's is longer; clients may send any.
        if id.len() > ID_MAX
            || self
                .ids
                .get(id)
                .is_some_and(|(then, _)| now < *then + PAUSE)
        {
            return false;
        }
        self.forget(id);
        if self.ids.len() >= REMEMBERED_MAX {
            self.forget_old(now);
        }
        if self.ids.len() >= REMEMBERED_MAX && !self.make_room(asker) {
            return false;
        }
        self.ids.insert(id.into(), (now, asker));
        *self.askers.entry(asker).or_default() += 1;
        true
    }

    pub(crate) fn forget(&mut self, id: &[u8]) {
        let Some((_, asker)) = self.ids.remove(id) else {
            return;
        };
        if let Some(number) = self.askers.get_mut(&asker) {
            *number -= 1;
            if *number == 0 {
                self.askers.remove(&asker);
            }
        }
    }

    fn forget_old(&mut self, now: Instant) {
        if self.none_old_before.is_some_and(|then| now < then) {
            return;
        }
        let ids = self.ids.iter();
        let old = ids.filter(|(_, (then, _))| now >= *then + PAUSE);
        let old: Vec<Box<[u8]>> = old.map(|(id, _)| id.clone()).collect();
        for id in old {
            self.forget(&id);
        }
        let oldest = self.ids.values().map(|(then, _)| *then + PAUSE).min();
        self.none_old_before = oldest;
    }

    /// Forgets an id of who has most, if that is more than this one would have.
    fn make_room(&mut self, asker: Asker) -> bool {
        let own = self.askers.get(&asker).copied().unwrap_or_default();
        let most = self.askers.iter().max_by_key(|(_, number)| **number);
        let Some((greedy, _)) = most.filter(|(_, number)| **number > own + 1) else {
            return false;
        };
        let greedy = *greedy;
        let mut ids = self.ids.iter();
        let id = ids.find(|(_, (_, of))| *of == greedy);
        if let Some(id) = id.map(|(id, _)| id.clone()) {
            self.forget(&id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Asker = (1, None);

    #[test]
    fn an_id_is_looked_up_once_in_a_while_and_not_too_many_at_all() {
        let mut recent = IdLookups::default();
        let now = crate::testing::begin();
        assert!(recent.is_due(b"a", ONE, now));
        assert!(!recent.is_due(b"a", ONE, now + PAUSE / 2));
        assert!(recent.is_due(b"a", ONE, now + PAUSE));
        recent.forget(b"a");
        assert!(recent.is_due(b"a", ONE, now));
        let due = (0..2 * REMEMBERED_MAX as u32)
            .filter(|id| recent.is_due(&id.to_be_bytes(), ONE, now))
            .count();
        assert_eq!(due, REMEMBERED_MAX - 1);
        assert!(recent.is_due(b"later", ONE, now + PAUSE));
        assert_eq!((recent.ids.len(), recent.askers.len()), (1, 1));
    }

    #[test]
    fn who_asks_for_many_leaves_others_their_share() {
        let mut recent = IdLookups::default();
        let now = crate::testing::begin();
        let mut due = |asker: Asker, ids: std::ops::Range<usize>| {
            let ids = ids.filter(|id| recent.is_due(&id.to_be_bytes(), asker, now));
            ids.count()
        };
        let of = |last: u8| (1, Some(IpAddr::from([10, 0, 0, last])));
        assert_eq!(due(of(1), 0..2_000), REMEMBERED_MAX);
        assert_eq!(due(of(2), 2_000..2_100), 100, "few are all looked up");
        assert_eq!(due(of(3), 3_000..5_000), 462, "many as far as the other's");
        assert_eq!(due(of(1), 5_000..6_000), 0);
        assert_eq!(due((2, of(1).1), 6_000..6_010), 10, "another role");
        let all: usize = recent.askers.values().sum();
        assert_eq!((all, recent.ids.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
