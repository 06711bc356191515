//! An engine with one client and a few nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_layout::Layout;
use helenus_layout::plan::{ClusteringColumn, Column, Copy, LogicalTable};
use helenus_wire::{ErrorBody, Opcode, Version, flags, write};

use crate::config::Config;
use crate::features::InSnapshot;
use crate::features::encodings::Encodings;
use crate::features::layouts::Layouts;
use crate::keys::{LinkKey, SessionKey};
use crate::output::{LinkEnd, Output};
use crate::pipeline::engine::Engine;
use crate::rewrite::leases::Flagged;
use crate::shared::{Common, Shared, WorkerMessage};
use crate::snapshot::page_limits::PageLimits;
use crate::snapshot::{NodeFacts, SystemColumn, SystemTable};
use crate::support::tick::TICK;
use crate::testing::{
    Envelope, bytes_of, bytes_with_flags, envelopes, open_links, request_of, request_with_flags,
    take,
};
use crate::worker_status::{Report, Wanted};

pub(crate) use crate::testing::asking::{Asking, TABLE, metadata_id};
pub(crate) use crate::testing::tables::{
    BIGINT, DERIVED, LAYOUT, Spec, VARCHAR, no_rows, rows, rows_in,
};
use crate::testing::tables::{snapshot, specs};

/// `app.orders`, by customer, sorted by day and status; its layout is sorted by status and day.
pub(crate) fn orders(readable: bool) -> LogicalTable {
    let column = |name: &str, cql_type: &str| ClusteringColumn {
        name: name.to_owned(),
        cql_type: cql_type.to_owned(),
        descending: false,
    };
    let copy = Copy {
        keyspace: None,
        physical: LAYOUT.to_owned(),
        layout: Layout::new(&[1, 0]).expect("a permutation"),
        readable,
        further: Vec::new(),
        outlived: Vec::new(),
    };
    let total = Column {
        name: "total".to_owned(),
        cql_type: "bigint".to_owned(),
        is_static: false,
    };
    let distinct = [("day", 1_000.0), ("status", 50.0)];
    LogicalTable {
        keyspace: "app".to_owned(),
        name: TABLE.to_owned(),
        partition_key: vec!["customer".to_owned()],
        clustering: vec![column("day", "bigint"), column("status", "text")],
        columns: vec![total],
        indexed: false,
        may_hold_times: false,
        copies: vec![copy],
        distinct: distinct.map(|(name, n)| (name.to_owned(), n)).into(),
        rows: None,
    }
}

/// The body of an ERROR.
pub(crate) fn error_body(code: i32, message: &str, fields: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let error = ErrorBody {
        code,
        message,
        fields,
    };
    error.write(&mut body);
    body
}

pub(crate) struct Bench {
    pub common: Arc<Common>,
    pub engine: Engine,
    pub now: Instant,
    pub client: SessionKey,
    /// To each node.
    pub(crate) links: Vec<LinkKey>,
    /// Of the client and of the node.
    pub versions: (Version, Version),
}

impl Bench {
    pub(crate) fn new(client: Version, node: Version) -> Bench {
        let mut config = Config::default();
        config.layouts.enabled = true;
        let bench = Bench::with(config, (client, node));
        bench.renew();
        bench
    }

    pub(crate) fn with(config: Config, versions: (Version, Version)) -> Bench {
        Bench::with_nodes(1, config, versions)
    }

    /// [`Bench::with`] nodes that own everything together.
    pub(crate) fn with_nodes(nodes: u8, config: Config, versions: (Version, Version)) -> Bench {
        Bench::of(nodes, config, versions, orders(true))
    }

    /// One whose table's layout is in a keyspace of its own.
    pub(crate) fn derived(client: Version, node: Version) -> Bench {
        let mut config = Config::default();
        config.layouts.enabled = true;
        let mut table = orders(true);
        table.copies[0].keyspace = Some(DERIVED.to_owned());
        let bench = Bench::of(1, config, (client, node), table);
        bench.renew();
        bench
    }

    fn of(
        nodes: u8,
        mut config: Config,
        versions: (Version, Version),
        table: LogicalTable,
    ) -> Bench {
        let now = crate::testing::begin();
        config.links.per_node = 1;
        let common = Arc::new(Common::new(config, 1 << 30, now));
        common.store(snapshot(1, nodes, versions.1, table));
        let shared = Arc::new(Shared::new(common.clone()));
        let mut engine = Engine::new(shared, 0, 1, 1, now, Duration::ZERO);
        let mut links = open_links(&mut engine, now, versions.1);
        links.sort_unstable_by_key(|(node, _)| *node);
        let permit = common.admit_client().expect("one client");
        let client = engine.open_session(now, SocketAddr::from(([127, 0, 0, 1], 4)), now, permit);
        let mut bench = Bench {
            common,
            engine,
            now,
            client,
            links: links.into_iter().map(|(_, link)| link).collect(),
            versions,
        };
        let mut startup = Vec::new();
        write::string_map(&mut startup, &[("CQL_VERSION", "3.0.0")]);
        let startup = request_of((versions.0, false), 0, Opcode::Startup, &startup);
        bench.engine.on_client_bytes(now, client, &startup);
        let ready = bench.take_answers(false);
        assert_eq!(ready, [(Opcode::Ready, 0, Vec::new())]);
        bench
    }

    /// Flags and catalogue have been read.
    pub(crate) fn renew(&self) {
        self.renew_flags();
        self.common.leases.catalogue.renew(self.now);
        self.common.features.layouts.doubts.adopt(&[], self.now);
    }

    /// The flags alone could be read.
    pub(crate) fn renew_flags(&self) {
        self.common.leases.flags.renew(self.now);
    }

    /// Other tables are flagged, or lost, than those with layouts.
    pub(crate) fn flag(&self, flag: impl FnOnce(&mut Flagged)) {
        let snapshot = self.common.snapshot.load();
        let mut known = snapshot.features().clone();
        flag(&mut Arc::make_mut(&mut known.layouts).flagged);
        let next = snapshot.successor().features(known);
        self.common.store(next.build());
    }

    /// A node that is up has this version of the schema, and not that of the others.
    pub(crate) fn disagree(&mut self, other_schema_version: Option<[u8; 16]>) {
        let next = self.common.snapshot.load().successor();
        let next = next.other_schema_version(other_schema_version);
        self.common.store(next.build());
    }

    /// Nodes take pages of so many rows without a word.
    pub(crate) fn limit_pages(&mut self, rows_max: usize) {
        let next = self.common.snapshot.load().successor();
        let next = next.each_node(|_, node| {
            let pages = Some(PageLimits { rows_max });
            let told = *node.facts();
            node.learn(NodeFacts { pages, ..told });
        });
        self.common.store(next.build());
        self.wait(TICK);
    }

    /// `system.peers_v2` has these columns.
    pub(crate) fn show_peers(&mut self, columns: &[&str]) {
        let column = |name: &&str| SystemColumn {
            name: (*name).to_owned(),
            type_raw: VARCHAR.to_be_bytes().to_vec(),
        };
        let next = self.common.snapshot.load().successor();
        let next = next.peers_v2(SystemTable {
            columns: columns.iter().map(column).collect(),
            row: vec![None; columns.len()],
        });
        self.common.store(next.build());
        self.wait(TICK);
    }

    /// The only layout of a table is behind.
    pub(crate) fn set_aside(&self, table: LogicalTable) {
        let snapshot = self.common.snapshot.load();
        let mut layouts = Layouts::default();
        layouts.flagged.add(&table.keyspace, &table.name);
        let table = Arc::new(table);
        layouts.set_aside(DERIVED, LAYOUT, table.clone());
        layouts.add(table);
        let next = snapshot.successor().features(InSnapshot {
            layouts: Arc::new(layouts),
            ..snapshot.features().clone()
        });
        self.common.store(next.build());
    }

    /// The catalogue says something else.
    pub(crate) fn adopt(&self, table: LogicalTable) {
        let epoch = self.common.snapshot.load().epoch() + 1;
        let (nodes, version) = (self.links.len() as u8, self.versions.1);
        self.common.store(snapshot(epoch, nodes, version, table));
    }

    /// It says that there are no layouts.
    pub(crate) fn adopt_none(&self) {
        let epoch = self.common.snapshot.load().epoch() + 1;
        let (nodes, version) = (self.links.len() as u8, self.versions.1);
        let snapshot = snapshot(epoch, nodes, version, orders(true));
        let snapshot = snapshot.edit().features(InSnapshot::default());
        self.common.store(snapshot.build());
    }

    /// It says that there are no layouts, and which columns are encoded.
    pub(crate) fn adopt_encodings(&self, encodings: Encodings) {
        let epoch = self.common.snapshot.load().epoch() + 1;
        let (nodes, version) = (self.links.len() as u8, self.versions.1);
        let snapshot = snapshot(epoch, nodes, version, orders(true));
        let snapshot = snapshot.edit().features(InSnapshot {
            encodings: Arc::new(encodings),
            ..InSnapshot::default()
        });
        self.common.store(snapshot.build());
    }

    pub(crate) fn ask(&mut self, opcode: Opcode, stream: i16, body: &[u8]) {
        self.ask_as(self.client, opcode, stream, body);
    }

    /// [`Bench::ask`] with these flags in its header.
    pub(crate) fn ask_with_flags(&mut self, flags: u8, opcode: Opcode, stream: i16, body: &[u8]) {
        let framed = self.versions.0 == Version::V5;
        let mode = (self.versions.0, framed);
        let bytes = request_with_flags(flags, mode, stream, opcode, body);
        self.engine.on_client_bytes(self.now, self.client, &bytes);
    }

    /// Another client, of this application.
    pub(crate) fn another(&mut self, application: &str) -> SessionKey {
        self.another_with(("APPLICATION_NAME", application))
    }

    /// Another client, whose STARTUP says this.
    pub(crate) fn another_with(&mut self, option: (&str, &str)) -> SessionKey {
        let permit = self.common.admit_client().expect("one client more");
        let peer = SocketAddr::from(([127, 0, 0, 1], 5));
        let client = self.engine.open_session(self.now, peer, self.now, permit);
        let mut startup = Vec::new();
        let options = [("CQL_VERSION", "3.0.0"), option];
        write::string_map(&mut startup, &options);
        let startup = request_of((self.versions.0, false), 0, Opcode::Startup, &startup);
        self.engine.on_client_bytes(self.now, client, &startup);
        client
    }

    pub(crate) fn ask_as(&mut self, client: SessionKey, opcode: Opcode, stream: i16, body: &[u8]) {
        let framed = self.versions.0 == Version::V5;
        let bytes = request_of((self.versions.0, framed), stream, opcode, body);
        self.engine.on_client_bytes(self.now, client, &bytes);
    }

    /// The answers that the client has been sent.
    pub(crate) fn answers(&mut self) -> Vec<Envelope> {
        self.take_answers(self.versions.0 == Version::V5)
    }

    /// Its only answer.
    pub(crate) fn answer(&mut self) -> (Opcode, Vec<u8>) {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        let (opcode, _, body) = answers.remove(0);
        (opcode, body)
    }

    /// The code and text of its only answer.
    pub(crate) fn error(&mut self) -> (i32, String) {
        let (opcode, body) = self.answer();
        assert_eq!(opcode, Opcode::Error);
        let error = ErrorBody::parse(&body).expect("an error");
        (error.code, error.message.to_owned())
    }

    fn take_answers(&mut self, framed: bool) -> Vec<Envelope> {
        let Some(outbox) = self.engine.client_bytes(self.client) else {
            return Vec::new();
        };
        let (bytes, sent) = take(outbox);
        self.engine.on_client_sent(self.now, self.client, sent);
        envelopes(framed, &bytes)
    }

    /// The requests that the first node has been sent, probes aside.
    pub(crate) fn at_node(&mut self) -> Vec<Envelope> {
        self.at(0)
    }

    /// The requests that a node has been sent, probes aside.
    pub(crate) fn at(&mut self, node: usize) -> Vec<Envelope> {
        let link = self.links[node];
        let Some(encoder) = self.engine.link_bytes(link) else {
            return Vec::new();
        };
        let (bytes, sent) = take(encoder);
        self.engine.on_link_sent(self.now, link, sent);
        let mut asked = envelopes(self.versions.1 == Version::V5, &bytes);
        asked.retain(|(opcode, ..)| *opcode != Opcode::Options);
        asked
    }

    /// The only request that the node has been sent.
    pub(crate) fn one_at_node(&mut self) -> Envelope {
        let mut asked = self.at_node();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.remove(0)
    }

    pub(crate) fn say(&mut self, opcode: Opcode, stream: i16, body: &[u8]) {
        self.say_as(0, opcode, stream, body);
    }

    /// A node says this.
    pub(crate) fn say_as(&mut self, node: usize, opcode: Opcode, stream: i16, body: &[u8]) {
        let framed = self.versions.1 == Version::V5;
        let bytes = bytes_of((self.versions.1, framed), stream, opcode, body);
        self.engine
            .on_link_bytes(self.now, self.links[node], &bytes);
    }

    /// The first node says this with warnings.
    pub(crate) fn say_warned(&mut self, stream: i16, warnings: &[&str], body: &[u8]) {
        let framed = self.versions.1 == Version::V5;
        let mut warned = Vec::new();
        write::string_list(&mut warned, warnings);
        warned.extend_from_slice(body);
        let mode = (self.versions.1, framed);
        let bytes = bytes_with_flags(flags::WARNING, mode, stream, Opcode::Result, &warned);
        self.say_bytes(&bytes);
    }

    /// The first node says these bytes.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.engine.on_link_bytes(self.now, self.links[0], bytes);
    }

    pub(crate) fn say_error(&mut self, stream: i16, code: i32, message: &str, fields: &[u8]) {
        self.say(Opcode::Error, stream, &error_body(code, message, fields));
    }

    /// The client prepares a statement, which the node knows by this id then.
    pub(crate) fn prepare(&mut self, text: &str, id: &[u8], markers: &[Spec], columns: &[Spec]) {
        let prepared = self.prepared(id, TABLE, markers, columns);
        self.prepare_with(None, text, &prepared);
    }

    /// [`Bench::prepare`] at whichever node is asked.
    pub(crate) fn prepare_at_any(&mut self, text: &str, id: &[u8], markers: &[Spec]) {
        let prepared = self.prepared(id, "others", markers, &[]);
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        write::u32(&mut body, 0);
        self.ask(Opcode::Prepare, 1, &body);
        for node in 0..self.links.len() {
            for (_, stream, _) in self.at(node) {
                self.say_as(node, Opcode::Result, stream, &prepared);
            }
        }
        assert_eq!(self.answer().0, Opcode::Result);
    }

    /// [`Bench::prepare`] of a write on a table.
    pub(crate) fn prepare_of(
        &mut self,
        table: (&str, &str),
        text: &str,
        id: &[u8],
        markers: &[Spec],
    ) {
        let prepared = self.prepared_of(id, table, markers, &[]);
        self.prepare_with(None, text, &prepared);
    }

    /// [`Bench::prepare`] of a read of any table.
    pub(crate) fn prepare_read_of(
        &mut self,
        table: (&str, &str),
        text: &str,
        id: &[u8],
        markers: &[Spec],
        columns: &[Spec],
    ) {
        let prepared = self.prepared_of(id, table, markers, columns);
        self.prepare_with(None, text, &prepared);
    }

    /// [`Bench::prepare`] in a keyspace, which only v5 can say.
    pub(crate) fn prepare_in(&mut self, keyspace: &str, text: &str, id: &[u8], markers: &[Spec]) {
        let prepared = self.prepared(id, TABLE, markers, &[]);
        self.prepare_with(Some(keyspace), text, &prepared);
    }

    fn prepare_with(&mut self, keyspace: Option<&str>, text: &str, prepared: &[u8]) {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        if self.versions.0 == Version::V5 {
            write::u32(&mut body, u32::from(keyspace.is_some()));
        }
        if let Some(keyspace) = keyspace {
            write::string(&mut body, keyspace);
        }
        self.ask(Opcode::Prepare, 1, &body);
        let (opcode, stream, _) = self.one_at_node();
        assert_eq!(opcode, Opcode::Prepare);
        self.say(Opcode::Result, stream, prepared);
        assert_eq!(self.answer().0, Opcode::Result);
    }

    /// The answer to a PREPARE.
    pub(crate) fn prepared(
        &self,
        id: &[u8],
        table: &str,
        markers: &[Spec],
        columns: &[Spec],
    ) -> Vec<u8> {
        self.prepared_of(id, ("app", table), markers, columns)
    }

    fn prepared_of(
        &self,
        id: &[u8],
        table: (&str, &str),
        markers: &[Spec],
        columns: &[Spec],
    ) -> Vec<u8> {
        let (keyspace, table) = table;
        let specs = |body: &mut Vec<u8>, columns| specs(body, keyspace, table, columns);
        let mut body = Vec::new();
        write::i32(&mut body, 4);
        write::short_bytes(&mut body, id);
        if self.versions.1 == Version::V5 {
            write::short_bytes(&mut body, &metadata_id(table));
        }
        write::u32(&mut body, 1);
        write::u32(&mut body, markers.len() as u32);
        write::u32(&mut body, 0);
        specs(&mut body, markers);
        write::u32(&mut body, if columns.is_empty() { 4 } else { 1 });
        write::u32(&mut body, columns.len() as u32);
        if !columns.is_empty() {
            specs(&mut body, columns);
        }
        body
    }

    /// Nothing is left of any request.
    pub(crate) fn is_done(&mut self) {
        assert_eq!(self.answers(), []);
        assert_eq!(self.at_node(), []);
        assert_eq!(self.engine.requests_in_flight(), 0);
        assert_eq!(self.engine.bytes_held(), 0);
        assert_eq!(self.engine.contradictions(), Vec::<String>::new());
    }

    /// The engine's answer to a question about it.
    pub(crate) fn report(&mut self, wanted: Wanted) -> Report {
        let message = WorkerMessage::Report { ticket: 7, wanted };
        self.engine.on_message(self.now, message);
        while let Some(output) = self.engine.poll_output() {
            if let Output::Report(ticket, report) = output {
                assert_eq!(ticket, 7);
                return *report;
            }
        }
        panic!("no report");
    }

    /// The client is in a keyspace from now on.
    pub(crate) fn be_in(&mut self, keyspace: &str) {
        self.engine
            .stations()
            .clients
            .set_keyspace(self.client, keyspace.into());
    }

    /// These settings are in force from now on.
    pub(crate) fn adopt_config(&mut self, config: Config) {
        let config = Arc::new(config);
        self.common.adopt_settings(config.clone(), self.now);
        let message = WorkerMessage::Settings(config);
        self.engine.on_message(self.now, message);
    }

    /// The first node resets its connection.
    pub(crate) fn break_link(&mut self) {
        self.end_link(0, LinkEnd::ByNode);
    }

    /// The connection to a node ends.
    pub(crate) fn end_link(&mut self, node: usize, end: LinkEnd) {
        let (link, why) = (self.links[node], "the connection is reset");
        self.engine.on_link_closed(self.now, link, (end, why), None);
    }

    /// The client disconnects.
    pub(crate) fn leave(&mut self) {
        self.engine.close_session(self.now, self.client);
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            self.engine.on_deadline(self.now, Duration::ZERO);
        }
    }
}
