//! `system.local`, `system.peers` and `system.peers_v2` as clients see them: the proxies stand where
//! Cassandra's nodes stand, so that drivers connect to proxies only and their token maps hold.
//!
//! The proxy answers the selections that drivers and people write: columns with aliases, `*`,
//! `COUNT(*)`, `WHERE key = 'local'`, `WHERE peer = …`, `LIMIT`. Any other form (functions, JSON,
//! `IN`) goes to a node and shows that node's own view.

use std::net::{IpAddr, SocketAddr};

use helenus_cql::{Facts, Kind, Literal, Selected, Term};
use helenus_wire::{ValueRef, Values, write};

use crate::config::Config;
use crate::snapshot::{Snapshot, SystemTable};

/// Tokens that one proxy shows at most; drivers only need the ring to be covered.
const TOKENS_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Local,
    Peers,
    PeersV2,
}

/// A selection from one of the three tables.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemQuery {
    pub table: Table,
    select: Selection,
    conditions: Vec<(Box<str>, Term)>,
    limit: Option<Term>,
    /// Whether the keyspace was written in the statement.
    pub qualified: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Selection {
    All,
    Count { name: Box<str> },
    Columns(Vec<(Box<str>, Box<str>)>),
}

/// Recognizes a selection that the proxy can answer. Without a keyspace in the statement the caller
/// must see that the session's is `system`.
pub fn parse(facts: &Facts) -> Option<SystemQuery> {
    if facts.kind != Kind::Select {
        return None;
    }
    let qualified = match &facts.keyspace {
        Some(keyspace) if keyspace == "system" => true,
        Some(_) => return None,
        None => false,
    };
    let table = match facts.table.as_ref()?.as_str() {
        "local" => Table::Local,
        "peers" => Table::Peers,
        "peers_v2" => Table::PeersV2,
        _ => return None,
    };
    let select = facts.select.as_ref()?;
    if select.distinct
        || select.json
        || select.group_by
        || !select.order_by.is_empty()
        || select.per_partition_limit.is_some()
        || !select.tokens.is_empty()
        || !select.ins.is_empty()
        || !select.ranges.is_empty()
        || select.other_relations
    {
        return None;
    }
    let selection = if select.is_count_rows() {
        let alias = match &select.columns {
            Selected::Columns(columns) => columns.first().and_then(|c| c.alias.as_ref()),
            Selected::All => None,
        };
        Selection::Count {
            name: alias.map_or("count", |a| a.as_str()).into(),
        }
    } else {
        match &select.columns {
            Selected::All => Selection::All,
            Selected::Columns(columns) => Selection::Columns(
                columns
                    .iter()
                    .map(|item| {
                        let column = item.column.as_ref()?;
                        let name = item.alias.as_ref().unwrap_or(column);
                        Some((column.as_str().into(), name.as_str().into()))
                    })
                    .collect::<Option<_>>()?,
            ),
        }
    };
    let conditions: Vec<(Box<str>, Term)> = facts
        .key_terms
        .iter()
        .map(|t| (t.column.as_str().into(), t.term.clone()))
        .collect();
    let keys: &[&str] = match table {
        Table::Local => &["key"],
        Table::Peers => &["peer"],
        Table::PeersV2 => &["peer", "peer_port"],
    };
    // A condition on anything but the key needs ALLOW FILTERING: leave the error to Cassandra.
    if conditions
        .iter()
        .any(|(c, t)| !keys.contains(&&**c) || *t == Term::Other)
    {
        return None;
    }
    if select
        .limit
        .as_ref()
        .is_some_and(|term| *term == Term::Other)
    {
        return None;
    }
    Some(SystemQuery {
        table,
        select: selection,
        conditions,
        limit: select.limit.clone(),
        qualified,
    })
}

/// The proxies of this cluster, own address first.
#[derive(Clone, Debug)]
pub struct Proxies {
    pub own: SocketAddr,
    pub others: Vec<SocketAddr>,
}

impl Proxies {
    pub fn of(config: &Config) -> Proxies {
        Proxies {
            own: config.advertised(),
            others: config.listen.proxies.clone(),
        }
    }
}

impl SystemQuery {
    /// The RESULT body, or `None` if the nodes' table does not look as expected.
    pub fn answer(
        &self,
        snapshot: &Snapshot,
        proxies: &Proxies,
        values: &Values<'_>,
    ) -> Option<Vec<u8>> {
        let (name, table, addresses): (_, _, Vec<SocketAddr>) = match self.table {
            Table::Local => ("local", &snapshot.local, vec![proxies.own]),
            Table::Peers => ("peers", &snapshot.peers, distinct_ips(proxies)),
            Table::PeersV2 => ("peers_v2", &snapshot.peers_v2, proxies.others.clone()),
        };
        if table.columns.is_empty() {
            return None;
        }
        let mut rows: Vec<Vec<Option<Vec<u8>>>> = addresses
            .iter()
            .map(|address| row(table, self.table, snapshot, proxies, *address))
            .collect();
        for (column, term) in &self.conditions {
            let at = table.columns.iter().position(|c| *c.name == **column)?;
            let wanted = wanted_value(column, term, values)?;
            rows.retain(|row| row[at].as_deref() == Some(&wanted));
        }
        let limit = match &self.limit {
            None => usize::MAX,
            Some(Term::Literal(Literal::Int(text))) => text.to_string().parse().ok()?,
            Some(Term::Marker(i) | Term::NamedMarker(i)) => match values.get(*i as usize)? {
                ValueRef::Set(bytes) => {
                    i32::from_be_bytes(bytes.try_into().ok()?).try_into().ok()?
                }
                _ => return None,
            },
            Some(_) => return None,
        };
        let mut body = Vec::with_capacity(1024);
        write::i32(&mut body, 2);
        write::u32(&mut body, 1);
        if let Selection::Count { name: column } = &self.select {
            write::u32(&mut body, 1);
            write::string(&mut body, "system");
            write::string(&mut body, name);
            write::string(&mut body, column);
            write::u16(&mut body, 0x0002);
            let count = rows.len() as i64;
            write::u32(&mut body, 1);
            write::bytes(&mut body, Some(&count.to_be_bytes()));
            return Some(body);
        }
        rows.truncate(limit);
        let chosen: Vec<(usize, &str)> = match &self.select {
            Selection::Columns(columns) => columns
                .iter()
                .map(|(column, alias)| {
                    let at = table.columns.iter().position(|c| *c.name == **column)?;
                    Some((at, &**alias))
                })
                .collect::<Option<_>>()?,
            _ => table
                .columns
                .iter()
                .enumerate()
                .map(|(i, c)| (i, c.name.as_str()))
                .collect(),
        };
        write::u32(&mut body, chosen.len() as u32);
        write::string(&mut body, "system");
        write::string(&mut body, name);
        for (at, alias) in &chosen {
            write::string(&mut body, alias);
            body.extend_from_slice(&table.columns[*at].type_raw);
        }
        write::u32(&mut body, rows.len() as u32);
        for row in &rows {
            for (at, _) in &chosen {
                write::bytes(&mut body, row[*at].as_deref());
            }
        }
        Some(body)
    }
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

fn wanted_value(column: &str, term: &Term, values: &Values<'_>) -> Option<Vec<u8>> {
    match term {
        Term::Marker(i) => match values.get(*i as usize)? {
            ValueRef::Set(bytes) => Some(bytes.to_vec()),
            _ => None,
        },
        Term::Literal(literal) => {
            let cql_type = match column {
                "key" => "text",
                "peer" => "inet",
                _ => "int",
            };
            helenus_cql::encode_literal(literal, cql_type)
        }
        _ => None,
    }
}

fn row(
    table: &SystemTable,
    kind: Table,
    snapshot: &Snapshot,
    proxies: &Proxies,
    address: SocketAddr,
) -> Vec<Option<Vec<u8>>> {
    let local = |name: &str| {
        let at = snapshot.local.columns.iter().position(|c| c.name == name)?;
        snapshot.local.row.get(at)?.clone()
    };
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
            "host_id" => Some(host_id(&snapshot.cluster_name, address).to_vec()),
            "data_center" => Some(snapshot.local_dc.clone().into_bytes()),
            "schema_version" => Some(snapshot.schema_version.to_vec()),
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
        .tokens
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
