//! The control connection: learns topology and schema, hears events, waits for schema agreement.
//!
//! One for the whole proxy, on its own thread. When its node fails it moves to another.

mod agree;
pub mod processors;
pub mod recall;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_cql::Fold;
use helenus_policy::ring::{NodeIndex, NodeSpec, Replication, Ring};
use helenus_policy::route::NodeTable;
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{Opcode, Reader, RowsView, Version, code, write};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::processors::Asking;
use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::pool::link_options;
use crate::shared::{Common, ControlRequest, EventKind, WorkerMessage};
use crate::snapshot::{KeyColumn, Node, Snapshot, SystemColumn, SystemTable};
use crate::stats::add;

/// Events that come in bursts (a table and its views) lead to one refresh.
const REFRESH_DELAY: Duration = Duration::from_millis(100);
const HEARTBEAT: Duration = Duration::from_secs(10);
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The open control connection and what was learned over it.
pub struct Control {
    conn: Conn,
    address: SocketAddr,
    authenticate: Option<Vec<u8>>,
    supported: Vec<u8>,
    /// Connections to the nodes that have changed the schema: only such a node surely knows the
    /// newest version, any other may not have heard of it.
    coordinators: FxHashMap<SocketAddr, Conn>,
    /// Nodes that Cassandra has reported as down.
    down: FxHashSet<IpAddr>,
}

impl Control {
    /// Connects to the first of these addresses that answers.
    pub async fn connect(
        config: &Config,
        dialer: &Dialer,
        addresses: &[SocketAddr],
    ) -> Result<Control, ConnError> {
        let mut last = ConnError::Closed;
        for address in addresses {
            let limit = dialer.connect_timeout * 3;
            match tokio::time::timeout(limit, open(config, dialer, *address)).await {
                Ok(Ok(control)) => return Ok(control),
                Ok(Err(e)) => {
                    tracing::warn!(node = %address, "no control connection: {e}");
                    last = e;
                }
                Err(_) => {
                    tracing::warn!(node = %address, "no control connection: no answer within {limit:?}");
                    last = ConnError::Timeout(limit);
                }
            }
        }
        Err(last)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads topology and schema. `old` keeps the nodes' indexes.
    pub async fn read(
        &mut self,
        config: &Config,
        old: Option<&Snapshot>,
    ) -> Result<Snapshot, ConnError> {
        let local = self.table("SELECT * FROM system.local").await?;
        let peers = match self.table("SELECT * FROM system.peers_v2").await {
            Ok(peers) => peers,
            // Cassandra 3.x has no such table.
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
            .table("SELECT keyspace_name, table_name, column_name, kind, position, type FROM system_schema.columns")
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
                    let processors = nodes[at].processors;
                    nodes[at] = Node { processors, ..node };
                    token_texts[at] = tokens;
                }
                None => {
                    nodes.push(node);
                    token_texts.push(tokens);
                }
            }
        }
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
        let pinned = nodes
            .iter()
            .position(|n| n.address == self.address && !n.gone)
            .unwrap_or(0);
        Ok(Snapshot {
            epoch: old.map_or(1, |o| o.epoch + 1),
            cluster_name: text("cluster_name"),
            version: self.conn.version,
            authenticate: self.authenticate.clone(),
            supported: self.supported.clone(),
            places: NodeTable::new(&specs, Some(&local_dc), local_rack.as_deref()),
            nodes,
            ring,
            tokens: tokens.into_iter().map(|(_, t)| t).collect(),
            keyspaces: replica_sets,
            folds_shadowed,
            tables: partition_keys(&columns),
            pinned: NodeIndex(pinned as u16),
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
    let body = query_body(cql, conn.version);
    let message = tokio::time::timeout(ANSWER_MAX, conn.call(Opcode::Query, &body))
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
        let mut body = Vec::new();
        write::bytes(&mut body, Some(&token));
        conn.call(Opcode::AuthResponse, &body).await?;
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
        coordinators: FxHashMap::default(),
        down: FxHashSet::default(),
    })
}

/// Keeps the snapshot true until the proxy ends.
pub async fn run(
    shared: Arc<Common>,
    mut control: Control,
    mut requests: mpsc::Receiver<ControlRequest>,
    mut recalls: mpsc::Receiver<Box<[u8]>>,
) {
    loop {
        let ended = follow(&shared, &mut control, &mut requests, &mut recalls).await;
        let Err(e) = ended else { return };
        tracing::warn!(node = %control.address, "control connection lost: {e}");
        add(&shared.stats.global.control_reconnects, 1);
        let mut pause = Duration::from_millis(shared.settings.load().links.backoff_min_ms.max(1));
        control = loop {
            let snapshot = shared.snapshot.load_full();
            let lost = control.address;
            let mut addresses: Vec<SocketAddr> = snapshot
                .nodes
                .iter()
                .filter(|n| !n.gone)
                .map(|n| n.address)
                .collect();
            // The one that was just lost comes last.
            addresses.sort_by_key(|a| *a == lost);
            let dialer = (**shared.dialer.load()).clone();
            let config = shared.settings.load_full();
            match Control::connect(&config, &dialer, &addresses).await {
                Ok(mut next) => match refresh(&shared, &mut next).await {
                    Ok(()) => break next,
                    Err(e) => {
                        tracing::warn!(node = %next.address, "reading the schema failed: {e}")
                    }
                },
                Err(e) => tracing::warn!("no node for the control connection: {e}"),
            }
            // Schema agreement cannot be judged now: do not let clients wait for it.
            while let Ok(request) = requests.try_recv() {
                if let ControlRequest::Agree(_, done) = request {
                    let _ = done.send(());
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(config.links.backoff_max_ms.max(1)));
        };
        tracing::info!(node = %control.address, "control connection open again");
        shared.tell_workers(&WorkerMessage::NodeUp(control.address));
    }
}

async fn refresh(shared: &Common, control: &mut Control) -> Result<(), ConnError> {
    let old = shared.snapshot.load_full();
    let snapshot = control
        .read(&shared.settings.load_full(), Some(&old))
        .await?;
    shared.publish(snapshot);
    Ok(())
}

/// One control connection's life; `Ok` when the proxy ends.
async fn follow(
    shared: &Common,
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
                    on_event(shared, control, message.content()?);
                    refresh_at.get_or_insert_with(|| Instant::now() + REFRESH_DELAY);
                }
            }
            request = requests.recv() => match request {
                None => return Ok(()),
                Some(ControlRequest::Agree(coordinator, done)) => agree::agree(shared, control, coordinator, done).await?,
                Some(ControlRequest::Refresh) => refresh(shared, control).await?,
            },
            Some(snapshot) = asking.next(shared) => shared.publish(snapshot),
            Some(id) = recalls.recv() => control.recall(shared, &id).await?,
            () = tokio::time::sleep_until(refresh_at.unwrap_or_else(Instant::now)), if refresh_at.is_some() => {
                refresh_at = None;
                refresh(shared, control).await?;
                asking.ask(shared, control.conn.version);
            }
            _ = heartbeat.tick() => {
                if shared.draining.load(Ordering::Relaxed) {
                    return Ok(());
                }
                // Also notices topology changes whose event was lost.
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

fn on_event(shared: &Common, control: &mut Control, body: &[u8]) {
    let mut reader = Reader::new(body);
    let kind = reader.string().ok().and_then(EventKind::parse);
    match kind {
        Some(kind @ EventKind::Schema) => {
            shared.tell_workers(&WorkerMessage::Event {
                kind,
                body: body.into(),
            });
        }
        // Clients see proxies, not nodes: what happens to nodes is not theirs to hear.
        Some(EventKind::Status) => {
            let (Ok(change), Ok(node)) = (reader.string(), reader.inet()) else {
                return;
            };
            if change == "DOWN" {
                control.down.insert(node.ip());
                control.coordinators.remove(&node);
            } else {
                control.down.remove(&node.ip());
                shared.tell_workers(&WorkerMessage::NodeUp(node));
            }
        }
        _ => {}
    }
}

fn query_body(cql: &str, version: Version) -> Vec<u8> {
    let mut body = Vec::with_capacity(cql.len() + 12);
    write::long_string(&mut body, cql);
    write::u16(&mut body, helenus_wire::Consistency::ONE.0);
    match version {
        Version::V5 => write::u32(&mut body, 0),
        _ => body.push(0),
    }
    body
}

/// A result whose cells are looked up by column name.
#[derive(Default)]
struct Rows {
    columns: Vec<SystemColumn>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Rows {
    fn parse(body: &[u8]) -> Result<Rows, ConnError> {
        let view = RowsView::parse(body)?;
        let columns = view
            .columns
            .iter()
            .map(|c| SystemColumn {
                name: c.name.to_owned(),
                type_raw: c.column_type.raw.to_vec(),
            })
            .collect();
        let rows = view
            .rows()
            .map(|row| Ok(row?.into_iter().map(|c| c.map(<[u8]>::to_vec)).collect()))
            .collect::<Result<_, helenus_wire::Malformed>>()?;
        Ok(Rows { columns, rows })
    }

    fn cell<'a>(&self, row: &'a [Option<Vec<u8>>], name: &str) -> Option<&'a [u8]> {
        let at = self.columns.iter().position(|c| c.name == name)?;
        row.get(at)?.as_deref()
    }

    fn text(&self, row: &[Option<Vec<u8>>], name: &str) -> Option<String> {
        String::from_utf8(self.cell(row, name)?.to_vec()).ok()
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
    let ip = |name: &str| ip_cell(rows, row, name);
    let port = |name: &str| {
        let cell = rows.cell(row, name)?;
        u16::try_from(i32::from_be_bytes(cell.try_into().ok()?)).ok()
    };
    let address = match own {
        Some(address) => address,
        None => {
            let ip = ip("native_address")
                .or_else(|| ip("rpc_address"))
                .or_else(|| ip("peer"))?;
            let ip = if ip.is_unspecified() {
                ip_cell(rows, row, "peer")?
            } else {
                ip
            };
            SocketAddr::new(ip, port("native_port").unwrap_or(default_port))
        }
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
        gone: false,
    };
    Some((node, tokens))
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
