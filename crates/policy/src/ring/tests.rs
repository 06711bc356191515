use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::test_rng::{TestRng, for_seeds};

fn node(dc: &str, rack: &str, tokens: &[i64]) -> NodeSpec {
    NodeSpec {
        dc: dc.into(),
        rack: rack.into(),
        tokens: tokens.iter().copied().map(Token::Murmur3).collect(),
    }
}

fn dcs(wanted: &[(&str, usize)]) -> BTreeMap<String, usize> {
    wanted.iter().map(|&(dc, rf)| (dc.to_owned(), rf)).collect()
}

fn indexes(nodes: &[NodeIndex]) -> Vec<u16> {
    nodes.iter().map(|node| node.0).collect()
}

#[test]
fn a_slot_ends_with_its_token() {
    let nodes = [node("a", "r", &[10, -5]), node("a", "r", &[0])];
    let ring = Ring::new(Partitioner::Murmur3, &nodes);
    let check = |token, slot, owner| {
        assert_eq!(ring.slot(&Token::Murmur3(token)), slot);
        assert_eq!(ring.owner(slot), Some(NodeIndex(owner)));
    };
    check(i64::MIN, 0, 0);
    check(-5, 0, 0);
    check(-4, 1, 1);
    check(0, 1, 1);
    check(1, 2, 0);
    check(10, 2, 0);
    check(11, 0, 0);
    check(i64::MAX, 0, 0);
    assert_eq!(ring.start_token(0), Some(Token::Murmur3(10)));
    assert_eq!(ring.start_token(2), Some(Token::Murmur3(0)));
    assert_eq!(ring.end_token(2), Some(Token::Murmur3(10)));
    assert_eq!(ring.end_token(3), None);
    assert_eq!(ring.owner(3), None);
}

#[test]
fn byte_ordered_keys_are_their_own_place() {
    let tokens = |keys: &[&[u8]]| keys.iter().map(|&key| Token::Bytes(key.into())).collect();
    let spec = |keys| NodeSpec {
        dc: "a".into(),
        rack: "r".into(),
        tokens: tokens(keys),
    };
    let ring = Ring::new(
        Partitioner::ByteOrdered,
        &[spec(&[b"m"]), spec(&[b"g", &[0xff]])],
    );
    let check = |key: &[u8], slot| {
        assert_eq!(ring.slot_of_key(key), Some(slot), "{key:?}");
        assert_eq!(
            ring.slot(&Token::of_key(Partitioner::ByteOrdered, key)),
            slot
        );
    };
    check(b"", 0);
    check(b"g", 0);
    check(b"g\0", 1);
    check(b"m", 1);
    check(b"z", 2);
    check(&[0xff, 0], 0);
    assert_eq!(ring.owner(1), Some(NodeIndex(0)));
}

#[test]
fn an_empty_ring_has_no_slots() {
    let ring = Ring::new(Partitioner::Murmur3, &[node("a", "r", &[])]);
    assert!(ring.is_empty());
    assert_eq!((ring.len(), ring.node_count()), (0, 1));
    assert_eq!(ring.slot_of_key(b"key"), None);
    assert_eq!((ring.owner(0), ring.start_token(0)), (None, None));
    let replications = [
        Replication::Simple { rf: 3 },
        Replication::NetworkTopology(dcs(&[("a", 3)])),
        Replication::Everywhere,
    ];
    for replication in replications {
        assert!(ring.replica_sets(&replication).of_slot(0).is_empty());
    }
}

#[test]
fn a_token_claimed_twice_stays_with_the_first() {
    let nodes = [node("a", "r", &[5]), node("a", "r", &[9, 5])];
    let ring = Ring::new(Partitioner::Murmur3, &nodes);
    assert_eq!(ring.len(), 2);
    assert_eq!(ring.owner(0), Some(NodeIndex(0)));
}

#[test]
fn racks_are_repeated_only_when_there_are_too_few() {
    let nodes = [
        node("a", "r1", &[0]),
        node("a", "r1", &[10]),
        node("b", "r1", &[20]),
        node("a", "r2", &[30]),
        node("a", "r2", &[40]),
    ];
    let ring = Ring::new(Partitioner::Murmur3, &nodes);
    let check = |wanted: &[(&str, usize)], expect: &[u16]| {
        let sets = ring.replica_sets(&Replication::NetworkTopology(dcs(wanted)));
        assert_eq!(indexes(sets.of_slot(0)), expect, "{wanted:?}");
    };
    check(&[("a", 1)], &[0]);
    check(&[("a", 2)], &[0, 3]);
    check(&[("a", 3)], &[0, 1, 3]);
    check(&[("a", 4)], &[0, 1, 3, 4]);
    check(&[("a", 9)], &[0, 1, 3, 4]);
    check(&[("a", 2), ("b", 1)], &[0, 2, 3]);
    check(&[("b", 3), ("c", 2)], &[2]);
    check(&[], &[]);
}

#[test]
fn strategies_without_an_order_have_one_set() {
    let nodes = [
        node("a", "r", &[5]),
        node("a", "r", &[]),
        node("b", "r", &[9]),
    ];
    let ring = Ring::new(Partitioner::Murmur3, &nodes);
    let check = |replication: Replication, expect: &[u16]| {
        let sets = ring.replica_sets(&replication);
        assert_eq!(indexes(sets.of_slot(1)), expect);
    };
    check(Replication::Everywhere, &[0, 2]);
    check(Replication::Local, &[]);
    check(Replication::Unknown, &[]);
    check(Replication::Simple { rf: 0 }, &[]);
    let simple = ring.replica_sets(&Replication::Simple { rf: 1 });
    assert_eq!(indexes(simple.of_slot(1)), [2]);
    assert_eq!(indexes(simple.of_slot(2)), [0; 0]);
}

#[test]
fn equal_replications_share_their_sets() {
    let ring = Ring::new(Partitioner::Murmur3, &[node("a", "r", &[5])]);
    let mut catalog = ReplicaCatalog::new(Arc::new(ring));
    let from =
        |options: &[(&str, &'static str)]| Replication::from_options(options.iter().copied());
    let one = catalog.get(&from(&[
        ("class", "NetworkTopologyStrategy"),
        ("a", "1"),
        ("b", "0"),
    ]));
    let same = catalog.get(&from(&[("class", "NetworkTopologyStrategy"), ("a", "1")]));
    let other = catalog.get(&from(&[("class", "NetworkTopologyStrategy"), ("a", "2")]));
    assert!(one.is_shared_with(&same));
    assert!(!one.is_shared_with(&other));
}

#[test]
fn replication_is_read_from_the_schema() {
    let check = |options: &[(&str, &str)], expect: Replication| {
        let got = Replication::from_options(options.iter().copied());
        assert_eq!(got, expect, "{options:?}");
    };
    let simple = "org.apache.cassandra.locator.SimpleStrategy";
    let topology = "org.apache.cassandra.locator.NetworkTopologyStrategy";
    check(
        &[("class", simple), ("replication_factor", "3")],
        Replication::Simple { rf: 3 },
    );
    check(
        &[("replication_factor", "3/1"), ("class", "SimpleStrategy")],
        Replication::Simple { rf: 3 },
    );
    check(
        &[
            ("class", topology),
            ("dc1", "3/1"),
            ("dc2", "2"),
            ("dc3", "0"),
        ],
        Replication::NetworkTopology(dcs(&[("dc1", 3), ("dc2", 2)])),
    );
    check(
        &[("class", "org.apache.cassandra.locator.LocalStrategy")],
        Replication::Local,
    );
    check(&[("class", "EverywhereStrategy")], Replication::Everywhere);
    for options in [
        &[][..],
        &[("class", simple)],
        &[("class", simple), ("replication_factor", "many")],
        &[("class", simple), ("replication_factor", "3/3")],
        &[("class", simple), ("replication_factor", "3/1/1")],
        &[("class", simple), ("replication_factor", "-1")],
        &[("class", topology), ("dc1", "")],
        &[("class", topology), ("Replication_Factor", "3")],
        &[
            ("class", "com.example.SimpleStrategy"),
            ("replication_factor", "3"),
        ],
    ] {
        check(options, Replication::Unknown);
    }
}

/// Clusters, strategies and the replicas that Cassandra itself printed.
const VECTORS: &str = include_str!("../../testdata/replicas.txt");

#[test]
fn replicas_agree_with_cassandra() {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    let mut current: Option<(Ring, ReplicaSets)> = None;
    let mut checked = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |text: &str| text.parse::<i64>().expect("a number");
        let replication = match what {
            "cluster" => {
                nodes.clear();
                continue;
            }
            "node" => {
                let tokens: Vec<i64> = words[2..].iter().map(|text| number(text)).collect();
                nodes.push(node(words[0], words[1], &tokens));
                continue;
            }
            "replicas" => {
                let (ring, sets) = current.as_ref().expect("a strategy before");
                let slot = ring.slot(&Token::Murmur3(number(words[0])));
                let got: Vec<i64> = sets.of_slot(slot).iter().map(|n| n.0.into()).collect();
                let expect: Vec<i64> = words[1..].iter().map(|text| number(text)).collect();
                assert_eq!(got, expect, "{line}\n{nodes:#?}");
                checked += 1;
                continue;
            }
            "simple" => Replication::from_options([
                ("class", "SimpleStrategy"),
                ("replication_factor", words[0]),
            ]),
            "topology" => Replication::from_options(
                words
                    .iter()
                    .map(|word| word.split_once('=').expect("dc=rf"))
                    .chain([("class", "NetworkTopologyStrategy")]),
            ),
            _ => panic!("unknown line {line}"),
        };
        let ring = Ring::new(Partitioner::Murmur3, &nodes);
        let sets = ring.replica_sets(&replication);
        current = Some((ring, sets));
    }
    assert_eq!(checked, 1464);
}

/// A literal, naive NetworkTopologyStrategy with lists and sets.
fn naive_topology(nodes: &[NodeSpec], wanted: &BTreeMap<String, usize>, key: i64) -> Vec<u16> {
    let walk = naive_walk(nodes, key);
    let members: BTreeSet<u16> = walk.iter().copied().collect();
    let mut left: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for (dc, &rf) in wanted {
        let in_dc = || {
            members
                .iter()
                .map(|&n| &nodes[usize::from(n)])
                .filter(|n| n.dc == *dc)
        };
        let racks: BTreeSet<&str> = in_dc().map(|node| node.rack.as_str()).collect();
        left.insert(
            dc,
            (rf.min(in_dc().count()), rf as i64 - racks.len() as i64),
        );
    }
    let mut racks_met = BTreeSet::new();
    let mut chosen: Vec<u16> = Vec::new();
    for index in walk {
        let NodeSpec { dc, rack, .. } = &nodes[usize::from(index)];
        let Some((copies, repeats)) = left.get_mut(dc.as_str()) else {
            continue;
        };
        if *copies == 0 || chosen.contains(&index) {
            continue;
        }
        if !racks_met.insert((dc, rack)) {
            if *repeats <= 0 {
                continue;
            }
            *repeats -= 1;
        }
        *copies -= 1;
        chosen.push(index);
    }
    chosen
}

fn naive_simple(nodes: &[NodeSpec], rf: usize, key: i64) -> Vec<u16> {
    let mut chosen = Vec::new();
    for index in naive_walk(nodes, key) {
        if chosen.len() < rf && !chosen.contains(&index) {
            chosen.push(index);
        }
    }
    chosen
}

/// The owners of all tokens, clockwise from `key`.
fn naive_walk(nodes: &[NodeSpec], key: i64) -> Vec<u16> {
    let mut ring: BTreeMap<Token, u16> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for token in &node.tokens {
            ring.entry(token.clone()).or_insert(index as u16);
        }
    }
    let key = Token::Murmur3(key);
    let from_key = ring.range::<Token, _>(&key..).map(|(_, &owner)| owner);
    from_key
        .chain(ring.range::<Token, _>(..&key).map(|(_, &owner)| owner))
        .collect()
}

/// Nodes with few tokens from a small range, so that tokens and keys collide often.
fn random_nodes(rng: &mut TestRng) -> Vec<NodeSpec> {
    let (dc_count, rack_count) = (1 + rng.below(3), 1 + rng.below(5));
    let tokens_max = 1 + rng.below(6);
    (0..1 + rng.below(14))
        .map(|_| {
            let dc = format!("dc{}", rng.below(dc_count));
            let rack = format!("r{}", rng.below(rack_count));
            let count = rng.below(tokens_max + 1);
            let tokens: Vec<i64> = (0..count).map(|_| rng.below(200) as i64 - 100).collect();
            node(&dc, &rack, &tokens)
        })
        .collect()
}

#[test]
fn random_rings_agree_with_the_naive_model() {
    for_seeds(250, |_, rng| {
        let nodes = random_nodes(rng);
        let ring = Ring::new(Partitioner::Murmur3, &nodes);
        let rf = rng.below(7);
        let mut wanted = BTreeMap::new();
        for dc in 0..4 {
            if rng.below(4) > 0 {
                wanted.insert(format!("dc{dc}"), rng.below(6));
            }
        }
        let simple = ring.replica_sets(&Replication::Simple { rf });
        let topology = ring.replica_sets(&Replication::NetworkTopology(wanted.clone()));
        for key in -102..102 {
            let slot = ring.slot(&Token::Murmur3(key));
            let walk = naive_walk(&nodes, key);
            assert_eq!(ring.owner(slot).map(|n| n.0), walk.first().copied());
            assert_eq!(indexes(simple.of_slot(slot)), naive_simple(&nodes, rf, key));
            let expect = naive_topology(&nodes, &wanted, key);
            assert_eq!(
                indexes(topology.of_slot(slot)),
                expect,
                "{nodes:#?} {wanted:?}"
            );
        }
    });
}

#[test]
fn random_keys_fall_into_the_range_of_their_slot() {
    for_seeds(50, |_, rng| {
        let nodes: Vec<NodeSpec> = (0..1 + rng.below(5))
            .map(|_| node("a", "r", &[rng.next() as i64, rng.next() as i64]))
            .collect();
        let ring = Ring::new(Partitioner::Murmur3, &nodes);
        for _ in 0..100 {
            let len = rng.below(40);
            let key = rng.bytes(len);
            let token = Token::of_key(Partitioner::Murmur3, &key);
            let slot = ring.slot_of_key(&key).expect("the ring has tokens");
            assert_eq!(slot, ring.slot(&token));
            let (start, end) = (ring.start_token(slot), ring.end_token(slot));
            let (start, end) = (start.expect("a slot"), end.expect("a slot"));
            let inside = if start < end {
                start < token && token <= end
            } else {
                start < token || token <= end
            };
            assert!(inside, "{token:?} is not in ({start:?}, {end:?}]");
        }
    });
}
