//! Tables and where their rows are: each row a partition, in the order of its token.
//!
//! All tables have the same keys, as those of `helenus bench scheduling` do, and so the same tokens.

use std::ops::Range;

use helenus_policy::ring::NodeSpec;
use helenus_policy::token::{Token, murmur3_token};

#[derive(Debug)]
pub(super) struct Data {
    /// Token and key of each row.
    rows: Vec<(i64, i64)>,
    /// The ring: the last token of each stretch, its node, and the first row behind it.
    ring: Vec<Stretch>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    end: i64,
    node: usize,
    end_row: usize,
}

/// The rows that a node has of a range, in one stretch of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub node: usize,
    pub rows: Range<usize>,
}

impl Data {
    /// With the keys from 0 on.
    pub(super) fn new(nodes: usize, vnodes: usize, rows: u64) -> Self {
        let mut by_token: Vec<(i64, i64)> = (0..rows as i64)
            .map(|key| (murmur3_token(&key.to_be_bytes()), key))
            .collect();
        by_token.sort_unstable();
        let end_row = |end: i64| by_token.partition_point(|(token, _)| *token <= end);
        let mut ring: Vec<Stretch> = (0..nodes)
            .flat_map(|node| tokens(node, nodes, vnodes).map(move |end| (end, node)))
            .map(|(end, node)| Stretch {
                end,
                node,
                end_row: end_row(end),
            })
            .collect();
        ring.sort_unstable_by_key(|stretch| stretch.end);
        // Behind the last token begins what the node of the first one has.
        ring.push(Stretch {
            end: i64::MAX,
            node: ring[0].node,
            end_row: by_token.len(),
        });
        Data {
            rows: by_token,
            ring,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn key(&self, row: usize) -> i64 {
        self.rows[row].1
    }

    /// The row of a key.
    pub(super) fn row_of(&self, key: i64) -> Option<usize> {
        let token = murmur3_token(&key.to_be_bytes());
        let at = self.first_above(token.checked_sub(1)?);
        (self.rows.get(at)? == &(token, key)).then_some(at)
    }

    /// The first row with a larger token.
    pub(super) fn first_above(&self, token: i64) -> usize {
        self.rows.partition_point(|(of, _)| *of <= token)
    }

    pub(super) fn node_of(&self, row: usize) -> usize {
        let token = self.rows[row].0;
        self.ring[self.slot(token)].node
    }

    /// The nodes' data from a row on, up to a token: one segment for each stretch, also where it has no
    /// row. `above` is the token before the first one, if the row before is not.
    pub(super) fn segments(&self, from: usize, above: i64, up_to: i64) -> Vec<Segment> {
        let end = self.first_above(up_to);
        let above = match from.checked_sub(1) {
            Some(before) => above.max(self.rows[before].0),
            None => above,
        };
        if above >= up_to {
            return Vec::new();
        }
        let (first, last) = (self.slot(above.saturating_add(1)), self.slot(up_to));
        let mut begin = from;
        let segment = |stretch: &Stretch| {
            let rows = begin..stretch.end_row.min(end).max(begin);
            begin = rows.end;
            Segment {
                node: stretch.node,
                rows,
            }
        };
        self.ring[first..=last].iter().map(segment).collect()
    }

    fn slot(&self, token: i64) -> usize {
        self.ring.partition_point(|stretch| stretch.end < token)
    }
}

/// The ring in equal stretches. Each node has one in each group of as many, in an order that rotates from
/// group to group, as `helenus cluster up` deals them out.
fn tokens(node: usize, nodes: usize, vnodes: usize) -> impl Iterator<Item = i64> {
    let stretches = (nodes * vnodes) as i128;
    (0..vnodes).map(move |group| {
        let slot = (node + nodes - group % nodes) % nodes;
        let stretch = (group * nodes + slot) as i128;
        let token = i128::from(i64::MIN) + (2 * stretch + 1) * (1_i128 << 64) / (2 * stretches);
        token as i64
    })
}

/// The ring, as proxies learn it.
pub(super) fn specs(nodes: usize, vnodes: usize) -> Vec<NodeSpec> {
    let spec = |node| NodeSpec {
        dc: "dc1".to_owned(),
        rack: "r1".to_owned(),
        tokens: tokens(node, nodes, vnodes).map(Token::Murmur3).collect(),
    };
    (0..nodes).map(spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_table_is_in_all_stretches_and_each_row_in_one() {
        for (nodes, vnodes) in [(1, 1), (3, 16), (12, 1)] {
            let data = Data::new(nodes, vnodes, 1_000);
            let segments = data.segments(0, i64::MIN, i64::MAX);
            assert_eq!(segments.len(), nodes * vnodes + 1);
            let mut next = 0;
            for segment in segments {
                assert_eq!(segment.rows.start, next);
                next = segment.rows.end;
                for row in segment.rows {
                    assert_eq!(data.node_of(row), segment.node);
                    assert_eq!(data.row_of(data.key(row)), Some(row));
                }
            }
            assert_eq!(next, 1_000);
        }
    }

    #[test]
    fn a_range_begins_behind_its_bound_and_ends_with_the_other() {
        let data = Data::new(3, 4, 100);
        let (above, up_to) = (data.rows[10].0, data.rows[60].0);
        let from = data.first_above(above);
        assert_eq!(from, 11);
        let segments = data.segments(from, above, up_to);
        let rows: usize = segments.iter().map(|segment| segment.rows.len()).sum();
        assert_eq!(rows, 50);
        assert_eq!(segments[0].node, data.node_of(11));
        assert!(data.segments(from, up_to, up_to).is_empty());
        assert_eq!(data.row_of(100), None);
    }
}
