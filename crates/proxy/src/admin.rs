//! Metrics, health, the dashboard, and what operators see and do, over HTTP.
//!
//! It shares the control thread, so everything is bounded: connections, their lifetime, request heads, rows.
//! Paths that change something are POSTs, and need rights of their own (`access`).

mod actions;
mod api;
mod captures;
mod catalogue;
mod encodings;
mod http;
mod layouts;
mod metrics;
mod process;
mod ready;
mod reports;
mod rules;
#[cfg(test)]
mod tests;
mod view;

use std::convert::Infallible;
use std::net::IpAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use http_body_util::Either;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use self::api::{
    clients, errors, history, keys, log, pools, proxies, queues, slow, statements, summary,
};
use self::http::access::{Door, Refusal, Rights, Tokens};
use self::http::answer::{Answer, held, json, large_json, plain, set, typed};
use self::http::{access, parameters, socket};
use self::metrics::page::Page;
use self::metrics::protobuf::{self, Protobuf};
use crate::capture::stream::{IDLE_MAX, Taken};
use crate::places::{Bounds, Place, Places};
use crate::planted;
use crate::process::Process;
use crate::system::unix_socket::{self, SocketFile};
use helenus_engine::config;

/// Connections of each listener. A probe gets the place of one that has nothing to wait for.
const CONNECTIONS: Bounds = Bounds {
    all: 64,
    address: 64,
    quiet: Duration::ZERO,
};
/// Time to send a request head; also the longest pause between two requests on one connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Age at which a connection is closed after its current response.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(60);
/// A connection that has been asked longer ago, and has not been sent its answer, may have to make room for others: one
/// that does not read must not keep them out.
const ANSWER_BUSY_MAX: Duration = Duration::from_secs(10);
/// No stream takes longer.
const STREAM_MAX: Duration = Duration::from_secs(25 * 3_600);
/// Large answers that may be on their way at a time.
const LARGE_MAX: usize = 2;
const HEAD_BYTES_MAX: usize = 16 * 1024;

const DASHBOARD: &str = include_str!("../assets/dashboard.html");
const ENDPOINTS: &str = "\
/              dashboard
/metrics       Prometheus metrics
/health        200 while the process works, else 503: it should be started again
/ready         200 when clients can be served, else 503 with the reason
/api/snapshot  how things stand, as JSON; the following are JSON as well
/api/history?fine=SEQ&coarse=SEQ&events=SEQ
               the last hour, or what has come since
/api/summary?seconds=N&points=N, /api/summary?from_ms=N&to_ms=N&points=N
               what nodes and tables got in some of it
/api/events?limit=N
               what has happened, the latest first
/api/clients?sort=in_flight|requests|bytes|age|idle&limit=N
/api/statements?limit=N
               statements that took the most time
/api/statements?table=keyspace.table
               prepared SELECTs of a table and how often they are asked
/api/slow?limit=N
               slow requests (admin.slow_ms), and where their time went
/api/errors?limit=N
               errors that clients were answered with
/api/keys      the partitions that are asked for most
/api/nodes, /api/queues, /api/pools?limit=N
               nodes, what waits for them, links by role and node
/api/rules     the rules in force and what they have refused
/api/pauses    what operators have paused
/api/proxies   this proxy and its siblings
/api/config    the settings in force, without secrets
/api/log?limit=N
               the last lines of the log
POST /api/clients/ID/kill, POST /api/clients/kill?idle_s=N
POST /api/pause?role=NAME&seconds=N&waiting_max=N
POST /api/pause?keyspace=NAME&seconds=N&waiting_max=N
POST /api/resume?role=NAME, POST /api/resume?keyspace=NAME
POST /api/reload
POST /api/reconnect?node=ADDRESS:PORT
POST /api/drain
POST /api/capture?seconds=N&share_ppm=N&bytes_max=N&values=true|false
               records what clients ask, for `helenus capture`
POST /api/log/filter?filter=FILTER&seconds=N, POST /api/log/reset
";

/// The admin server; with this it stops taking connections, and its socket's file is removed.
pub(crate) struct Serving {
    tasks: Vec<AbortHandle>,
    _socket: Option<SocketFile>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// True if anybody is served with these settings.
pub(crate) fn is_served(settings: &config::Admin) -> bool {
    settings.address.is_some() || socket::path_of(settings).is_some()
}

/// Why clients should not be sent to this proxy; None if they should.
pub(crate) fn not_ready(shared: &Process) -> Option<String> {
    let ready = ready::check(shared);
    ready.err().map(|reason| format!("{reason:#}"))
}

/// Binds the address of the settings, if there is one.
pub(crate) fn bind(settings: &config::Admin) -> Result<Option<std::net::TcpListener>> {
    let Some(address) = settings.address else {
        return Ok(None);
    };
    let bound = std::net::TcpListener::bind(address);
    let listener = bound.with_context(|| {
        format!("cannot listen on {address} for the admin server: is the port in use?")
    })?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

/// Serves a port and the socket of the settings. `needs_all`: without the socket that the settings name there
/// is nothing.
pub(crate) fn start(
    shared: &Arc<Process>,
    port: Option<std::net::TcpListener>,
    needs_all: bool,
) -> Result<Serving> {
    let settings = shared.settings.load_full();
    let admin = Arc::new(Admin {
        patience: PATIENCE,
        shared: shared.clone(),
        started: SystemTime::now(),
        large: Arc::new(Semaphore::new(LARGE_MAX)),
    });
    let mut listeners = Vec::new();
    if let Some(port) = port {
        let listener = TcpListener::from_std(port)?;
        tracing::info!(address = %listener.local_addr()?, "admin server");
        listeners.push(Listener::Tcp(listener));
    }
    let mut file = None;
    if let Some(path) = socket::path_of(&settings.admin)
        && let Some((listener, bound)) =
            bind_socket(&path, needs_all && settings.admin.socket.is_some())?
    {
        tracing::info!(path = %path.display(), "admin socket");
        listeners.push(Listener::Socket(listener));
        file = Some(bound);
    }
    let serve = |listener| tokio::spawn(serve(admin.clone(), listener)).abort_handle();
    Ok(Serving {
        tasks: listeners.into_iter().map(serve).collect(),
        _socket: file,
    })
}

/// Without the socket that nobody has asked for, in the service manager's folder, clients are served all the
/// same.
fn bind_socket(path: &Path, is_asked_for: bool) -> Result<Option<(UnixListener, SocketFile)>> {
    let bound = unix_socket::bind(path)
        .with_context(|| format!("cannot listen on {} (admin.socket)", path.display()));
    match bound {
        Err(e) if !is_asked_for => {
            tracing::warn!("{e:#}: helenus ctl cannot use it");
            Ok(None)
        }
        bound => bound.map(Some),
    }
}

enum Listener {
    Tcp(TcpListener),
    Socket(UnixListener),
}

impl Listener {
    async fn accept(&self) -> std::io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted::Tcp(stream, peer.ip()))
            }
            Listener::Socket(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted::Socket(stream))
            }
        }
    }
}

enum Accepted {
    Tcp(TcpStream, IpAddr),
    Socket(UnixStream),
}

/// Serves until the proxy stops.
async fn serve(admin: Arc<Admin>, listener: Listener) {
    let places = Places::new(CONNECTIONS);
    loop {
        let accepted = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("the admin server cannot accept a connection: {e}");
                // Usually "too many open files": an immediate retry would only spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let address = match &accepted {
            Accepted::Tcp(_, address) => Some(*address),
            Accepted::Socket(_) => None,
        };
        let Some((place, replaced)) = places.take(address, Instant::now()) else {
            continue;
        };
        let admin = admin.clone();
        tokio::spawn(async move {
            let served = async {
                match accepted {
                    Accepted::Tcp(stream, _) => admin.connection(stream, Door::Tcp, place).await,
                    Accepted::Socket(stream) => {
                        admin.connection(stream, Door::Socket, place).await;
                    }
                }
            };
            tokio::select! {
                () = served => {}
                _ = replaced => {}
            }
        });
    }
}

/// The values that a request's sender may see.
#[derive(Clone, Copy)]
struct Seen {
    /// Names of nodes.
    nodes: bool,
    /// Values of clients' and operators' statements: to those who may act, or with `admin.show_keys`.
    values: bool,
}

/// How long a connection is waited for.
#[derive(Clone, Copy)]
struct Patience {
    /// Time for the last answer, so that a client that does not read cannot occupy a connection.
    last_answer: Duration,
    /// Time in which something is taken of an answer that comes as time passes.
    idle: Duration,
}

const PATIENCE: Patience = Patience {
    last_answer: Duration::from_secs(5),
    idle: IDLE_MAX,
};

struct Admin {
    patience: Patience,
    shared: Arc<Process>,
    started: SystemTime,
    large: Arc<Semaphore>,
}

impl Admin {
    async fn connection<S>(self: Arc<Self>, stream: S, door: Door, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // The answer under way, if it comes as time passes.
        let stream_taken = Arc::new(Mutex::new(None));
        let patience = self.patience;
        let noted = stream_taken.clone();
        let place = Arc::new(place);
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let (admin, noted, place) = (self.clone(), noted.clone(), place.clone());
            async move {
                let busy = place.busy(ANSWER_BUSY_MAX);
                let answer = admin.answer(&request, door).await;
                // The reader of a stream is watched.
                let busy = match answer.body() {
                    Either::Right(_) => place.busy(STREAM_MAX),
                    Either::Left(_) => busy,
                };
                let answer = held(answer, busy);
                // Answers of a connection follow one another.
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = match answer.body() {
                    Either::Right(stream) => Some(stream.taken()),
                    Either::Left(_) => None,
                };
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let (began, mut is_last) = (Instant::now(), false);
        // Errors are the peer's: it disconnected, was too slow or did not speak HTTP.
        while timeout(patience.last_answer, connection.as_mut())
            .await
            .is_err()
        {
            let taken: Option<Arc<Taken>> = stream_taken
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let is_over = match taken {
                // A stream ends by itself.
                Some(taken) => taken.give_up(patience.idle),
                None => is_last,
            };
            if is_over {
                return;
            }
            if !is_last && began.elapsed() >= CONNECTION_AGE_MAX {
                connection.as_mut().graceful_shutdown();
                is_last = true;
            }
        }
    }

    async fn answer<B>(&self, request: &Request<B>, door: Door) -> Answer {
        planted::panic_in("admin");
        let path = request.uri().path();
        let settings = self.shared.settings.load_full();
        let tokens = Tokens::of(&settings.admin);
        let shown = match (door, tokens.are_set()) {
            (Door::Socket, _) => Ok(Rights::Act),
            (Door::Tcp, true) => tokens.check(request.headers().get(header::AUTHORIZATION)),
            // Whatever page a browser here is shown may send a POST to this port.
            (Door::Tcp, false) => access::check_host(asked_host(request), &settings.admin.hosts)
                .map(|()| Rights::Read),
        };
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        // An orchestrator's probes have no token, and the page contains no data: it asks for the
        // token.
        let open = tokens.are_set() && read && matches!(path, "/" | "/health" | "/ready");
        let rights = match shown {
            Ok(rights) => rights,
            Err(_) if open => Rights::Read,
            Err(refusal) => return refused(refusal),
        };
        let action = actions::named(path);
        if read != action.is_none() || !(read || *request.method() == Method::POST) {
            return wrong_method(action.is_some());
        }
        if let Some(action) = action {
            if rights < Rights::Act {
                return refused(tokens.why_not_act());
            }
            return actions::carry_out(&self.shared, &action, request.uri().query()).await;
        }
        let seen = Seen {
            nodes: shown.is_ok(),
            values: rights == Rights::Act || settings.admin.show_keys,
        };
        let accept = request.headers().get(header::ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        self.read(path, request.uri().query(), accept, seen).await
    }

    /// Answers what changes nothing.
    async fn read(
        &self,
        path: &str,
        query: Option<&str>,
        accept: Option<&str>,
        seen: Seen,
    ) -> Answer {
        let shared = &self.shared;
        match path {
            "/" => page(),
            "/metrics" => {
                let page = page_for(accept, shared.settings.load().admin.native_histograms);
                let (content_type, page) = metrics::render(page, shared, self.started);
                typed(StatusCode::OK, content_type, page)
            }
            "/health" => match shared.turns_of_workers.dead(Instant::now()) {
                None => plain(StatusCode::OK, "ok\n"),
                Some(dead) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{dead}\n")),
            },
            "/ready" => match ready::check(shared) {
                Ok(()) => plain(StatusCode::OK, "ready\n"),
                Err(reason) => {
                    let text = match seen.nodes {
                        true => format!("{reason:#}\n"),
                        false => format!("{reason}\n"),
                    };
                    plain(StatusCode::SERVICE_UNAVAILABLE, text)
                }
            },
            "/api/snapshot" => json(&view::view(shared, self.started)),
            "/api/history" => {
                self.large_or_usage(history::view(shared, self.started, query, seen.values))
            }
            "/api/summary" => self.large_or_usage(summary::view(shared, query)),
            "/api/events" => shown_or_usage(history::events(shared, query, seen.values)),
            "/api/keys" => json(&keys::view(shared)),
            "/api/nodes" => json(&view::nodes(shared)),
            "/api/queues" => json(&queues::view(shared)),
            "/api/pools" => shown_or_usage(pools::view(shared, query).await),
            "/api/rules" => json(&rules::view(shared, seen.values)),
            "/api/pauses" => json(&actions::pauses(shared, Instant::now())),
            "/api/proxies" => json(&proxies::view(shared)),
            "/api/config" => json(&rules::settings(&shared.settings.load(), seen.values)),
            "/api/clients" => shown_or_usage(clients::view(shared, query).await),
            "/api/log" if !seen.values => plain(StatusCode::FORBIDDEN, log::NOT_SHOWN),
            "/api/log" => self.large_or_usage(log::view(shared, query)),
            "/api/slow" => shown_or_usage(slow::view(shared, query).await),
            "/api/errors" => shown_or_usage(errors::view(shared, query).await),
            "/api/statements" if parameters::has(query, "table") => shown_or_usage(
                statements::of_table(shared, query, seen.values, Instant::now()),
            ),
            "/api/statements" => shown_or_usage(statements::view(shared, query).await),
            _ => plain(
                StatusCode::NOT_FOUND,
                format!("nothing is served at this path; available:\n{ENDPOINTS}"),
            ),
        }
    }

    fn large_or_usage<T: Serialize>(&self, view: Result<T, String>) -> Answer {
        match view {
            Ok(view) => large_json(&view, &self.large),
            usage => shown_or_usage(usage),
        }
    }
}

fn shown_or_usage<T: Serialize>(view: Result<T, String>) -> Answer {
    match view {
        Ok(view) => json(&view),
        Err(usage) => plain(StatusCode::BAD_REQUEST, format!("{usage}\n")),
    }
}

/// The page to write metrics on, for this Accept header.
fn page_for(accept: Option<&str>, has_native_histograms: bool) -> Page {
    match has_native_histograms && accept.is_some_and(protobuf::is_preferred) {
        true => Page::Protobuf(Protobuf::default()),
        false => Page::default(),
    }
}

fn wrong_method(is_action: bool) -> Answer {
    let (allowed, text) = match is_action {
        true => ("POST", "this changes something: send a POST\n"),
        false => ("GET, HEAD", "only GET and HEAD are served here\n"),
    };
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, text);
    set(&mut answer, header::ALLOW, allowed);
    answer
}

/// The server name that the client used.
fn asked_host<B>(request: &Request<B>) -> Option<&[u8]> {
    let absolute = request.uri().authority().map(|a| a.as_str().as_bytes());
    absolute.or_else(|| Some(request.headers().get(header::HOST)?.as_bytes()))
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Host | Refusal::ReadToken | Refusal::NoActions => {
            plain(StatusCode::FORBIDDEN, refusal.text())
        }
        Refusal::NoToken | Refusal::WrongToken => {
            let mut answer = plain(StatusCode::UNAUTHORIZED, refusal.text());
            set(&mut answer, header::WWW_AUTHENTICATE, "Bearer");
            answer
        }
    }
}

fn page() -> Answer {
    let mut answer = typed(StatusCode::OK, "text/html; charset=utf-8", DASHBOARD);
    set(
        &mut answer,
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    );
    answer
}
