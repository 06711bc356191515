//! The evictions of copies in sync that a worker has asked for, each once a second. Thousands of writes may find the
//! same copy wanting in one tick.

use std::hash::BuildHasher;

use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::NodeIndex;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::copies::Eviction;

/// The same one is asked for again after this time, in microseconds.
const AGAIN_US: u64 = 1_000_000;

/// By a hash of table, owners and copy: what was asked for, and when it may be asked for again.
#[derive(Default)]
pub(super) struct Evictions(FxHashMap<u64, Vec<(Eviction, u64)>>);

impl Evictions {
    /// An eviction, if it is to be asked for. `version`: of the list by which the copy was found.
    pub(super) fn due(
        &mut self,
        table: &LogicalTable,
        owners: &[NodeIndex],
        (copy, version): (usize, u64),
        now_us: u64,
    ) -> Option<Eviction> {
        let hash = FxBuildHasher.hash_one((&table.keyspace, &table.name, owners, copy));
        let asked = self.0.entry(hash).or_default();
        asked.retain(|(_, again_us)| now_us < *again_us);
        let is_it = |of: &Eviction| {
            (of.copy, of.version) == (copy, version)
                && *of.owners == *owners
                && (&of.keyspace, &of.table) == (&table.keyspace, &table.name)
        };
        if asked.iter().any(|(of, _)| is_it(of)) {
            return None;
        }
        let eviction = Eviction {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            owners: owners.into(),
            copy,
            version,
        };
        asked.push((eviction.clone(), now_us + AGAIN_US));
        Some(eviction)
    }

    /// Forgets those that may be asked for again.
    pub(super) fn tick(&mut self, now_us: u64) {
        self.0.retain(|_, asked| {
            asked.retain(|(_, again_us)| now_us < *again_us);
            !asked.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bench::orders;

    #[test]
    fn each_is_asked_for_once_a_second() {
        let mut evictions = Evictions::default();
        let (table, owners) = (orders(true), [NodeIndex(1), NodeIndex(2)]);
        let others = [NodeIndex(2), NodeIndex(1)];
        let mut is_due = |owners: &[NodeIndex], of: (usize, u64), now_us: u64| {
            let due = evictions.due(&table, owners, of, now_us);
            due.is_some_and(|due| (due.copy, due.version) == of && *due.owners == *owners)
        };
        assert!(is_due(&owners, (0, 3), 5));
        assert!(!is_due(&owners, (0, 3), 1_000_004));
        assert!(is_due(&others, (0, 3), 6), "another group");
        assert!(is_due(&owners, (1, 3), 6), "another copy");
        assert!(is_due(&owners, (0, 4), 6), "it has come back meanwhile");
        assert!(is_due(&owners, (0, 3), 1_000_005));
        evictions.tick(1_000_006);
        assert_eq!(evictions.0.len(), 1, "the last one");
        evictions.tick(2_000_005);
        assert!(evictions.0.is_empty());
    }
}
