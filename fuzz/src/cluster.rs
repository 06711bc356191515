//! A made-up cluster, and the settings of the proxy in front of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::config::{AggregationMode, Config};
use helenus_engine::snapshot::list_columns::ListColumns;
use helenus_engine::snapshot::{KeyColumn, Node, Snapshot, SystemColumn, SystemTable};
use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::route::NodeTable;
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{Version, write};

use crate::input::Input;

/// The longest time that queries wait for others to be sent with.
pub const WINDOW: Duration = Duration::from_millis(1);

const TOKENS_PER_NODE: u64 = 4;
const INT: u16 = 0x09;
const TEXT: u16 = 0x0d;
const INET: u16 = 0x10;

const VARIANTS: [&str; 7] = ["default", "O", "ReS", "P", "ReS+P", "P+RaS", "A"];

/// Settings as two bytes say, within what [`Config::problems`] lets pass or tighter.
pub fn config(input: &mut Input<'_>) -> Config {
    let (aggregation, scheduling) = (input.byte(), input.byte());
    let mut config = Config::default();
    config.listen.proxies = vec![SocketAddr::from(([10, 9, 0, 1], 9042))];
    config.limits.request_timeout_ms = (aggregation & 1 != 0).then_some(2_000);
    let of = &mut config.aggregation;
    (of.mode, of.window_us) = match aggregation >> 1 & 3 {
        0 => (AggregationMode::Timerless, 0),
        1 => (AggregationMode::Window, 0),
        2 => (AggregationMode::Window, WINDOW.as_micros() as u64),
        _ => (AggregationMode::Adaptive, 0),
    };
    of.share_in_flight_max = usize::from(aggregation >> 3 & 1);
    if aggregation & 0x20 != 0 {
        of.lwt_wait_max_ms = 10_000;
    }
    if aggregation & 0x10 != 0 {
        let (links, limits) = (&mut config.links, &mut config.limits);
        links.in_flight_max = 8;
        links.node_in_flight_max = 16;
        links.node_bytes_max = 4 * 1024;
        limits.client_in_flight_max = 4;
        limits.request_bytes_max = 4 * 1024;
        limits.node_queue_max = 4;
        limits.memory_max = Some(64 * 1024);
        limits.client_backlog_bytes_max = 64 * 1024;
        limits.special_links_max = 1;
        limits.identities_max = 2;
    }
    let of = &mut config.scheduling;
    match VARIANTS.get(usize::from(scheduling & 7)) {
        Some(variant) => of.variant = (*variant).to_owned(),
        None => of.enabled = false,
    }
    of.parallel_rows = 8;
    of.agent_priority = scheduling & 8 != 0;
    of.scans_max = usize::from(scheduling >> 4 & 1);
    if scheduling & 0x20 != 0 {
        of.piece_kib = 1;
    }
    config
}

/// The cluster. `nodes`: all that ever were in it; `asks_who`: whether they ask for a role and its
/// password.
pub fn snapshot(epoch: u64, version: Version, nodes: &[Node], asks_who: bool) -> Snapshot {
    let spacing = u64::MAX / (nodes.len() as u64 * TOKENS_PER_NODE);
    let specs = nodes.iter().zip(0..).map(|(node, number)| NodeSpec {
        dc: node.dc.clone(),
        rack: node.rack.clone(),
        tokens: (0..TOKENS_PER_NODE)
            .filter(|_| !node.gone)
            .map(|token| (token * nodes.len() as u64 + number) * spacing)
            .map(|token| Token::Murmur3(i64::MIN.wrapping_add_unsigned(token)))
            .collect(),
    });
    let specs: Vec<NodeSpec> = specs.collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let owners = Arc::new(ring.replica_sets(&Replication::Simple { rf: 2 }));
    let key = |names: &[&str]| {
        let column = |name: &&str| KeyColumn {
            name: (*name).to_owned(),
            cql_type: "int".to_owned(),
            is_masked: false,
        };
        names.iter().map(column).collect::<Arc<[KeyColumn]>>()
    };
    let mut snapshot = Snapshot {
        epoch,
        cluster_name: "fuzz".to_owned(),
        version,
        nodes: nodes.to_vec(),
        places: NodeTable::new(&specs, Some("dc1"), None),
        local_dc: "dc1".to_owned(),
        ring: (!ring.is_empty()).then_some(ring),
        ..Snapshot::unknown()
    };
    let table = |columns: &[(&str, u16)]| SystemTable {
        columns: columns
            .iter()
            .map(|(name, column_type)| SystemColumn {
                name: (*name).to_owned(),
                type_raw: column_type.to_be_bytes().to_vec(),
            })
            .collect(),
        row: vec![None; columns.len()],
    };
    snapshot.local = table(&[("key", TEXT), ("rpc_address", INET), ("rack", TEXT)]);
    snapshot.peers = table(&[("peer", INET), ("rack", TEXT)]);
    snapshot.peers_v2 = table(&[("peer", INET), ("peer_port", INT), ("rack", TEXT)]);
    snapshot.authenticate = asks_who.then(authenticate);
    let mut lists = ListColumns::default();
    for (keyspace, table, names) in [
        ("ks", "t", &["k"][..]),
        ("twin_a4", "t4", &["p0"]),
        ("twin_b4", "t3", &["p0", "p1"]),
    ] {
        snapshot
            .keyspaces
            .insert(keyspace.to_owned(), owners.clone());
        let tables = snapshot.tables.entry(keyspace.to_owned()).or_default();
        tables.insert(table.to_owned(), key(names));
        for column in names.iter().chain(&["v"]) {
            lists.note(keyspace, table, column, "int");
        }
    }
    snapshot.lists = Arc::new(lists);
    snapshot
}

/// Body of the AUTHENTICATE of nodes that ask who a client is.
pub fn authenticate() -> Vec<u8> {
    let mut class = Vec::new();
    write::string(
        &mut class,
        "org.apache.cassandra.auth.PasswordAuthenticator",
    );
    class
}

/// A node that joins.
pub fn node(number: u8) -> Node {
    // The last of them is elsewhere.
    let dc = if number % 4 == 3 { "dc2" } else { "dc1" };
    Node {
        address: SocketAddr::from(([10, 0, 0, number], 9042)),
        host_id: [number; 16],
        dc: dc.to_owned(),
        rack: "r1".to_owned(),
        release_version: "5.0.6".to_owned(),
        processors: Some(8),
        timeouts: None,
        batches: None,
        pages: None,
        hints: None,
        gone: false,
    }
}
