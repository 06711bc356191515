//! A worker's events beside the bytes of its connections: new clients, messages, the time, its end.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use helenus_engine::session::drain::{self, Timetable};
use helenus_engine::stats::add;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::moving;
use super::{Worker, note_failed_handshake, note_tls_failure};
use crate::conn::transport::Transport;
use crate::planted;
use crate::process::{HANDSHAKE_BUSY_MAX, Leaving, ToWorker};
use crate::worker::client_socket;
use crate::worker::timer::FineTimer;

/// A worker's way to its end.
struct Ending {
    timetable: Option<Timetable>,
    /// Where its clients go.
    successor: Option<mpsc::Sender<Leaving>>,
}

/// Runs a worker until it has been told to drain and has drained.
pub(crate) async fn run(
    worker: Rc<RefCell<Worker>>,
    listener: TcpListener,
    mut messages: mpsc::UnboundedReceiver<ToWorker>,
) {
    worker.borrow_mut().carry_out();
    let flusher = tokio::task::spawn_local(flush_loop(worker.clone()));
    let timekeeper = tokio::task::spawn_local(keep_time(worker.clone()));
    let mut listener = Some(listener);
    let mut ending = Ending {
        timetable: None,
        successor: None,
    };
    let mut drain_ticks = tokio::time::interval(drain::TICK);
    drain_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut passing_ticks = tokio::time::interval(moving::TICK);
    passing_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = next_client(listener.as_ref()) => match accepted {
                Ok((socket, peer)) => accept(&worker, socket, peer),
                Err(e) => {
                    tracing::warn!("accepting a client failed: {e}");
                    // Most likely out of file descriptors: give connections time to close.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            message = messages.recv() => match message {
                // Another process accepts what comes, and what waits.
                Some(ToWorker::LeavePort) => listener = None,
                Some(message) => on_message(&worker, &mut ending, message),
                // All senders are gone.
                None => break,
            },
            _ = passing_ticks.tick(), if ending.timetable.is_some() && ending.successor.is_some() => {
                ending.pass(&worker);
            }
            _ = drain_ticks.tick(), if ending.timetable.is_some() => {
                let Some(timetable) = &ending.timetable else { continue };
                let now = Instant::now();
                let may_end = timetable.may_end(now);
                let is_drained = || may_end && worker.borrow().engine.is_drained();
                if (now >= timetable.grace_ends || is_drained())
                    && let Some(listener) = listener.take()
                {
                    accept_rest(&worker, listener);
                }
                if now >= timetable.grace_ends {
                    let mut worker = worker.borrow_mut();
                    worker.with(|engine| engine.close_quiet_sessions(now, timetable));
                }
                if now >= timetable.deadline || is_drained() {
                    break;
                }
            }
        }
    }
    flusher.abort();
    timekeeper.abort();
}

impl Ending {
    /// Passes on the clients that can be.
    fn pass(&mut self, worker: &Rc<RefCell<Worker>>) {
        if let (Some(successor), Some(timetable)) = (&self.successor, &self.timetable)
            && !worker.borrow_mut().pass(successor, timetable)
        {
            self.successor = None;
        }
    }
}

fn on_message(worker: &Rc<RefCell<Worker>>, ending: &mut Ending, message: ToWorker) {
    match message {
        ToWorker::LeavePort => {}
        ToWorker::Drain(timetable) => ending.timetable = Some(timetable),
        ToWorker::Pass(successor) => {
            worker.borrow_mut().begin_passing();
            ending.successor = Some(successor);
        }
        ToWorker::Settle(clients) => worker.borrow_mut().settle(clients),
        ToWorker::EndPassing => {
            worker.borrow_mut().end_passing();
            ending.successor = None;
        }
        ToWorker::Adopt(arriving) => moving::adopt(worker, arriving),
        ToWorker::Message(message) => {
            let mut worker = worker.borrow_mut();
            worker.with(|engine| engine.on_message(Instant::now(), message));
        }
    }
}

/// The next client, or never.
async fn next_client(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Closes the port and accepts pending connections, which the clients consider established.
fn accept_rest(worker: &Rc<RefCell<Worker>>, listener: TcpListener) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    while let Ok((socket, peer)) = listener.accept() {
        let socket = socket
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(socket));
        match socket {
            Ok(socket) => accept(worker, socket, peer),
            Err(e) => tracing::warn!("accepting a client failed: {e}"),
        }
    }
}

/// Accepts or refuses a client. It counts from now on; with TLS it becomes a session once the
/// handshake is done.
fn accept(worker: &Rc<RefCell<Worker>>, socket: TcpStream, peer: SocketAddr) {
    planted::panic_in("worker");
    planted::stand_still();
    let accepted = Instant::now();
    let shared = worker.borrow().shared.clone();
    let Some(permit) = shared.common.admit_client() else {
        return add(&shared.stats.global.clients_refused, 1);
    };
    add(&shared.stats.global.clients_accepted, 1);
    client_socket::set_up(&socket);
    let worker = worker.clone();
    let open = move |transport| {
        let mut worker = worker.borrow_mut();
        worker.insert_client(transport, peer, accepted, permit);
    };
    let Some(tls) = shared.server_tls.load_full() else {
        return open(Transport::Plain(socket));
    };
    let Some((place, replaced)) = shared.handshakes.take(Some(peer.ip()), accepted) else {
        add(&shared.stats.global.clients_refused, 1);
        return note_failed_handshake(&shared, peer, &"too many are under way");
    };
    let limit = Duration::from_millis(shared.settings.load().limits.handshake_timeout_ms);
    let place = Arc::new(place);
    // If the worker is late, this task is so, too.
    let begun = client_socket::has_sent(&socket).then(|| place.busy(HANDSHAKE_BUSY_MAX));
    tokio::task::spawn_local(async move {
        let handshake = async {
            let _busy = match begun {
                Some(busy) => busy,
                None => {
                    socket.readable().await?;
                    place.busy(HANDSHAKE_BUSY_MAX)
                }
            };
            Transport::accept(socket, tls).await
        };
        let ended = tokio::select! {
            biased;
            _ = replaced => return note_failed_handshake(&shared, peer, &"others waited for its place"),
            ended = tokio::time::timeout(limit, handshake) => ended,
        };
        match ended {
            Ok(Ok(transport)) => open(transport),
            Ok(Err(e)) if e.kind() == io::ErrorKind::InvalidData => {
                note_tls_failure(&shared, peer, &e);
            }
            Ok(Err(e)) => {
                tracing::debug!(%peer, "a client disconnected during its TLS handshake: {e}")
            }
            Err(_) => tracing::debug!(%peer, "no TLS handshake of a client within {limit:?}"),
        }
    });
}

async fn flush_loop(worker: Rc<RefCell<Worker>>) {
    let mut timer = FineTimer::default();
    // However many sockets there are to write to, no write is deferred in favour of other tasks.
    tokio::task::unconstrained(poll_fn::<(), _>(|cx| {
        let mut worker = worker.borrow_mut();
        let now = Instant::now();
        if let Some(wait) = worker.flush(now) {
            timer.arm(wait, cx);
        }
        worker.flusher = None;
        worker.carry_out();
        worker.flusher = Some(cx.waker().clone());
        Poll::Pending
    }))
    .await;
}

/// Calls the engine whenever its deadline has passed.
async fn keep_time(worker: Rc<RefCell<Worker>>) {
    planted::panic_in("timer");
    let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn::<(), _>(|cx| {
        loop {
            let mut worker = worker.borrow_mut();
            let deadline = worker.on_time(Instant::now());
            sleep.as_mut().reset(deadline.into());
            (worker.alarm, worker.timekeeper) = (deadline, Some(cx.waker().clone()));
            ready!(sleep.as_mut().poll(cx));
        }
    })
    .await;
}
