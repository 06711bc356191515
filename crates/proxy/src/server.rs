//! Starting, reloading and stopping a proxy.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle as JoinTask};
use tokio::time::timeout;

use crate::check::advice_on_dcs;
use crate::config::Config;
use crate::conn::Dialer;
use crate::conn::tls;
use crate::control;
use crate::control::agree::{self, AGREEMENTS_MAX};
use crate::control::recall::RECALLS_MAX;
use crate::handover::Successor;
use crate::handover::adopting;
use crate::handover::passing::Passing;
use crate::handover::place::{self, Place};
use crate::operator::{End, Operator};
use crate::process::{Process, Senders, ToWorker};
use crate::records::events::Kind;
use crate::records::{recorder, traces};
use crate::reload::Program;
use crate::siblings::{names, peers};
use crate::system::file_limit;
use crate::system::service_manager::{ServiceManager, State, Watchdog};
use crate::worker::{Worker, running};
use crate::{catalogue, idle_clients, reports};
use helenus_engine::features;
use helenus_engine::session::drain::Timetable;
use helenus_engine::shared::WorkerMessage;
use helenus_engine::snapshot::Snapshot;

/// Wishes of operators that wait; each is fulfilled at once.
const ACTIONS_MAX: usize = 16;
/// For the clients of the proxy before this one, if the next one is ready already; shorter than that one
/// waits to be told that this one has left.
const ADOPTING_PATIENCE: Duration = Duration::from_secs(3);
/// For what is still to be logged when all workers have ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Runs a proxy until SIGTERM or SIGINT.
pub fn serve(config: Config, program: Program) -> Result<()> {
    let problems = config.problems();
    if !problems.is_empty() {
        bail!(
            "the configuration cannot be used:\n  {}",
            problems.join("\n  ")
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(run(config, program));
    // Otherwise shutdown would wait for pending name resolutions, however long they take.
    runtime.shutdown_background();
    ended
}

async fn run(mut config: Config, program: Program) -> Result<()> {
    crate::config::read_secrets(&mut config)?;
    let dialer = Dialer::new(&config)?;
    let server_tls = config.listen.tls.as_ref().map(tls::server).transpose()?;
    let manager = ServiceManager::of_environment();

    // Bind before anything else, so that a port in use is reported at once; clients are refused until somebody
    // accepts them.
    let address = config.listen.address;
    let (mut place, listeners) = Place::take(&config)?;
    let workers = listeners.len();
    let (control_sender, control_requests) = mpsc::channel(1024);
    let (recall_sender, recalls) = mpsc::channel(RECALLS_MAX);
    let (change_sender, changes) = mpsc::channel(AGREEMENTS_MAX);
    let (action_sender, actions) = mpsc::channel(ACTIONS_MAX);
    let (trace_sender, traced) = mpsc::channel(traces::WAITING_MAX);
    let common = Arc::new(Process::new(
        config,
        dialer,
        server_tls,
        program.log.clone(),
        Senders {
            control: control_sender,
            changes: change_sender,
            recalls: recall_sender,
            actions: action_sender,
            traces: trace_sender,
        },
    ));
    // Monitoring must work from the start, above all to say why the proxy is not ready yet.
    place.begin(&common)?;
    record(&common);
    let mut operator = Operator::new(program, &common, actions)?;

    manager.tell(State::Starting("looking for the cluster"));
    let found = tokio::select! {
        found = operator.until_connected(&common, &manager) => found?,
        error = place.watch(&common) => return Err(error),
    };
    let Some((control, snapshot)) = found else {
        return Ok(());
    };
    log_cluster(&common, &snapshot, workers);
    let serving = format!(
        "serving clients of {} on {address}",
        snapshot.cluster_name()
    );
    common.contact_failure.store(None);
    common.publish(snapshot);
    // Before the first client, whose requests would be refused otherwise.
    let (end_catalogue, catalogue_end) = watch::channel(());
    let follower = catalogue::Watch::start(common.clone()).await;
    let follower = follower.map(|of| tokio::spawn(of.run(catalogue_end)));
    let names = names::Finder::start(common.clone()).await;
    let predecessor = place.enter(&common).await?;
    place::listen(address, &listeners)?;
    let threads = start_workers(&common, listeners)?;
    let adopting = predecessor.map(|of| tokio::spawn(adopting::adopt_all(common.clone(), of)));
    let control_task = tokio::spawn(control::run(
        common.clone(),
        control,
        control_requests,
        recalls,
    ));
    tokio::spawn(agree::run(common.clone(), changes));
    tokio::spawn(names.run());
    tokio::spawn(peers::watch(common.clone()));
    tokio::spawn(idle_clients::watch(common.clone()));
    if let Some(watchdog) = Watchdog::of_environment() {
        tokio::spawn(watchdog.feed(common.clone()));
    }
    tokio::spawn(reports::watch(common.clone()));
    let (end_traces, traces_end) = watch::channel(());
    let exporter = tokio::spawn(traces::run(common.clone(), traced, traces_end));
    tracing::info!(%address, workers, "ready for clients");
    let leaving = until_leaving(&common, &manager, &serving, &mut operator, place, adopting).await;
    let Some(Leaving {
        mut patience,
        passing,
        place: _admin,
    }) = leaving
    else {
        return Ok(());
    };
    operator.until_drained(&threads, &mut patience).await;
    if let Some(passing) = passing {
        // It ends with the workers, and says what has become of the clients.
        let _ = timeout(LAST_WORDS, passing).await;
    }
    drop(end_catalogue);
    if let Some(follower) = follower {
        let _ = timeout(LAST_WORDS, follower).await;
    }
    drop(end_traces);
    let _ = exporter.await;
    control_task.abort();
    Ok(())
}

/// A proxy whose end has begun.
struct Leaving {
    /// Signals that may come before nothing more is waited for: the service manager's after an operator's `drain` is
    /// the first one, not the second.
    patience: u32,
    /// Passes clients on.
    passing: Option<JoinTask<()>>,
    /// Unless another proxy has it.
    place: Option<Place>,
}

/// Waits until the proxy is to end, and begins that; `None` if nothing is to be waited for. A proxy that was ready to
/// take over and has ended by then has changed nothing.
async fn until_leaving(
    common: &Arc<Process>,
    manager: &ServiceManager,
    serving: &str,
    operator: &mut Operator,
    mut place: Place,
    mut adopting: Option<JoinTask<()>>,
) -> Option<Leaving> {
    let abort = adopting.as_ref().map(JoinTask::abort_handle);
    loop {
        let end = operator
            .until_end(manager, serving, place.successor())
            .await;
        let patience = match end {
            End::Asked { by_signal } => u32::from(!by_signal),
            End::Replaced(successor) => {
                let mut patience = 1;
                if let Some(adopting) = adopting.as_mut().filter(|of| !of.is_finished()) {
                    let adopted = until_adopted(&successor, adopting);
                    operator.meanwhile(adopted, &mut patience).await?;
                }
                if successor.is_there() {
                    // A client that has not come here by now stays where it is.
                    abort.inspect(AbortHandle::abort);
                    common.leave_port();
                    drop(place);
                    let way = make_way(common, manager, *successor);
                    let passing = operator.meanwhile(way, &mut patience).await?;
                    return Some(Leaving {
                        patience,
                        passing,
                        place: None,
                    });
                }
                if patience > 0 && !operator.wants_drain() {
                    tracing::warn!(
                        "a proxy that was ready to take over has ended: this one goes on"
                    );
                    place.wait_again(*successor);
                    continue;
                }
                // Without the successor, and so without the ports that it was to get.
                patience
            }
        };
        abort.inspect(AbortHandle::abort);
        drain(common, manager);
        return Some(Leaving {
            patience,
            passing: None,
            place: Some(place),
        });
    }
}

/// Waits until the clients of the proxy before this one are here, or the next one has gone: those that still come are
/// passed on with the others.
async fn until_adopted(successor: &Successor, adopting: &mut JoinTask<()>) {
    tracing::info!(
        "the next proxy is ready while clients of the one before are still coming: waiting for them, \
         {ADOPTING_PATIENCE:?} at most"
    );
    let adopted = timeout(ADOPTING_PATIENCE, adopting);
    successor.while_it_waits(adopted).await;
}

fn log_cluster(common: &Process, snapshot: &Snapshot, workers: usize) {
    tracing::info!(
        cluster = snapshot.cluster_name(),
        nodes = snapshot.nodes().count(),
        protocol = snapshot.version() as u8,
        dc = snapshot.nodes().local_dc(),
        "connected to Cassandra"
    );
    let settings = common.settings.load();
    let on_dcs = advice_on_dcs(snapshot, &settings);
    let on_files = file_limit::advice(snapshot, &settings, workers);
    for advice in on_dcs.into_iter().chain(on_files) {
        tracing::warn!("{advice}");
    }
}

/// Another proxy has this one's ports: it gets the clients, too. Those that it does not get leave as soon as
/// they are quiet.
async fn make_way(
    common: &Arc<Process>,
    manager: &ServiceManager,
    successor: Successor,
) -> Option<JoinTask<()>> {
    let whole = Duration::from_millis(common.settings.load().listen.drain_timeout_ms);
    // It includes what comes before the first client is passed on.
    let timetable = Timetable::new(Instant::now(), Duration::ZERO, whole);
    let passing = Passing::begin(common, successor, &timetable).await;
    // First, so that nobody is closed for being quiet.
    if let Some(passing) = &passing {
        common.pass_clients(passing.sender());
    }
    leave(common, manager, timetable);
    passing.map(|passing| tokio::spawn(passing.run(common.clone())))
}

/// Says that this one ends, and tells workers.
fn leave(common: &Process, manager: &ServiceManager, timetable: Timetable) {
    let clients = common.clients.load(Ordering::Acquire);
    let whole = timetable.deadline.saturating_duration_since(Instant::now());
    tracing::info!(
        clients,
        "another proxy has taken over; this one ends in {whole:?} at the latest"
    );
    let text = format!("another proxy has taken over; {clients} clients are left here");
    common.events.note(Kind::HandedOver, text);
    manager.tell(State::Stopping(&format!(
        "{clients} clients are moving to the proxy that has taken over, {whole:?} at most"
    )));
    stop(common, timetable);
}

/// Tells workers that the proxy is stopping.
fn stop(common: &Process, timetable: Timetable) {
    common.draining.store(true, Ordering::Release);
    // Requests that wait must be answered before their clients leave.
    common.features.pause.end(None, Instant::now());
    common.tell_workers(&WorkerMessage::Feature(features::Message::Pause(
        features::pause::Changed,
    )));
    common.drain_workers(timetable);
}

/// Tells clients and workers that the proxy is stopping. Without clients there is no grace period, unless it is wanted.
fn drain(common: &Process, manager: &ServiceManager) {
    let config = common.settings.load();
    let listen = &config.listen;
    let clients = common.clients.load(Ordering::Acquire);
    let grace = match clients {
        0 if !listen.drain_grace_idle => Duration::ZERO,
        _ => Duration::from_millis(listen.drain_grace_ms),
    };
    let whole = Duration::from_millis(listen.drain_timeout_ms);
    tracing::info!(
        clients,
        "stopping, in {whole:?} at the latest; a second signal stops at once"
    );
    let text = format!("stopping; {clients} clients are to move to other proxies");
    common.events.note(Kind::Draining, text);
    manager.tell(State::Stopping(&format!(
        "{clients} clients are moving to other proxies, {whole:?} at most"
    )));
    peers::tell_down(common, config.advertised());
    let timetable = Timetable::new(Instant::now(), grace, whole);
    let timetable = match listen.drain_grace_idle {
        true => timetable.keeping_grace(),
        false => timetable,
    };
    stop(common, timetable);
}

/// Keeps the last hour from now on.
fn record(common: &Arc<Process>) {
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("Helenus {version} started");
    common.events.note(Kind::Started, text);
    tokio::spawn(recorder::run(common.clone()));
}

/// One thread for each listener.
fn start_workers(
    common: &Arc<Process>,
    listeners: Vec<std::net::TcpListener>,
) -> Result<Vec<JoinHandle<()>>> {
    let workers = listeners.len();
    common.turns_of_workers.begin(workers, Instant::now());
    let mut threads = Vec::new();
    for (index, listener) in listeners.into_iter().enumerate() {
        // A worker that cannot start is no reason to serve clients with the rest.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _its_own = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Ok(mut senders) = common.workers.lock() {
            senders.push(sender);
        }
        let common = common.clone();
        let thread = std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || work(common, index, workers, runtime, listener, receiver))?;
        threads.push(thread);
    }
    Ok(threads)
}

fn work(
    common: Arc<Process>,
    index: usize,
    workers: usize,
    runtime: Runtime,
    listener: TcpListener,
    messages: mpsc::UnboundedReceiver<ToWorker>,
) {
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let seed =
            (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(std::process::id());
        let worker = Worker::new(common.clone(), index, workers, seed);
        let end = WorkerEnd { common, index };
        running::run(worker, listener, messages).await;
        end.common.turns_of_workers.end(index);
    });
}

/// The end of a worker, which others hear of however it comes.
struct WorkerEnd {
    common: Arc<Process>,
    index: usize,
}

impl Drop for WorkerEnd {
    fn drop(&mut self) {
        self.common.on_worker_ended(self.index);
    }
}
