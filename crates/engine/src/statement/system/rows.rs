//! Rows as which the proxies are shown.

use std::net::{IpAddr, SocketAddr};

use helenus_wire::write;

use super::query::Table;
use crate::config::Config;
use crate::snapshot::{Snapshot, SystemTable};

/// Tokens that one proxy shows at most; drivers only need the ring to be covered.
const TOKENS_MAX: usize = 256;

type Cells = Vec<Option<Vec<u8>>>;

/// One proxy's row.
pub(super) struct Row {
    pub address: SocketAddr,
    /// In the order of the table's columns.
    pub cells: Cells,
}

/// The proxies of this cluster, own address first.
#[derive(Clone, Debug)]
pub(crate) struct Proxies {
    pub own: SocketAddr,
    pub others: Vec<SocketAddr>,
}

impl Proxies {
    pub(crate) fn of(config: &Config) -> Proxies {
        Proxies {
            own: config.advertised(),
            others: config.other_proxies().to_vec(),
        }
    }
}

/// The rows of a table, in the order of their addresses.
pub(super) fn rows(
    kind: Table,
    table: &SystemTable,
    snapshot: &Snapshot,
    proxies: &Proxies,
) -> Vec<Row> {
    let mut addresses = match kind {
        Table::Local => vec![proxies.own],
        Table::Peers => distinct_ips(proxies),
        Table::PeersV2 => proxies.others.clone(),
    };
    addresses.sort();
    let row = |address| Row {
        address,
        cells: cells(table, kind, snapshot, proxies, address),
    };
    addresses.into_iter().map(row).collect()
}

/// `system.peers` has one row an address, so of several proxies on one host it can show only one.
fn distinct_ips(proxies: &Proxies) -> Vec<SocketAddr> {
    let mut seen = vec![proxies.own.ip()];
    let mut addresses = Vec::new();
    for other in &proxies.others {
        if !seen.contains(&other.ip()) {
            seen.push(other.ip());
            addresses.push(*other);
        }
    }
    addresses
}

fn cells(
    table: &SystemTable,
    kind: Table,
    snapshot: &Snapshot,
    proxies: &Proxies,
    address: SocketAddr,
) -> Cells {
    let of_node = snapshot.system_tables().local();
    let local = |name: &str| of_node.value(name).map(<[u8]>::to_vec);
    let ip = Some(ip_bytes(address.ip()));
    let port = Some(i32::from(address.port()).to_be_bytes().to_vec());
    table
        .columns
        .iter()
        .map(|column| match column.name.as_str() {
            "peer" | "broadcast_address" | "listen_address" | "rpc_address" | "native_address" => {
                ip.clone()
            }
            "rpc_port" | "native_port" => port.clone(),
            // The port between nodes: proxies have none, drivers only use it as part of the key.
            "peer_port" => {
                Some(local("broadcast_port").unwrap_or_else(|| 7000_i32.to_be_bytes().to_vec()))
            }
            "host_id" => Some(host_id(snapshot.cluster_name(), address).to_vec()),
            "data_center" => Some(snapshot.nodes().local_dc().into()),
            // Drivers wait after a schema change until all nodes that they know have the same.
            "schema_version" => {
                let schema = snapshot.schema();
                let others = schema.other_version().filter(|_| kind != Table::Local);
                Some(others.unwrap_or(schema.version()).to_vec())
            }
            "tokens" => Some(tokens(snapshot, proxies, address)),
            "preferred_ip" | "preferred_port" | "truncated_at" => None,
            name if kind == Table::Local => local(name),
            name @ ("rack" | "release_version") => local(name),
            _ => None,
        })
        .collect()
}

/// A stable id from cluster name and address, so that every proxy tells the same of each.
fn host_id(cluster_name: &str, address: SocketAddr) -> [u8; 16] {
    let hash = |seed: u64| {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        for byte in cluster_name.bytes().chain(address.to_string().bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&hash(0).to_be_bytes());
    id[8..].copy_from_slice(&hash(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    // Version 8 (free form), variant 1.
    id[6] = id[6] & 0x0F | 0x80;
    id[8] = id[8] & 0x3F | 0x80;
    id
}

/// The proxy's share of the ring as `set<varchar>`: the real tokens are dealt out one by one.
fn tokens(snapshot: &Snapshot, proxies: &Proxies, address: SocketAddr) -> Vec<u8> {
    let mut all = proxies.others.clone();
    all.push(proxies.own);
    all.sort();
    all.dedup();
    let turn = all.iter().position(|a| *a == address).unwrap_or(0);
    let share: Vec<&str> = snapshot
        .nodes()
        .tokens()
        .iter()
        .skip(turn)
        .step_by(all.len())
        .map(String::as_str)
        .collect();
    let step = share.len().div_ceil(TOKENS_MAX).max(1);
    let mut share: Vec<&str> = share.into_iter().step_by(step).collect();
    share.sort_unstable();
    let mut cell = Vec::new();
    write::u32(&mut cell, share.len() as u32);
    for token in share {
        write::bytes(&mut cell, Some(token.as_bytes()));
    }
    cell
}

fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
