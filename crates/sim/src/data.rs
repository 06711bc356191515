//! Where rows are: tables in key order, spread evenly over the nodes in ring order.

/// One table's share of the data; all tables are alike.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub nodes: u32,
    pub rows_per_table: u64,
}

/// The rows of a range that one node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub node: u32,
    pub rows: u32,
    /// Whether the answer has rows from it; if not, it was asked for nothing.
    pub needed: bool,
}

impl Data {
    pub fn node_of(&self, row: u64) -> u32 {
        (row * u64::from(self.nodes) / self.rows_per_table) as u32
    }

    /// First row of a node; of the node after the last: the end of the table.
    fn begin(&self, node: u32) -> u64 {
        (u64::from(node) * self.rows_per_table).div_ceil(u64::from(self.nodes))
    }

    fn rows_of(&self, node: u32) -> u64 {
        self.begin(node + 1) - self.begin(node)
    }

    /// The nodes that hold `count` rows from `start` on, or all rows to the end.
    pub fn exact(&self, start: u64, count: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        let (mut from, mut left) = (start, count);
        for node in self.node_of(start)..self.nodes {
            if left == 0 {
                break;
            }
            let rows = (self.begin(node + 1) - from).min(left);
            segments.push(Segment {
                node,
                rows: rows as u32,
                needed: true,
            });
            (from, left) = (from + rows, left - rows);
        }
        segments
    }

    /// The nodes that the paper's coordinator asks at once: it knows how many rows a
    /// node holds, but not where in the first node the range begins, so that one
    /// counts as none. Every node is asked for up to `count` rows.
    pub fn predicted(&self, start: u64, count: u64) -> Vec<Segment> {
        let needed = self.exact(start, count).len();
        let first = self.node_of(start);
        let to_its_end = self.begin(first + 1) - start;
        let mut segments = vec![Segment {
            node: first,
            rows: to_its_end.min(count) as u32,
            needed: true,
        }];
        let mut expected = 0;
        for node in first + 1..self.nodes {
            if expected >= count {
                break;
            }
            expected += self.rows_of(node);
            segments.push(Segment {
                node,
                rows: self.rows_of(node).min(count) as u32,
                needed: segments.len() < needed,
            });
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Data = Data {
        nodes: 4,
        rows_per_table: 10,
    };

    fn check(segments: Vec<Segment>, expect: &[(u32, u32, bool)]) {
        let seen: Vec<_> = segments
            .iter()
            .map(|segment| (segment.node, segment.rows, segment.needed))
            .collect();
        assert_eq!(seen, expect);
    }

    #[test]
    fn nodes_hold_all_rows_once() {
        // 3, 2, 3 and 2 rows.
        let nodes: Vec<u32> = (0..10).map(|row| DATA.node_of(row)).collect();
        assert_eq!(nodes, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|node| DATA.rows_of(node)), [3, 2, 3, 2]);
    }

    #[test]
    fn a_range_ends_with_its_count_or_the_table() {
        check(DATA.exact(1, 1), &[(0, 1, true)]);
        check(DATA.exact(1, 2), &[(0, 2, true)]);
        check(
            DATA.exact(1, 5),
            &[(0, 2, true), (1, 2, true), (2, 1, true)],
        );
        check(DATA.exact(8, 50), &[(3, 2, true)]);
    }

    #[test]
    fn the_first_node_counts_as_none_in_the_prediction() {
        check(DATA.predicted(1, 2), &[(0, 2, true), (1, 2, false)]);
        check(
            DATA.predicted(1, 4),
            &[(0, 2, true), (1, 2, true), (2, 3, false)],
        );
        check(DATA.predicted(8, 50), &[(3, 2, true)]);
    }
}
