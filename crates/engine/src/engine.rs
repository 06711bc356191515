//! The logic of one worker as a value: everything that its clients' queries need, owned by it alone.
//!
//! Whoever runs it hands over what happens: clients and their bytes, connections to nodes and theirs,
//! messages, and the time, as `on_…`. What is to be done then comes out of [`Engine::poll_output`] and
//! of the outboxes of connections. Bytes for sockets collect there; whoever runs the engine writes them
//! when everything that has come together has been handed over. So queries that arrive together leave
//! together, without any timer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{Counters, Schedule};
use rustc_hash::FxHashMap;
use slotmap::SlotMap;

use crate::admission::{self, Gate, Inside, Room};
use crate::client::session::Session;
use crate::config::{Config, Limits};
use crate::context::Context;
use crate::gates::coalesce::Shares;
use crate::node::links::Links;
use crate::node::window::Completed;
use crate::recent::Recent;
use crate::request::Requests;
use crate::shared::{Shared, WorkerMessage};
use crate::snapshot::Node;
use crate::statement::prepared::{Prepared, Statement, Text};
use crate::statement::system::Proxies;
use crate::stats::{NodeStats, TableStats};
use crate::work::{Backlog, Noted};

slotmap::new_key_type! {
    /// Names a client's connection; like all of these keys never a later one in its place.
    pub struct SessionKey;
    /// Names a connection to a node.
    pub struct LinkKey;
    /// Names the links of a role.
    pub struct PoolKey;
    /// Names what a client waits for.
    pub struct ClientRequestKey;
    /// Names a message to a node.
    pub struct NodeRequestKey;
}

/// What a worker keeps of a node.
pub(crate) struct NodeState {
    pub schedule: Schedule<NodeRequestKey>,
    /// Its scan slots, over all workers.
    pub gate: Arc<Gate>,
    /// The schedule's counters as published.
    pub published: Counters,
    /// Queries other than scans sent to it by all workers, as published; and when there were more.
    pub others: u64,
    pub others_at_us: u64,
    /// What this worker has in flight there.
    pub inside: Inside,
    /// Whether its queue is to be looked at.
    pub noted: Noted,
    pub stats: Arc<NodeStats>,
}

/// A worker's whole state.
pub struct Engine {
    pub(crate) cx: Context,
    pub(crate) proxies: Proxies,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) sessions: SlotMap<SessionKey, Session>,
    pub(crate) links: Links,
    pub(crate) requests: Requests,
    pub(crate) statements: Recent<Text, Arc<Statement>>,
    pub(crate) prepared: Recent<Box<[u8]>, Arc<Prepared>>,
    /// What may be in flight on each node.
    pub(crate) room: Room,
    pub(crate) backlog: Backlog,
    /// Clients have left with requests in flight since the last tick.
    pub(crate) sessions_left: bool,
    /// By keyspace and table.
    pub(crate) tables: FxHashMap<Box<str>, FxHashMap<Box<str>, Arc<TableStats>>>,
    pub(crate) tables_known: usize,
    pub(crate) dirty_sessions: Vec<SessionKey>,
    pub(crate) completed: Completed,
    pub(crate) shares: Shares,
    /// Grows with every routed request; spreads them over equals.
    pub(crate) turn: u64,
    pub(crate) scratch: Vec<u8>,
    pub(crate) convert_buf: Vec<u8>,
    pub(crate) key_buf: Vec<u8>,
}

/// How often [`Engine::on_tick`] wants to be called.
pub const TICK: Duration = Duration::from_millis(100);
/// A worker that has not run for longer than this cannot say that a node was silent.
const STILL_MAX: Duration = Duration::from_millis(400);

impl Engine {
    pub fn new(
        shared: Arc<Shared>,
        index: usize,
        workers: usize,
        seed: u64,
        now: Instant,
        since_1970: Duration,
    ) -> Engine {
        let proxies = Proxies::of(&shared.config);
        let links = Links::new(&shared.config.aggregation);
        let shares = Shares::new(&shared.config.aggregation);
        let (statements_bytes, prepared_bytes) = cache_shares(&shared.config.limits, workers);
        let mut state = Engine {
            cx: Context::new(shared, index, workers, seed, now, since_1970),
            proxies,
            nodes: Vec::new(),
            sessions: SlotMap::with_key(),
            links,
            requests: Requests::default(),
            statements: Recent::new(statements_bytes),
            prepared: Recent::new(prepared_bytes),
            room: Room::default(),
            backlog: Backlog::default(),
            sessions_left: false,
            tables: FxHashMap::default(),
            tables_known: 0,
            dirty_sessions: Vec::new(),
            completed: Completed::default(),
            shares,
            turn: seed,
            scratch: Vec::new(),
            convert_buf: Vec::new(),
            key_buf: Vec::new(),
        };
        state.adopt_snapshot();
        if state.cx.snapshot.authenticate.is_none() {
            state.anonymous_pool();
        }
        state
    }

    /// The time of the event that is being dealt with.
    pub fn now(&self) -> Instant {
        self.cx.now
    }

    /// Takes the newest snapshot and makes room for nodes that are new in it.
    pub(crate) fn adopt_snapshot(&mut self) {
        self.cx.snapshot = self.cx.shared.snapshot.load_full();
        for index in self.nodes.len()..self.cx.snapshot.nodes.len() {
            let node = NodeIndex(index as u16);
            let Node {
                address,
                processors,
                ..
            } = self.cx.snapshot.nodes[index];
            let settings = admission::settings(&self.cx.shared.config, self.cx.workers, processors);
            self.nodes.push(NodeState {
                schedule: Schedule::new(settings),
                gate: self
                    .cx
                    .shared
                    .gates
                    .of(node, settings.scan_slots_bounds().0),
                published: Counters::default(),
                others: 0,
                others_at_us: 0,
                inside: Inside::default(),
                noted: Noted::No,
                stats: self.cx.shared.stats.node(node, || address.to_string()),
            });
        }
        self.links.adopt_nodes(&self.cx);
        self.adopt_scheduling();
        self.maintain_pools();
    }

    /// Takes over settings that have changed while the proxy runs.
    fn adopt_settings(&mut self, config: Arc<Config>) {
        self.proxies = Proxies::of(&config);
        self.shares.adopt(&config.aggregation);
        self.cx
            .memory
            .set_max(self.cx.shared.memory_max_of(&config));
        let (statements_bytes, prepared_bytes) = cache_shares(&config.limits, self.cx.workers);
        self.statements.set_bytes_max(statements_bytes);
        self.prepared.set_bytes_max(prepared_bytes);
        if config.aggregation != self.cx.shared.config.aggregation {
            self.links.adopt_window(&config.aggregation);
        }
        self.cx.shared = Arc::new(self.cx.shared.with(config));
        self.adopt_scheduling();
        self.maintain_pools();
    }

    /// What the control side or another worker says.
    pub fn on_message(&mut self, now: Instant, message: WorkerMessage) {
        self.set_now(now);
        match message {
            WorkerMessage::Snapshot => self.adopt_snapshot(),
            WorkerMessage::Settings(config) => self.adopt_settings(config),
            WorkerMessage::NodeUp(address) => self.on_node_up(address),
            WorkerMessage::Event { kind, body } => self.emit(kind, &body),
            WorkerMessage::Turn { write, with_turn } => self.let_go_on(write, with_turn),
            WorkerMessage::Aggregate(request) => self.resume_aggregate(request),
            WorkerMessage::ScanSlot(node) => self.on_scan_slot(node),
        }
        self.settle();
    }

    /// To be called every [`TICK`]: what is due by time.
    pub fn on_tick(&mut self, now: Instant, since_1970: Duration) {
        self.cx.wall = (since_1970, now);
        // `now` moves with every event too, so such a gap means that the worker has stood still.
        let stood_still = now.saturating_duration_since(self.cx.now) > STILL_MAX;
        self.set_now(now);
        if self.cx.shared.epoch.load(Ordering::Acquire) != self.cx.snapshot.epoch {
            self.adopt_snapshot();
        }
        self.cancel_unwanted();
        self.tend_schedules();
        self.expire_requests();
        // The nodes may have answered long ago: their answers are read before they are judged.
        if !stood_still {
            self.check_links();
        }
        self.check_sessions();
        self.check_credentials();
        self.maintain_pools();
        self.unpark_late();
        self.end_late_turns();
        self.settle();
        self.adapt_window();
        self.publish_gauges();
    }

    /// Requests that have not ended: of clients, parts of these, and the engine's own.
    pub fn requests_in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Bytes that this worker holds for clients and nodes.
    pub fn bytes_held(&self) -> usize {
        self.cx.memory.held()
    }

    /// Whether no client is left, of any worker: one that does its TLS handshake has no session yet.
    pub fn is_drained(&self) -> bool {
        self.sessions.is_empty() && self.cx.shared.clients.load(Ordering::Acquire) == 0
    }
}

/// A worker's share of the bytes that are kept of texts, and of prepared statements: half of these
/// are those that all workers have in common.
fn cache_shares(limits: &Limits, workers: usize) -> (usize, usize) {
    let workers = workers.max(1);
    (
        limits.statements_bytes_max / workers,
        limits.prepared_bytes_max / 2 / workers,
    )
}
