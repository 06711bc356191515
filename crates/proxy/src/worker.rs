//! One worker thread: everything that its clients' queries need, owned by it alone.
//!
//! All state lies in one [`State`]; tasks of the thread borrow it for one turn at a time. Bytes for
//! sockets collect in encoders while a turn runs; the flusher task, queued behind all tasks that
//! are ready now, then writes each dirty connection once. So queries that arrive together leave
//! together, without any timer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{Counters, Schedule};
use rustc_hash::FxHashMap;
use slab::Slab;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::config::Config;
use crate::flush::{Completed, FineTimer, Pace};
use crate::link::Link;
use crate::pool::Pool;
use crate::prepared::{Prepared, Statement};
use crate::request::Request;
use crate::schedule::{self, Gate};
use crate::session::Session;
use crate::share::Shares;
use crate::shared::{Shared, WorkerMessage};
use crate::snapshot::{Node, Snapshot};
use crate::stats::{NodeStats, TableStats};
use crate::system::Proxies;

/// Names an entry of a slab, and tells it from later ones at the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub index: u32,
    pub generation: u32,
}

impl Key {
    /// Names nothing.
    pub const NONE: Key = Key {
        index: u32::MAX,
        generation: 0,
    };
}

/// What a worker keeps of a node.
pub struct NodeState {
    pub schedule: Schedule<Key>,
    /// Its scan slots, over all workers.
    pub gate: Arc<Gate>,
    /// The schedule's counters as published.
    pub published: Counters,
    /// Queries other than scans sent to it by all workers, as published; and when there were more.
    pub others: u64,
    pub others_at_us: u64,
    /// What waits is being sent.
    pub pumping: bool,
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
pub struct State {
    pub me: Weak<RefCell<State>>,
    pub shared: Arc<Shared>,
    pub snapshot: Arc<Snapshot>,
    pub proxies: Proxies,
    /// Which worker this is.
    pub index: usize,
    pub workers: usize,
    pub nodes: Vec<NodeState>,
    pub sessions: Slab<Session>,
    pub links: Slab<Link>,
    pub pools: Slab<Pool>,
    pub requests: Slab<Request>,
    pub generation: u32,
    pub statements: FxHashMap<Box<str>, Arc<Statement>>,
    pub statements_old: FxHashMap<Box<str>, Arc<Statement>>,
    pub prepared: FxHashMap<Box<[u8]>, Arc<Prepared>>,
    /// Re-prepares under way: requests that wait for a statement on a node.
    pub repreparing: FxHashMap<(Box<[u8]>, NodeIndex), Vec<Key>>,
    /// Requests whose node lost its links while they waited for it.
    pub retry_elsewhere: Vec<Key>,
    /// By keyspace and table.
    pub tables: FxHashMap<Box<str>, FxHashMap<Box<str>, Arc<TableStats>>>,
    pub tables_known: usize,
    pub dirty_sessions: Vec<u32>,
    pub dirty_links: Vec<u32>,
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
    pub in_flight_bytes: usize,
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
    pub fn new(shared: Arc<Shared>, index: usize, workers: usize, seed: u64) -> Rc<RefCell<State>> {
        let snapshot = shared.snapshot.load_full();
        let proxies = Proxies::of(&shared.config);
        let pace = Pace::new(&shared.config.aggregation);
        let shares = Shares::new(&shared.config.aggregation);
        Rc::new_cyclic(|me| {
            let mut state = State {
                me: me.clone(),
                shared,
                snapshot,
                proxies,
                index,
                workers,
                nodes: Vec::new(),
                sessions: Slab::new(),
                links: Slab::new(),
                pools: Slab::new(),
                requests: Slab::new(),
                generation: 0,
                statements: FxHashMap::default(),
                statements_old: FxHashMap::default(),
                prepared: FxHashMap::default(),
                repreparing: FxHashMap::default(),
                retry_elsewhere: Vec::new(),
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
                in_flight_bytes: 0,
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

    pub fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    /// A cheap random number for jitter.
    pub fn random(&mut self) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng
    }

    /// Takes the newest snapshot and makes room for nodes that are new in it.
    pub fn adopt_snapshot(&mut self) {
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
                others: 0,
                others_at_us: 0,
                pumping: false,
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
        if config.aggregation != self.shared.config.aggregation {
            self.pace = Pace::new(&config.aggregation);
        }
        self.shared = Arc::new(self.shared.with(config));
        self.adopt_scheduling();
        self.maintain_pools();
    }

    pub fn wake_flusher(&mut self) {
        if let Some(waker) = self.flusher.take() {
            waker.wake();
        }
    }

    /// Whether the whole state is idle enough to stop.
    fn is_drained(&self) -> bool {
        self.sessions.is_empty()
    }
}

/// Runs a worker until it is told to drain and has done so.
pub async fn run(
    state: Rc<RefCell<State>>,
    listener: TcpListener,
    mut messages: mpsc::UnboundedReceiver<WorkerMessage>,
) {
    let flusher = tokio::task::spawn_local(flush_loop(state.clone()));
    let ticker = tokio::task::spawn_local(tick_loop(state.clone()));
    let mut drain_deadline: Option<tokio::time::Instant> = None;
    loop {
        tokio::select! {
            accepted = listener.accept(), if drain_deadline.is_none() => match accepted {
                Ok((socket, peer)) => accept(&state, socket, peer),
                Err(e) => {
                    tracing::warn!("accepting a client failed: {e}");
                    // Out of file descriptors, most likely: give others time to close.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            message = messages.recv() => match message {
                Some(WorkerMessage::Snapshot) => state.borrow_mut().adopt_snapshot(),
                Some(WorkerMessage::Settings(config)) => state.borrow_mut().adopt_settings(config),
                Some(WorkerMessage::NodeUp(address)) => state.borrow_mut().on_node_up(address),
                Some(WorkerMessage::Event { kind, body }) => state.borrow_mut().emit(kind, &body),
                Some(WorkerMessage::Turn { write, with_turn }) => {
                    let mut state = state.borrow_mut();
                    state.now = Instant::now();
                    state.on_granted(write, with_turn);
                }
                Some(WorkerMessage::ScanSlot(node)) => {
                    let mut state = state.borrow_mut();
                    state.now = Instant::now();
                    state.on_scan_slot(node);
                }
                Some(WorkerMessage::Drain) | None => {
                    let mut state = state.borrow_mut();
                    let wait = state.shared.config.listen.drain_timeout_ms;
                    drain_deadline = Some(tokio::time::Instant::now() + Duration::from_millis(wait));
                    state.close_idle_sessions();
                }
            },
            () = tokio::time::sleep(Duration::from_millis(20)), if drain_deadline.is_some() => {
                let mut state = state.borrow_mut();
                state.close_idle_sessions();
                let late = drain_deadline.is_some_and(|d| tokio::time::Instant::now() >= d);
                if state.is_drained() || late {
                    break;
                }
            }
        }
    }
    flusher.abort();
    ticker.abort();
}

fn accept(state: &Rc<RefCell<State>>, socket: tokio::net::TcpStream, peer: SocketAddr) {
    let key = state.borrow_mut().open_session(socket, peer);
    if let Some(key) = key {
        let state = state.clone();
        tokio::task::spawn_local(poll_fn(move |cx| state.borrow_mut().poll_session(key, cx)));
    }
}

async fn flush_loop(state: Rc<RefCell<State>>) {
    let mut timer = FineTimer::default();
    poll_fn::<(), _>(|cx| {
        let mut state = state.borrow_mut();
        if let Some(wait) = state.flush_dirty() {
            timer.arm(wait, cx);
        }
        state.flusher = Some(cx.waker().clone());
        Poll::Pending
    })
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
        state.tend_schedules();
        state.expire_requests();
        // The nodes may have answered long ago: their answers are read before they are judged.
        if !stood_still {
            state.check_links();
        }
        state.check_sessions();
        state.maintain_pools();
        state.unpark_late();
        state.end_late_turns();
        state.adapt_window();
        state.publish_gauges();
    }
}
