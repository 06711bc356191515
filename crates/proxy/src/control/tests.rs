use std::net::{IpAddr, SocketAddr};

use helenus_policy::ring::NodeSpec;
use helenus_policy::route::NodeTable;

use super::in_order;
use super::members::pinned;
use super::schema::compares_reversed_types;
use crate::config::Config;
use helenus_engine::snapshot::{Node, Snapshot};

/// Nodes 1 and 3 are local, 2 and 4 remote.
fn snapshot() -> Snapshot {
    let dcs = ["near", "far", "near", "far"];
    let nodes: Vec<Node> = (1..)
        .zip(dcs)
        .map(|(number, dc)| Node {
            address: address(number),
            host_id: [number; 16],
            dc: dc.to_owned(),
            rack: "rack1".to_owned(),
            release_version: String::new(),
            processors: None,
            timeouts: None,
            batches: None,
            pages: None,
            hints: None,
            gone: false,
        })
        .collect();
    let specs: Vec<NodeSpec> = nodes
        .iter()
        .map(|node| NodeSpec {
            dc: node.dc.clone(),
            rack: node.rack.clone(),
            tokens: Vec::new(),
        })
        .collect();
    Snapshot {
        places: NodeTable::new(&specs, Some("near"), None),
        nodes,
        ..Snapshot::unknown()
    }
}

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 9042))
}

#[test]
fn the_control_connection_moves_to_near_nodes_and_to_far_ones_only_if_they_may_serve() {
    let mut snapshot = snapshot();
    let mut config = Config::default();
    let order = |snapshot: &Snapshot, config: &Config, lost: u8| {
        let found = in_order(snapshot, config, address(lost));
        found
            .into_iter()
            .map(|address| match address.ip() {
                IpAddr::V4(ip) => ip.octets()[3],
                IpAddr::V6(_) => 0,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(order(&snapshot, &config, 1), [3, 1]);
    assert_eq!(order(&snapshot, &config, 4), [1, 3]);
    config.cluster.allow_remote_dc = true;
    assert_eq!(order(&snapshot, &config, 2), [1, 3, 4, 2]);
    snapshot.nodes[0].gone = true;
    assert_eq!(order(&snapshot, &config, 3), [3, 2, 4]);
}

#[test]
fn node_local_tables_come_from_a_near_node_wherever_the_control_connection_is() {
    let mut snapshot = snapshot();
    let mut pinned_to = |gone: &[usize], control: u8| {
        for (index, node) in snapshot.nodes.iter_mut().enumerate() {
            node.gone = gone.contains(&index);
        }
        pinned(&snapshot.nodes, &snapshot.places, address(control)).0
    };
    assert_eq!(pinned_to(&[], 3), 2);
    assert_eq!(pinned_to(&[], 4), 0);
    assert_eq!(pinned_to(&[0], 4), 2);
    assert_eq!(pinned_to(&[0, 2], 4), 3);
    assert_eq!(pinned_to(&[], 9), 0);
}

#[test]
fn versions_whose_min_and_max_go_by_the_reversed_type() {
    for version in ["5.0.0", "5.0.3", "5.0.3-SNAPSHOT", "5.0-rc1", "5.0"] {
        assert!(compares_reversed_types(version), "{version}");
    }
    for version in [
        "5.0.4",
        "5.0.10",
        "5.0.6-SNAPSHOT",
        "4.1.10",
        "5.1.0",
        "5.01",
        "",
        "?",
    ] {
        assert!(!compares_reversed_types(version), "{version}");
    }
}

#[test]
fn schema_changes_are_told_in_words() {
    let said = |parts: &[&str]| {
        let mut body = Vec::new();
        for part in parts {
            helenus_wire::write::string(&mut body, part);
        }
        let change = super::SchemaChange::parse(&mut helenus_wire::Reader::new(&body));
        change.ok().map(|change| change.told())
    };
    let table = said(&["CREATED", "TABLE", "shop", "orders"]);
    assert_eq!(table.as_deref(), Some("schema: table shop.orders created"));
    let keyspace = said(&["DROPPED", "KEYSPACE", "shop"]);
    assert_eq!(keyspace.as_deref(), Some("schema: keyspace shop dropped"));
    assert_eq!(said(&["DROPPED", "KEYSPACE"]), None);
}

#[test]
fn no_node_is_asked_again_for_its_facts_but_the_one_that_is_back() {
    let shared = crate::testing::process(Config::default());
    let doubted = |kind: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let mut body = Vec::new();
        helenus_wire::write::string(&mut body, kind);
        write(&mut body);
        super::on_event(&shared, &body)
    };
    let schema = |body: &mut Vec<u8>| {
        for part in ["UPDATED", "TABLE", "shop", "orders"] {
            helenus_wire::write::string(body, part);
        }
    };
    assert_eq!(doubted("SCHEMA_CHANGE", &schema), None);
    let status = |change: &'static str| {
        move |body: &mut Vec<u8>| {
            helenus_wire::write::string(body, change);
            helenus_wire::write::inet(body, address(3));
        }
    };
    assert_eq!(doubted("STATUS_CHANGE", &status("DOWN")), None);
    assert_eq!(doubted("STATUS_CHANGE", &status("UP")), Some(address(3)));
}
