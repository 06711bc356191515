use super::*;
use crate::test_rng::{TestRng, for_seeds};

fn nodes(indexes: &[u16]) -> Vec<NodeIndex> {
    indexes.iter().copied().map(NodeIndex).collect()
}

/// Six local nodes, of which 0 and 1 are in the local rack, and 6 to 8 remote.
fn table() -> NodeTable {
    use Locality::*;
    NodeTable::from_localities([
        LocalRack, LocalRack, LocalDc, LocalDc, LocalDc, LocalDc, Remote, Remote, Remote,
    ])
}

#[derive(Clone, Copy)]
struct Case<'a> {
    replicas: &'a [u16],
    down: &'a [u16],
    rotation: u64,
    elsewhere: Elsewhere,
    preference: Preference,
}

fn check(case: Case<'_>, expect: &[u16]) {
    let table = table();
    let planned = plan(&RouteInput {
        replicas: &nodes(case.replicas),
        nodes: &table,
        usable: &|node| !case.down.contains(&node.0),
        rotation: case.rotation,
        elsewhere: case.elsewhere,
        preference: case.preference,
    });
    assert_eq!(planned.as_slice(), nodes(expect));
    assert_eq!(planned.len(), expect.len());
    assert_eq!(planned.is_empty(), expect.is_empty());
    assert_eq!(planned.collect::<Vec<_>>(), nodes(expect));
}

const SPREAD: Case<'_> = Case {
    replicas: &[],
    down: &[],
    rotation: 0,
    elsewhere: Elsewhere::Never,
    preference: Preference::Spread,
};
const PRIMARY: Case<'_> = Case {
    preference: Preference::Primary,
    ..SPREAD
};

#[test]
fn near_replicas_come_first() {
    let replicas = &[3, 6, 0, 5];
    check(Case { replicas, ..SPREAD }, &[0, 3, 5, 1, 2, 4]);
    check(
        Case {
            replicas,
            rotation: 1,
            ..SPREAD
        },
        &[0, 5, 3, 1, 2, 4],
    );
    check(
        Case {
            replicas,
            rotation: 4,
            ..SPREAD
        },
        &[0, 3, 5, 4, 1, 2],
    );
    check(
        Case {
            replicas,
            elsewhere: Elsewhere::Last,
            ..SPREAD
        },
        &[0, 3, 5, 1, 2, 4, 6, 7],
    );
}

#[test]
fn owners_elsewhere_come_first_only_where_no_local_node_is_one() {
    let elsewhere = Elsewhere::Owners;
    let far = Case {
        replicas: &[7, 6],
        elsewhere,
        ..PRIMARY
    };
    check(far, &[7, 6, 0, 1, 2, 3, 4, 5]);
    let down = &[7][..];
    check(Case { down, ..far }, &[6, 0, 1, 2, 3, 4, 5, 8]);
    let last = Elsewhere::Last;
    check(
        Case {
            elsewhere: last,
            ..far
        },
        &[0, 1, 2, 3, 4, 5, 7, 6],
    );
    // The local owner is away, and back soon: as before.
    let near = Case {
        replicas: &[7, 3],
        down: &[3],
        elsewhere,
        ..PRIMARY
    };
    check(near, &[0, 1, 2, 4, 5, 7, 6, 8]);
}

#[test]
fn unusable_nodes_are_left_out() {
    let replicas = &[0, 2, 3];
    check(
        Case {
            replicas,
            down: &[0, 3, 5],
            ..SPREAD
        },
        &[2, 1, 4],
    );
    check(
        Case {
            replicas,
            down: &[0, 1, 2, 3, 4, 5],
            ..SPREAD
        },
        &[],
    );
    let down = &[0, 1, 2, 3, 4, 5, 7];
    check(
        Case {
            replicas,
            down,
            elsewhere: Elsewhere::Last,
            rotation: 1,
            ..SPREAD
        },
        &[8, 6],
    );
}

#[test]
fn unknown_owners_mean_every_local_node_in_turn() {
    check(
        Case {
            rotation: 2,
            ..SPREAD
        },
        &[2, 3, 4, 5, 0, 1],
    );
    check(
        Case {
            rotation: 8,
            ..SPREAD
        },
        &[2, 3, 4, 5, 0, 1],
    );
    check(
        Case {
            rotation: 2,
            down: &[0],
            ..SPREAD
        },
        &[3, 4, 5, 1, 2],
    );
}

#[test]
fn lightweight_transactions_keep_to_the_primary() {
    let replicas = &[3, 6, 0, 5];
    for rotation in 0..6 {
        let case = Case {
            replicas,
            rotation,
            ..PRIMARY
        };
        let table = table();
        let first = plan(&RouteInput {
            replicas: &nodes(case.replicas),
            nodes: &table,
            usable: &|_| true,
            rotation,
            elsewhere: Elsewhere::Never,
            preference: case.preference,
        })
        .take(3)
        .collect::<Vec<_>>();
        assert_eq!(first, nodes(&[3, 0, 5]));
    }
    check(
        Case {
            replicas,
            down: &[3],
            ..PRIMARY
        },
        &[0, 5, 1, 2, 4],
    );
}

#[test]
fn nodes_the_table_lacks_are_ignored() {
    check(
        Case {
            replicas: &[900, 2],
            ..SPREAD
        },
        &[2, 0, 1, 3, 4, 5],
    );
    let none = plan(&RouteInput {
        replicas: &nodes(&[1]),
        nodes: &NodeTable::default(),
        usable: &|_| true,
        rotation: 7,
        elsewhere: Elsewhere::Last,
        preference: Preference::Spread,
    });
    assert!(none.is_empty());
}

#[test]
fn locality_is_read_from_names() {
    let spec = |dc: &str, rack: &str| NodeSpec {
        dc: dc.into(),
        rack: rack.into(),
        tokens: vec![],
    };
    let specs = [spec("a", "r1"), spec("a", "r2"), spec("b", "r1")];
    let check = |dc, rack, expect: [Locality; 3]| {
        let table = NodeTable::new(&specs, dc, rack);
        let got: Vec<_> = (0..3)
            .filter_map(|n| table.locality(NodeIndex(n)))
            .collect();
        assert_eq!(got, expect);
        assert_eq!(table.locality(NodeIndex(3)), None);
    };
    use Locality::*;
    check(Some("a"), Some("r1"), [LocalRack, LocalDc, Remote]);
    check(Some("a"), None, [LocalDc, LocalDc, Remote]);
    check(None, Some("r1"), [LocalDc; 3]);
    check(Some("c"), None, [Remote; 3]);
}

/// A random table, its replicas and which nodes are down.
fn scene(rng: &mut TestRng) -> (Vec<Locality>, Vec<NodeIndex>, Vec<bool>) {
    use Locality::*;
    let count = 1 + rng.below(14);
    let localities = (0..count)
        .map(|_| [LocalRack, LocalDc, Remote][rng.below(3)])
        .collect();
    let mut replicas: Vec<NodeIndex> = Vec::new();
    for _ in 0..rng.below(10) {
        let node = NodeIndex(rng.below(count) as u16);
        if !replicas.contains(&node) {
            replicas.push(node);
        }
    }
    let up = (0..count).map(|_| rng.below(4) > 0).collect();
    (localities, replicas, up)
}

#[test]
fn random_plans_are_complete_ordered_and_even() {
    for_seeds(2000, |_, rng| {
        let (localities, replicas, up) = scene(rng);
        let table = NodeTable::from_localities(localities.iter().copied());
        let elsewhere = [Elsewhere::Never, Elsewhere::Last, Elsewhere::Owners][rng.below(3)];
        let preference = [Preference::Spread, Preference::Primary][rng.below(2)];
        let base = rng.next() >> 1;
        let at = |node: NodeIndex| localities[node.as_usize()];
        let owners_first = elsewhere == Elsewhere::Owners
            && replicas.iter().all(|node| at(*node) == Locality::Remote);
        // The group of a node; smaller comes first.
        let group = |node: NodeIndex| match (at(node), replicas.contains(&node)) {
            (Locality::LocalRack, true) => 0,
            (Locality::LocalDc, true) if preference == Preference::Primary => 0,
            (Locality::LocalDc, true) => 1,
            (Locality::LocalRack | Locality::LocalDc, false) => 2,
            (Locality::Remote, true) if owners_first => 1,
            (Locality::Remote, true) => 3,
            (Locality::Remote, false) => 4,
        };
        let allowed: Vec<NodeIndex> = (0..up.len() as u16)
            .map(NodeIndex)
            .filter(|&node| {
                up[node.as_usize()]
                    && (elsewhere != Elsewhere::Never || at(node) != Locality::Remote)
            })
            .collect();
        let first_group: Vec<NodeIndex> = {
            let best = allowed.iter().map(|&node| group(node)).min();
            allowed
                .iter()
                .copied()
                .filter(|&node| Some(group(node)) == best)
                .collect()
        };

        let rounds = 3;
        let mut first_count = vec![0; up.len()];
        for rotation in 0..(rounds * first_group.len().max(1)) as u64 {
            let planned = plan(&RouteInput {
                replicas: &replicas,
                nodes: &table,
                usable: &|node| up[node.as_usize()],
                rotation: base + rotation,
                elsewhere,
                preference,
            });
            let owners = planned.owners().to_vec();
            let order: Vec<NodeIndex> = planned.collect();
            let is_owner = |node: &&NodeIndex| group(**node) < 2;
            assert_eq!(order.iter().take_while(is_owner).count(), owners.len());
            assert_eq!(order.len(), allowed.len().min(Plan::CAPACITY));
            let mut distinct = order.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), order.len(), "planned twice: {order:?}");
            assert!(order.iter().all(|node| allowed.contains(node)));
            assert!(order.is_sorted_by_key(|&node| group(node)), "{order:?}");
            // A node left out for lack of room is not nearer than any node taken.
            if let Some(&last) = order.last() {
                let left_out = allowed.iter().filter(|node| !order.contains(node));
                assert!(left_out.map(|&node| group(node)).all(|g| g >= group(last)));
            }
            if let Some(first) = order.first() {
                first_count[first.as_usize()] += 1;
            }
        }
        let primary = preference == Preference::Primary
            && first_group.iter().any(|node| replicas.contains(node));
        if primary {
            let first = replicas.iter().find(|node| first_group.contains(node));
            let first = first.expect("a replica is in the first group");
            assert_eq!(first_count[first.as_usize()], rounds * first_group.len());
        } else {
            let counts = first_group.iter().map(|node| first_count[node.as_usize()]);
            assert!(
                counts.clone().all(|count| count == rounds),
                "{first_count:?}"
            );
        }
    });
}

#[test]
fn a_plan_of_one_node_ends_behind_it() {
    let mut plan = Plan::only(NodeIndex(7));
    assert_eq!(plan.as_slice(), [NodeIndex(7)]);
    assert_eq!(plan.next(), Some(NodeIndex(7)));
    assert_eq!((plan.next(), plan.is_empty()), (None, true));
}

#[test]
fn a_plan_behind_a_node_has_each_node_once_and_at_most_eight() {
    let all = NodeTable::from_localities([Locality::LocalDc; 10]);
    let full = plan(&RouteInput {
        replicas: &[],
        nodes: &all,
        usable: &|_| true,
        rotation: 0,
        elsewhere: Elsewhere::Never,
        preference: Preference::Spread,
    });
    let behind = |node| full.behind(NodeIndex(node)).collect::<Vec<_>>();
    assert_eq!(behind(9), nodes(&[9, 0, 1, 2, 3, 4, 5, 6]));
    assert_eq!(behind(2), nodes(&[2, 0, 1, 3, 4, 5, 6, 7]));
}

#[test]
fn another_owner_instead_of_the_one_that_was_taken() {
    let all = NodeTable::from_localities([Locality::LocalDc; 9]);
    let mut plan = plan(&RouteInput {
        replicas: &nodes(&[3, 5, 7]),
        nodes: &all,
        usable: &|_| true,
        rotation: 0,
        elsewhere: Elsewhere::Never,
        preference: Preference::Primary,
    });
    assert_eq!(plan.owners(), nodes(&[3, 5, 7]));
    assert_eq!(plan.next(), Some(NodeIndex(3)));
    assert_eq!(plan.owners(), nodes(&[5, 7]));
    plan.instead(NodeIndex(7));
    assert_eq!(plan.as_slice(), nodes(&[7, 5, 0, 1, 2, 4, 6, 3]));
    assert_eq!(plan.next(), Some(NodeIndex(7)));
    assert_eq!(plan.owners(), nodes(&[5]));
    plan.instead(NodeIndex(5));
    assert_eq!(plan.as_slice(), nodes(&[5, 0, 1, 2, 4, 6, 3, 7]));
    assert_eq!(plan.next(), Some(NodeIndex(5)));
    assert!(plan.owners().is_empty());
    // A node that is no owner, or not left, changes nothing.
    let before = plan;
    plan.instead(NodeIndex(0));
    plan.instead(NodeIndex(5));
    assert_eq!(plan, before);
}
