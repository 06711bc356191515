//! What all threads of one proxy share: settings, the snapshot, prepared statements, counters.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashSet;
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::conn::Dialer;
use crate::control::agree::Change;
use crate::control::recall::Recalled;
use crate::drain::Timetable;
use crate::engine::RequestKey;
use crate::identity::Identities;
use crate::logins::Logins;
use crate::memory::Memory;
use crate::prepared::{Prepared, Published};
use crate::recent::Recent;
use crate::scan_limit::ScanCounts;
use crate::schedule::Gates;
use crate::snapshot::{HostId, Snapshot};
use crate::stats::Stats;
use crate::turns::{SharedTurns, Write};

/// What a worker holds: the settings in force, which it takes over between two turns, and what all
/// threads have in common.
pub(crate) struct Shared {
    pub config: Arc<Config>,
    common: Arc<Common>,
}

/// Shared by workers, control connection and admin server.
pub(crate) struct Common {
    /// The newest settings. Workers have their own [`Shared::config`] and need not look here.
    pub settings: ArcSwap<Config>,
    /// Why no contact point answers, or no node any more.
    pub contact_failure: ArcSwapOption<String>,
    pub snapshot: ArcSwap<Snapshot>,
    /// The snapshot's epoch, cheap to look at.
    pub epoch: AtomicU64,
    pub dialer: ArcSwap<Dialer>,
    pub server_tls: ArcSwapOption<rustls::ServerConfig>,
    /// Prepared statements known to any worker.
    pub prepared: Mutex<Recent<Box<[u8]>, Arc<Published>>>,
    pub clients: AtomicUsize,
    pub draining: AtomicBool,
    pub control: mpsc::Sender<ControlRequest>,
    /// Schema changes whose clients wait for the nodes to agree.
    pub changes: mpsc::Sender<Change>,
    /// Nodes that Cassandra has reported as down.
    down: Mutex<FxHashSet<HostId>>,
    /// Ids of prepared statements that a node shall tell about.
    recalls: mpsc::Sender<Box<[u8]>>,
    recalled: Mutex<Recalled>,
    pub workers: Mutex<Vec<mpsc::UnboundedSender<ToWorker>>>,
    pub stats: Arc<Stats>,
    /// Bytes held by all workers.
    pub memory: Arc<Memory>,
    pub identities: Identities,
    pub logins: Arc<Logins>,
    pub turns: SharedTurns,
    /// Scans under way.
    pub scans: Arc<ScanCounts>,
    /// Scan slots of the nodes.
    pub gates: Gates,
}

/// What workers ask of the control connection.
#[derive(Debug)]
pub(crate) enum ControlRequest {
    /// Read topology and schema again, and say so.
    Refresh(Option<oneshot::Sender<()>>),
}

/// What the control connection tells workers.
#[derive(Clone, Debug)]
pub(crate) enum WorkerMessage {
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
    /// Parts of an aggregate of that worker may be sent.
    Aggregate(RequestKey),
    /// A node may have a slot for this worker's scans.
    ScanSlot(NodeIndex),
}

/// What a worker's thread is told.
#[derive(Clone, Debug)]
pub(crate) enum ToWorker {
    /// For its engine.
    Message(WorkerMessage),
    /// Stop, in this order.
    Drain(Timetable),
}

/// Kinds of events that clients register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    Topology = 1,
    Status = 2,
    Schema = 4,
}

impl EventKind {
    pub(crate) fn parse(name: &str) -> Option<EventKind> {
        match name {
            "TOPOLOGY_CHANGE" => Some(EventKind::Topology),
            "STATUS_CHANGE" => Some(EventKind::Status),
            "SCHEMA_CHANGE" => Some(EventKind::Schema),
            _ => None,
        }
    }
}

impl Shared {
    pub(crate) fn new(common: Arc<Common>) -> Shared {
        let config = common.settings.load_full();
        Shared { config, common }
    }

    /// A permit for one more client, unless there are too many.
    pub(crate) fn admit_client(&self) -> Option<ClientPermit> {
        let before = self.clients.fetch_add(1, Ordering::Relaxed);
        // Dropped, it takes back the count of one client too many.
        let permit = ClientPermit(self.common.clone());
        (before < self.config.limits.clients_max).then_some(permit)
    }

    /// The same with other settings.
    pub(crate) fn with(&self, config: Arc<Config>) -> Shared {
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
    pub(crate) fn new(
        config: Config,
        dialer: Dialer,
        server_tls: Option<Arc<rustls::ServerConfig>>,
        control: mpsc::Sender<ControlRequest>,
        recalls: mpsc::Sender<Box<[u8]>>,
        changes: mpsc::Sender<Change>,
    ) -> Common {
        let prepared_bytes = config.limits.prepared_bytes_max / 2;
        Common {
            turns: SharedTurns::new(&config.aggregation),
            identities: Identities::default(),
            logins: Arc::default(),
            scans: Arc::default(),
            gates: Gates::default(),
            settings: ArcSwap::from_pointee(config),
            contact_failure: ArcSwapOption::empty(),
            snapshot: ArcSwap::from_pointee(Snapshot::unknown()),
            epoch: AtomicU64::new(0),
            dialer: ArcSwap::from_pointee(dialer),
            server_tls: ArcSwapOption::new(server_tls),
            prepared: Mutex::new(Recent::new(prepared_bytes)),
            clients: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            control,
            changes,
            down: Mutex::default(),
            recalls,
            recalled: Mutex::new(Recalled::default()),
            workers: Mutex::new(Vec::new()),
            stats: Arc::new(Stats::default()),
            memory: Arc::default(),
        }
    }

    /// Whether a node is to be asked for a prepared statement that nobody here knows. It will be known
    /// a little later, or not at all; nothing waits for it.
    pub(crate) fn wants_recall(&self, id: &[u8], now: Instant) -> bool {
        let recalled = self.recalled.lock();
        recalled.is_ok_and(|mut recalled| recalled.is_due(id, now))
    }

    /// Has a node asked for a prepared statement.
    pub(crate) fn recall(&self, id: Box<[u8]>) {
        if let Err(refused) = self.recalls.try_send(id)
            && let Ok(mut recalled) = self.recalled.lock()
        {
            recalled.forget(&refused.into_inner());
        }
    }

    /// Whether a worker has not ended.
    pub(crate) fn is_running(&self, worker: usize) -> bool {
        let workers = self.workers.lock();
        workers.is_ok_and(|w| w.get(worker).is_some_and(|w| !w.is_closed()))
    }

    /// Notes what Cassandra reports of a node.
    pub(crate) fn note_status(&self, address: SocketAddr, is_down: bool) {
        let snapshot = self.snapshot.load();
        let mut nodes = snapshot.nodes.iter().filter(|node| !node.gone);
        let node = nodes.find(|node| node.address == address);
        if let (Some(node), Ok(mut down)) = (node, self.down.lock()) {
            match is_down {
                true => down.insert(node.host_id),
                false => down.remove(&node.host_id),
            };
        }
    }

    pub(crate) fn forget_statuses(&self) {
        if let Ok(mut down) = self.down.lock() {
            down.clear();
        }
    }

    /// Nodes that Cassandra has reported as down and not as up again.
    pub(crate) fn nodes_down(&self) -> FxHashSet<HostId> {
        self.down
            .lock()
            .map(|down| down.clone())
            .unwrap_or_default()
    }

    /// Makes a prepared statement known to all workers.
    pub(crate) fn publish_prepared(&self, prepared: &Arc<Prepared>) {
        let Ok(mut known) = self.prepared.lock() else {
            return;
        };
        known.set_bytes_max(self.settings.load().limits.prepared_bytes_max / 2);
        let (id, weight) = (prepared.id.clone(), prepared.byte_len());
        known.insert(id, Arc::new(Published(prepared.clone())), weight);
    }

    /// A statement as it is known by now, if its columns may have changed.
    pub(crate) fn newest(&self, prepared: Arc<Prepared>) -> Arc<Prepared> {
        if !prepared.may_have_changed() {
            return prepared;
        }
        let known = self.prepared.lock().ok();
        let newest = known.and_then(|mut known| Some(known.get(&*prepared.id)?.0.clone()));
        newest.unwrap_or(prepared)
    }

    pub(crate) fn tell_workers(&self, message: &WorkerMessage) {
        self.tell_all(&ToWorker::Message(message.clone()));
    }

    /// Has all workers stop.
    pub(crate) fn drain_workers(&self, timetable: Timetable) {
        self.tell_all(&ToWorker::Drain(timetable));
    }

    fn tell_all(&self, message: &ToWorker) {
        if let Ok(workers) = self.workers.lock() {
            for worker in workers.iter() {
                // A worker that has ended needs no news.
                let _ = worker.send(message.clone());
            }
        }
    }

    pub(crate) fn tell_worker(&self, index: usize, message: WorkerMessage) {
        if let Ok(workers) = self.workers.lock()
            && let Some(worker) = workers.get(index)
        {
            // One that has ended needs no news.
            let _ = worker.send(ToWorker::Message(message));
        }
    }

    pub(crate) fn publish(&self, snapshot: Snapshot) {
        let epoch = snapshot.epoch;
        self.snapshot.store(Arc::new(snapshot));
        self.epoch.store(epoch, Ordering::Release);
        self.tell_workers(&WorkerMessage::Snapshot);
    }
}

/// Counts a client from the moment it is accepted until its connection is closed.
pub(crate) struct ClientPermit(Arc<Common>);

impl Drop for ClientPermit {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
