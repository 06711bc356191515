//! One worker thread: an engine, and the sockets it is fed from.
//!
//! Tasks of the thread borrow the [`Worker`] for one turn at a time. The engine's output
//! accumulates while they run; the flusher task, queued behind all tasks that are ready now, then
//! writes each connection once.

mod client_socket;
mod moving;
pub(crate) mod running;
mod timer;
pub(crate) mod turns;

use std::cell::RefCell;
use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use slotmap::SecondaryMap;
use tokio::sync::oneshot;

use crate::conn::is_hang_up;
use crate::conn::transport::Transport;
use crate::process::{Change, Process};
use helenus_engine::features;
use helenus_engine::output::{
    Agreement, Dialed, HeldAnswer, LinkEnd, Outgoing, Output, Sent, Then,
};
use helenus_engine::session::connection::Next;
use helenus_engine::shared::{ClientPermit, Shared};
use helenus_engine::stats::add;
use helenus_engine::worker_status::Report;
use helenus_engine::{Engine, LinkKey, SessionKey};

/// Maximum number of reads from one socket before other connections get their turn.
const READS_MAX: usize = 4;
const READ_BYTES: usize = 128 * 1024;

/// The socket of a connection, and the waker of its task.
struct Socket {
    transport: Transport,
    /// The task's waker, with which all operations on the socket register; None until the task has
    /// run for the first time.
    waker: Option<Waker>,
    /// Why it could not be written to.
    failure: Option<io::Error>,
}

impl Socket {
    fn new(transport: Transport) -> Socket {
        Socket {
            transport,
            waker: None,
            failure: None,
        }
    }

    fn register(&mut self, cx: &Context<'_>) {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => self.waker = Some(cx.waker().clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Writes what the socket accepts now. If that is not everything, the connection's own task is
    /// woken once it accepts more, whichever task calls this.
    fn send(&mut self, outgoing: &mut impl Outgoing) -> Sent {
        let (mut writes, mut bytes) = (0, 0);
        let then = match &self.waker {
            // Its task starts by doing this.
            None => Then::Blocked,
            Some(waker) => {
                let cx = &mut Context::from_waker(waker);
                let sent = self.transport.poll_send(cx, outgoing, |taken| {
                    writes += 1;
                    bytes += taken as u64;
                });
                match sent {
                    Poll::Pending => Then::Blocked,
                    Poll::Ready(Ok(())) => Then::Done,
                    Poll::Ready(Err(e)) => {
                        self.failure = Some(e);
                        Then::Broken
                    }
                }
            }
        };
        Sent {
            writes,
            bytes,
            then,
        }
    }
}

/// A connection to a node.
struct Link {
    socket: Socket,
    /// The setting that may be wrong if the node hangs up before it has said anything.
    advice: Option<&'static str>,
}

/// An engine and its sockets.
pub(crate) struct Worker {
    me: Weak<RefCell<Worker>>,
    shared: Arc<Process>,
    index: usize,
    engine: Engine,
    clients: SecondaryMap<SessionKey, Socket>,
    links: SecondaryMap<LinkKey, Link>,
    flusher: Option<Waker>,
    /// The task that waits for the engine's deadline, and until when it sleeps.
    timekeeper: Option<Waker>,
    alarm: Instant,
    read_buf: Vec<u8>,
    /// How often the worker had nothing to do and slept, as counted so far.
    sleeps_counted: u64,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Process>,
        index: usize,
        workers: usize,
        seed: u64,
    ) -> Rc<RefCell<Worker>> {
        Rc::new_cyclic(|me| {
            RefCell::new(Worker {
                me: me.clone(),
                engine: Engine::new(
                    Arc::new(Shared::new(shared.common.clone())),
                    index,
                    workers,
                    seed,
                    Instant::now(),
                    since_1970(),
                ),
                shared,
                index,
                clients: SecondaryMap::new(),
                links: SecondaryMap::new(),
                flusher: None,
                timekeeper: None,
                alarm: Instant::now(),
                read_buf: vec![0; READ_BYTES],
                sleeps_counted: 0,
            })
        })
    }

    /// Calls the engine, then carries out its outputs.
    fn with<R>(&mut self, act: impl FnOnce(&mut Engine) -> R) -> R {
        let result = act(&mut self.engine);
        self.carry_out();
        result
    }

    /// Carries out the engine's outputs.
    fn carry_out(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Client(key) => {
                    if let Some(socket) = self.clients.get(key) {
                        socket.wake();
                    }
                }
                Output::Link(key) => {
                    if let Some(link) = self.links.get(key) {
                        link.socket.wake();
                    }
                }
                Output::Dial(key, address) => self.dial(key, address),
                Output::Agree(held) => self.agree(held),
                Output::Tell(worker, message) => {
                    // A worker that has ended needs no message.
                    let _ = self.shared.tell_worker(worker, message);
                }
                Output::Recall(id) => self.shared.recall(id),
                Output::Report(ticket, report) => self.report(ticket, *report),
                Output::Feature(features::Output::Captured(captured)) => {
                    self.shared.captures.take(captured)
                }
                Output::Feature(features::Output::Traced(trace)) => self.shared.trace(trace),
                Output::Feature(features::Output::Layouts(news)) => {
                    self.shared.layout_news.take(news)
                }
            }
        }
        if self.engine.has_unsent()
            && let Some(flusher) = self.flusher.take()
        {
            flusher.wake();
        }
        if self.engine.deadline() < self.alarm
            && let Some(timekeeper) = self.timekeeper.take()
        {
            timekeeper.wake();
        }
    }

    /// Passes on what somebody wanted to know, with what only the sockets know.
    fn report(&self, ticket: u64, mut report: Report) {
        if let Report::Clients(rows, _) = &mut report {
            for row in rows {
                let socket = self.clients.get(row.key);
                row.is_encrypted = socket.is_some_and(|of| of.transport.is_encrypted());
            }
        }
        self.shared.questions.answer(ticket, report);
    }

    /// Makes a connection to a node.
    fn dial(&self, key: LinkKey, address: SocketAddr) {
        let Some(me) = self.me.upgrade() else { return };
        let dialer = (**self.shared.dialer.load()).clone();
        tokio::task::spawn_local(async move {
            let transport = dialer.connect(address).await;
            let dialed = match &transport {
                Ok(_) => Ok(Dialed {
                    shows_certificate: dialer.has_certificate(),
                }),
                Err(e) => Err(e.not_dialed()),
            };
            let mut worker = me.borrow_mut();
            let is_wanted = worker.engine.on_dialed(Instant::now(), key, dialed);
            if let (true, Ok(transport)) = (is_wanted, transport) {
                let link = Link {
                    socket: Socket::new(transport),
                    advice: dialer.advice(),
                };
                worker.links.insert(key, link);
                let me = me.clone();
                tokio::task::spawn_local(poll_fn(move |cx| me.borrow_mut().poll_link(key, cx)));
            }
            worker.carry_out();
        });
    }

    fn agree(&mut self, held: HeldAnswer) {
        let Some(me) = self.me.upgrade() else { return };
        let shared = self.shared.clone();
        tokio::task::spawn_local(async move {
            let (done, agreed) = oneshot::channel();
            let coordinator = held.coordinator;
            let wait = async {
                let change = Change { coordinator, done };
                // It fails only during shutdown.
                if shared.senders.changes.send(change).await.is_ok() {
                    let _ = agreed.await;
                }
            };
            let limit = held.limit;
            let mut agreement = Agreement::Reached;
            if tokio::time::timeout(limit, wait).await.is_err() {
                // Its coordinator may lack changes of others.
                let without = shared.schema_awaited_of.load();
                let without = without.iter().filter(|node| **node != coordinator);
                let without: Vec<SocketAddr> = without.copied().collect();
                let nodes: Vec<String> = without.iter().map(SocketAddr::to_string).collect();
                tracing::warn!(
                    statement = held.statement.as_deref(),
                    without = nodes.join(", "),
                    "the nodes do not agree on the schema after {limit:?}"
                );
                agreement = Agreement::Missed(without);
            }
            let mut worker = me.borrow_mut();
            worker.with(|engine| engine.on_agreed(Instant::now(), &held, &agreement));
        });
    }

    /// One turn of a client's task.
    fn poll_client(&mut self, key: SessionKey, cx: &mut Context<'_>) -> Poll<()> {
        let Some(socket) = self.clients.get_mut(key) else {
            return Poll::Ready(());
        };
        socket.register(cx);
        let now = Instant::now();
        if self.engine.is_client_blocked(key) {
            self.write_client(now, key);
        }
        let polled = self.serve_client(now, key, cx);
        if polled.is_ready() {
            self.clients.remove(key);
            self.engine.close_session(now, key);
        }
        self.carry_out();
        polled
    }

    /// Ready when its connection must be closed.
    fn serve_client(&mut self, now: Instant, key: SessionKey, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_MAX {
            let next = self.engine.next_for_client(now, key);
            let (Some(next), Some(socket)) = (next, self.clients.get_mut(key)) else {
                return Poll::Ready(());
            };
            let transport = &mut socket.transport;
            let leaving = match next {
                Next::Wait => return Poll::Pending,
                Next::Close => return Poll::Ready(()),
                Next::ShutDown => {
                    match transport.poll_shutdown(cx) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Ok(())) => self.engine.on_client_shut_down(now, key),
                        Poll::Ready(Err(_)) => return Poll::Ready(()),
                    }
                    continue;
                }
                Next::Linger => match transport.poll_read(cx, &mut self.read_buf) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(1..)) => continue,
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                },
                Next::Read { leaving } => leaving,
            };
            match transport.poll_read(cx, &mut self.read_buf) {
                Poll::Pending if leaving => self.engine.finish(now, key),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(n @ 1..)) => {
                    self.engine.on_client_bytes(now, key, &self.read_buf[..n]);
                    if self.engine.is_immediate() {
                        self.flush(now);
                    }
                }
                Poll::Ready(end) => {
                    // Most TLS clients close their socket without close_notify.
                    let error = end
                        .err()
                        .filter(|e| e.kind() != io::ErrorKind::UnexpectedEof);
                    self.engine.on_client_end(now, key, error.is_some());
                    if let Some(e) = error.filter(|e| e.kind() == io::ErrorKind::InvalidData)
                        && let Some(peer) = self.engine.peer_of(key)
                    {
                        note_tls_failure(&self.shared, peer, &e);
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One turn of the task of a connection to a node.
    fn poll_link(&mut self, key: LinkKey, cx: &mut Context<'_>) -> Poll<()> {
        let Some(link) = self.links.get_mut(key) else {
            return Poll::Ready(());
        };
        link.socket.register(cx);
        let now = Instant::now();
        if self.engine.is_link_blocked(key) {
            self.write_link(now, key);
        }
        let polled = self.serve_link(now, key, cx);
        if polled.is_ready() {
            self.links.remove(key);
        }
        self.carry_out();
        polled
    }

    /// Ready when the connection is to be closed.
    fn serve_link(&mut self, now: Instant, key: LinkKey, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_MAX {
            let failure = self.links.get_mut(key);
            let failure = failure.and_then(|link| link.socket.failure.take());
            // Asked before that is told, the engine would not know how the connection has ended.
            let open = failure.is_some() || self.engine.is_link_open(key);
            let Some(link) = self.links.get_mut(key).filter(|_| open) else {
                return Poll::Ready(());
            };
            let read = match failure {
                Some(failure) => Poll::Ready(Err(failure)),
                None => link.socket.transport.poll_read(cx, &mut self.read_buf),
            };
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    let why = (LinkEnd::ByNode, "the node closed the connection");
                    self.engine.on_link_closed(now, key, why, link.advice);
                }
                Poll::Ready(Ok(n)) => {
                    self.engine.on_link_bytes(now, key, &self.read_buf[..n]);
                    if self.engine.is_immediate() {
                        self.flush(now);
                    }
                }
                Poll::Ready(Err(e)) => {
                    let end = match is_hang_up(&e) {
                        true => LinkEnd::ByNode,
                        false => LinkEnd::Cut,
                    };
                    let advice = link.advice.filter(|_| end == LinkEnd::ByNode);
                    let why = e.to_string();
                    self.engine.on_link_closed(now, key, (end, &why), advice);
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what may be sent now. Returns how long the rest has to wait.
    fn flush(&mut self, now: Instant) -> Option<Duration> {
        let mut rest = None;
        if self.engine.has_window() {
            let (due, wait) = self.engine.links_due(now);
            for key in due {
                self.write_link(now, key);
            }
            rest = wait;
        } else {
            while let Some(key) = self.engine.next_link_to_write() {
                self.write_link(now, key);
            }
        }
        while let Some(key) = self.engine.next_client_to_write() {
            self.write_client(now, key);
            // The bytes it was waiting for may have been sent.
            if self.engine.is_client_held(key)
                && let Some(socket) = self.clients.get(key)
            {
                socket.wake();
            }
        }
        rest
    }

    fn write_client(&mut self, now: Instant, key: SessionKey) {
        if let Some(socket) = self.clients.get_mut(key)
            && let Some(outbox) = self.engine.client_bytes(key)
        {
            let sent = socket.send(outbox);
            self.engine.on_client_sent(now, key, sent);
        }
    }

    fn write_link(&mut self, now: Instant, key: LinkKey) {
        if let Some(link) = self.links.get_mut(key)
            && let Some(encoder) = self.engine.link_bytes(key)
        {
            let sent = link.socket.send(encoder);
            self.engine.on_link_sent(now, key, sent);
        }
    }

    fn insert_client(
        &mut self,
        transport: Transport,
        peer: SocketAddr,
        accepted: Instant,
        permit: ClientPermit,
    ) {
        let key = self
            .engine
            .open_session(Instant::now(), peer, accepted, permit);
        self.clients.insert(key, Socket::new(transport));
        self.serve_with_a_task(key);
    }

    /// Serves a client from now on, with a task of its own.
    fn serve_with_a_task(&self, key: SessionKey) {
        if let Some(me) = self.me.upgrade() {
            tokio::task::spawn_local(poll_fn(move |cx| me.borrow_mut().poll_client(key, cx)));
        }
    }

    /// Calls the engine if its deadline has passed. Returns the next one.
    fn on_time(&mut self, now: Instant) -> Instant {
        self.shared.turns_of_workers.note(self.index, now);
        if self.engine.deadline() > now {
            return self.engine.deadline();
        }
        self.with(|engine| engine.on_deadline(now, since_1970()));
        let metrics = tokio::runtime::Handle::current().metrics();
        let sleeps = metrics.worker_park_count(0);
        let counter = &self.shared.stats.global.worker_sleeps;
        add(counter, sleeps - self.sleeps_counted);
        self.sleeps_counted = sleeps;
        self.engine.deadline()
    }
}

/// Records that a client failed the TLS handshake, for instance because it does not trust the
/// certificate.
fn note_tls_failure(shared: &Process, peer: SocketAddr, error: &io::Error) {
    add(&shared.stats.global.clients_protocol_errors, 1);
    note_failed_handshake(shared, peer, error);
}

/// Logs why TLS with a client has failed. Strangers can have it fail as often as they like.
fn note_failed_handshake(shared: &Process, peer: SocketAddr, why: &dyn Display) {
    let now = Instant::now();
    let allowed = shared.failed_handshakes.lock();
    match allowed.ok().and_then(|mut lines| lines.allow(now)) {
        None => {}
        Some(0) => tracing::info!(%peer, "TLS with a client failed: {why}"),
        Some(left_out) => tracing::info!(
            %peer,
            "TLS with a client failed: {why}; {left_out} such lines were left out"
        ),
    }
}

/// The system clock, which may be changed at any time.
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
