//! Operators' actions: disconnect a client, pause and resume, reload, connect to nodes anew, drain, log more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_engine::features;
use helenus_engine::features::pause::operator_pause::{HELD_MAX, HOLD_MAX, Hold, Paused};
use helenus_engine::shared::WorkerMessage;
use helenus_engine::snapshot::Node;
use helenus_engine::worker_status::{Report, Wanted};
use hyper::StatusCode;
use serde::Serialize;
use tokio::sync::oneshot;

use super::api::clients::client_of;
use super::api::log;
use super::captures;
use super::http::answer::{Answer, Done, bad, json, plain};
use super::http::parameters;
use crate::idle_clients;
use crate::process::{self, Process};
use crate::records::events::Kind;

/// How long a pause is, and how many requests wait, if nothing is said.
const PAUSE_S: u64 = 30;
const WAITING_MAX: u64 = 10_000;
/// A reload takes as long as files and name servers do.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Something to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action<'a> {
    Kill(&'a str),
    KillIdle,
    Pause,
    Resume,
    Reload,
    Reconnect,
    Drain,
    Capture,
    ChangeLog,
    ResetLog,
}

/// The action that a path asks for; None if it changes nothing.
pub(super) fn named(path: &str) -> Option<Action<'_>> {
    let client = path.strip_prefix("/api/clients/");
    match path {
        "/api/clients/kill" => Some(Action::KillIdle),
        "/api/pause" => Some(Action::Pause),
        "/api/resume" => Some(Action::Resume),
        "/api/reload" => Some(Action::Reload),
        "/api/reconnect" => Some(Action::Reconnect),
        "/api/drain" => Some(Action::Drain),
        "/api/capture" => Some(Action::Capture),
        "/api/log/filter" => Some(Action::ChangeLog),
        "/api/log/reset" => Some(Action::ResetLog),
        _ => client?.strip_suffix("/kill").map(Action::Kill),
    }
}

/// A pause in force.
#[derive(Debug, Serialize)]
pub(super) struct PauseView {
    /// One of these two.
    role: Option<Box<str>>,
    keyspace: Option<Box<str>>,
    left_s: f64,
    /// Requests that wait now, and that may.
    waiting: u32,
    waiting_max: u32,
    /// Requests that have waited or wait, and those that were refused.
    held: u64,
    refused: u64,
}

fn pause_view(hold: &Hold, now: Instant) -> PauseView {
    let (role, keyspace) = match &hold.of {
        Paused::Role(role) => (Some(role.clone()), None),
        Paused::Keyspace(keyspace) => (None, Some(keyspace.clone())),
    };
    let left = hold.until.saturating_duration_since(now);
    PauseView {
        role,
        keyspace,
        left_s: super::api::shown::rounded(left.as_secs_f64()),
        waiting: hold.waiting(),
        waiting_max: hold.requests_max,
        held: hold.held.load(Ordering::Relaxed),
        refused: hold.refused.load(Ordering::Relaxed),
    }
}

/// The answer of `/api/pauses`.
pub(super) fn pauses(shared: &Process, now: Instant) -> Vec<PauseView> {
    let holds = shared.features.pause.list(now);
    holds.iter().map(|hold| pause_view(hold, now)).collect()
}

pub(super) async fn carry_out(
    shared: &Arc<Process>,
    action: &Action<'_>,
    query: Option<&str>,
) -> Answer {
    let done = match action {
        Action::Kill(id) => return kill(shared, id).await,
        Action::KillIdle => kill_idle(shared, query).await,
        Action::Pause => pause(shared, query),
        Action::Resume => resume(shared, query),
        Action::Reload => return reload(shared).await,
        Action::Reconnect => reconnect(shared, query),
        Action::Drain => drain(shared),
        Action::Capture => captures::begin(shared, query),
        Action::ChangeLog => return log::change(shared, query).await,
        Action::ResetLog => return log::reset(shared, query).await,
    };
    done.unwrap_or_else(|(status, why)| plain(status, format!("{why}\n")))
}

async fn kill(shared: &Process, id: &str) -> Answer {
    let Some((worker, key)) = client_of(shared.start_number, id) else {
        let text =
            "this is no client's id since the proxy has started: GET /api/clients lists them\n";
        return plain(StatusCode::BAD_REQUEST, text);
    };
    let answers = shared.ask_worker(worker, Wanted::Kill(key)).await;
    match answers.reports.first() {
        Some(Report::Killed(true)) => {
            tracing::info!(client = id, "an operator has disconnected a client");
            let text = format!("client {id} disconnected by an operator");
            shared.events.note(Kind::ClientKilled, text);
            json(&serde_json::json!({ "killed": id }))
        }
        _ if answers.silent > 0 => {
            let text =
                "its worker does not answer: the client may be disconnected a little later\n";
            plain(StatusCode::GATEWAY_TIMEOUT, text)
        }
        _ => plain(StatusCode::NOT_FOUND, "there is no such client any more\n"),
    }
}

async fn kill_idle(shared: &Process, query: Option<&str>) -> Done {
    parameters::only(query, &["idle_s"]).map_err(bad)?;
    let idle_s = parameters::number(query, "idle_s", 0, 0..=u32::MAX.into()).map_err(bad)?;
    if idle_s == 0 {
        return Err(bad(
            "idle_s is missing: for how many seconds they have asked nothing".to_owned(),
        ));
    }
    let done = idle_clients::disconnect(shared, Duration::from_secs(idle_s)).await;
    let clients = done.clients;
    tracing::info!(
        clients,
        idle_s,
        silent_workers = done.silent_workers,
        "an operator has disconnected clients that have asked nothing"
    );
    if clients > 0 {
        let text = format!("{clients} clients disconnected by an operator, idle for {idle_s} s");
        shared.events.note(Kind::ClientKilled, text);
    }
    Ok(json(&serde_json::json!({
        "killed": clients,
        "silent_workers": done.silent_workers,
    })))
}

fn paused_of(query: Option<&str>) -> Result<Paused, String> {
    let (role, keyspace) = (
        parameters::text(query, "role")?,
        parameters::text(query, "keyspace")?,
    );
    match (role, keyspace) {
        (Some(role), None) if !role.is_empty() => Ok(Paused::Role(role.into())),
        (None, Some(keyspace)) if !keyspace.is_empty() => Ok(Paused::Keyspace(keyspace.into())),
        _ => Err("name either a role or a keyspace".to_owned()),
    }
}

fn pause(shared: &Process, query: Option<&str>) -> Done {
    let names = ["role", "keyspace", "seconds", "waiting_max"];
    parameters::only(query, &names).map_err(bad)?;
    let of = paused_of(query).map_err(bad)?;
    let seconds = parameters::number(query, "seconds", PAUSE_S, 1..=HOLD_MAX.as_secs());
    let seconds = seconds.map_err(bad)?;
    let max = parameters::number(query, "waiting_max", WAITING_MAX, 0..=HELD_MAX.into());
    let max = max.map_err(bad)? as u32;
    if shared.draining.load(Ordering::Acquire) {
        let why = "the proxy is stopping: what waits would be lost".to_owned();
        return Err((StatusCode::CONFLICT, why));
    }
    let now = Instant::now();
    let hold = shared
        .features
        .pause
        .begin(of, now, Duration::from_secs(seconds), max)
        .map_err(|e| (StatusCode::CONFLICT, e.to_string()))?;
    shared.tell_workers(&WorkerMessage::Feature(features::Message::Pause(
        features::pause::Changed,
    )));
    tracing::warn!(
        seconds,
        waiting_max = max,
        "an operator has paused {}",
        hold.of
    );
    let text = format!("{} paused by an operator for {seconds} s at most", hold.of);
    shared.events.note(Kind::Paused, text);
    Ok(json(&pause_view(&hold, now)))
}

fn resume(shared: &Process, query: Option<&str>) -> Done {
    parameters::only(query, &["role", "keyspace"]).map_err(bad)?;
    let of = paused_of(query).map_err(bad)?;
    let now = Instant::now();
    let ended = shared.features.pause.end(Some(&of), now);
    let Some(hold) = ended.first() else {
        let why = format!("{of} is not paused, or not any more: GET /api/pauses lists what is");
        return Err((StatusCode::NOT_FOUND, why));
    };
    let view = pause_view(hold, now);
    shared.tell_workers(&WorkerMessage::Feature(features::Message::Pause(
        features::pause::Changed,
    )));
    tracing::warn!(waiting = view.waiting, "an operator has resumed {of}");
    let text = format!(
        "{of} resumed by an operator; {} requests have waited",
        view.held
    );
    shared.events.note(Kind::Resumed, text);
    Ok(json(&view))
}

async fn reload(shared: &Process) -> Answer {
    let (done, reloaded) = oneshot::channel();
    let asked = process::Action::Reload(done);
    if shared.senders.actions.try_send(asked).is_err() {
        let text = "others have asked for this already: try again\n";
        return plain(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    match tokio::time::timeout(RELOAD_PATIENCE, reloaded).await {
        Ok(Ok(Ok(reloaded))) => json(&reloaded),
        Ok(Ok(Err(why))) => {
            let text = format!("nothing reloaded, the previous settings stay in force: {why}\n");
            plain(StatusCode::UNPROCESSABLE_ENTITY, text)
        }
        Ok(Err(_)) => plain(StatusCode::CONFLICT, "the proxy is stopping\n"),
        Err(_) => plain(
            StatusCode::GATEWAY_TIMEOUT,
            "it is not done yet: the log will say what came of it\n",
        ),
    }
}

/// Has connections to nodes replaced. The control connection stays.
fn reconnect(shared: &Process, query: Option<&str>) -> Done {
    parameters::only(query, &["node"]).map_err(bad)?;
    let node = parameters::text(query, "node").map_err(bad)?;
    let node = node.map(|node| node.parse::<SocketAddr>()).transpose();
    let node = node.map_err(|_| bad("node is an address and a port: 10.0.0.1:9042".to_owned()))?;
    let snapshot = shared.snapshot.load();
    let is_meant = |of: &Node| !of.is_gone() && node.is_none_or(|node| of.address() == node);
    let stats = shared.stats.nodes();
    let nodes = snapshot.nodes().all().iter().enumerate();
    let meant: Vec<usize> = nodes
        .filter(|(_, of)| is_meant(of))
        .map(|(at, _)| at)
        .collect();
    if meant.is_empty() {
        let why = "there is no such node: GET /api/nodes lists them".to_owned();
        return Err((StatusCode::NOT_FOUND, why));
    }
    let links = meant.iter().filter_map(|at| stats.get(*at));
    let links: u64 = links.map(|of| of.links_up.load(Ordering::Relaxed)).sum();
    shared.tell_workers(&WorkerMessage::Renew(node));
    tracing::warn!(
        links,
        nodes = meant.len(),
        "an operator has connections replaced"
    );
    Ok(json(
        &serde_json::json!({ "links": links, "nodes": meant.len() }),
    ))
}

fn drain(shared: &Process) -> Done {
    let is_stopping = shared.draining.load(Ordering::Acquire);
    let asked = process::Action::Drain;
    if is_stopping || shared.senders.actions.try_send(asked).is_err() {
        let why = "the proxy is stopping already".to_owned();
        return Err((StatusCode::CONFLICT, why));
    }
    tracing::info!("an operator stops the proxy");
    let settings = shared.settings.load();
    let clients = shared.clients.load(Ordering::Acquire);
    Ok(json(&serde_json::json!({
        "draining": true,
        "clients": clients,
        "at_most_s": settings.listen.drain_timeout_ms as f64 / 1e3,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_actions() {
        assert_eq!(named("/api/clients/0-1/kill"), Some(Action::Kill("0-1")));
        assert_eq!(named("/api/clients/kill"), Some(Action::KillIdle));
        assert_eq!(named("/api/drain"), Some(Action::Drain));
        assert_eq!(named("/api/capture"), Some(Action::Capture));
        assert_eq!(named("/api/reconnect"), Some(Action::Reconnect));
        for other in ["/api/clients", "/api/clients/0-1", "/api/pauses", "/"] {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn a_pause_is_of_a_role_or_of_a_keyspace() {
        assert_eq!(paused_of(Some("role=app")), Ok(Paused::Role("app".into())));
        let keyspace = Paused::Keyspace("Shop".into());
        assert_eq!(paused_of(Some("keyspace=Shop")), Ok(keyspace));
        for wrong in [None, Some("role="), Some("role=a&keyspace=b"), Some("x=y")] {
            assert!(paused_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
