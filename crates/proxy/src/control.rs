//! The control connection: reads topology and schema, and receives events. Schema agreement is
//! checked separately.
//!
//! There is one for the whole proxy, on its own thread. When its node fails it moves to another.

pub(crate) mod agree;
pub(crate) mod contact;
pub(crate) mod facts;
pub(crate) mod recall;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use helenus_cql::Fold;
use helenus_policy::ring::{NodeIndex, NodeSpec, Replication, Ring};
use helenus_policy::route::{Locality, NodeTable};
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{Opcode, Reader, Version, code, write};
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::facts::Asking;
use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::open::link_options;
use crate::process::{ControlRequest, Process};
use crate::rows::Rows;
use helenus_engine::shared::{EventKind, WorkerMessage};
use helenus_engine::snapshot::{KeyColumn, Node, Snapshot, SystemTable};
use helenus_engine::stats::add;

/// Events in bursts (a table and its views) cause one refresh.
const REFRESH_DELAY: Duration = Duration::from_millis(100);
/// Head start of an address before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(500);
/// Number of known nodes to try before the contact points.
const KNOWN_FIRST: usize = 8;
const HEARTBEAT: Duration = Duration::from_secs(10);
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The open control connection and what was learned over it.
pub(crate) struct Control {
    conn: Conn,
    address: SocketAddr,
    authenticate: Option<Vec<u8>>,
    supported: Vec<u8>,
}

/// Why there is no control connection.
#[derive(Debug, Error)]
pub(crate) enum NoControl {
    #[error("there is no address to connect to")]
    NoAddress,
    #[error("{address}: {error}")]
    Failed {
        address: SocketAddr,
        error: ConnError,
    },
}

impl NoControl {
    /// Errors that only a change of settings can fix come first; then errors reported by a node,
    /// which say more than an unreachable one.
    fn or(self, address: SocketAddr, error: ConnError) -> NoControl {
        match self {
            NoControl::Failed { ref error, .. } if error.is_final() => self,
            NoControl::Failed {
                error: ConnError::Node { .. },
                ..
            } if !error.is_final() => self,
            _ => NoControl::Failed { address, error },
        }
    }
}

impl Control {
    /// Connects to the first of these addresses that responds. Each has a head start before the
    /// next one is tried in parallel, because addresses of nodes that are gone often drop packets
    /// silently. If any node had an error that only a change of settings can fix, that error is
    /// returned.
    pub(crate) async fn connect(
        config: &Arc<Config>,
        dialer: &Dialer,
        addresses: &[SocketAddr],
    ) -> Result<Control, NoControl> {
        let limit = dialer.connect_timeout * 3;
        let mut addresses = addresses.iter().copied();
        let mut attempts = JoinSet::new();
        let mut failure = NoControl::NoAddress;
        let mut next_at = Instant::now();
        loop {
            tokio::select! {
                Some(ended) = attempts.join_next() => {
                    let Ok((address, outcome)) = ended else { continue };
                    match outcome {
                        Ok(control) => return Ok(control),
                        Err(e) => {
                            tracing::warn!(node = %address, "no control connection: {e}");
                            failure = failure.or(address, e);
                        }
                    }
                    next_at = Instant::now();
                }
                () = tokio::time::sleep_until(next_at), if addresses.len() > 0 => {
                    next_at += HEAD_START;
                    if let Some(address) = addresses.next() {
                        let (config, dialer) = (config.clone(), dialer.clone());
                        attempts.spawn(async move {
                            let opening = open(&config, &dialer, address);
                            let opened = tokio::time::timeout(limit, opening).await;
                            (address, opened.unwrap_or(Err(ConnError::Timeout(limit))))
                        });
                    }
                }
                else => return Err(failure),
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads topology and schema. `old` keeps the nodes' indexes.
    pub(crate) async fn read(
        &mut self,
        config: &Config,
        old: Option<&Snapshot>,
    ) -> Result<Snapshot, ConnError> {
        let local = self.table("SELECT * FROM system.local").await?;
        let peers = match self.table("SELECT * FROM system.peers_v2").await {
            Ok(peers) => peers,
            // Cassandra 3.x does not have this table.
            Err(ConnError::Node {
                code: code::INVALID,
                ..
            }) => Rows::default(),
            Err(e) => return Err(e),
        };
        let old_peers = self.table("SELECT * FROM system.peers").await?;
        let keyspaces = self
            .table("SELECT keyspace_name, replication FROM system_schema.keyspaces")
            .await?;
        let columns = self
            .table(
                "SELECT keyspace_name, table_name, column_name, clustering_order, kind, position, type \
                 FROM system_schema.columns",
            )
            .await?;
        let mut folds_shadowed = FxHashSet::default();
        for (table, column) in [
            ("functions", "function_name"),
            ("aggregates", "aggregate_name"),
        ] {
            let cql = format!("SELECT keyspace_name, {column} FROM system_schema.{table}");
            let functions = self.table(&cql).await?;
            let shadowing = functions.rows.iter().filter(|row| {
                let name = functions.text(row, column).unwrap_or_default();
                Fold::ALL.iter().any(|fold| fold.name() == name)
            });
            folds_shadowed.extend(shadowing.filter_map(|row| functions.text(row, "keyspace_name")));
        }
        let port = self.address.port();
        let mut found = Vec::new();
        let own = local
            .rows
            .first()
            .ok_or(ConnError::Unexpected("no row", "system.local"))?;
        found.push(member(&local, own, Some(self.address), port));
        let source = if peers.columns.is_empty() {
            &old_peers
        } else {
            &peers
        };
        for row in &source.rows {
            found.push(member(source, row, None, port));
        }
        let found: Vec<(Node, Vec<String>)> = found.into_iter().flatten().collect();
        let mut nodes: Vec<Node> = old.map_or_else(Vec::new, |o| o.nodes.clone());
        let mut token_texts: Vec<Vec<String>> = vec![Vec::new(); nodes.len()];
        for node in &mut nodes {
            node.gone = true;
        }
        for (node, tokens) in found {
            let at = nodes
                .iter()
                .position(|n| n.host_id == node.host_id && n.address == node.address);
            match at {
                Some(at) => {
                    let Node {
                        processors,
                        timeouts,
                        ..
                    } = nodes[at];
                    nodes[at] = Node {
                        processors,
                        timeouts,
                        ..node
                    };
                    token_texts[at] = tokens;
                }
                None => {
                    nodes.push(node);
                    token_texts.push(tokens);
                }
            }
        }
        let of_reversed_types =
            |node: &Node| !node.gone && compares_reversed_types(&node.release_version);
        let compared_in_reverse = match nodes.iter().any(of_reversed_types) {
            true => descending_columns(&columns),
            false => FxHashMap::default(),
        };
        let text = |name: &str| local.text(own, name).unwrap_or_default();
        let partitioner = Partitioner::from_class_name(&text("partitioner"));
        let local_dc = config
            .cluster
            .local_dc
            .clone()
            .unwrap_or_else(|| old.map_or_else(|| text("data_center"), |o| o.local_dc.clone()));
        let local_rack = config.cluster.local_rack.clone();
        let specs: Vec<NodeSpec> = nodes
            .iter()
            .zip(&token_texts)
            .map(|(node, tokens)| NodeSpec {
                dc: node.dc.clone(),
                rack: node.rack.clone(),
                tokens: partitioner.map_or_else(Vec::new, |p| {
                    tokens.iter().filter_map(|t| Token::parse(p, t)).collect()
                }),
            })
            .collect();
        let ring = partitioner
            .map(|p| Ring::new(p, &specs))
            .filter(|r| !r.is_empty());
        let mut tokens: Vec<(Option<Token>, String)> = token_texts
            .into_iter()
            .flatten()
            .map(|t| (partitioner.and_then(|p| Token::parse(p, &t)), t))
            .collect();
        tokens.sort();
        let mut replica_sets = FxHashMap::default();
        let mut shared_sets: Vec<(Replication, Arc<_>)> = Vec::new();
        for row in &keyspaces.rows {
            let (Some(name), Some(ring)) = (keyspaces.text(row, "keyspace_name"), &ring) else {
                continue;
            };
            let options = keyspaces
                .cell(row, "replication")
                .map(string_map)
                .unwrap_or_default();
            let replication =
                Replication::from_options(options.iter().map(|(k, v)| (k.as_str(), v.as_str())));
            let sets = match shared_sets.iter().find(|(r, _)| *r == replication) {
                Some((_, sets)) => Arc::clone(sets),
                None => {
                    let sets = Arc::new(ring.replica_sets(&replication));
                    shared_sets.push((replication, sets.clone()));
                    sets
                }
            };
            replica_sets.insert(name, sets);
        }
        let places = NodeTable::new(&specs, Some(&local_dc), local_rack.as_deref());
        let pinned = pinned(&nodes, &places, self.address);
        Ok(Snapshot {
            epoch: old.map_or(1, |o| o.epoch + 1),
            cluster_name: text("cluster_name"),
            version: self.conn.version,
            authenticate: self.authenticate.clone(),
            supported: self.supported.clone(),
            places,
            nodes,
            ring,
            tokens: tokens.into_iter().map(|(_, t)| t).collect(),
            keyspaces: replica_sets,
            folds_shadowed,
            compared_in_reverse,
            tables: partition_keys(&columns),
            pinned,
            local_dc,
            schema_version: local
                .cell(own, "schema_version")
                .and_then(|c| c.try_into().ok())
                .unwrap_or_default(),
            local: SystemTable {
                columns: local.columns.clone(),
                row: own.clone(),
            },
            peers: SystemTable {
                columns: old_peers.columns,
                row: Vec::new(),
            },
            peers_v2: SystemTable {
                columns: peers.columns,
                row: Vec::new(),
            },
        })
    }

    async fn table(&mut self, cql: &str) -> Result<Rows, ConnError> {
        query(&mut self.conn, cql).await
    }
}

async fn query(conn: &mut Conn, cql: &str) -> Result<Rows, ConnError> {
    let message = tokio::time::timeout(ANSWER_MAX, conn.query(cql))
        .await
        .map_err(|_| ConnError::Timeout(ANSWER_MAX))??;
    Rows::parse(message.content()?)
}

async fn open(config: &Config, dialer: &Dialer, address: SocketAddr) -> Result<Control, ConnError> {
    let mut last = None;
    let newest = config.links.protocol_max;
    for version in [Version::V5, Version::V4]
        .into_iter()
        .filter(|v| *v as u8 <= newest)
    {
        match open_version(config, dialer, address, version).await {
            Err(ConnError::Node {
                code: code::PROTOCOL,
                message,
            }) => {
                tracing::debug!(node = %address, "no v{}: {message}", version as u8);
                last = Some(ConnError::Node {
                    code: code::PROTOCOL,
                    message,
                });
            }
            other => return other,
        }
    }
    Err(last.unwrap_or(ConnError::Closed))
}

async fn open_version(
    config: &Config,
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
) -> Result<Control, ConnError> {
    let mut conn = dialer.dial(address, version).await?;
    let supported = conn.call(Opcode::Options, &[]).await?.body;
    let answer = conn.startup(&link_options()).await?;
    let mut authenticate = None;
    if answer.opcode() == Some(Opcode::Authenticate) {
        authenticate = Some(answer.body.clone());
        let Some(token) = config.control_token() else {
            let name = Reader::new(&answer.body).string().unwrap_or("?").to_owned();
            return Err(ConnError::NoCredentials(name));
        };
        conn.log_in(&token).await?;
    }
    let mut body = Vec::new();
    write::string_list(
        &mut body,
        &["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"],
    );
    conn.call(Opcode::Register, &body).await?;
    Ok(Control {
        conn,
        address,
        authenticate,
        supported,
    })
}

/// Keeps the snapshot up to date until the proxy stops.
pub(crate) async fn run(
    shared: Arc<Process>,
    mut control: Control,
    mut requests: mpsc::Receiver<ControlRequest>,
    mut recalls: mpsc::Receiver<Box<[u8]>>,
) {
    loop {
        let ended = follow(&shared, &mut control, &mut requests, &mut recalls).await;
        let Err(e) = ended else { return };
        tracing::warn!(node = %control.address, "control connection lost: {e}");
        add(&shared.stats.global.control_reconnects, 1);
        // Changes may be missed until the next one is registered for events.
        shared.forget_statuses();
        control = reconnect(&shared, control.address, &mut requests).await;
        shared.contact_failure.store(None);
        tracing::info!(node = %control.address, "control connection open again");
        shared.tell_workers(&WorkerMessage::NodeUp(control.address));
    }
}

/// Tries the known nodes and, if none of them responds, the contact points as well: all nodes may
/// have come back with other addresses.
async fn reconnect(
    shared: &Process,
    lost: SocketAddr,
    requests: &mut mpsc::Receiver<ControlRequest>,
) -> Control {
    let mut pause = Duration::from_millis(shared.settings.load().links.backoff_min_ms.max(1));
    let mut known_failed = false;
    let mut unusable = contact::Unusable::default();
    loop {
        let snapshot = shared.snapshot.load_full();
        let config = shared.settings.load_full();
        let known = in_order(&snapshot, &config, lost);
        let addresses = match known_failed {
            false => known.into_iter().take(KNOWN_FIRST).collect(),
            true => {
                let points = contact::resolve(&config.cluster.contact_points).await;
                contact::in_order_once(points.into_iter().chain(known))
            }
        };
        known_failed = true;
        let addresses = unusable.put_last(addresses);
        let dialer = (**shared.dialer.load()).clone();
        let failure = match Control::connect(&config, &dialer, &addresses).await {
            Ok(mut next) => match refresh(shared, &mut next).await {
                Ok(()) => return next,
                Err(e) => {
                    tracing::warn!(node = %next.address, "not usable: {e}");
                    unusable.note(next.address);
                    format!("{}: not usable: {e}", next.address)
                }
            },
            Err(e) => {
                tracing::warn!("no node for the control connection: {e}");
                e.to_string()
            }
        };
        shared.contact_failure.store(Some(Arc::new(failure)));
        // The settings may have changed, with other contact points; requests pending here get no
        // answer.
        if let Ok(Some(_)) = tokio::time::timeout(pause, requests.recv()).await {
            while requests.try_recv().is_ok() {}
        }
        pause = (pause * 2).min(Duration::from_millis(config.links.backoff_max_ms.max(1)));
    }
}

/// The nodes to try for a new control connection: near ones first, and the one just lost after its
/// equals. Remote ones only if they may serve: each that does not respond delays those that would
/// by seconds.
pub(crate) fn in_order(snapshot: &Snapshot, config: &Config, lost: SocketAddr) -> Vec<SocketAddr> {
    let nodes = (0..=u16::MAX).map(NodeIndex).zip(&snapshot.nodes);
    let mut found: Vec<(Locality, SocketAddr)> = nodes
        .filter(|(_, node)| !node.gone)
        .filter_map(|(at, node)| Some((snapshot.places.locality(at)?, node.address)))
        .filter(|(at, _)| *at != Locality::Remote || config.cluster.allow_remote_dc)
        .collect();
    found.sort_by_key(|(at, address)| (*at, *address == lost));
    found.into_iter().map(|(_, address)| address).collect()
}

async fn refresh(shared: &Process, control: &mut Control) -> Result<(), ConnError> {
    let old = shared.snapshot.load_full();
    let snapshot = control
        .read(&shared.settings.load_full(), Some(&old))
        .await?;
    // Addresses get reassigned, and not always within the cluster.
    if old.is_known() && old.cluster_name != snapshot.cluster_name {
        return Err(ConnError::OtherCluster {
            found: snapshot.cluster_name,
            own: old.cluster_name.clone(),
        });
    }
    shared.publish(snapshot);
    Ok(())
}

/// Runs one control connection; `Ok` when the proxy stops.
async fn follow(
    shared: &Process,
    control: &mut Control,
    requests: &mut mpsc::Receiver<ControlRequest>,
    recalls: &mut mpsc::Receiver<Box<[u8]>>,
) -> Result<(), ConnError> {
    let mut refresh_at: Option<Instant> = None;
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.reset();
    let mut asking = Asking::default();
    asking.ask(shared, control.conn.version);
    loop {
        tokio::select! {
            message = control.conn.receive() => {
                let message = message?;
                if message.opcode() == Some(Opcode::Event) {
                    on_event(shared, message.content()?);
                    asking.doubt();
                    refresh_at.get_or_insert_with(|| Instant::now() + REFRESH_DELAY);
                }
            }
            request = requests.recv() => match request {
                None => return Ok(()),
                Some(ControlRequest::Refresh(done)) => {
                    refresh(shared, control).await?;
                    if let Some(done) = done {
                        // The requester may have given up.
                        let _ = done.send(());
                    }
                }
            },
            Some(snapshot) = asking.next(shared) => shared.publish(snapshot),
            Some(id) = recalls.recv() => control.recall(shared, &id).await?,
            () = tokio::time::sleep_until(refresh_at.unwrap_or_else(Instant::now)), if refresh_at.is_some() => {
                refresh_at = None;
                refresh(shared, control).await?;
                asking.ask(shared, control.conn.version);
            }
            _ = heartbeat.tick() => {
                // Also catches topology changes whose event was lost.
                let old = shared.snapshot.load_full();
                let new = control.read(&shared.settings.load_full(), Some(&old)).await?;
                if new.nodes != old.nodes || new.tokens != old.tokens || new.schema_version != old.schema_version {
                    shared.publish(new);
                }
                asking.ask(shared, control.conn.version);
            }
        }
    }
}

fn on_event(shared: &Process, body: &[u8]) {
    let mut reader = Reader::new(body);
    let kind = reader.string().ok().and_then(EventKind::parse);
    match kind {
        Some(kind @ EventKind::Schema) => {
            shared.tell_workers(&WorkerMessage::Event {
                kind,
                body: body.into(),
            });
        }
        // Clients see proxies, not nodes, so events about nodes are not passed on.
        Some(EventKind::Status) => {
            let (Ok(change), Ok(node)) = (reader.string(), reader.inet()) else {
                return;
            };
            shared.note_status(node, change == "DOWN");
            if change != "DOWN" {
                shared.tell_workers(&WorkerMessage::NodeUp(node));
            }
        }
        _ => {}
    }
}

/// A node and its tokens from a row of `local`, `peers` or `peers_v2`; `None` if the row is not
/// complete (a node that is only joining).
fn member(
    rows: &Rows,
    row: &[Option<Vec<u8>>],
    own: Option<SocketAddr>,
    default_port: u16,
) -> Option<(Node, Vec<String>)> {
    let address = match own {
        Some(address) => address,
        None => address_of(rows, row, default_port)?,
    };
    let tokens = rows.cell(row, "tokens").map(string_set).unwrap_or_default();
    if tokens.is_empty() && own.is_none() {
        return None;
    }
    let node = Node {
        address,
        host_id: rows.cell(row, "host_id")?.try_into().ok()?,
        dc: rows.text(row, "data_center")?,
        rack: rows.text(row, "rack")?,
        release_version: rows.text(row, "release_version").unwrap_or_default(),
        processors: None,
        timeouts: None,
        gone: false,
    };
    Some((node, tokens))
}

/// The client address of a node, from its row in `peers` or `peers_v2`.
fn address_of(rows: &Rows, row: &[Option<Vec<u8>>], default_port: u16) -> Option<SocketAddr> {
    let ip = |name: &str| ip_cell(rows, row, name);
    let told = ip("native_address").or_else(|| ip("rpc_address"));
    let ip = match told {
        Some(told) if !told.is_unspecified() => told,
        _ => ip("peer")?,
    };
    let port = rows.cell(row, "native_port").and_then(|cell| {
        let port = i32::from_be_bytes(cell.try_into().ok()?);
        u16::try_from(port).ok()
    });
    Some(SocketAddr::new(ip, port.unwrap_or(default_port)))
}

/// The node used for node-local tables: that of the control connection, unless it is in a different
/// data centre from those that serve clients.
fn pinned(nodes: &[Node], places: &NodeTable, control: SocketAddr) -> NodeIndex {
    let all = (0..=u16::MAX).map(NodeIndex).zip(nodes);
    let present = || all.clone().filter(|(_, node)| !node.gone);
    let local = |at: &NodeIndex| places.locality(*at) != Some(Locality::Remote);
    let of_control = present().find(|(_, node)| node.address == control);
    let of_control = of_control.map(|(at, _)| at);
    of_control
        .filter(local)
        .or_else(|| present().map(|(at, _)| at).find(local))
        .or(of_control)
        .unwrap_or(NodeIndex(0))
}

fn ip_cell(rows: &Rows, row: &[Option<Vec<u8>>], name: &str) -> Option<IpAddr> {
    let cell = rows.cell(row, name)?;
    match cell.len() {
        4 => <[u8; 4]>::try_from(cell).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(cell).ok().map(IpAddr::from),
        _ => None,
    }
}

/// A cell of type `set<text>`.
fn string_set(cell: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    (0..n)
        .map_while(|_| reader.bytes().ok().flatten())
        .filter_map(|b| String::from_utf8(b.to_vec()).ok())
        .collect()
}

/// A cell of type `map<text, text>`.
fn string_map(cell: &[u8]) -> Vec<(String, String)> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    let mut next = || {
        let bytes = reader.bytes().ok().flatten()?;
        String::from_utf8(bytes.to_vec()).ok()
    };
    (0..n).map_while(|_| Some((next()?, next()?))).collect()
}

/// Whether a node's `MIN` and `MAX` compare the values of descending clustering columns by the
/// reversed type: those of 5.0 did before 5.0.4 (CASSANDRA-20295).
fn compares_reversed_types(release_version: &str) -> bool {
    let Some(patch) = release_version.strip_prefix("5.0") else {
        return false;
    };
    let Some(patch) = patch.strip_prefix('.') else {
        // Such as 5.0-rc1.
        return patch.is_empty() || patch.starts_with('-');
    };
    let digits = patch.find(|c: char| !c.is_ascii_digit());
    let number = &patch[..digits.unwrap_or(patch.len())];
    number.parse().is_ok_and(|patch: u32| patch < 4)
}

/// The clustering columns in descending order, by keyspace and table.
fn descending_columns(columns: &Rows) -> FxHashMap<String, FxHashMap<String, Vec<String>>> {
    let mut found: FxHashMap<String, FxHashMap<String, Vec<String>>> = FxHashMap::default();
    for row in &columns.rows {
        let order = columns.cell(row, "clustering_order");
        let text = |name: &str| columns.text(row, name);
        if let Some(b"desc") = order
            && let (Some(keyspace), Some(table), Some(column)) = (
                text("keyspace_name"),
                text("table_name"),
                text("column_name"),
            )
        {
            let of_keyspace = found.entry(keyspace).or_default();
            of_keyspace.entry(table).or_default().push(column);
        }
    }
    found
}

type Tables = FxHashMap<String, FxHashMap<String, Arc<[KeyColumn]>>>;

fn partition_keys(columns: &Rows) -> Tables {
    let mut found: FxHashMap<(String, String), Vec<(i32, KeyColumn)>> = FxHashMap::default();
    for row in &columns.rows {
        if columns.cell(row, "kind") != Some(b"partition_key") {
            continue;
        }
        let text = |name: &str| columns.text(row, name);
        let position = columns
            .cell(row, "position")
            .and_then(|c| c.try_into().ok())
            .map_or(0, i32::from_be_bytes);
        let (Some(keyspace), Some(table), Some(name), Some(cql_type)) = (
            text("keyspace_name"),
            text("table_name"),
            text("column_name"),
            text("type"),
        ) else {
            continue;
        };
        found
            .entry((keyspace, table))
            .or_default()
            .push((position, KeyColumn { name, cql_type }));
    }
    let mut tables = Tables::default();
    for ((keyspace, table), mut key) in found {
        key.sort_by_key(|(position, _)| *position);
        let key = key.into_iter().map(|(_, column)| column).collect();
        tables.entry(keyspace).or_default().insert(table, key);
    }
    tables
}
