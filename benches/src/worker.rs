//! A worker's engine between clients and nodes without sockets: what one side writes lies in a buffer
//! until the other side's next turn. The nodes know two statements and answer at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::config::Config;
use helenus_engine::output::{Dialed, Outgoing, Output, Sent, Then};
use helenus_engine::shared::{Common, Shared};
use helenus_engine::snapshot::list_columns::ListColumns;
use helenus_engine::snapshot::{KeyColumn, Node, Snapshot};
use helenus_engine::{Engine, LinkKey, SessionKey};
use helenus_policy::ring::Replication;
use helenus_policy::route::NodeTable;
use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, ExecuteView, Flow, Header, MAX_RESPONSE_BODY, Opcode,
    PrepareView, ValueRef, Version, code, write,
};
use slotmap::SecondaryMap;

use crate::work::{METADATA_ID, ring, rows_body};

const READ: &str = "SELECT value FROM app.things WHERE key = ?";
const WRITE: &str = "INSERT INTO app.things (key, value) VALUES (?, ?)";
pub(crate) const READ_ID: [u8; 16] = [7; 16];
pub(crate) const WRITE_ID: [u8; 16] = [9; 16];

/// The time that a node takes to answer.
const SERVICE: Duration = Duration::from_micros(200);

const BIGINT: u16 = 0x02;
const BLOB: u16 = 0x03;

/// The function that is counted, with all that it calls. What the peers do is not.
pub(crate) const COUNTED: &str = "counted_turn";

/// An engine and its peers.
pub(crate) struct Worker {
    common: Arc<Common>,
    engine: Engine,
    now: Instant,
    clients: SecondaryMap<SessionKey, Peer>,
    links: SecondaryMap<LinkKey, Peer>,
    outputs: Vec<Output>,
}

impl Worker {
    /// A worker before three nodes, with its links open and both statements prepared.
    pub(crate) fn new() -> Worker {
        Worker::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Worker {
        let now = Instant::now();
        let common = Arc::new(Common::new(config, 1 << 30, now));
        common.store(snapshot());
        let shared = Arc::new(Shared::new(common.clone()));
        let mut worker = Worker {
            common,
            engine: Engine::new(shared, 0, 1, 1, now, Duration::ZERO),
            now,
            clients: SecondaryMap::new(),
            links: SecondaryMap::new(),
            outputs: Vec::new(),
        };
        worker.counted_turn();
        worker.open_links();
        let client = worker.connect(Version::V5);
        for text in [READ, WRITE] {
            let mut body = Vec::new();
            write::long_string(&mut body, text);
            write::u32(&mut body, 0);
            worker.send(client, Opcode::Prepare, 1, &body);
            worker.exchange();
            assert_eq!(worker.answer(client), (Opcode::Result, 1, prepared(text)));
            // And on the other nodes.
            worker.exchange();
        }
        worker
    }

    /// Opens the links that the engine has asked for.
    fn open_links(&mut self) {
        for output in std::mem::take(&mut self.outputs) {
            let Output::Dial(key, _) = output else {
                panic!("something else than links is wanted");
            };
            let is_wanted = self.engine.on_dialed(self.now, key, Ok(Dialed::default()));
            assert!(is_wanted);
            self.links.insert(key, Peer::new(Version::V5));
        }
        self.counted_turn();
        for node in self.links.values_mut() {
            let (opcode, stream, _) = node.read().remove(0);
            assert_eq!(opcode, Opcode::Startup);
            node.push(true, Opcode::Ready, stream, &[]);
            take(&mut node.encoder, &mut node.written);
            node.begin();
        }
        self.counted_turn();
        for node in self.links.values_mut() {
            // Whoever cannot tell its cluster's name is taken for one of it.
            let (_, stream, _) = node.read().remove(0);
            let mut body = Vec::new();
            let unable = ErrorBody {
                code: code::SERVER,
                message: "no name",
                fields: &[],
            };
            unable.write(&mut body);
            node.push(true, Opcode::Error, stream, &body);
            take(&mut node.encoder, &mut node.written);
        }
        self.counted_turn();
    }

    /// A client behind its STARTUP.
    pub(crate) fn connect(&mut self, version: Version) -> SessionKey {
        let permit = self.common.admit_client().expect("one client more");
        let address = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let client = self
            .engine
            .open_session(self.now, address, self.now, permit);
        self.clients.insert(client, Peer::new(version));
        let mut body = Vec::new();
        write::string_map(&mut body, &[("CQL_VERSION", "3.0.0")]);
        self.send(client, Opcode::Startup, 0, &body);
        self.exchange();
        assert_eq!(self.answer(client), (Opcode::Ready, 0, Vec::new()));
        self.clients.insert(client, Peer::new(version).begun());
        client
    }

    /// A request that the engine gets at its next turn.
    pub(crate) fn send(&mut self, client: SessionKey, opcode: Opcode, stream: i16, body: &[u8]) {
        let client = &mut self.clients[client];
        client.push(false, opcode, stream, body);
        take(&mut client.encoder, &mut client.written);
    }

    /// Everything that clients have sent is answered: a turn of the worker, one of the nodes, and another
    /// one of the worker.
    pub(crate) fn exchange(&mut self) {
        self.counted_turn();
        self.now += SERVICE;
        for node in self.links.values_mut() {
            for (opcode, stream, body) in node.read() {
                let (opcode, body) = node_answer(opcode, &body);
                node.push(true, opcode, stream, &body);
            }
            take(&mut node.encoder, &mut node.written);
        }
        self.counted_turn();
    }

    /// The one answer that a client has got.
    pub(crate) fn answer(&mut self, client: SessionKey) -> Message {
        let mut answers = self.clients[client].read();
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Hands over what the peers have written, and then writes each connection once.
    #[inline(never)]
    fn counted_turn(&mut self) {
        let engine = &mut self.engine;
        for (key, client) in &mut self.clients {
            if !client.written.is_empty() {
                engine.on_client_bytes(self.now, key, &client.written);
                client.written.clear();
            }
        }
        for (key, node) in &mut self.links {
            if !node.written.is_empty() {
                engine.on_link_bytes(self.now, key, &node.written);
                node.written.clear();
            }
        }
        while let Some(output) = engine.poll_output() {
            self.outputs.push(output);
        }
        while let Some(key) = engine.next_link_to_write() {
            if let (Some(node), Some(encoder)) = (self.links.get_mut(key), engine.link_bytes(key)) {
                let sent = take(encoder, &mut node.arrived);
                engine.on_link_sent(self.now, key, sent);
            }
        }
        while let Some(key) = engine.next_client_to_write() {
            if let (Some(client), Some(outbox)) =
                (self.clients.get_mut(key), engine.client_bytes(key))
            {
                let sent = take(outbox, &mut client.arrived);
                engine.on_client_sent(self.now, key, sent);
            }
        }
    }
}

/// Opcode, stream and body.
pub(crate) type Message = (Opcode, i16, Vec<u8>);

/// The other end of one of the engine's connections.
struct Peer {
    version: Version,
    encoder: Encoder,
    decoder: Decoder,
    /// Bytes that it has written and the engine has not read.
    written: Vec<u8>,
    /// Bytes that the engine has written and it has not read.
    arrived: Vec<u8>,
}

impl Peer {
    fn new(version: Version) -> Peer {
        Peer {
            version,
            encoder: Encoder::new(),
            decoder: Decoder::new(MAX_RESPONSE_BODY),
            written: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// As it is behind STARTUP.
    fn begun(mut self) -> Peer {
        self.begin();
        self
    }

    fn begin(&mut self) {
        let framed = self.version == Version::V5;
        self.encoder.set_mode(framed, Compression::None);
        self.decoder.set_mode(framed, Compression::None);
    }

    fn push(&mut self, response: bool, opcode: Opcode, stream: i16, body: &[u8]) {
        let header = Header {
            version: self.version as u8,
            response,
            flags: 0,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
    }

    fn read(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        let on_envelope = |header: Header, body: &[u8]| {
            let opcode = Opcode::from_number(header.opcode).expect("an opcode");
            messages.push((opcode, header.stream, body.to_vec()));
            Flow::Continue
        };
        let fed = self
            .decoder
            .feed(&self.arrived, &mut Vec::new(), on_envelope);
        assert_eq!(fed, Ok(self.arrived.len()));
        self.arrived.clear();
        messages
    }
}

/// Takes all that waits, as a socket with room for it does.
fn take(outgoing: &mut impl Outgoing, to: &mut Vec<u8>) -> Sent {
    let mut sent = Sent {
        writes: 0,
        bytes: 0,
        then: Then::Done,
    };
    loop {
        let bytes = outgoing.pending();
        if bytes.is_empty() {
            return sent;
        }
        to.extend_from_slice(bytes);
        let len = bytes.len();
        outgoing.advance(len);
        sent.writes += 1;
        sent.bytes += len as u64;
    }
}

/// Three nodes that all have a copy of everything.
fn snapshot() -> Snapshot {
    let (ring, specs) = ring();
    let nodes = (1..).zip(&specs).map(|(number, spec)| Node {
        address: SocketAddr::from(([10, 0, 0, number], 9042)),
        host_id: [number; 16],
        dc: spec.dc.clone(),
        rack: spec.rack.clone(),
        release_version: "5.0.6".to_owned(),
        processors: None,
        timeouts: None,
        batches: None,
        pages: None,
        hints: None,
        gone: false,
    });
    let mut snapshot = Snapshot {
        epoch: 1,
        version: Version::V5,
        nodes: nodes.collect(),
        places: NodeTable::new(&specs, Some("dc1"), None),
        ..Snapshot::unknown()
    };
    let owners = Arc::new(ring.replica_sets(&Replication::Simple { rf: specs.len() }));
    snapshot.keyspaces.insert("app".to_owned(), owners);
    let key = KeyColumn {
        name: "key".to_owned(),
        cql_type: "bigint".to_owned(),
        is_masked: false,
    };
    let tables = snapshot.tables.entry("app".to_owned()).or_default();
    tables.insert("things".to_owned(), [key].into());
    let mut lists = ListColumns::default();
    for (column, cql_type) in [("key", "bigint"), ("value", "text")] {
        lists.note("app", "things", column, cql_type);
    }
    snapshot.lists = Arc::new(lists);
    snapshot.ring = Some(ring);
    snapshot
}

fn node_answer(opcode: Opcode, body: &[u8]) -> (Opcode, Vec<u8>) {
    match opcode {
        Opcode::Prepare => {
            let view = PrepareView::parse(body, Version::V5).expect("a PREPARE");
            (Opcode::Result, prepared(view.text))
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(body, Version::V5).expect("an EXECUTE");
            let result = match view.options.values.get(0) {
                Some(ValueRef::Set(key)) if view.id == READ_ID => rows_body(key),
                // VOID.
                _ => 1_i32.to_be_bytes().to_vec(),
            };
            (Opcode::Result, result)
        }
        other => panic!("{} reaches a node", other.name()),
    }
}

/// The answer to a PREPARE.
fn prepared(text: &str) -> Vec<u8> {
    const GLOBAL_TABLE: u32 = 1;
    let key = ("key", BIGINT);
    let value = ("value", BLOB);
    let (id, markers, columns) = match text {
        READ => (READ_ID, vec![key], vec![value]),
        WRITE => (WRITE_ID, vec![key, value], Vec::new()),
        other => panic!("{other} reaches a node"),
    };
    let mut body = Vec::new();
    write::i32(&mut body, 4);
    write::short_bytes(&mut body, &id);
    write::short_bytes(&mut body, &METADATA_ID);
    for (specs, partition_key) in [(markers, Some(0)), (columns, None)] {
        write::u32(&mut body, GLOBAL_TABLE);
        write::u32(&mut body, specs.len() as u32);
        if let Some(position) = partition_key {
            write::u32(&mut body, 1);
            write::u16(&mut body, position);
        }
        write::string(&mut body, "app");
        write::string(&mut body, "things");
        for (name, column_type) in specs {
            write::string(&mut body, name);
            write::u16(&mut body, column_type);
        }
    }
    body
}
