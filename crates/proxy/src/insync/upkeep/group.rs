//! Which parts of the ring have copies with the same owners, and in which tables these are.

use std::collections::BTreeMap;

use helenus_engine::snapshot::{HostId, Snapshot};
use helenus_layout::insync::Ranges;
use helenus_layout::plan::LogicalTable;
use helenus_rows::{Range, split};

use super::trouble::Trouble;
use crate::insync::rings;

/// Equal parts of the ring in which copies are compared: the progress of a comparison is counted in these.
const PARTS: u64 = 256;

/// All ranges of the ring by the owners of their copies, in the order of the copies.
pub(super) fn groups(
    snapshot: &Snapshot,
    table: &LogicalTable,
) -> Result<BTreeMap<Vec<HostId>, Vec<Range>>, Trouble> {
    if snapshot.is_moving() {
        return Err(Trouble::Unfit(
            "the ring is moving: copies are compared when all nodes say the same of it".to_owned(),
        ));
    }
    rings::owned(snapshot, table).map_err(Trouble::Unfit)
}

/// As lists have them.
pub(super) fn whole(ranges: &[Range]) -> Ranges {
    Ranges::new(ranges.iter().map(|range| (range.after, range.end)))
}

/// The ranges in parts, in the order of the ring.
pub(super) fn parts(ranges: &[Range]) -> Vec<Range> {
    let mut parts: Vec<Range> = split(PARTS)
        .into_iter()
        .flat_map(|part| within(ranges, part))
        .collect();
    parts.sort_unstable();
    parts
}

/// What of the ranges lies within another one.
pub(super) fn within(ranges: &[Range], part: Range) -> Vec<Range> {
    let common = ranges.iter().map(|range| Range {
        after: range.after.max(part.after),
        end: range.end.min(part.end),
    });
    common.filter(|range| range.after < range.end).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helenus_engine::snapshot::Node;
    use helenus_layout::Layout;
    use helenus_layout::plan::Copy;
    use helenus_policy::ring::{NodeSpec, Replication, Ring};
    use helenus_policy::token::{Partitioner, Token};

    use super::*;

    fn node(number: u8) -> Node {
        Node {
            address: ([10, 0, 0, number], 9042).into(),
            host_id: [number; 16],
            dc: format!("dc{}", number % 2),
            rack: String::new(),
            release_version: String::new(),
            processors: None,
            timeouts: None,
            batches: None,
            gone: false,
        }
    }

    /// Four nodes in two data centers, a copy in each of these.
    fn cluster() -> (Snapshot, LogicalTable) {
        let specs: Vec<NodeSpec> = (0..4)
            .map(|number: i64| NodeSpec {
                dc: format!("dc{}", number % 2),
                rack: String::new(),
                tokens: vec![Token::Murmur3(number * 1_000)],
            })
            .collect();
        let ring = Ring::new(Partitioner::Murmur3, &specs);
        let mut snapshot = Snapshot::unknown();
        snapshot.nodes = (0..4).map(node).collect();
        let keyspace = |dc: usize| format!("app__{dc}");
        for dc in 0..2 {
            let one = [(format!("dc{dc}"), 1)].into_iter().collect();
            let sets = ring.replica_sets(&Replication::NetworkTopology(one));
            snapshot.keyspaces.insert(keyspace(dc), Arc::new(sets));
        }
        snapshot.ring = Some(ring);
        let copy = |dc: usize| Copy {
            keyspace: keyspace(dc),
            physical: "t".to_owned(),
            layout: Layout::new(&[0]).expect("an order"),
            readable: true,
        };
        let table = LogicalTable {
            keyspace: "app".to_owned(),
            name: "t".to_owned(),
            partition_key: vec!["k".to_owned()],
            clustering: Vec::new(),
            columns: Vec::new(),
            indexed: false,
            may_hold_times: false,
            copies: (0..2).map(copy).collect(),
            distinct: Default::default(),
            rows: None,
        };
        (snapshot, table)
    }

    #[test]
    fn groups_cover_the_ring_once_each_with_its_owners() {
        let (snapshot, table) = cluster();
        let groups = groups(&snapshot, &table).expect("groups");
        let range = |after, end| Range { after, end };
        let owned = |owners: [u8; 2]| groups.get(owners.map(|number| [number; 16]).as_slice());
        let around = vec![range(3_000, i64::MAX), range(i64::MIN, 0)];
        assert_eq!(owned([0, 1]), Some(&around));
        assert_eq!(owned([2, 1]), Some(&vec![range(0, 1_000)]));
        assert_eq!(owned([2, 3]), Some(&vec![range(1_000, 2_000)]));
        assert_eq!(owned([0, 3]), Some(&vec![range(2_000, 3_000)]));
        assert_eq!(groups.len(), 4);
    }

    #[test]
    fn parts_cover_a_groups_ranges_once() {
        let ranges = [
            Range {
                after: 3_000,
                end: i64::MAX,
            },
            Range {
                after: i64::MIN,
                end: 0,
            },
        ];
        let parts = parts(&ranges);
        let tokens = |ranges: &[Range]| -> i128 {
            let of = |range: &Range| i128::from(range.end) - i128::from(range.after);
            ranges.iter().map(of).sum()
        };
        assert_eq!(tokens(&parts), tokens(&ranges));
        assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].after));
        let part = Range {
            after: -5,
            end: 3_005,
        };
        assert_eq!(
            within(&ranges, part),
            [
                Range {
                    after: 3_000,
                    end: 3_005
                },
                Range { after: -5, end: 0 }
            ]
        );
    }

    #[test]
    fn a_keyspace_with_several_replicas_is_no_copy() {
        let (mut snapshot, table) = cluster();
        let ring = snapshot.ring.as_ref().expect("a ring");
        let sets = ring.replica_sets(&Replication::Simple { rf: 2 });
        snapshot
            .keyspaces
            .insert("app__1".to_owned(), Arc::new(sets));
        let why = groups(&snapshot, &table).expect_err("two replicas");
        assert!(why.to_string().contains("app__1"), "{why}");
        snapshot.keyspaces.clear();
        assert!(groups(&snapshot, &table).is_err());
    }
}
