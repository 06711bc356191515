//! Which nodes are asked for several keys: few that own all of them between them.

use helenus_policy::choice::CANDIDATES_MAX;
use helenus_policy::ring::NodeIndex;
use helenus_policy::route::scattered;

use crate::exec::context::ExecContext;

/// Keys for which it is worth asking a further owner: a request costs a node about as much as two or three
/// keys.
const KEYS_MIN: usize = 64;

/// Nodes that own all of these between them, and which each is to be asked for: as few as possible, but
/// more if they own enough. Those that are not well are asked only for what no other node has. `None` if
/// the owners of one are all away.
pub(super) fn owners_of_all(
    cx: &ExecContext<'_>,
    replicas: &[&[NodeIndex]],
) -> Option<Vec<(NodeIndex, Vec<usize>)>> {
    let count = cx.engine.snapshot.nodes().count();
    let mut usable = vec![false; count];
    for owner in replicas.iter().flat_map(|owners| owners.iter()) {
        usable[owner.as_usize()] = true;
    }
    let owners = (0..count).map(|index| NodeIndex(index as u16));
    let owners: Vec<NodeIndex> = owners.filter(|node| usable[node.as_usize()]).collect();
    for owner in &owners {
        usable[owner.as_usize()] = cx.is_usable(*owner);
    }
    let mut well = usable.clone();
    for some in owners.chunks(CANDIDATES_MAX) {
        let lagging = cx.queues.lagging(cx.engine, some);
        for (at, owner) in some.iter().enumerate() {
            well[owner.as_usize()] &= lagging >> at & 1 == 0;
        }
    }
    let turn = scattered(cx.rotation) as usize;
    groups(replicas, &well, turn).or_else(|| groups(replicas, &usable, turn))
}

/// The nodes, with what each is to be asked for. Of nodes that own as many, another one comes first with
/// each `turn`.
fn groups(
    replicas: &[&[NodeIndex]],
    usable: &[bool],
    turn: usize,
) -> Option<Vec<(NodeIndex, Vec<usize>)>> {
    let nodes = nodes_for_all(replicas, usable, turn)?;
    let mut groups: Vec<(NodeIndex, Vec<usize>)> =
        nodes.into_iter().map(|node| (node, Vec::new())).collect();
    for (at, owners) in replicas.iter().enumerate() {
        let owned = groups.iter_mut().filter(|(node, _)| owners.contains(node));
        owned.min_by_key(|(_, members)| members.len())?.1.push(at);
    }
    groups.retain(|(_, members)| !members.is_empty());
    Some(groups)
}

/// Again and again the node that owns most of what is left; then those that own most of all, as long as
/// there are [`KEYS_MIN`] for each.
fn nodes_for_all(
    replicas: &[&[NodeIndex]],
    usable: &[bool],
    turn: usize,
) -> Option<Vec<NodeIndex>> {
    let count = usable.len();
    let turned = |index: usize| (index + turn) % count;
    let owned = |of: &[&[NodeIndex]]| {
        let mut owned = vec![0_usize; count];
        for node in of.iter().flat_map(|owners| owners.iter()) {
            owned[node.as_usize()] += usize::from(usable[node.as_usize()]);
        }
        owned
    };
    let mut left: Vec<&[NodeIndex]> = replicas.to_vec();
    let mut nodes: Vec<NodeIndex> = Vec::new();
    while !left.is_empty() {
        let owned = owned(&left);
        let best = (0..count).max_by_key(|index| (owned[*index], turned(*index)))?;
        let node = NodeIndex(best as u16);
        if owned[best] == 0 {
            return None;
        }
        nodes.push(node);
        left.retain(|owners| !owners.contains(&node));
    }
    let further = (replicas.len() / KEYS_MIN).saturating_sub(nodes.len());
    if further == 0 {
        return Some(nodes);
    }
    let all = owned(replicas);
    let mut others: Vec<usize> = (0..count).filter(|index| all[*index] >= KEYS_MIN).collect();
    others.retain(|index| !nodes.contains(&NodeIndex(*index as u16)));
    others.sort_by_key(|index| std::cmp::Reverse((all[*index], turned(*index))));
    let others = others.into_iter().take(further);
    nodes.extend(others.map(|index| NodeIndex(index as u16)));
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(replicas: &[&[NodeIndex]], usable: &[bool], turn: usize) -> Option<Vec<usize>> {
        let groups = groups(replicas, usable, turn)?;
        let mut asked: Vec<usize> = groups
            .iter()
            .flat_map(|(_, members)| members.clone())
            .collect();
        asked.sort_unstable();
        assert!(asked.iter().copied().eq(0..replicas.len()), "each key once");
        for (node, members) in &groups {
            assert!(usable[node.as_usize()]);
            assert!(members.iter().all(|at| replicas[*at].contains(node)));
        }
        let mut sizes: Vec<usize> = groups.iter().map(|(_, members)| members.len()).collect();
        sizes.sort_unstable();
        Some(sizes)
    }

    #[test]
    fn few_keys_go_to_as_few_owners_as_possible_and_many_to_all() {
        let all = [NodeIndex(0), NodeIndex(1), NodeIndex(2)];
        let up = [true; 3];
        for turn in 0..5 {
            assert_eq!(sizes(&vec![&all[..]; 100], &up, turn), Some(vec![100]));
            assert_eq!(sizes(&vec![&all[..]; 128], &up, turn), Some(vec![64, 64]));
            let thirds = Some(vec![333, 333, 334]);
            assert_eq!(sizes(&vec![&all[..]; 1_000], &up, turn), thirds);
            let halves = Some(vec![500, 500]);
            let but_one = [true, false, true];
            assert_eq!(sizes(&vec![&all[..]; 1_000], &but_one, turn), halves);
        }
    }

    #[test]
    fn every_key_goes_to_one_of_its_owners() {
        let nodes: Vec<NodeIndex> = (0..6).map(NodeIndex).collect();
        let pairs: Vec<&[NodeIndex]> = (0..500).map(|at| &nodes[at % 5..at % 5 + 2]).collect();
        for turn in 0..7 {
            assert!(sizes(&pairs, &[true; 6], turn).is_some_and(|sizes| sizes.len() > 2));
            let without_two = [true, false, false, true, true, true];
            assert_eq!(
                sizes(&pairs, &without_two, turn),
                None,
                "some have no owner left"
            );
        }
    }
}
