//! The control connection: reads topology and schema, and receives events. Schema agreement is
//! checked separately.
//!
//! There is one for the whole proxy, on its own thread. When its node fails it moves to another.

pub(crate) mod agree;
mod connection;
pub(crate) mod contact;
pub(crate) mod facts;
pub(crate) mod first_contact;
mod last_down;
mod looks;
mod members;
mod movers;
mod read;
pub(crate) mod recall;
pub(crate) mod rows;
pub(crate) mod schema;
mod sizes;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_policy::route::Locality;
use helenus_wire::{Malformed, Opcode, Reader};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::agree::Linked;
pub(crate) use self::connection::{Control, NoControl};
use self::facts::Asking;
use self::looks::Looks;
use self::movers::Movers;
use self::sizes::Measuring;
use crate::config::Config;
use crate::conn::ConnError;
use crate::planted;
use crate::process::{ControlRequest, Process};
use crate::records::events::Kind;
use helenus_engine::shared::{EventKind, WorkerMessage};
use helenus_engine::snapshot::{Mover, Snapshot};
use helenus_engine::stats::add;

/// Events in bursts (a table and its views) cause one refresh.
const REFRESH_DELAY: Duration = Duration::from_millis(100);
/// Number of known nodes to try before the contact points.
const KNOWN_FIRST: usize = 8;
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Keeps the snapshot up to date until the proxy stops.
pub(crate) async fn run(
    shared: Arc<Process>,
    mut control: Control,
    mut requests: mpsc::Receiver<ControlRequest>,
    mut recalls: mpsc::Receiver<Box<[u8]>>,
) {
    planted::panic_in("control");
    let mut asking = Asking::new(&shared);
    let mut linked = Linked::default();
    loop {
        let ended = follow(
            &shared,
            &mut control,
            &mut requests,
            &mut recalls,
            &mut asking,
            &mut linked,
        )
        .await;
        let Err(e) = ended else { return };
        tracing::warn!(node = %control.address, "control connection lost: {e}");
        add(&shared.stats.global.control_reconnects, 1);
        let lost = format!("control connection to {} lost: {e}", control.address);
        shared.events.note(Kind::ControlLost, lost);
        // Changes may be missed until the next one is registered for events.
        shared.forget_statuses();
        asking.doubt_all(&shared);
        let schema_version = shared.snapshot.load().schema().version();
        control = reconnect(&shared, control.address, &mut requests).await;
        shared.contact_failure.store(None);
        if shared.snapshot.load().schema().version() != schema_version {
            shared.doubt_prepared(None);
        }
        tracing::info!(node = %control.address, "control connection open again");
        tokio::spawn(last_down::ask(shared.clone()));
        let back = format!("control connection to {} open", control.address);
        shared.events.note(Kind::ControlReturned, back);
        shared.tell_workers(&WorkerMessage::NodeUp(control.address));
    }
}

/// Tries the known nodes and, if none of them responds, the contact points as well: all nodes may
/// have come back with other addresses.
async fn reconnect(
    shared: &Process,
    lost: SocketAddr,
    requests: &mut mpsc::Receiver<ControlRequest>,
) -> Control {
    let mut pause = Duration::from_millis(shared.settings.load().links.backoff_min_ms.max(1));
    let mut known_failed = false;
    let mut unusable = contact::Unusable::default();
    loop {
        let snapshot = shared.snapshot.load_full();
        let config = shared.settings.load_full();
        let known = in_order(&snapshot, &config, lost);
        let addresses = match known_failed {
            false => known.into_iter().take(KNOWN_FIRST).collect(),
            true => {
                let points = contact::resolve(&config.cluster.contact_points).await;
                contact::in_order_once(points.into_iter().chain(known))
            }
        };
        known_failed = true;
        let addresses = unusable.put_last(addresses);
        let dialer = (**shared.dialer.load()).clone();
        let failure = match Control::connect(&config, &dialer, &addresses).await {
            Ok(mut next) => match refresh(shared, &mut next).await {
                Ok(()) => return next,
                Err(e) => {
                    tracing::warn!(node = %next.address, "not usable: {e}");
                    unusable.note(next.address);
                    format!("{}: not usable: {e}", next.address)
                }
            },
            Err(e) => {
                tracing::warn!("no node for the control connection: {e}");
                e.to_string()
            }
        };
        shared.contact_failure.store(Some(Arc::new(failure)));
        // The settings may have changed, with other contact points; requests pending here get no
        // answer.
        if let Ok(Some(_)) = tokio::time::timeout(pause, requests.recv()).await {
            while requests.try_recv().is_ok() {}
        }
        pause = (pause * 2).min(Duration::from_millis(config.links.backoff_max_ms.max(1)));
    }
}

/// The nodes to try for a new control connection: near ones first, and the one just lost after its
/// equals. Remote ones only if they may serve: each that does not respond delays those that would
/// by seconds.
pub(crate) fn in_order(snapshot: &Snapshot, config: &Config, lost: SocketAddr) -> Vec<SocketAddr> {
    let nodes = snapshot.nodes();
    let present = nodes.by_index().filter(|(_, node)| !node.is_gone());
    let mut found: Vec<(Locality, SocketAddr)> = present
        .filter_map(|(at, node)| Some((nodes.locality(at)?, node.address())))
        .filter(|(at, _)| *at != Locality::Remote || config.cluster.allow_remote_dc)
        .collect();
    found.sort_by_key(|(at, address)| (*at, *address == lost));
    found.into_iter().map(|(_, address)| address).collect()
}

async fn refresh(shared: &Process, control: &mut Control) -> Result<(), ConnError> {
    refresh_with(shared, control, &[]).await
}

/// [`refresh`] when these nodes have joined or left for good.
async fn refresh_with(
    shared: &Process,
    control: &mut Control,
    settled: &[Mover],
) -> Result<(), ConnError> {
    let old = shared.snapshot.load_full();
    let snapshot = control
        .read_with(&shared.settings.load_full(), Some(&old), settled)
        .await?;
    // Addresses get reassigned, and not always within the cluster.
    if old.is_known() && old.cluster_name() != snapshot.cluster_name() {
        return Err(ConnError::OtherCluster {
            found: snapshot.cluster_name().to_owned(),
            own: old.cluster_name().to_owned(),
        });
    }
    shared.publish(snapshot);
    Ok(())
}

/// Runs one control connection; `Ok` when the proxy stops.
async fn follow(
    shared: &Arc<Process>,
    control: &mut Control,
    requests: &mut mpsc::Receiver<ControlRequest>,
    recalls: &mut mpsc::Receiver<Box<[u8]>>,
    asking: &mut Asking,
    linked: &mut Linked,
) -> Result<(), ConnError> {
    let mut refresh_at: Option<Instant> = None;
    let mut looks = Looks::default();
    looks.after_change(Instant::now());
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.reset();
    asking.begin(shared, control.conn.version);
    let mut movers = Movers::default();
    let mut measuring = Measuring::default();
    measuring.begin(shared, control.address, control.conn.version);
    loop {
        movers.watch(shared, &shared.snapshot.load());
        tokio::select! {
            message = control.conn.receive() => {
                let message = message?;
                if message.opcode() == Some(Opcode::Event) {
                    if let Some(node) = on_event(shared, message.content()?) {
                        asking.doubt(shared, node);
                    }
                    refresh_at.get_or_insert_with(|| Instant::now() + REFRESH_DELAY);
                    looks.after_change(Instant::now());
                }
            }
            request = requests.recv() => match request {
                None => return Ok(()),
                Some(ControlRequest::Refresh(done)) => {
                    refresh(shared, control).await?;
                    if let Some(done) = done {
                        // The requester may have given up.
                        let _ = done.send(());
                    }
                }
                Some(ControlRequest::Versions) => looks.at_once(Instant::now()),
            },
            Some(settled) = movers.next() => {
                refresh_with(shared, control, &[settled]).await?;
                asking.ask(shared);
            }
            Some(snapshot) = asking.next(shared) => shared.publish(snapshot),
            Some(snapshot) = measuring.next(shared) => shared.publish(snapshot),
            Some(id) = recalls.recv() => control.recall(shared, &id).await?,
            () = tokio::time::sleep_until(refresh_at.unwrap_or_else(Instant::now)), if refresh_at.is_some() => {
                refresh_at = None;
                refresh(shared, control).await?;
                asking.ask(shared);
            }
            () = tokio::time::sleep_until(looks.at().unwrap_or_else(Instant::now)), if looks.at().is_some() => {
                let other = control.other_schema_version(shared, linked).await?;
                show_other_version(shared, other);
                looks.done(Instant::now(), other.is_some());
            }
            _ = heartbeat.tick() => {
                // Also catches topology changes whose event was lost.
                let old = shared.snapshot.load_full();
                let new = control.read(&shared.settings.load_full(), Some(&old)).await?;
                let is_same = new.nodes().are_those_of(old.nodes())
                    && new.schema().version() == old.schema().version();
                if !is_same {
                    shared.publish(new);
                }
                // This node may be the one that has not heard of a change.
                if looks.at().is_none() {
                    looks.after_change(Instant::now());
                }
                asking.ask(shared);
                measuring.begin(shared, control.address, control.conn.version);
            }
        }
    }
}

/// Shows clients whether the nodes agree on the schema.
fn show_other_version(shared: &Process, other: Option<[u8; 16]>) {
    let known = shared.snapshot.load_full();
    if known.schema().other_version() != other {
        shared.publish(known.successor().other_schema_version(other).build());
    }
}

/// Returns the node that may have been started anew, if it is about one.
fn on_event(shared: &Process, body: &[u8]) -> Option<SocketAddr> {
    let mut reader = Reader::new(body);
    let kind = reader.string().ok().and_then(EventKind::parse);
    match kind {
        Some(kind @ EventKind::Schema) => {
            shared.schema_changed.notify_one();
            if let Ok(change) = SchemaChange::parse(&mut reader) {
                // New ones have been prepared by nobody.
                if change.change != "CREATED" {
                    shared.doubt_prepared(Some(change.keyspace));
                }
                shared.events.note(Kind::SchemaChanged, change.told());
            }
            shared.tell_workers(&WorkerMessage::Event {
                kind,
                body: body.into(),
            });
            None
        }
        // Clients see proxies, not nodes, so events about nodes are not passed on.
        Some(EventKind::Status) => {
            let (change, node) = (reader.string().ok()?, reader.inet().ok()?);
            let is_news = shared.note_status(node, change == "DOWN");
            if is_news {
                let (kind, now) = match change {
                    "DOWN" => (Kind::NodeReportedDown, "down"),
                    _ => (Kind::NodeReportedUp, "up"),
                };
                let by = format!("{node} is {now}, as another node says");
                shared.events.note(kind, by);
            }
            if change == "DOWN" {
                return None;
            }
            shared.tell_workers(&WorkerMessage::NodeUp(node));
            Some(node)
        }
        _ => None,
    }
}

/// The content of a SCHEMA_CHANGE, behind its kind.
struct SchemaChange<'a> {
    /// CREATED, UPDATED or DROPPED.
    change: &'a str,
    /// Of what.
    target: &'a str,
    keyspace: &'a str,
    name: Option<&'a str>,
}

impl<'a> SchemaChange<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<SchemaChange<'a>, Malformed> {
        Ok(SchemaChange {
            change: reader.string()?,
            target: reader.string()?,
            keyspace: reader.string()?,
            // Functions also have arguments, which tell no more.
            name: reader.string().ok(),
        })
    }

    /// For people.
    fn told(&self) -> String {
        let (change, target) = (self.change.to_lowercase(), self.target.to_lowercase());
        match self.name {
            Some(name) => format!("schema: {target} {}.{name} {change}", self.keyspace),
            None => format!("schema: {target} {} {change}", self.keyspace),
        }
    }
}
