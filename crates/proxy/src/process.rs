//! State shared by all threads of one process: what engines have in common, and channels between
//! threads.

use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption};
use helenus_engine::SessionKey;
use helenus_engine::config::Config;
use helenus_engine::features::records::RequestTrace;
use helenus_engine::session::drain::Timetable;
use helenus_engine::session::handover::passed::PassedClient;
use helenus_engine::shared::{Common, WorkerMessage};
use helenus_engine::snapshot::Snapshot;
use helenus_engine::stats::add;
use rustc_hash::FxHashSet;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::capture::Captures;
use crate::catalogue::{Known, LayoutNews};
use crate::conn::Dialer;
use crate::conn::tls::{self, Expiry};
use crate::places::{Bounds, Places};
use crate::questions::Questions;
use crate::records::events::Events;
use crate::records::history::History;
use crate::records::log_lines::LogLines;
use crate::records::rarely::Rarely;
use crate::reload::last::{LastReload, Reloaded};
use crate::system::boot_time;
use crate::system::memory;
use crate::worker::turns::WorkerTurns;

/// TLS handshakes of clients at a time: some 40 KiB each. One takes as long as a few messages do, and as those before it
/// take the proxy. So whoever has sent nothing makes room for others soon, and whoever has begun later
/// ([`HANDSHAKE_BUSY_MAX`]).
const HANDSHAKES: Bounds = Bounds {
    all: 4_096,
    address: 1_024,
    quiet: Duration::from_secs(2),
};
/// As many handshakes as there may be take one processor some four seconds with keys of RSA.
pub(crate) const HANDSHAKE_BUSY_MAX: Duration = Duration::from_secs(5);

/// Shared by workers, control connection and admin server.
pub(crate) struct Process {
    pub common: Arc<Common>,
    /// Why no contact point, or no node any more, responds.
    pub contact_failure: ArcSwapOption<String>,
    pub dialer: ArcSwap<Dialer>,
    pub server_tls: ArcSwapOption<rustls::ServerConfig>,
    /// TLS handshakes of clients under way.
    pub handshakes: Arc<Places>,
    /// Limits how often those that fail are logged.
    pub failed_handshakes: Mutex<Rarely>,
    /// When the certificates in force expire.
    pub expiries: ArcSwap<Vec<Expiry>>,
    pub draining: AtomicBool,
    /// Tells this start of a proxy from others: what it names may be something else in the next.
    pub start_number: u32,
    /// Other proxies that do not answer.
    pub proxies_down: ArcSwap<FxHashSet<SocketAddr>>,
    pub last_reload: LastReload,
    /// The last lines of the log, and what is logged if not what the settings say.
    pub log: Arc<LogLines>,
    pub log_filter: ArcSwapOption<ChangedFilter>,
    /// Events, and counters of the last hour.
    pub events: Events,
    pub history: History,
    /// Clients have logged in, so that there should be links (`node_state`).
    pub has_logins: AtomicBool,
    /// The catalogue of layouts and encoded columns as last read.
    pub catalogue: ArcSwap<Known>,
    /// A table may have changed.
    pub schema_changed: Notify,
    /// News of derived layouts, from workers.
    pub layout_news: LayoutNews,
    /// Nodes without the schema changes that clients wait for, as was last heard.
    pub schema_awaited_of: ArcSwap<Vec<SocketAddr>>,
    pub workers: Mutex<Vec<mpsc::UnboundedSender<ToWorker>>>,
    pub turns_of_workers: WorkerTurns,
    /// Questions of the admin server to them.
    pub questions: Questions,
    /// Clients' requests, recorded for an operator.
    pub captures: Captures,
    pub senders: Senders,
}

/// Channels to the control side.
pub(crate) struct Senders {
    pub control: mpsc::Sender<ControlRequest>,
    /// Schema changes whose clients are waiting for schema agreement.
    pub changes: mpsc::Sender<Change>,
    /// Ids of prepared statements to look up on a node.
    pub recalls: mpsc::Sender<Box<[u8]>>,
    /// Operators' actions.
    pub actions: mpsc::Sender<Action>,
    /// Requests that have ended, for a collector of traces.
    pub traces: mpsc::Sender<Box<RequestTrace>>,
}

/// Something that an operator asks of the whole process.
#[derive(Debug)]
pub(crate) enum Action {
    /// Read settings and certificates again, and say which settings have changed, or why none has.
    Reload(oneshot::Sender<Result<Reloaded, String>>),
    /// Stop, as on SIGTERM.
    Drain,
    /// Log something else for a while.
    Log(LogChange),
}

/// A change of the filter of the log; without one, back to the settings'.
#[derive(Debug)]
pub(crate) struct LogChange {
    pub wanted: Option<LogFilter>,
    /// Why it cannot be done.
    pub done: oneshot::Sender<Result<(), String>>,
}

/// A filter of the log beside the settings', and its time.
#[derive(Debug)]
pub(crate) struct LogFilter {
    pub filter: String,
    pub time: Duration,
}

/// The filter of the log in place of the settings'.
#[derive(Debug)]
pub(crate) struct ChangedFilter {
    pub filter: String,
    pub until: Instant,
}

/// Requests of workers to the control connection.
#[derive(Debug)]
pub(crate) enum ControlRequest {
    /// Read topology and schema again, and report completion.
    Refresh(Option<oneshot::Sender<()>>),
    /// Nodes do not agree on the schema: show clients that.
    Versions,
}

/// A waiting schema change.
#[derive(Debug)]
pub(crate) struct Change {
    /// The node that made it: others may not know of it yet.
    pub coordinator: SocketAddr,
    /// Completed when all nodes that are up have it and the snapshot contains it. The waiting side
    /// gives up by closing it.
    pub done: oneshot::Sender<()>,
}

/// A client on its way to the proxy that has taken over.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub worker: usize,
    pub key: SessionKey,
    pub client: PassedClient,
    pub socket: OwnedFd,
}

/// The fate of a client that was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The other proxy has it.
    Passed,
    /// It has to stay.
    Kept,
    /// Nobody knows whether the other proxy has it.
    Lost,
}

/// Clients that come from the proxy before this one.
#[derive(Debug)]
pub(crate) struct Arriving {
    pub clients: Vec<(PassedClient, OwnedFd)>,
    /// Of each, why it cannot be served.
    pub outcomes: oneshot::Sender<Vec<Option<String>>>,
    /// That the other proxy has been told. Nothing is read from them before, or written; if it never has
    /// been, they are not served.
    pub confirmed: oneshot::Receiver<()>,
}

/// Messages to a worker thread.
#[derive(Debug)]
pub(crate) enum ToWorker {
    /// For its engine.
    Message(WorkerMessage),
    /// Stop, in this order.
    Drain(Timetable),
    /// Take no further clients, because another process does.
    LeavePort,
    /// While stopping, pass clients on to another process.
    Pass(mpsc::Sender<Leaving>),
    /// The fates of these clients.
    Settle(Vec<(SessionKey, Fate)>),
    /// Pass no further clients on.
    EndPassing,
    /// Serve these as well.
    Adopt(Arriving),
}

impl Deref for Process {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

/// Milliseconds of the wall clock: the same again after seven weeks, and mixed with the process's number.
fn start_number() -> u32 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default().as_millis() as u32 ^ std::process::id().rotate_left(16)
}

impl Process {
    pub(crate) fn new(
        config: Config,
        dialer: Dialer,
        server_tls: Option<Arc<rustls::ServerConfig>>,
        log: Arc<LogLines>,
        senders: Senders,
    ) -> Process {
        let expiries = tls::expiries(&config);
        let (now, began) = (Instant::now(), boot_time::now());
        let common = Common::new(config, memory::default_max(), now);
        Process {
            common: Arc::new(common),
            contact_failure: ArcSwapOption::empty(),
            dialer: ArcSwap::from_pointee(dialer),
            server_tls: ArcSwapOption::new(server_tls),
            handshakes: Places::new(HANDSHAKES),
            failed_handshakes: Mutex::default(),
            expiries: ArcSwap::from_pointee(expiries),
            draining: AtomicBool::new(false),
            has_logins: AtomicBool::new(false),
            start_number: start_number(),
            proxies_down: ArcSwap::default(),
            last_reload: LastReload::at_start(),
            log,
            log_filter: ArcSwapOption::empty(),
            events: Events::new(began),
            history: History::new(began),
            catalogue: ArcSwap::default(),
            schema_changed: Notify::new(),
            layout_news: LayoutNews::default(),
            schema_awaited_of: ArcSwap::default(),
            workers: Mutex::new(Vec::new()),
            turns_of_workers: WorkerTurns::new(now),
            questions: Questions::default(),
            captures: Captures::default(),
            senders,
        }
    }

    /// Has what has become of a request sent to a collector, if there is room for it.
    pub(crate) fn trace(&self, trace: Box<RequestTrace>) {
        if self.senders.traces.try_send(trace).is_err() {
            add(&self.stats.global.traces_dropped, 1);
        }
    }

    /// Requests a look-up of a prepared statement on a node.
    pub(crate) fn recall(&self, id: Box<[u8]>) {
        if let Err(refused) = self.senders.recalls.try_send(id) {
            self.forget_recall(&refused.into_inner());
        }
    }

    /// Tells all workers; how many have not ended.
    pub(crate) fn tell_workers(&self, message: &WorkerMessage) -> usize {
        self.tell_all(|| ToWorker::Message(message.clone()))
    }

    /// Tells all workers to stop.
    pub(crate) fn drain_workers(&self, timetable: Timetable) {
        self.tell_all(|| ToWorker::Drain(timetable));
    }

    /// Tells all workers that another process takes their clients.
    pub(crate) fn leave_port(&self) {
        self.tell_all(|| ToWorker::LeavePort);
    }

    /// Tells all workers to pass their clients on.
    pub(crate) fn pass_clients(&self, to: &mpsc::Sender<Leaving>) {
        self.tell_all(|| ToWorker::Pass(to.clone()));
    }

    /// Tells all workers that no further clients can be passed on.
    pub(crate) fn end_passing(&self) {
        self.tell_all(|| ToWorker::EndPassing);
    }

    fn tell_all(&self, message: impl Fn() -> ToWorker) -> usize {
        let Ok(workers) = self.workers.lock() else {
            return 0;
        };
        // A worker that has ended needs no message.
        let told = workers.iter().map(|worker| worker.send(message()));
        told.filter(Result::is_ok).count()
    }

    /// Tells one worker; false if it has ended.
    pub(crate) fn tell_worker(&self, index: usize, message: WorkerMessage) -> bool {
        self.send_to_worker(index, ToWorker::Message(message))
    }

    /// [`Self::tell_worker`] with messages that are not for its engine.
    pub(crate) fn send_to_worker(&self, index: usize, message: ToWorker) -> bool {
        let workers = self.workers.lock();
        workers.is_ok_and(|workers| {
            let worker = workers.get(index);
            worker.is_some_and(|worker| worker.send(message).is_ok())
        })
    }

    /// How many workers there are, ended ones included.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.lock().map_or(0, |workers| workers.len())
    }

    /// Puts settings in force, for all workers.
    pub(crate) fn put_in_force(&self, config: Config) {
        let config = Arc::new(config);
        self.adopt_settings(config.clone(), Instant::now());
        self.tell_workers(&WorkerMessage::Settings(config));
    }

    /// Publishes a snapshot, with the layouts and encoded columns that are known by now: it may have been
    /// read before they were.
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        let known = self.catalogue.load();
        let mut features = snapshot.features().clone();
        features.layouts = known.layouts.layouts.clone();
        features.encodings = known.encodings.encodings.clone();
        let published = self.snapshot.epoch();
        let epoch = snapshot.epoch().max(published + 1);
        self.store(snapshot.edit().features(features).epoch(epoch).build());
        self.tell_workers(&WorkerMessage::Snapshot);
    }
}
