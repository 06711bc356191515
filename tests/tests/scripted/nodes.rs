//! Nodes that do what a test tells them: enough of Cassandra for a proxy, one table, and aggregates.
//!
//! The table `ks.t (k, c, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)` has its rows spread
//! evenly over the ring, and `c` numbers them along it. So an aggregate of the whole is right only if
//! its parts neither overlap nor leave anything out.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, ExecuteView, Flow, Header, MAX_REQUEST_BODY, Opcode,
    Options, QueryView, Reader, ValueRef, Version, code, strip_payload, write,
};

const BIGINT: u16 = 0x02;
const INT: u16 = 0x09;
const TEXT: u16 = 0x0D;
const UUID: u16 = 0x0C;
const INET: u16 = 0x10;
const MAP_OF_TEXTS: u16 = 0x21;
const SET_OF_TEXTS: u16 = 0x22;

/// A read of the table, as a node was asked for it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Which node.
    pub node: usize,
    pub opcode: Opcode,
    /// The stretch of the ring, above the first token, up to the second, if it has bounds.
    pub stretch: Option<(i64, i64)>,
    pub now_in_seconds: Option<i32>,
    /// A null is bound.
    pub has_null: bool,
    /// The custom payload before it.
    pub payload: Vec<u8>,
}

impl Asked {
    /// Tokens that it goes over.
    pub(crate) fn tokens(&self) -> u64 {
        let (above, up_to) = self.stretch.unwrap_or((i64::MIN, i64::MAX));
        up_to.wrapping_sub(above) as u64
    }
}

/// A node's answer to a read.
pub(crate) enum Reply {
    /// Answer as the table is.
    Rows,
    Error(i32),
}

/// Name, type and value of each column.
type Row = Vec<(&'static str, u16, Vec<u8>)>;
type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A cluster that lives as long as the process.
pub(crate) struct Nodes {
    pub addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
}

struct Shared {
    spec: Spec,
    rows: AtomicU64,
    addresses: Vec<SocketAddr>,
    script: Mutex<Arc<Script>>,
    asked: Mutex<Vec<Asked>>,
    /// Nodes and texts.
    prepares: Mutex<Vec<(usize, String)>>,
    known: Mutex<HashSet<(usize, String)>>,
}

/// The kind of a cluster.
pub(crate) struct Spec {
    /// One for each node.
    pub release_versions: Vec<&'static str>,
    pub tokens_per_node: usize,
    pub replication_factor: usize,
    pub rows: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            release_versions: vec!["5.0.6"; 3],
            tokens_per_node: 4,
            replication_factor: 3,
            rows: 100_000,
        }
    }
}

impl Spec {
    /// Tokens of a node: those of all nodes take turns and are evenly spread.
    fn tokens(&self, node: usize) -> Vec<i64> {
        let nodes = self.release_versions.len();
        let step = u64::MAX / (nodes * self.tokens_per_node) as u64;
        let of = |at: usize| i64::MIN.wrapping_add_unsigned(step * (at * nodes + node + 1) as u64);
        (0..self.tokens_per_node).map(of).collect()
    }
}

impl Nodes {
    pub(crate) fn start(spec: Spec) -> Nodes {
        let host = |node: usize| IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1 + node as u8));
        let listeners: Vec<TcpListener> = (0..spec.release_versions.len())
            .map(|node| TcpListener::bind((host(node), 0)).expect("a free port"))
            .collect();
        let addresses: Vec<SocketAddr> = listeners
            .iter()
            .map(|listener| listener.local_addr().expect("an address"))
            .collect();
        let shared = Arc::new(Shared {
            rows: AtomicU64::new(spec.rows),
            spec,
            addresses: addresses.clone(),
            script: Mutex::new(Arc::new(|_| Reply::Rows)),
            asked: Mutex::default(),
            prepares: Mutex::default(),
            known: Mutex::default(),
        });
        for (node, listener) in listeners.into_iter().enumerate() {
            let shared = shared.clone();
            thread::spawn(move || {
                for socket in listener.incoming().flatten() {
                    let shared = shared.clone();
                    // A proxy that closes a connection ends its thread, nothing else.
                    thread::spawn(move || serve(&shared, node, socket));
                }
            });
        }
        Nodes { addresses, shared }
    }

    /// From now on they reply so. Requests from before are forgotten.
    pub(crate) fn follow(&self, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(script);
        lock(&self.shared.asked).clear();
        lock(&self.shared.prepares).clear();
    }

    /// The table has so many rows now.
    pub(crate) fn grow(&self, rows: u64) {
        self.shared.rows.store(rows, Ordering::SeqCst);
    }

    /// Reads of the table since then, in the order of their arrival.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// Nodes that were asked to prepare something since then, and what.
    pub(crate) fn prepares(&self) -> Vec<(usize, String)> {
        lock(&self.shared.prepares).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &Shared, node: usize, mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut decoder = Decoder::new(MAX_REQUEST_BODY);
    let mut encoder = Encoder::new();
    let mut scratch = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let len = socket.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        let mut started = false;
        let fed = decoder.feed(&buffer[..len], &mut scratch, |header, body| {
            let (opcode, answer) = shared.answer(node, &header, body);
            let header = Header {
                response: true,
                flags: 0,
                opcode: opcode as u8,
                ..header
            };
            encoder.push_slice(header, &answer);
            started |= header.opcode == Opcode::Ready as u8;
            Flow::Continue
        });
        fed.expect("the proxy keeps to the protocol");
        while !encoder.pending().is_empty() {
            let len = encoder.pending().len();
            socket.write_all(encoder.pending())?;
            encoder.advance(len);
        }
        if started {
            decoder.set_mode(true, Compression::None);
            encoder.set_mode(true, Compression::None);
        }
    }
}

impl Shared {
    /// How many rows there are up to a token.
    fn rows_up_to(&self, token: i64) -> u64 {
        let tokens = u128::from(token.wrapping_sub(i64::MIN) as u64);
        let rows = u128::from(self.rows.load(Ordering::SeqCst));
        (tokens * rows / u128::from(u64::MAX)) as u64
    }

    fn answer(&self, node: usize, header: &Header, body: &[u8]) -> (Opcode, Vec<u8>) {
        let mut out = Vec::new();
        let content = strip_payload(header.flags, Version::V5, body).expect("a body");
        let payload = &body[..body.len() - content.len()];
        let body = content;
        match Opcode::from_number(header.opcode) {
            Some(Opcode::Options) => {
                write::u16(&mut out, 1);
                write::string(&mut out, "CQL_VERSION");
                write::string_list(&mut out, &["3.4.7"]);
                (Opcode::Supported, out)
            }
            Some(Opcode::Startup | Opcode::Register) => (Opcode::Ready, out),
            Some(Opcode::Prepare) => {
                let text = Reader::new(body).long_string().expect("a text");
                lock(&self.prepares).push((node, text.to_owned()));
                lock(&self.known).insert((node, text.to_owned()));
                (Opcode::Result, prepared(text))
            }
            Some(Opcode::Query) => {
                let view = QueryView::parse(body, Version::V5).expect("a QUERY");
                match self.system_table(node, view.text) {
                    Some(rows) => (Opcode::Result, rows),
                    None => self.read(node, payload, Opcode::Query, view.text, &view.options),
                }
            }
            Some(Opcode::Execute) => {
                let view = ExecuteView::parse(body, Version::V5).expect("an EXECUTE");
                // An id is its text.
                let text = String::from_utf8(view.id.to_vec()).expect("an id");
                let statement = (node, text);
                match lock(&self.known).contains(&statement) {
                    true => self.read(node, payload, Opcode::Execute, &statement.1, &view.options),
                    false => (Opcode::Error, unprepared(view.id)),
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn read(
        &self,
        node: usize,
        payload: &[u8],
        opcode: Opcode,
        text: &str,
        options: &Options<'_>,
    ) -> (Opcode, Vec<u8>) {
        let null = |(_, value): (_, ValueRef<'_>)| value == ValueRef::Null;
        let bounds = ["token(k) > ", "token(k) <= "].map(|side| bound(text, side, options));
        let asked = Asked {
            node,
            opcode,
            stretch: bounds
                .iter()
                .any(Option::is_some)
                .then_some((bounds[0].unwrap_or(i64::MIN), bounds[1].unwrap_or(i64::MAX))),
            now_in_seconds: options.now_in_seconds,
            has_null: options.values.iter().any(null),
            payload: payload.to_vec(),
        };
        let script = lock(&self.script).clone();
        let reply = script(&asked);
        let (above, up_to) = asked.stretch.unwrap_or((i64::MIN, i64::MAX));
        lock(&self.asked).push(asked);
        match reply {
            Reply::Rows => (Opcode::Result, self.aggregates(text, above, up_to)),
            Reply::Error(code) => (Opcode::Error, error(code)),
        }
    }

    fn aggregates(&self, text: &str, above: i64, up_to: i64) -> Vec<u8> {
        let (first, end) = (self.rows_up_to(above), self.rows_up_to(up_to));
        let cell = |column: &(String, u16)| {
            let int = |n: u64| Some((n as i32).to_be_bytes().to_vec());
            match column.0.split('(').next() {
                Some("count") => Some((end - first).to_be_bytes().to_vec()),
                Some("min") if end > first => int(first),
                Some("max") if end > first => int(end - 1),
                _ => None,
            }
        };
        let columns = selected(text);
        let cells: Vec<Option<Vec<u8>>> = columns.iter().map(cell).collect();
        rows("ks", "t", &columns, &cells)
    }

    /// The tables that a proxy reads.
    fn system_table(&self, node: usize, text: &str) -> Option<Vec<u8>> {
        let table = text.split("FROM ").nth(1)?.split(' ').next()?;
        let text = |value: &str| value.as_bytes().to_vec();
        let found: Vec<Row> = match table {
            "system.local" => vec![self.member(node)],
            "system.peers_v2" | "system.peers" => {
                let others = (0..self.addresses.len()).filter(|other| *other != node);
                others.map(|other| self.member(other)).collect()
            }
            "system_schema.keyspaces" => {
                let factor = self.spec.replication_factor.to_string();
                let replication = ["class", "SimpleStrategy", "replication_factor", &factor];
                vec![vec![
                    ("keyspace_name", TEXT, text("ks")),
                    ("replication", MAP_OF_TEXTS, texts(&replication, 2)),
                ]]
            }
            "system_schema.columns" => {
                let column = |name: &str, kind: &str, order: &str| -> Row {
                    vec![
                        ("keyspace_name", TEXT, text("ks")),
                        ("table_name", TEXT, text("t")),
                        ("column_name", TEXT, text(name)),
                        ("clustering_order", TEXT, text(order)),
                        ("kind", TEXT, text(kind)),
                        ("position", INT, vec![0; 4]),
                        ("type", TEXT, text("int")),
                    ]
                };
                let key = column("k", "partition_key", "none");
                vec![key, column("c", "clustering", "desc")]
            }
            "system_schema.functions" | "system_schema.aggregates" => Vec::new(),
            // The nodes tell nothing of themselves.
            "system_views.thread_pools" | "system_views.settings" | "system.size_estimates" => {
                Vec::new()
            }
            _ => return None,
        };
        let columns = found.first().map_or(Vec::new(), |row| {
            let column = |(name, id, _): &(&str, u16, Vec<u8>)| ((*name).to_owned(), *id);
            row.iter().map(column).collect()
        });
        let cells = found.into_iter().flatten();
        let cells: Vec<_> = cells.map(|(_, _, cell)| Some(cell)).collect();
        let (keyspace, table) = table.split_once('.')?;
        Some(rows(keyspace, table, &columns, &cells))
    }

    fn member(&self, node: usize) -> Row {
        let ip = match self.addresses[node].ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let port = i32::from(self.addresses[node].port());
        let tokens: Vec<String> = self.spec.tokens(node).iter().map(i64::to_string).collect();
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let text = |value: &str| value.as_bytes().to_vec();
        vec![
            ("peer", INET, ip.clone()),
            ("native_address", INET, ip),
            ("native_port", INT, port.to_be_bytes().to_vec()),
            ("host_id", UUID, vec![node as u8 + 1; 16]),
            ("schema_version", UUID, vec![9; 16]),
            ("data_center", TEXT, text("dc1")),
            ("rack", TEXT, text("r1")),
            (
                "partitioner",
                TEXT,
                text("org.apache.cassandra.dht.Murmur3Partitioner"),
            ),
            (
                "release_version",
                TEXT,
                text(self.spec.release_versions[node]),
            ),
            ("cluster_name", TEXT, text("scripted")),
            ("tokens", SET_OF_TEXTS, texts(&tokens, tokens.len())),
        ]
    }
}

/// A bound on the ring, as it is written or bound.
fn bound(text: &str, side: &str, options: &Options<'_>) -> Option<i64> {
    let at = text.find(side)?;
    let written = text[at + side.len()..].split(' ').next()?;
    if written != "?" {
        return written.parse().ok();
    }
    let marker = text[..at].matches('?').count();
    match options.values.get(marker)? {
        ValueRef::Set(bytes) => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// The columns of a result.
fn selected(text: &str) -> Vec<(String, u16)> {
    let end = text.find(" FROM ").expect("a SELECT");
    let selection = text["SELECT ".len()..end].split(", ");
    let column = |name: &str| {
        let id = if name.starts_with("count") {
            BIGINT
        } else {
            INT
        };
        (name.to_owned(), id)
    };
    selection.map(column).collect()
}

/// A statement whose id is its text, whose markers are all of one type.
fn prepared(text: &str) -> Vec<u8> {
    let markers = text.matches('?').count();
    let mut out = Vec::new();
    write::i32(&mut out, 4);
    write::short_bytes(&mut out, text.as_bytes());
    write::short_bytes(&mut out, &[3; 16]);
    let specification = |out: &mut Vec<u8>, columns: &[(String, u16)]| {
        write::string(out, "ks");
        write::string(out, "t");
        for (name, id) in columns {
            write::string(out, name);
            write::u16(out, *id);
        }
    };
    write::u32(&mut out, 1);
    write::u32(&mut out, markers as u32);
    write::i32(&mut out, 0);
    let names: Vec<_> = (0..markers).map(|at| (format!("m{at}"), BIGINT)).collect();
    specification(&mut out, &names);
    let columns = selected(text);
    write::u32(&mut out, 1);
    write::u32(&mut out, columns.len() as u32);
    specification(&mut out, &columns);
    out
}

fn rows(
    keyspace: &str,
    table: &str,
    columns: &[(String, u16)],
    cells: &[Option<Vec<u8>>],
) -> Vec<u8> {
    let mut out = Vec::new();
    write::i32(&mut out, 2);
    write::u32(&mut out, 1);
    write::u32(&mut out, columns.len() as u32);
    write::string(&mut out, keyspace);
    write::string(&mut out, table);
    for (name, id) in columns {
        write::string(&mut out, name);
        write::u16(&mut out, *id);
        match *id {
            MAP_OF_TEXTS => [TEXT, TEXT].iter().for_each(|id| write::u16(&mut out, *id)),
            SET_OF_TEXTS => write::u16(&mut out, TEXT),
            _ => {}
        }
    }
    write::i32(&mut out, (cells.len() / columns.len().max(1)) as i32);
    for cell in cells {
        write::bytes(&mut out, cell.as_deref());
    }
    out
}

fn texts(list: &[&str], count: usize) -> Vec<u8> {
    let mut out = (count as i32).to_be_bytes().to_vec();
    for text in list {
        write::bytes(&mut out, Some(text.as_bytes()));
    }
    out
}

fn unprepared(id: &[u8]) -> Vec<u8> {
    let mut fields = Vec::new();
    write::short_bytes(&mut fields, id);
    error_with(code::UNPREPARED, &fields)
}

fn error(code: i32) -> Vec<u8> {
    let mut fields = Vec::new();
    match code {
        code::READ_TIMEOUT => {
            write::u16(&mut fields, 1);
            write::i32(&mut fields, 0);
            write::i32(&mut fields, 1);
            fields.push(0);
        }
        code::READ_FAILURE => {
            write::u16(&mut fields, 1);
            write::i32(&mut fields, 0);
            write::i32(&mut fields, 1);
            write::i32(&mut fields, 0);
            fields.push(0);
        }
        code::UNAVAILABLE => {
            write::u16(&mut fields, 1);
            write::i32(&mut fields, 1);
            write::i32(&mut fields, 0);
        }
        _ => {}
    }
    error_with(code, &fields)
}

fn error_with(code: i32, fields: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let message = "as told";
    ErrorBody {
        code,
        message,
        fields,
    }
    .write(&mut out);
    out
}
