//! What all threads of one proxy share: settings, the snapshot, prepared statements, counters.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::conn::Dialer;
use crate::control::recall::Recent;
use crate::prepared::Prepared;
use crate::scan_limit::ScanCounts;
use crate::schedule::Gates;
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::turns::{SharedTurns, Write};

/// What a worker holds: the settings in force, which it takes over between two turns, and what all
/// threads have in common.
pub struct Shared {
    pub config: Arc<Config>,
    common: Arc<Common>,
}

/// Shared by workers, control connection and admin server.
pub struct Common {
    /// The newest settings. Workers have their own [`Shared::config`] and need not look here.
    pub settings: ArcSwap<Config>,
    /// Why no contact point has answered yet.
    pub contact_failure: ArcSwapOption<String>,
    pub snapshot: ArcSwap<Snapshot>,
    /// The snapshot's epoch, cheap to look at.
    pub epoch: AtomicU64,
    pub dialer: ArcSwap<Dialer>,
    pub server_tls: ArcSwapOption<rustls::ServerConfig>,
    pub prepared: Mutex<PreparedTable>,
    pub clients: AtomicUsize,
    pub draining: AtomicBool,
    pub control: mpsc::Sender<ControlRequest>,
    /// Ids of prepared statements that a node shall tell about.
    recalls: mpsc::Sender<Box<[u8]>>,
    recalled: Mutex<Recent>,
    pub workers: Mutex<Vec<mpsc::UnboundedSender<WorkerMessage>>>,
    pub stats: Arc<Stats>,
    pub turns: SharedTurns,
    /// Scans under way.
    pub scans: Arc<ScanCounts>,
    /// Scan slots of the nodes.
    pub gates: Gates,
}

/// What workers ask of the control connection.
#[derive(Debug)]
pub enum ControlRequest {
    /// Answered when all nodes that are up have the schema of this node, which has just changed it,
    /// and the snapshot shows it; or when that takes too long.
    Agree(SocketAddr, oneshot::Sender<()>),
    /// Read topology and schema again: the settings that they are seen with have changed.
    Refresh,
}

/// What the control connection tells workers.
#[derive(Clone, Debug)]
pub enum WorkerMessage {
    /// A new snapshot is there.
    Snapshot,
    /// This node has just answered, or Cassandra says that it is up.
    NodeUp(SocketAddr),
    /// New settings are in force.
    Settings(Arc<Config>),
    /// An EVENT body in the nodes' version, for the clients that registered for its kind.
    Event { kind: EventKind, body: Arc<[u8]> },
    /// A conditional write of that worker may go on.
    Turn { write: Write, with_turn: bool },
    /// A node may have a slot for this worker's scans.
    ScanSlot(NodeIndex),
    /// Finish what is in flight, then stop.
    Drain,
}

/// Kinds of events that clients register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    Topology = 1,
    Status = 2,
    Schema = 4,
}

impl EventKind {
    pub fn parse(name: &str) -> Option<EventKind> {
        match name {
            "TOPOLOGY_CHANGE" => Some(EventKind::Topology),
            "STATUS_CHANGE" => Some(EventKind::Status),
            "SCHEMA_CHANGE" => Some(EventKind::Schema),
            _ => None,
        }
    }
}

impl Shared {
    pub fn new(common: Arc<Common>) -> Shared {
        let config = common.settings.load_full();
        Shared { config, common }
    }

    /// The same with other settings.
    pub fn with(&self, config: Arc<Config>) -> Shared {
        let common = self.common.clone();
        Shared { config, common }
    }
}

impl Deref for Shared {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Common {
    pub fn new(
        config: Config,
        dialer: Dialer,
        server_tls: Option<Arc<rustls::ServerConfig>>,
        control: mpsc::Sender<ControlRequest>,
        recalls: mpsc::Sender<Box<[u8]>>,
    ) -> Common {
        Common {
            turns: SharedTurns::new(&config.aggregation),
            scans: Arc::default(),
            gates: Gates::default(),
            settings: ArcSwap::from_pointee(config),
            contact_failure: ArcSwapOption::empty(),
            snapshot: ArcSwap::from_pointee(Snapshot::unknown()),
            epoch: AtomicU64::new(0),
            dialer: ArcSwap::from_pointee(dialer),
            server_tls: ArcSwapOption::new(server_tls),
            prepared: Mutex::new(PreparedTable::default()),
            clients: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            control,
            recalls,
            recalled: Mutex::new(Recent::default()),
            workers: Mutex::new(Vec::new()),
            stats: Arc::new(Stats::default()),
        }
    }

    /// Asks for a prepared statement that nobody here knows. It will be known a little later, or not
    /// at all; nothing waits for it.
    pub fn recall(&self, id: &[u8]) {
        let Ok(mut recalled) = self.recalled.lock() else {
            return;
        };
        if recalled.is_due(id, Instant::now()) && self.recalls.try_send(id.into()).is_err() {
            recalled.forget(id);
        }
    }

    pub fn tell_workers(&self, message: &WorkerMessage) {
        if let Ok(workers) = self.workers.lock() {
            for worker in workers.iter() {
                // A worker that has ended needs no news.
                let _ = worker.send(message.clone());
            }
        }
    }

    /// False if the worker has ended.
    pub fn tell_worker(&self, index: usize, message: WorkerMessage) -> bool {
        let workers = self.workers.lock();
        workers.is_ok_and(|w| w.get(index).is_some_and(|w| w.send(message).is_ok()))
    }

    pub fn publish(&self, snapshot: Snapshot) {
        let epoch = snapshot.epoch;
        self.snapshot.store(Arc::new(snapshot));
        self.epoch.store(epoch, Ordering::Release);
        self.tell_workers(&WorkerMessage::Snapshot);
    }
}

/// Prepared statements known to any worker, bounded: when full, the older half is forgotten.
#[derive(Default)]
pub struct PreparedTable {
    young: FxHashMap<Box<[u8]>, Arc<Prepared>>,
    old: FxHashMap<Box<[u8]>, Arc<Prepared>>,
}

impl PreparedTable {
    pub fn get(&mut self, id: &[u8], max: usize) -> Option<Arc<Prepared>> {
        if let Some(found) = self.young.get(id) {
            return Some(found.clone());
        }
        let found = self.old.remove(id)?;
        self.insert(found.clone(), max);
        Some(found)
    }

    pub fn insert(&mut self, prepared: Arc<Prepared>, max: usize) {
        if self.young.len() >= max.div_ceil(2) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(prepared.id.clone(), prepared);
    }

    /// Statements remembered.
    pub fn count(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
