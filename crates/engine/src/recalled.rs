//! Which unknown prepared statements have been looked up of late.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

/// An id is looked up at most this often.
const PAUSE: Duration = Duration::from_secs(10);
/// Bytes of an id at most: an MD5.
const ID_MAX: usize = 16;
const REMEMBERED_MAX: usize = 1024;

/// Ids that were looked up of late.
#[derive(Default)]
pub struct Recalled(FxHashMap<Box<[u8]>, Instant>);

impl Recalled {
    /// Whether this id is due, which is noted.
    pub(crate) fn is_due(&mut self, id: &[u8], now: Instant) -> bool {
        // No id of Cassandra's is longer; clients may send any.
        if id.len() > ID_MAX || self.0.get(id).is_some_and(|then| now < *then + PAUSE) {
            return false;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.retain(|_, then| now < *then + PAUSE);
            if self.0.len() >= REMEMBERED_MAX {
                return false;
            }
        }
        self.0.insert(id.into(), now);
        true
    }

    pub(crate) fn forget(&mut self, id: &[u8]) {
        self.0.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_looked_up_once_in_a_while_and_not_too_many_at_all() {
        let mut recent = Recalled::default();
        let now = crate::testing::begin();
        assert!(recent.is_due(b"a", now));
        assert!(!recent.is_due(b"a", now + PAUSE / 2));
        assert!(recent.is_due(b"a", now + PAUSE));
        recent.forget(b"a");
        assert!(recent.is_due(b"a", now));
        let due = (0..2 * REMEMBERED_MAX as u32)
            .filter(|id| recent.is_due(&id.to_be_bytes(), now))
            .count();
        assert_eq!(due, REMEMBERED_MAX - 1);
        assert!(recent.is_due(b"later", now + PAUSE));
    }
}
