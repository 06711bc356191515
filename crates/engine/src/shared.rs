//! State that all workers of one proxy share: settings, the snapshot, prepared statements, counters.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::ArcSwap;
use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashSet;

use crate::config::Config;
use crate::features;
use crate::keys::{ClientRequestKey, SessionKey};
use crate::memory::Memory;
use crate::rewrite::leases::Leases;
use crate::scheduler::scan_limit::ScanCounts;
use crate::scheduler::shared_node::SharedNodes;
use crate::session::login::identity::Identities;
use crate::session::login::queue::Logins;
use crate::snapshot::newest::Newest;
use crate::snapshot::{HostId, Snapshot};
use crate::statement::learned::alike::Shapes;
use crate::statement::prepared::asked::AskedStatement;
use crate::statement::prepared::id_lookup_cache::{Asker, IdLookups};
use crate::statement::prepared::registry::Registry;
use crate::statement::prepared::{PassedStatement, Prepared};
use crate::stats::Stats;
use crate::upstream::node_reports::Reports;
use crate::worker_status::Wanted;

/// Longer statements are not prepared before they are needed.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Of `limits.memory_max`, the part that may wait for one client to read it.
const BACKLOG_SHARE: usize = 4;

/// The settings in force in an engine, which it takes over when a message brings them, and the state that all threads
/// share.
pub struct Shared {
    pub config: Arc<Config>,
    common: Arc<Common>,
}

/// Shared by workers, control connection and admin server.
pub struct Common {
    /// The newest settings. Workers have their own [`Shared::config`] and need not look here.
    pub settings: ArcSwap<Config>,
    pub snapshot: Newest,
    /// Prepared statements known to any worker.
    pub(crate) prepared: Registry<Prepared>,
    descriptions: AtomicU64,
    pub clients: AtomicUsize,
    /// Nodes that Cassandra has reported as down.
    down: Mutex<FxHashSet<HostId>>,
    /// Nodes whose last report was that they are down; kept when the control connection is lost.
    last_down: Mutex<FxHashSet<HostId>>,
    id_lookups: Mutex<IdLookups>,
    /// Workers that have ended.
    ended: Mutex<FxHashSet<usize>>,
    /// The bound on memory where none is set.
    memory_max_default: usize,
    pub stats: Arc<Stats>,
    /// Bytes held by all workers.
    pub memory: Arc<Memory>,
    pub identities: Identities,
    /// Logins that nodes judge, and those that wait for that.
    pub logins: Logins,
    /// Scans under way.
    pub scans: Arc<ScanCounts>,
    /// Properties of scans that differ in their values only.
    pub(crate) shapes: Shapes,
    /// State of each node that workers share.
    pub nodes: SharedNodes,
    pub features: features::Shared,
    /// Nodes' reports of themselves.
    pub reports: Reports,
    /// Until when what is known of flags and catalogue may be relied on.
    pub leases: Leases,
}

/// A message of the control side or another worker to a worker.
#[derive(Clone, Debug)]
pub enum WorkerMessage {
    /// A new snapshot is there.
    Snapshot,
    /// This node has just answered, or Cassandra says that it is up.
    NodeUp(SocketAddr),
    /// New settings are in force.
    Settings(Arc<Config>),
    /// An EVENT body in the nodes' version, for the clients that registered for its kind.
    Event {
        kind: EventKind,
        body: Arc<[u8]>,
    },
    /// It is the turn of a login of that worker, or its place was given to another.
    LogIn {
        session: SessionKey,
        is_granted: bool,
    },
    /// Parts of an aggregate of that worker may be sent.
    Aggregate(ClientRequestKey),
    /// A node may have a permit for this worker's scans.
    ScanPermit(NodeIndex),
    /// Links to this node, or of all nodes, are to be replaced.
    Renew(Option<SocketAddr>),
    /// Somebody wants to know something of this worker; the number comes back with the answer.
    Report {
        ticket: u64,
        wanted: Wanted,
    },
    Feature(features::Message),
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

    /// The bound on memory in force, in bytes.
    pub fn memory_max(&self) -> usize {
        self.common.memory_max_of(&self.config)
    }

    /// Bytes that may wait for one client to read them: whatever the setting says, nobody gets more than a part of the
    /// whole account.
    #[inline]
    pub(crate) fn client_backlog_max(&self) -> usize {
        let limits = &self.config.limits;
        limits
            .client_backlog_bytes_max
            .min(self.memory_max() / BACKLOG_SHARE)
    }

    /// This state with other settings.
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
    /// `memory_max`: the bound on memory where none is set.
    pub fn new(config: Config, memory_max: usize, now: Instant) -> Common {
        let prepared_bytes = config.limits.prepared_bytes_max / 2;
        Common {
            identities: Identities::new(now),
            logins: Logins::default(),
            scans: Arc::default(),
            shapes: Shapes::default(),
            nodes: SharedNodes::new(now),
            features: features::Shared::new(&config, now),
            reports: Reports::default(),
            leases: Leases::new(now),
            settings: ArcSwap::from_pointee(config),
            snapshot: Newest::default(),
            prepared: Registry::new(prepared_bytes),
            descriptions: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            down: Mutex::default(),
            last_down: Mutex::default(),
            id_lookups: Mutex::new(IdLookups::default()),
            ended: Mutex::default(),
            memory_max_default: memory_max,
            stats: Arc::new(Stats::default()),
            memory: Arc::default(),
        }
    }

    /// Puts other settings in force, as far as all workers share what follows from them. Workers have to be told.
    pub fn adopt_settings(&self, config: Arc<Config>, now: Instant) {
        self.features.adopt(&config, now);
        self.settings.store(config);
    }

    /// The bound on memory under these settings, in bytes.
    pub fn memory_max_of(&self, config: &Config) -> usize {
        config.limits.memory_max.unwrap_or(self.memory_max_default)
    }

    /// A permit for one more client, unless there are too many.
    pub fn admit_client(self: &Arc<Common>) -> Option<ClientPermit> {
        let before = self.clients.fetch_add(1, Ordering::Relaxed);
        // Dropped, it takes back the count of one client too many.
        let permit = ClientPermit(self.clone());
        (before < self.settings.load().limits.clients_max).then_some(permit)
    }

    /// True if a node is to be asked for a prepared statement that nobody here knows. It will be known a little
    /// later, or not at all; nothing waits for it.
    pub(crate) fn wants_recall(&self, id: &[u8], asker: Asker, now: Instant) -> bool {
        let id_lookups = self.id_lookups.lock();
        id_lookups.is_ok_and(|mut id_lookups| id_lookups.is_due(id, asker, now))
    }

    /// A prepared statement was not asked for after all.
    pub fn forget_recall(&self, id: &[u8]) {
        if let Ok(mut id_lookups) = self.id_lookups.lock() {
            id_lookups.forget(id);
        }
    }

    /// True if a worker has not ended.
    pub fn is_running(&self, worker: usize) -> bool {
        self.ended
            .lock()
            .is_ok_and(|ended| !ended.contains(&worker))
    }

    /// A worker has ended: it takes no more messages.
    pub fn on_worker_ended(&self, worker: usize) {
        self.features.on_worker_ended(worker);
        if let Ok(mut ended) = self.ended.lock() {
            ended.insert(worker);
        }
        self.logins.forget_worker(worker);
        self.nodes.forget_worker(worker);
    }

    /// Notes what Cassandra reports of a node; whether that is news.
    pub fn note_status(&self, address: SocketAddr, is_down: bool) -> bool {
        let snapshot = self.snapshot.load();
        let mut nodes = snapshot.nodes().present();
        let node = nodes.find(|node| node.address() == address);
        if let (Some(node), Ok(mut down)) = (node, self.down.lock()) {
            if let Ok(mut last_down) = self.last_down.lock() {
                match is_down {
                    true => last_down.insert(node.host_id()),
                    false => last_down.remove(&node.host_id()),
                };
            }
            return match is_down {
                true => down.insert(node.host_id()),
                false => down.remove(&node.host_id()),
            };
        }
        false
    }

    pub fn forget_statuses(&self) {
        if let Ok(mut down) = self.down.lock() {
            down.clear();
        }
    }

    /// Nodes of which the last report was that they are down, whatever reports were missed since.
    pub fn nodes_last_down(&self) -> FxHashSet<HostId> {
        self.last_down
            .lock()
            .map(|down| down.clone())
            .unwrap_or_default()
    }

    /// A node has answered since it was reported as down.
    pub fn note_last_up(&self, host_id: HostId) {
        if let Ok(mut last_down) = self.last_down.lock() {
            last_down.remove(&host_id);
        }
    }

    /// Nodes that Cassandra has reported as down and not as up again.
    pub fn nodes_down(&self) -> FxHashSet<HostId> {
        self.down
            .lock()
            .map(|down| down.clone())
            .unwrap_or_default()
    }

    /// How many prepared statements are known.
    pub fn prepared_count(&self) -> usize {
        self.prepared.len()
    }

    /// The prepared statements known, but for long ones; those that were used lately come first.
    pub(crate) fn all_prepared(&self) -> Vec<Arc<Prepared>> {
        let is_short = |prepared: &Prepared| prepared.statement.text.len() <= TEXT_BYTES_MAX;
        self.prepared.all(is_short)
    }

    /// The prepared statements known, but for long ones, for another process: those that were used lately
    /// come first, for not all may fit or be in time.
    pub fn statements_to_pass(&self) -> impl Iterator<Item = PassedStatement> + use<> {
        let all = self.all_prepared().into_iter();
        all.map(|prepared| PassedStatement::of(&prepared))
    }

    /// Makes a statement known that clients have prepared through another process, unless it is: behind
    /// those that are known.
    pub fn adopt_statement(&self, passed: PassedStatement) {
        let passed = Arc::new(passed.prepared(&self.snapshot.load()));
        self.bound_prepared();
        self.prepared.adopt(passed, |known, passed| {
            // That other process's clients may know it by another description.
            if passed.may_have_changed() || known.description != passed.description {
                known.standing.note_changed();
                self.note_descriptions();
            }
        });
    }

    /// The prepared SELECTs of a table that clients have been counted to ask for, the most asked first.
    pub fn asked_of(&self, keyspace: &str, table: &str, now: Instant) -> Vec<AskedStatement> {
        let is_of = |prepared: &Prepared| {
            let of = prepared.table.as_ref();
            prepared.statement.is_read()
                && of.is_some_and(|(ks, name)| (&**ks, &**name) == (keyspace, table))
        };
        // Workers may wait for the lock: what is copied is copied without it.
        let found = self.prepared.all(is_of);
        let counted = found.iter().filter_map(|prepared| {
            Some(AskedStatement {
                text: prepared.statement.text.clone(),
                keyspace: prepared.keyspace.clone(),
                count: prepared.asked.count(now)?,
            })
        });
        let mut asked: Vec<AskedStatement> = counted.collect();
        asked.sort_by(|a, b| {
            let often = b.count.asked.total_cmp(&a.count.asked);
            often.then_with(|| a.text.cmp(&b.text))
        });
        asked
    }

    /// Makes a prepared statement known to all workers.
    pub fn publish_prepared(&self, prepared: &Arc<Prepared>) {
        self.bound_prepared();
        self.prepared.publish(prepared);
    }

    /// A statement as all workers know it. One that was forgotten in between takes its place again.
    pub(crate) fn published_or(&self, own: Arc<Prepared>) -> Arc<Prepared> {
        self.bound_prepared();
        self.prepared.published_or(own)
    }

    fn bound_prepared(&self) {
        let bytes_max = self.settings.load().limits.prepared_bytes_max / 2;
        self.prepared.set_bytes_max(bytes_max);
    }

    /// The schema of a keyspace has changed, or of any: nodes may describe statements otherwise by now.
    pub fn doubt_prepared(&self, keyspace: Option<&str>) {
        self.prepared
            .doubt(|prepared| keyspace.is_none_or(|keyspace| prepared.may_be_in(keyspace)));
        self.note_descriptions();
    }

    /// Counts what has made descriptions of statements out of date, or may have.
    pub(crate) fn descriptions(&self) -> u64 {
        self.descriptions.load(Ordering::Acquire)
    }

    pub(crate) fn note_descriptions(&self) {
        self.descriptions.fetch_add(1, Ordering::AcqRel);
    }

    /// A statement as it is known by now, if its columns may have changed.
    pub(crate) fn newest(&self, prepared: Arc<Prepared>) -> Arc<Prepared> {
        if !prepared.may_have_changed() {
            return prepared;
        }
        let newest = self.prepared.get(&prepared.id);
        newest.unwrap_or(prepared)
    }

    /// True if there is a later snapshot.
    pub(crate) fn is_newer_than(&self, snapshot: &Snapshot) -> bool {
        self.snapshot.epoch() != snapshot.epoch()
    }

    /// Puts a snapshot in force; workers take it over when they are told ([`WorkerMessage::Snapshot`]).
    pub fn store(&self, snapshot: Snapshot) {
        self.snapshot.store(snapshot);
    }
}

/// Counts a client from the moment it is accepted until its connection is closed.
pub struct ClientPermit(Arc<Common>);

impl Drop for ClientPermit {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
