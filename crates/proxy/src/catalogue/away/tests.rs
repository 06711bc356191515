use std::net::SocketAddr;
use std::sync::Arc;

use helenus_engine::snapshot::hint_window::HintWindow;
use helenus_engine::snapshot::{Node, NodeFacts};
use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::token::{Partitioner, Token};

use super::*;
use crate::catalogue::testing::derived;

use NodeState::{Down, Gone, Unused, Up};

const WINDOW_S: u64 = 1_000;
/// Long after layouts were made.
const NOW_MS: i64 = 1_000_000_000_000;
const NONE: [&str; 0] = [];

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 9042))
}

/// Three nodes, each with one range; layouts have so many replicas.
fn snapshot(rf: usize) -> Snapshot {
    let node = |number: u8| {
        Node::new(address(number), [number; 16], "near", "rack1").with_facts(NodeFacts {
            hints: Some(HintWindow(Duration::from_secs(WINDOW_S))),
            ..NodeFacts::default()
        })
    };
    let spec = |number: i64| NodeSpec {
        dc: "near".to_owned(),
        rack: "rack1".to_owned(),
        tokens: vec![Token::Murmur3(number)],
    };
    let ring = Ring::new(Partitioner::Murmur3, &[1, 2, 3].map(spec));
    let replicas = Arc::new(ring.replica_sets(&Replication::Simple { rf }));
    Snapshot::builder()
        .nodes([1, 2, 3].map(node))
        .ring(Some(ring))
        .keyspace("shop__layouts", replicas)
        .build()
}

/// Looks at nodes as they are, one after the other, and says which layouts miss writes.
struct Watched {
    away: Away,
    snapshot: Snapshot,
    begin: Instant,
}

impl Watched {
    fn new(rf: usize) -> Watched {
        Watched {
            away: Away::default(),
            snapshot: snapshot(rf),
            begin: Instant::now(),
        }
    }

    /// Nodes are so at this second.
    fn look(&mut self, second: u64, states: [NodeState; 3]) -> Vec<String> {
        self.look_reported(second, states, &[])
    }

    /// So, and these are reported as down.
    fn look_reported(
        &mut self,
        second: u64,
        states: [NodeState; 3],
        reported: &[usize],
    ) -> Vec<String> {
        let reported = reported.iter().copied().collect();
        let now = self.begin + Duration::from_secs(second);
        let catalogue = Catalogue {
            version: 1,
            tables: [derived("orders")].into(),
        };
        self.away
            .look(&states, &reported, self.snapshot.nodes().hint_window(), now);
        let missed = self.away.missing(&catalogue, &self.snapshot, now, NOW_MS);
        missed.into_iter().map(|of| of.why).collect()
    }

    /// They are so, at looks that are ten seconds apart. The second at which a layout first misses writes.
    fn look_on(&mut self, from: u64, to: u64, states: [NodeState; 3]) -> Option<u64> {
        let mut seconds = (from..=to).step_by(10);
        seconds.find(|second| !self.look(*second, states).is_empty())
    }
}

#[test]
fn a_layout_misses_writes_before_no_hints_are_kept_for_the_last_replica_of_a_range() {
    let mut one = Watched::new(1);
    assert_eq!(one.look_on(0, 100, [Up, Up, Up]), None);
    let most = 110 + WINDOW_S * 9 / 10;
    assert_eq!(one.look_on(110, 2_000, [Up, Down, Up]), Some(most));
    let told = one.look(most, [Up, Down, Up]);
    assert!(told[0].contains("10.0.0.2"), "{told:?}");
    assert!(!told[0].contains("10.0.0.1"), "{told:?}");
    assert_eq!(one.look(most, [Up, Up, Up]), NONE, "it is back");
    // Of two replicas one gets what is written, or a hint.
    let mut two = Watched::new(2);
    assert_eq!(two.look_on(0, 2_000, [Up, Down, Up]), None);
    assert_eq!(two.look_on(2_010, 2_800, [Down, Down, Up]), None);
    assert_eq!(two.look(2_910, [Down, Down, Up]).len(), 1);
    assert_eq!(two.look(2_920, [Down, Gone, Up]), NONE);
}

#[test]
fn a_node_counts_anew_once_it_was_back_for_long_enough() {
    let mut watched = Watched::new(1);
    assert_eq!(watched.look_on(0, 800, [Up, Down, Up]), None);
    // Hints of before may not have been delivered, and be too old for more.
    assert_eq!(watched.look_on(810, 890, [Up, Up, Up]), None);
    assert_eq!(watched.look(900, [Up, Down, Up]).len(), 1);
    assert_eq!(watched.look_on(910, 1_010, [Up, Up, Up]), None);
    assert_eq!(watched.look_on(1_020, 5_000, [Up, Down, Up]), Some(1_920));
    // A connection that breaks now and then.
    let mut watched = Watched::new(1);
    for second in (0..5_000).step_by(20) {
        assert_eq!(watched.look(second, [Up, Down, Up]), NONE);
        assert_eq!(watched.look_on(second + 3, second + 19, [Up, Up, Up]), None);
    }
}

#[test]
fn a_proxy_that_was_cut_off_takes_nodes_that_stay_away_for_away_all_the_time() {
    let mut watched = Watched::new(1);
    assert_eq!(watched.look_on(0, 500, [Up, Down, Up]), None);
    assert_eq!(watched.look(510, [Down, Down, Up]), NONE);
    assert_eq!(watched.look_on(520, 9_510, [Down, Down, Down]), None);
    // The first node comes back later than the third.
    assert_eq!(watched.look(9_520, [Down, Down, Up]), NONE);
    assert_eq!(watched.look_on(9_530, 20_000, [Up, Down, Up]), Some(9_570));
}

#[test]
fn a_layout_that_was_begun_anew_misses_nothing_of_before() {
    let mut watched = Watched::new(1);
    assert_eq!(watched.look_on(0, 800, [Up, Down, Up]), None);
    let (table, mut of) = derived("orders");
    let layouts = of.layouts.as_mut().expect("it has layouts");
    layouts.layouts[0].created = NOW_MS - 899_000;
    let catalogue = Catalogue {
        version: 1,
        tables: [(table, of)].into(),
    };
    let now = watched.begin + Duration::from_secs(5_000);
    let missing = |now_ms| {
        watched
            .away
            .missing(&catalogue, &watched.snapshot, now, now_ms)
    };
    assert_eq!(missing(NOW_MS), []);
    assert_eq!(missing(NOW_MS + 1_000).len(), 1);
}

#[test]
fn a_replica_without_a_link_is_away_while_it_was_last_reported_as_down() {
    let mut watched = Watched::new(1);
    let states = [Up, Unused, Up];
    assert_eq!(watched.look_reported(0, states, &[]), NONE);
    assert_eq!(watched.look_reported(100, states, &[1]), NONE);
    assert_eq!(watched.look_reported(990, states, &[1]), NONE);
    let told = watched.look_reported(1_000, states, &[1]);
    assert!(told.concat().contains("10.0.0.2"), "{told:?}");
    assert_eq!(watched.look_reported(1_010, states, &[]), NONE);
    // It counts anew once hints have come.
    assert_eq!(watched.look_reported(1_020, states, &[1]).len(), 1);
    assert_eq!(watched.look_reported(1_030, states, &[]), NONE);
    assert_eq!(watched.look_reported(1_140, states, &[]), NONE);
    assert_eq!(watched.look_reported(1_150, states, &[1]), NONE);
    // Of one that had a link it is not known what it is now.
    let mut watched = Watched::new(1);
    assert_eq!(watched.look_reported(0, [Up, Down, Up], &[1]), NONE);
    assert_eq!(watched.look_reported(500, states, &[]), NONE);
    assert_eq!(watched.look_reported(900, states, &[]).len(), 1);
}

#[test]
fn nodes_that_need_no_link_and_layouts_that_are_behind_are_left_alone() {
    let mut watched = Watched::new(1);
    assert_eq!(watched.look_on(0, 5_000, [Up, Unused, Up]), None);
    // Without hints a node that is down at two looks is too much.
    let told = NodeFacts {
        hints: Some(HintWindow(Duration::ZERO)),
        ..NodeFacts::default()
    };
    let successor = watched.snapshot.successor();
    let successor = successor.node(NodeIndex(0), |node| node.learn(told));
    watched.snapshot = successor.build();
    assert_eq!(watched.look(5_010, [Up, Up, Down]), NONE);
    assert_eq!(watched.look(5_020, [Up, Up, Down]).len(), 1);
    let (table, mut of) = derived("orders");
    let layouts = of.layouts.as_mut().expect("it has layouts");
    layouts.layouts[0] = layouts.layouts[0].behind(1);
    let catalogue = Catalogue {
        version: 1,
        tables: [(table, of)].into(),
    };
    let now = watched.begin + Duration::from_secs(6_000);
    let missed = watched
        .away
        .missing(&catalogue, &watched.snapshot, now, NOW_MS);
    assert_eq!(missed, []);
}
