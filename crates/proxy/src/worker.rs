//! One worker thread: everything that its clients' queries need, owned by it alone.
//!
//! All state lies in one [`State`]; tasks of the thread borrow it for one turn at a time. Bytes for
//! sockets collect in encoders while a turn runs; the flusher task, queued behind all tasks that
//! are ready now, then writes each dirty connection once. So queries that arrive together leave
//! together, without any timer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{Counters, Schedule};
use rustc_hash::FxHashMap;
use slotmap::SlotMap;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::config::{Config, Limits};
use crate::drain::{TICK, Timetable};
use crate::flush::{Completed, FineTimer, Pace};
use crate::link::Link;
use crate::memory::Ledger;
use crate::pool::Pool;
use crate::prepared::{Prepared, Statement, Text};
use crate::recent::Recent;
use crate::request::Request;
use crate::schedule::{self, Gate, Inside, Room};
use crate::session::{Session, note_tls_failure};
use crate::share::Shares;
use crate::shared::{Shared, WorkerMessage};
use crate::snapshot::{Node, Snapshot};
use crate::stats::{NodeStats, TableStats, add};
use crate::system::Proxies;
use crate::transport::Transport;
use crate::work::{Backlog, Noted};

slotmap::new_key_type! {
    /// Names a client's connection; like all of these keys never a later one in its place.
    pub struct SessionKey;
    /// Names a connection to a node.
    pub struct LinkKey;
    /// Names the links of a role.
    pub struct PoolKey;
    /// Names a request.
    pub struct RequestKey;
}

/// What a worker keeps of a node.
pub(crate) struct NodeState {
    pub schedule: Schedule<RequestKey>,
    /// Its scan slots, over all workers.
    pub gate: Arc<Gate>,
    /// The schedule's counters as published.
    pub published: Counters,
    /// Requests in flight over this worker's links, as published.
    pub in_flight: usize,
    /// Queries other than scans sent to it by all workers, as published; and when there were more.
    pub others: u64,
    pub others_at_us: u64,
    /// What this worker has in flight there.
    pub inside: Inside,
    /// Whether its queue is to be looked at.
    pub noted: Noted,
    pub stats: Arc<NodeStats>,
    /// Failed attempts to connect in a row.
    pub failures: u32,
    pub retry_at: Instant,
    /// When a connection was last tried.
    pub tried: Instant,
    /// When a link last failed; such a node is tried last for a while.
    pub suspect_until: Option<Instant>,
}

/// A worker's whole state.
pub(crate) struct State {
    pub me: Weak<RefCell<State>>,
    pub shared: Arc<Shared>,
    pub snapshot: Arc<Snapshot>,
    pub proxies: Proxies,
    /// Which worker this is.
    pub index: usize,
    pub workers: usize,
    pub nodes: Vec<NodeState>,
    pub sessions: SlotMap<SessionKey, Session>,
    pub links: SlotMap<LinkKey, Link>,
    pub pools: SlotMap<PoolKey, Pool>,
    pub requests: SlotMap<RequestKey, Request>,
    pub statements: Recent<Text, Arc<Statement>>,
    pub prepared: Recent<Box<[u8]>, Arc<Prepared>>,
    /// Re-prepares under way: requests that wait for a statement on a node.
    pub repreparing: FxHashMap<(Box<[u8]>, NodeIndex), Vec<RequestKey>>,
    /// What may be in flight on each node.
    pub room: Room,
    pub backlog: Backlog,
    /// Clients have left with requests in flight since the last tick.
    pub sessions_left: bool,
    /// By keyspace and table.
    pub tables: FxHashMap<Box<str>, FxHashMap<Box<str>, Arc<TableStats>>>,
    pub tables_known: usize,
    pub dirty_sessions: Vec<SessionKey>,
    pub dirty_links: Vec<LinkKey>,
    pub flusher: Option<Waker>,
    pub pace: Pace,
    pub completed: Completed,
    /// Times the worker had nothing to do and slept, as counted so far.
    pub sleeps_counted: u64,
    pub shares: Shares,
    /// When the worker began.
    pub origin: Instant,
    /// Time of the turn that is running.
    pub now: Instant,
    /// Grows with every routed request; spreads them over equals.
    pub turn: u64,
    /// Bytes held for clients and nodes.
    pub memory: Rc<Ledger>,
    pub read_buf: Vec<u8>,
    pub scratch: Vec<u8>,
    pub convert_buf: Vec<u8>,
    pub key_buf: Vec<u8>,
    pub spare_bodies: Vec<Vec<u8>>,
    pub rng: u64,
}

/// A worker that has not run for longer than this cannot say that a node was silent.
const STILL_MAX: Duration = Duration::from_millis(400);

impl State {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        workers: usize,
        seed: u64,
    ) -> Rc<RefCell<State>> {
        let snapshot = shared.snapshot.load_full();
        let proxies = Proxies::of(&shared.config);
        let pace = Pace::new(&shared.config.aggregation);
        let shares = Shares::new(&shared.config.aggregation);
        let (statements_bytes, prepared_bytes) = cache_shares(&shared.config.limits, workers);
        let memory = Ledger::new(shared.memory.clone(), shared.config.limits.memory_max());
        Rc::new_cyclic(|me| {
            let mut state = State {
                me: me.clone(),
                shared,
                snapshot,
                proxies,
                index,
                workers,
                nodes: Vec::new(),
                sessions: SlotMap::with_key(),
                links: SlotMap::with_key(),
                pools: SlotMap::with_key(),
                requests: SlotMap::with_key(),
                statements: Recent::new(statements_bytes),
                prepared: Recent::new(prepared_bytes),
                repreparing: FxHashMap::default(),
                room: Room::default(),
                backlog: Backlog::default(),
                sessions_left: false,
                tables: FxHashMap::default(),
                tables_known: 0,
                dirty_sessions: Vec::new(),
                dirty_links: Vec::new(),
                flusher: None,
                pace,
                completed: Completed::default(),
                sleeps_counted: 0,
                shares,
                origin: Instant::now(),
                now: Instant::now(),
                turn: seed,
                memory,
                read_buf: vec![0; 128 * 1024],
                scratch: Vec::new(),
                convert_buf: Vec::new(),
                key_buf: Vec::new(),
                spare_bodies: Vec::new(),
                rng: seed | 1,
            };
            state.adopt_snapshot();
            RefCell::new(state)
        })
    }

    /// A cheap random number for jitter.
    pub(crate) fn random(&mut self) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng
    }

    /// Takes the newest snapshot and makes room for nodes that are new in it.
    pub(crate) fn adopt_snapshot(&mut self) {
        self.snapshot = self.shared.snapshot.load_full();
        for index in self.nodes.len()..self.snapshot.nodes.len() {
            let node = NodeIndex(index as u16);
            let Node {
                address,
                processors,
                ..
            } = self.snapshot.nodes[index];
            let settings = schedule::settings(&self.shared.config, self.workers, processors);
            self.nodes.push(NodeState {
                schedule: Schedule::new(settings),
                gate: self.shared.gates.of(node, settings.scan_slots_bounds().0),
                published: Counters::default(),
                in_flight: 0,
                others: 0,
                others_at_us: 0,
                inside: Inside::default(),
                noted: Noted::No,
                stats: self.shared.stats.node(node, || address.to_string()),
                failures: 0,
                retry_at: self.now,
                tried: self.now,
                suspect_until: None,
            });
        }
        self.adopt_scheduling();
        self.maintain_pools();
    }

    /// Takes over settings that have changed while the proxy runs.
    fn adopt_settings(&mut self, config: Arc<Config>) {
        self.proxies = Proxies::of(&config);
        self.shares.adopt(&config.aggregation);
        self.memory.set_max(config.limits.memory_max());
        let (statements_bytes, prepared_bytes) = cache_shares(&config.limits, self.workers);
        self.statements.set_bytes_max(statements_bytes);
        self.prepared.set_bytes_max(prepared_bytes);
        if config.aggregation != self.shared.config.aggregation {
            self.pace = Pace::new(&config.aggregation);
        }
        self.shared = Arc::new(self.shared.with(config));
        self.adopt_scheduling();
        self.maintain_pools();
    }

    /// What the control side or another worker says.
    fn on_message(&mut self, message: WorkerMessage) {
        self.now = Instant::now();
        match message {
            WorkerMessage::Snapshot => self.adopt_snapshot(),
            WorkerMessage::Settings(config) => self.adopt_settings(config),
            WorkerMessage::NodeUp(address) => self.on_node_up(address),
            WorkerMessage::Event { kind, body } => self.emit(kind, &body),
            WorkerMessage::Turn { write, with_turn } => self.let_go_on(write, with_turn),
            WorkerMessage::Aggregate(request) => self.resume_aggregate(request),
            WorkerMessage::ScanSlot(node) => self.on_scan_slot(node),
            // The worker's own loop sees to it.
            WorkerMessage::Drain(_) => {}
        }
        self.settle();
    }

    pub(crate) fn wake_flusher(&mut self) {
        if let Some(waker) = self.flusher.take() {
            waker.wake();
        }
    }

    /// Whether no client is left, of any worker: one that does its TLS handshake has no session yet.
    fn is_drained(&self) -> bool {
        self.sessions.is_empty() && self.shared.clients.load(Ordering::Acquire) == 0
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

/// Runs a worker until it is told to drain and has done so.
pub(crate) async fn run(
    state: Rc<RefCell<State>>,
    listener: TcpListener,
    mut messages: mpsc::UnboundedReceiver<WorkerMessage>,
) {
    let flusher = tokio::task::spawn_local(flush_loop(state.clone()));
    let ticker = tokio::task::spawn_local(tick_loop(state.clone()));
    let mut listener = Some(listener);
    let mut draining: Option<Timetable> = None;
    let mut drain_ticks = tokio::time::interval(TICK);
    drain_ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = next_client(listener.as_ref()) => match accepted {
                Ok((socket, peer)) => accept(&state, socket, peer),
                Err(e) => {
                    tracing::warn!("accepting a client failed: {e}");
                    // Out of file descriptors, most likely: give others time to close.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            message = messages.recv() => match message {
                Some(WorkerMessage::Drain(timetable)) => draining = Some(timetable),
                Some(message) => state.borrow_mut().on_message(message),
                // Nobody is left who could say more.
                None => break,
            },
            _ = drain_ticks.tick(), if draining.is_some() => {
                let Some(timetable) = &draining else { continue };
                let now = Instant::now();
                let is_drained = state.borrow().is_drained();
                if (now >= timetable.grace_ends || is_drained)
                    && let Some(listener) = listener.take()
                {
                    accept_rest(&state, listener);
                }
                if now >= timetable.grace_ends {
                    state.borrow_mut().close_quiet_sessions(timetable, now);
                }
                if now >= timetable.deadline || state.borrow().is_drained() {
                    break;
                }
            }
        }
    }
    flusher.abort();
    ticker.abort();
}

/// The next client, or never.
async fn next_client(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Closes the port, and takes in who has come before: they take themselves to be connected.
fn accept_rest(state: &Rc<RefCell<State>>, listener: TcpListener) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    while let Ok((socket, peer)) = listener.accept() {
        let socket = socket
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(socket));
        match socket {
            Ok(socket) => accept(state, socket, peer),
            Err(e) => tracing::warn!("accepting a client failed: {e}"),
        }
    }
}

/// Takes in a client, or refuses it. It counts from now on; with TLS, it becomes a session when its
/// handshake is done.
fn accept(state: &Rc<RefCell<State>>, socket: TcpStream, peer: SocketAddr) {
    let accepted = Instant::now();
    let shared = state.borrow().shared.clone();
    let Some(permit) = shared.admit_client() else {
        return add(&shared.stats.global.clients_refused, 1);
    };
    add(&shared.stats.global.clients_accepted, 1);
    let _ = socket.set_nodelay(true);
    let state = state.clone();
    let open = move |transport| {
        let key = state
            .borrow_mut()
            .open_session(transport, peer, accepted, permit);
        tokio::task::spawn_local(poll_fn(move |cx| state.borrow_mut().poll_session(key, cx)));
    };
    let Some(tls) = shared.server_tls.load_full() else {
        return open(Transport::Plain(socket));
    };
    let limit = Duration::from_millis(shared.config.limits.handshake_timeout_ms);
    tokio::task::spawn_local(async move {
        match tokio::time::timeout(limit, Transport::accept(socket, tls)).await {
            Ok(Ok(transport)) => open(transport),
            Ok(Err(e)) if e.kind() == io::ErrorKind::InvalidData => {
                note_tls_failure(&shared.stats, peer, &e);
            }
            Ok(Err(e)) => tracing::debug!(%peer, "a client left during its TLS handshake: {e}"),
            Err(_) => tracing::debug!(%peer, "no TLS handshake of a client within {limit:?}"),
        }
    });
}

async fn flush_loop(state: Rc<RefCell<State>>) {
    let mut timer = FineTimer::default();
    // However many sockets there are to write to, none is put off for the sake of other tasks.
    tokio::task::unconstrained(poll_fn::<(), _>(|cx| {
        let mut state = state.borrow_mut();
        if let Some(wait) = state.flush_dirty() {
            timer.arm(wait, cx);
        }
        state.flusher = Some(cx.waker().clone());
        Poll::Pending
    }))
    .await;
}

async fn tick_loop(state: Rc<RefCell<State>>) {
    let mut interval = tokio::time::interval(Duration::from_millis(100));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let mut state = state.borrow_mut();
        let before = std::mem::replace(&mut state.now, Instant::now());
        // `now` moves with every turn too, so such a gap means that this thread has stood still.
        let stood_still = state.now.saturating_duration_since(before) > STILL_MAX;
        if state.shared.epoch.load(Ordering::Acquire) != state.snapshot.epoch {
            state.adopt_snapshot();
        }
        state.cancel_unwanted();
        state.tend_schedules();
        state.expire_requests();
        // The nodes may have answered long ago: their answers are read before they are judged.
        if !stood_still {
            state.check_links();
        }
        state.check_sessions();
        state.check_credentials();
        state.maintain_pools();
        state.unpark_late();
        state.end_late_turns();
        state.settle();
        state.adapt_window();
        state.publish_gauges();
    }
}
