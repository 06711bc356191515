//! Divides the Murmur3 ring evenly among the initial nodes.
//!
//! Random tokens make small clusters unbalanced and require nodes to join one after another. Here
//! every node knows its tokens in advance, so all but the seed can start in parallel.

/// Comma-separated tokens of node `index` (from 0) of `nodes`, `per_node` tokens each.
///
/// The ring is divided into `nodes * per_node` equal arcs. Within each group of `nodes` arcs every
/// node owns one; the order rotates by one from group to group, so that a node's successors vary.
pub(crate) fn murmur3(index: u16, nodes: u16, per_node: u16) -> String {
    assert!(index < nodes && per_node > 0, "node {index} of {nodes}");
    let (index, nodes, per_node) = (i128::from(index), i128::from(nodes), i128::from(per_node));
    let arcs = nodes * per_node;
    let tokens: Vec<String> = (0..per_node)
        .map(|group| {
            let slot = (index + nodes - group % nodes) % nodes;
            let arc = group * nodes + slot;
            // Cassandra's smallest token, -2^63, is reserved; half an arc of offset avoids it.
            let token = i128::from(i64::MIN) + (2 * arc + 1) * (1_i128 << 64) / (2 * arcs);
            token.to_string()
        })
        .collect();
    tokens.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arc_has_one_owner_and_the_same_length() {
        for (nodes, per_node) in [(1, 1), (1, 16), (2, 16), (3, 16), (5, 8), (4, 256)] {
            let mut all: Vec<(i64, u16)> = Vec::new();
            for index in 0..nodes {
                let tokens = murmur3(index, nodes, per_node);
                let parsed: Vec<i64> = tokens
                    .split(',')
                    .map(|t| t.parse().expect("a 64-bit token"))
                    .collect();
                assert_eq!(parsed.len(), usize::from(per_node));
                all.extend(parsed.into_iter().map(|t| (t, index)));
            }
            all.sort_unstable();
            let arc = (1_u128 << 64) / (u128::from(nodes) * u128::from(per_node));
            for pair in all.windows(2) {
                let length = pair[1].0.abs_diff(pair[0].0);
                assert!(u128::from(length).abs_diff(arc) <= 1, "{nodes}x{per_node}");
            }
            assert!(all[0].0 > i64::MIN);
        }
    }

    #[test]
    fn successors_vary() {
        let mut ring: Vec<(i64, u16)> = (0..3)
            .flat_map(|index| {
                murmur3(index, 3, 4)
                    .split(',')
                    .map(|t| (t.parse().expect("token"), index))
                    .collect::<Vec<_>>()
            })
            .collect();
        ring.sort_unstable();
        let owners: Vec<u16> = ring.iter().map(|(_, owner)| *owner).collect();
        assert_eq!(owners, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
    }
}
