//! Metrics, health and dashboard over HTTP.
//!
//! Read-only: nothing here changes the proxy. It shares the control thread, so everything is
//! bounded: connections, their lifetime, request heads.

mod access;
mod encodings;
mod key_text;
mod keys;
mod layouts;
mod metrics;
mod process;
mod ready;
mod reports;
mod rules;
mod statements;
#[cfg(test)]
mod tests;
mod text;
mod view;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use self::access::Refusal;
use crate::config::Secret;
use crate::process::Process;

const CONNECTIONS_MAX: usize = 64;
/// Time to send a request head; also the longest pause between two requests on one connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Age at which a connection is closed after its current response.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(60);
/// Time for that last response, so that a client that does not read cannot occupy a connection.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 * 1024;

const DASHBOARD: &str = include_str!("../assets/dashboard.html");
const ENDPOINTS: &str = "\
/              dashboard
/metrics       Prometheus metrics
/health        200 while the process works
/ready         200 when clients can be served, else 503 with the reason
/api/snapshot  what the dashboard shows, as JSON
/api/statements?table=keyspace.table
               prepared SELECTs of a table and how often they are asked, as JSON
/api/keys      the partitions that are asked for most, as JSON
/api/rules     the rules in force and what they have refused, as JSON
";

/// Serves until the proxy stops.
pub(crate) async fn serve(shared: Arc<Process>, listener: TcpListener) {
    let admin = Arc::new(Admin {
        shared,
        started: SystemTime::now(),
    });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed; if it were, nothing more could be served.
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let admin = admin.clone();
                tokio::spawn(async move {
                    admin.connection(stream).await;
                    drop(place);
                });
            }
            Err(e) => {
                tracing::warn!("the admin server cannot accept a connection: {e}");
                // Usually "too many open files": an immediate retry would only spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Admin {
    shared: Arc<Process>,
    started: SystemTime,
}

type Answer = Response<Full<Bytes>>;

impl Admin {
    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let answer = self.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        // Errors are the peer's: it disconnected, was too slow or did not speak HTTP.
        let ended = tokio::time::timeout(CONNECTION_AGE_MAX, connection.as_mut()).await;
        if ended.is_err() {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(LAST_ANSWER_TIMEOUT, connection).await;
        }
    }

    fn answer<B>(&self, request: &Request<B>) -> Answer {
        let path = request.uri().path();
        let settings = self.shared.settings.load();
        let token = settings.admin.token.as_ref().map(Secret::expose);
        let shown = match token {
            Some(token) => access::check_token(token, request.headers().get(header::AUTHORIZATION)),
            None => access::check_host(asked_host(request), &settings.admin.hosts),
        };
        // An orchestrator's probes have no token, and the page contains no data: it asks for the
        // token.
        let open = token.is_some() && matches!(path, "/" | "/health" | "/ready");
        if let Err(refusal) = shown
            && !open
        {
            return refused(refusal);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let text = "only GET and HEAD are served here\n";
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, text);
            set(&mut answer, header::ALLOW, "GET, HEAD");
            return answer;
        }
        match path {
            "/" => page(),
            "/metrics" => typed(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                metrics::render(&self.shared, self.started),
            ),
            "/health" => plain(StatusCode::OK, "ok\n"),
            "/ready" => match ready::check(&self.shared) {
                Ok(()) => plain(StatusCode::OK, "ready\n"),
                Err(reason) => {
                    // Names of nodes are not public.
                    let text = match shown {
                        Ok(()) => format!("{reason:#}\n"),
                        Err(_) => format!("{reason}\n"),
                    };
                    plain(StatusCode::SERVICE_UNAVAILABLE, text)
                }
            },
            "/api/snapshot" => json(&view::view(&self.shared, self.started)),
            "/api/keys" => json(&keys::view(&self.shared)),
            "/api/rules" => json(&rules::view(&self.shared)),
            "/api/statements" => {
                match statements::view(&self.shared, request.uri().query(), Instant::now()) {
                    Ok(statements) => json(&statements),
                    Err(usage) => plain(StatusCode::BAD_REQUEST, usage),
                }
            }
            _ => plain(
                StatusCode::NOT_FOUND,
                format!("nothing is served at this path; available:\n{ENDPOINTS}"),
            ),
        }
    }
}

/// The server name that the client used.
fn asked_host<B>(request: &Request<B>) -> Option<&[u8]> {
    let absolute = request.uri().authority().map(|a| a.as_str().as_bytes());
    absolute.or_else(|| Some(request.headers().get(header::HOST)?.as_bytes()))
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Host => plain(StatusCode::FORBIDDEN, refusal.text()),
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

fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => typed(StatusCode::OK, "application/json", json),
        Err(e) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")),
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", text)
}

/// hyper itself omits the body of a response to HEAD.
fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    set(&mut answer, header::CONTENT_TYPE, content_type);
    set(&mut answer, header::CACHE_CONTROL, "no-store");
    set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

fn set(answer: &mut Answer, name: HeaderName, value: &'static str) {
    answer
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
}
