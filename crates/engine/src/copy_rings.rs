//! Who owns which part of the ring, as a number for each table whose copies are in sync: lists are about the copies of
//! certain ranges, so those that were read for one ring are none for a worker that knows another one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use helenus_policy::ring::{NodeIndex, ReplicaSets, Ring};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::layouts::Layouts;

/// Equal as long as the same nodes own the same tokens of a table's copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RingId(u64);

/// Of all tables that have such copies, by keyspace and table.
#[derive(Clone, Debug, Default)]
pub struct CopyRings(FxHashMap<String, FxHashMap<String, OfTable>>);

/// The ring of a table, and how many groups of nodes own its partitions there.
#[derive(Clone, Copy, Debug, Default)]
struct OfTable {
    ring: RingId,
    groups: usize,
}

impl CopyRings {
    /// Of a table that has none, it is that of no ring.
    pub fn of(&self, keyspace: &str, table: &str) -> RingId {
        self.of_table(keyspace, table).ring
    }

    /// The same, and how many lists are about all partitions of the table.
    pub(crate) fn with_groups(&self, keyspace: &str, table: &str) -> (RingId, usize) {
        let OfTable { ring, groups } = self.of_table(keyspace, table);
        (ring, groups)
    }

    fn of_table(&self, keyspace: &str, table: &str) -> OfTable {
        let of_keyspace = self.0.get(keyspace);
        let known = of_keyspace.and_then(|tables| tables.get(table));
        known.copied().unwrap_or_default()
    }

    pub(crate) fn new(
        ring: Option<&Ring>,
        keyspaces: &FxHashMap<String, Arc<ReplicaSets>>,
        layouts: &Layouts,
    ) -> CopyRings {
        let Some(ring) = ring else {
            return CopyRings::default();
        };
        let of_keyspace = layouts.replaced.iter().map(|(keyspace, tables)| {
            let of_table = tables.iter().map(|(name, table)| {
                let copies = table.copies.iter();
                let owners = copies.map(|copy| keyspaces.get(&copy.keyspace).map(|of| &**of));
                (name.clone(), number(ring, &owners.collect::<Vec<_>>()))
            });
            (keyspace.clone(), of_table.collect())
        });
        CopyRings(of_keyspace.collect())
    }
}

/// Parts of the ring that touch and have the same owners are one, however many tokens are within it.
fn number(ring: &Ring, copies: &[Option<&ReplicaSets>]) -> OfTable {
    let owners = |slot: usize| {
        let of_copy = copies
            .iter()
            .map(move |sets| sets.map(|sets| sets.of_slot(slot)));
        of_copy.collect::<Vec<Option<&[NodeIndex]>>>()
    };
    let mut hasher = DefaultHasher::new();
    let count = ring.len();
    let mut of_slot = match count {
        0 => Vec::new(),
        _ => owners(0),
    };
    of_slot.hash(&mut hasher);
    let mut groups: FxHashSet<Vec<Option<&[NodeIndex]>>> = FxHashSet::default();
    for slot in 0..count {
        let next = owners((slot + 1) % count);
        if next != of_slot {
            (ring.end_token(slot), &next).hash(&mut hasher);
            groups.insert(std::mem::replace(&mut of_slot, next));
        }
    }
    groups.insert(of_slot);
    OfTable {
        ring: RingId(hasher.finish()),
        groups: groups.len(),
    }
}

#[cfg(test)]
mod tests {
    use helenus_policy::ring::{NodeSpec, Replication};
    use helenus_policy::token::{Partitioner, Token};

    use super::*;

    /// Nodes in two data centers, by their tokens, with a copy in each of the first ones.
    fn ring(nodes: &[(&str, &[i64])], copies: &[&str]) -> RingId {
        of_table(nodes, copies).ring
    }

    fn of_table(nodes: &[(&str, &[i64])], copies: &[&str]) -> OfTable {
        let spec = |(dc, tokens): &(&str, &[i64])| NodeSpec {
            dc: (*dc).to_owned(),
            rack: String::new(),
            tokens: tokens.iter().copied().map(Token::Murmur3).collect(),
        };
        let specs: Vec<NodeSpec> = nodes.iter().map(spec).collect();
        let ring = Ring::new(Partitioner::Murmur3, &specs);
        let one = |dc: &&str| Replication::NetworkTopology([((*dc).to_owned(), 1)].into());
        let sets: Vec<ReplicaSets> = copies
            .iter()
            .map(|dc| ring.replica_sets(&one(dc)))
            .collect();
        number(&ring, &sets.iter().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn a_ring_is_another_one_when_a_token_has_another_owner() {
        let before = ring(&[("a", &[0, 50]), ("b", &[10])], &["a", "b"]);
        let more = ring(&[("a", &[0, 20, 50, 70]), ("b", &[10, 90])], &["a", "b"]);
        assert_eq!(before, more, "each data center has one node");
        let elsewhere = [("a", &[0, 50][..]), ("b", &[10]), ("c", &[5, 30])];
        assert_eq!(before, ring(&elsewhere, &["a", "b"]));
        let joined = ring(&[("a", &[0, 50]), ("b", &[10]), ("a", &[30])], &["a", "b"]);
        assert_ne!(before, joined);
        let moved = ring(&[("a", &[0, 50]), ("b", &[10]), ("a", &[31])], &["a", "b"]);
        assert_ne!(joined, moved);
        assert_ne!(before, ring(&[("a", &[0, 50]), ("b", &[10])], &["b", "a"]));
    }

    #[test]
    fn groups_of_owners_are_counted_once_each() {
        let groups = |nodes: &[(&str, &[i64])]| of_table(nodes, &["a", "b"]).groups;
        assert_eq!(groups(&[("a", &[0, 50]), ("b", &[10])]), 1);
        let two = [("a", &[0, 50][..]), ("b", &[10]), ("a", &[30, 70])];
        assert_eq!(groups(&two), 2);
        let four = [
            ("a", &[0, 50][..]),
            ("b", &[10, 60]),
            ("a", &[30]),
            ("b", &[40]),
        ];
        assert_eq!(groups(&four), 4);
    }
}
