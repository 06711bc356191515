use std::sync::Arc;

use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::route::{Locality, NodeTable};
use helenus_policy::token::{Partitioner, Token};

use super::*;
use crate::client::credentials::Credentials;
use crate::config::Config;
use crate::engine::Engine;
use crate::layouts::Layouts;
use crate::shared::{Common, Shared};
use crate::snapshot::Snapshot;
use crate::testing::bench::orders;
use crate::testing::{dial_all, node, open_links};

/// A node in the local data center and two in others, of which the first holds a copy.
fn snapshot(layouts: Layouts) -> Snapshot {
    let spec = |at: u8| NodeSpec {
        dc: format!("dc{at}"),
        rack: String::new(),
        tokens: vec![Token::Murmur3(i64::from(at))],
    };
    let specs: Vec<NodeSpec> = (0..3).map(spec).collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let one = [("dc1".to_owned(), 1)].into_iter().collect();
    let owners = ring.replica_sets(&Replication::NetworkTopology(one));
    let places = [Locality::LocalDc, Locality::Remote, Locality::Remote];
    Snapshot {
        epoch: 1,
        nodes: (0..3).map(node).collect(),
        places: NodeTable::from_localities(places),
        keyspaces: [("app__1".to_owned(), Arc::new(owners))]
            .into_iter()
            .collect(),
        ring: Some(ring),
        layouts: Arc::new(layouts),
        ..Snapshot::unknown()
    }
}

fn engine(layouts: Layouts) -> (Engine, Arc<Common>, Instant) {
    let mut config = Config::default();
    config.links.per_node = 1;
    let now = crate::testing::begin();
    let common = Arc::new(Common::new(config, 1 << 30, now));
    common.store(snapshot(layouts));
    let shared = Arc::new(Shared::new(common.clone()));
    let engine = Engine::new(shared, 0, 1, 1, now, Duration::ZERO);
    (engine, common, now)
}

fn with_a_copy() -> Layouts {
    let mut table = orders(true);
    table.copies[0].keyspace = "app__1".to_owned();
    let mut layouts = Layouts::default();
    layouts.add_replaced(Arc::new(table));
    layouts
}

#[test]
fn nodes_that_hold_copies_are_connected_to_wherever_they_are() {
    for (layouts, expected) in [(Layouts::default(), &[0][..]), (with_a_copy(), &[0, 1])] {
        let (mut engine, _, now) = engine(layouts);
        let opened = open_links(&mut engine, now, helenus_wire::Version::V4);
        let mut nodes: Vec<u16> = opened.iter().map(|(node, _)| node.0).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, expected);
    }
}

#[test]
fn a_connection_is_closed_when_its_node_holds_copies_no_longer() {
    let (mut engine, common, now) = engine(with_a_copy());
    let opened = open_links(&mut engine, now, helenus_wire::Version::V4);
    let remote = opened.iter().find(|(node, _)| node.0 == 1);
    let (_, remote) = remote.expect("it holds a copy");
    common.store(Snapshot {
        epoch: 2,
        ..snapshot(Layouts::default())
    });
    engine.adopt_snapshot();
    assert!(!engine.is_link_open(*remote));
    assert_eq!(dial_all(&mut engine, now), []);
}

#[test]
fn a_role_that_a_node_could_not_judge_does_not_reach_it_and_the_node_is_there() {
    let (mut engine, _, now) = engine(with_a_copy());
    let node = NodeIndex(1);
    let (pool, _) = engine.links.pools.iter().next().expect("a role");
    let reaches = |engine: &Engine| engine.links.may_reach(&engine.cx, pool, node);
    let opened = open_links(&mut engine, now, helenus_wire::Version::V4);
    let (_, link) = opened.iter().find(|(of, _)| *of == node).expect("a link");
    assert!(reaches(&engine));
    engine.on_link_closed(now, *link, "the connection is reset", None);
    assert!(reaches(&engine), "it may be connected to");
    let pause = crate::node::pool::Pause {
        failures: 1,
        tried: now,
        until: now + Duration::from_secs(5),
    };
    let of_role = &mut engine.links.pools[pool];
    of_role.unjudged.insert(node, pause);
    of_role.nodes[1].fill(crate::node::slot::Slot::Empty);
    assert!(!reaches(&engine) && engine.links.obstacle(node) == Obstacle::Role);
    engine.links.back_off(&mut engine.cx, node, "refused");
    assert!(!reaches(&engine) && engine.links.obstacle(node) == Obstacle::Node);
}

#[test]
fn a_role_without_clients_is_kept_as_long_as_it_has_writes() {
    let (mut engine, common, _) = engine(Layouts::default());
    common.store(Snapshot {
        epoch: 2,
        authenticate: Some(Vec::new()),
        ..snapshot(Layouts::default())
    });
    engine.adopt_snapshot();
    let Engine { links, cx, .. } = &mut engine;
    let credentials = Credentials::of_password(b"\0app\0pw");
    let every = Duration::from_secs(600);
    let member = cx.shared.identities.admit(credentials, cx.now, every, 9);
    let pool = links.pool_of(cx, member.expect("room").identity());
    for _ in 0..3 {
        cx.now += Duration::from_secs(40);
        assert!(links.keep_for_write(cx, pool));
        assert!(!links.pools[pool].is_unused(cx.now));
    }
    let now = cx.now + Duration::from_secs(61);
    assert!(links.pools[pool].is_unused(now), "the last has ended");
    links.identity_of(pool).expect("its role").end();
    assert!(!links.keep_for_write(cx, pool), "nothing is sent by it");
}
