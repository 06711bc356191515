//! Starting, reloading and stopping a proxy.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_policy::route::Locality;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Interval;

use crate::check::advice_on_dcs;
use crate::config::{Config, Listen};
use crate::conn::{ConnError, Dialer};
use crate::control::agree::{self, AGREEMENTS_MAX};
use crate::control::contact;
use crate::control::recall::RECALLS_MAX;
use crate::control::{self, Control, NoControl};
use crate::process::{Action, Process, Senders, ToWorker};
use crate::reload::{FILES_INTERVAL, Program, Reloader};
use crate::service_manager::{ServiceManager, State};
use crate::worker::{self, Worker};
use crate::{admin, catalogue, proxy_peers, reports, tls};
use helenus_engine::drain::Timetable;
use helenus_engine::shared::WorkerMessage;
use helenus_engine::snapshot::Snapshot;

/// Wishes of operators that wait; each is fulfilled at once.
const ACTIONS_MAX: usize = 16;

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
    let signals = Signals::new()?;
    let manager = ServiceManager::of_environment();

    // Bind before anything else, so that a port in use is reported at once.
    let address = config.listen.address;
    let listeners = bind_all(&config.listen)?;
    let workers = listeners.len();
    let (control_sender, control_requests) = mpsc::channel(1024);
    let (recall_sender, recalls) = mpsc::channel(RECALLS_MAX);
    let (change_sender, changes) = mpsc::channel(AGREEMENTS_MAX);
    let (action_sender, actions) = mpsc::channel(ACTIONS_MAX);
    let common = Arc::new(Process::new(
        config,
        dialer,
        server_tls,
        Senders {
            control: control_sender,
            changes: change_sender,
            recalls: recall_sender,
            actions: action_sender,
        },
    ));
    // Monitoring must work from the start, above all to say why the proxy is not ready yet.
    let _socket = admin::start(&common).await?;
    let mut wishes = Wishes {
        signals,
        actions,
        files: tokio::time::interval(FILES_INTERVAL),
        reloader: Reloader::new(program, common.clone()),
        is_draining: false,
    };

    manager.tell(State::Starting("looking for the cluster"));
    let mut contact = pin!(first_control(&common, &manager));
    let (control, snapshot) = loop {
        tokio::select! {
            found = &mut contact => break found?,
            wish = wishes.next(|_| ()) => match wish {
                // At once, because the change may be what makes the contact points usable.
                Wish::Reloaded => contact.set(first_control(&common, &manager)),
                Wish::Drain | Wish::Stop => return Ok(()),
            },
        }
    };
    tracing::info!(
        cluster = snapshot.cluster_name,
        nodes = snapshot.nodes.len(),
        protocol = snapshot.version as u8,
        dc = snapshot.local_dc,
        "connected to Cassandra"
    );
    let serving = format!("serving clients of {} on {address}", snapshot.cluster_name);
    if let Some(advice) = advice_on_dcs(&snapshot, &common.settings.load()) {
        tracing::warn!("{advice}");
    }
    common.contact_failure.store(None);
    common.publish(snapshot);
    // Before the first client, whose requests would be refused otherwise.
    if let Some(watch) = catalogue::Watch::start(common.clone()).await {
        tokio::spawn(watch.run());
    }
    let threads = start_workers(&common, listeners)?;
    let control_task = tokio::spawn(control::run(
        common.clone(),
        control,
        control_requests,
        recalls,
    ));
    tokio::spawn(agree::run(common.clone(), changes));
    tokio::spawn(proxy_peers::watch(common.clone()));
    tokio::spawn(reports::watch(common.clone()));
    tracing::info!(%address, workers, "ready for clients");
    manager.tell(State::Ready(&serving));
    let tell = |reloading: Reloading| {
        manager.tell(match reloading {
            Reloading::Begins => State::Reloading,
            Reloading::Ended => State::Ready(&serving),
        });
    };
    let mut stop = wishes.next(tell).await;
    while stop == Wish::Reloaded {
        stop = wishes.next(tell).await;
    }
    // The service manager sends its one signal when an operator has begun the drain.
    let mut is_signalled = stop == Wish::Stop;
    drain(&common, &manager);
    // A panic of a worker has been reported already.
    while threads.iter().any(|thread| !thread.is_finished()) {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
            wish = wishes.next(|_| ()) => match wish {
                Wish::Reloaded | Wish::Drain => {}
                Wish::Stop if is_signalled => break,
                Wish::Stop => is_signalled = true,
            },
        }
    }
    control_task.abort();
    Ok(())
}

/// Signals that the process listens to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// What is asked of the process from outside: by signals, by operators, and by files that change.
struct Wishes {
    signals: Signals,
    actions: mpsc::Receiver<Action>,
    files: Interval,
    reloader: Reloader,
    /// An operator has stopped the proxy.
    is_draining: bool,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Settings were read again; nothing is left to be done.
    Reloaded,
    /// An operator stops the proxy.
    Drain,
    /// A signal does.
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reloading {
    Begins,
    Ended,
}

impl Wishes {
    /// The next wish. Reloads are carried out here; `tell` hears when one begins and ends.
    async fn next(&mut self, tell: impl Fn(Reloading)) -> Wish {
        loop {
            let done = tokio::select! {
                _ = self.signals.hangup.recv() => None,
                Some(action) = self.actions.recv() => match action {
                    Action::Reload(done) => Some(done),
                    // Told twice, it would stop at once, as with a second signal.
                    Action::Drain if self.is_draining => continue,
                    Action::Drain => {
                        self.is_draining = true;
                        return Wish::Drain;
                    }
                },
                _ = self.files.tick() => {
                    self.reloader.look_at_files();
                    continue;
                }
                _ = self.signals.terminate.recv() => return Wish::Stop,
                _ = self.signals.interrupt.recv() => return Wish::Stop,
            };
            tell(Reloading::Begins);
            let reloaded = self.reloader.reload().map_err(|e| format!("{e:#}"));
            if let Some(done) = done {
                // Whoever has asked may have gone; the log says it as well.
                let _ = done.send(reloaded);
            }
            tell(Reloading::Ended);
            return Wish::Reloaded;
        }
    }
}

/// Tells clients and workers that the proxy is stopping. Without clients there is no grace period.
fn drain(common: &Process, manager: &ServiceManager) {
    let config = common.settings.load();
    let listen = &config.listen;
    let clients = common.clients.load(Ordering::Acquire);
    let grace = match clients {
        0 => Duration::ZERO,
        _ => Duration::from_millis(listen.drain_grace_ms),
    };
    let whole = Duration::from_millis(listen.drain_timeout_ms);
    tracing::info!(
        clients,
        "stopping, in {whole:?} at the latest; a second signal stops at once"
    );
    manager.tell(State::Stopping(&format!(
        "{clients} clients are moving to other proxies, {whole:?} at most"
    )));
    common.draining.store(true, Ordering::Release);
    // What waits must be answered before its clients leave.
    common.holds.end(None, Instant::now());
    common.tell_workers(&WorkerMessage::Holds);
    proxy_peers::tell_clients(common, config.advertised(), "DOWN");
    let timetable = Timetable::new(Instant::now(), grace, whole);
    common.drain_workers(timetable);
}

/// One thread for each listener.
fn start_workers(
    common: &Arc<Process>,
    listeners: Vec<std::net::TcpListener>,
) -> Result<Vec<JoinHandle<()>>> {
    let workers = listeners.len();
    let mut threads = Vec::new();
    for (index, listener) in listeners.into_iter().enumerate() {
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Ok(mut senders) = common.workers.lock() {
            senders.push(sender);
        }
        let common = common.clone();
        let thread = std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || work(common, workers, index, listener, receiver))?;
        threads.push(thread);
    }
    Ok(threads)
}

fn work(
    common: Arc<Process>,
    workers: usize,
    index: usize,
    listener: std::net::TcpListener,
    messages: mpsc::UnboundedReceiver<ToWorker>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return tracing::error!("a worker cannot start: {e}"),
    };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let seed =
            (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(std::process::id());
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(e) => return tracing::error!("a worker cannot listen: {e}"),
        };
        let worker = Worker::new(common.clone(), index, workers, seed);
        let _end = End { common, index };
        worker::run(worker, listener, messages).await;
    });
}

/// The end of a worker, which others hear of however it comes.
struct End {
    common: Arc<Process>,
    index: usize,
}

impl Drop for End {
    fn drop(&mut self) {
        self.common.on_worker_ended(self.index);
    }
}

/// One listener for each worker; the kernel spreads connections over them.
fn bind_all(listen: &Listen) -> Result<Vec<std::net::TcpListener>> {
    let address = listen.address;
    let workers = match listen.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    (0..workers)
        .map(|_| bind(address))
        .collect::<Result<Vec<_>>>()
        .with_context(|| format!("cannot listen on {address}: is the port in use?"))
}

fn bind(address: SocketAddr) -> Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// Tries the contact points until one responds: the proxy may be started before the cluster.
/// Settings may change in the meantime.
async fn first_control(common: &Process, manager: &ServiceManager) -> Result<(Control, Snapshot)> {
    let mut pause = Duration::from_millis(500);
    let mut unusable = contact::Unusable::default();
    loop {
        let config = common.settings.load_full();
        let dialer = (**common.dialer.load()).clone();
        let addresses = contact::resolve(&config.cluster.contact_points).await;
        let addresses = unusable.put_last(addresses);
        let failure = match Control::connect(&config, &dialer, &addresses).await {
            Ok(mut control) => match control.read(&config, None).await {
                Ok(snapshot) => return Ok(nearest(&config, &dialer, control, snapshot).await),
                Err(e) => {
                    tracing::warn!(node = %control.address(), "reading the schema failed: {e}");
                    unusable.note(control.address());
                    format!("{}: reading the schema failed: {e}", control.address())
                }
            },
            Err(NoControl::NoAddress) => format!(
                "none of them can be resolved: {}",
                config.cluster.contact_points.join(", ")
            ),
            Err(NoControl::Failed { address, error }) => match error {
                ConnError::BadCredentials(_) => {
                    bail!("the nodes refuse cluster.username and cluster.password: {error}")
                }
                error if error.is_final() => bail!("{error}"),
                error => format!("{address}: {error}"),
            },
        };
        manager.tell(State::Starting(&format!(
            "no contact point answers: {failure}"
        )));
        common.contact_failure.store(Some(Arc::new(failure)));
        tracing::warn!("no contact point answers; trying again in {pause:?}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

/// A control connection in the local data centre, if the contact point that answered is in another
/// one.
async fn nearest(
    config: &Arc<Config>,
    dialer: &Dialer,
    control: Control,
    snapshot: Snapshot,
) -> (Control, Snapshot) {
    if snapshot.locality_of(control.address()) != Some(Locality::Remote) {
        return (control, snapshot);
    }
    let addresses = control::in_order(&snapshot, config, control.address());
    if let Ok(mut nearer) = Control::connect(config, dialer, &addresses).await
        && let Ok(snapshot) = nearer.read(config, None).await
    {
        return (nearer, snapshot);
    }
    (control, snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_operator_drains_once_and_is_no_signal() {
        let config = crate::config::from_toml("").expect("settings");
        let common = Arc::new(crate::testing::process(config));
        let program = Program {
            load: Box::new(|| bail!("there is none")),
            set_log_filter: Box::new(|_| Ok(())),
        };
        let (sender, actions) = mpsc::channel(ACTIONS_MAX);
        let mut wishes = Wishes {
            signals: Signals::new().expect("signals"),
            actions,
            files: tokio::time::interval(FILES_INTERVAL),
            reloader: Reloader::new(program, common),
            is_draining: false,
        };
        let (done, reloaded) = tokio::sync::oneshot::channel();
        for action in [Action::Drain, Action::Drain, Action::Reload(done)] {
            sender.try_send(action).expect("there is room");
        }
        assert_eq!(wishes.next(|_| ()).await, Wish::Drain);
        assert_eq!(wishes.next(|_| ()).await, Wish::Reloaded, "not again");
        assert!(reloaded.await.is_ok_and(|reloaded| reloaded.is_err()));
    }
}
