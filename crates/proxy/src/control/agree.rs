//! Schema agreement: whether every node that is up has the changes that clients have just made.
//!
//! All waiting changes share one loop. A round asks the nodes that made them, then peers that seem
//! to lag, and completes every change that was made before the round started, by a node that
//! responded. It uses its own connections, so that the control connection can keep receiving
//! events.
//!
//! There is no reliable source for which nodes are up: `system.peers` keeps the last schema version
//! of a node that is down. So a differing peer counts only if it responds, or if workers have links
//! to it or had them when a change that waits was made: a node that stands still for some seconds is
//! closed by workers and lacks the change all the same. It does not count if Cassandra has reported it
//! as down, or if its machine says that nobody listens there.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::looks;
use super::members::address_of;
use crate::conn::{Conn, ConnError};
use crate::control::rows::{Rows, query};
use crate::process::{Change, ControlRequest, Process};

use helenus_engine::snapshot::{HostId, Node};
use helenus_engine::upstream::connect::greeting::startup_options;

/// Schema changes that wait to be looked at.
pub(crate) const AGREEMENTS_MAX: usize = 1024;

/// Pauses between rounds while nodes disagree.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// A node that is up but takes longer to return its schema version is asked again.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// A node that may be down, and takes longer, does not count.
const DOUBTFUL_ANSWER_MAX: Duration = Duration::from_millis(500);
/// How long an answer is held back until the snapshot contains the change.
const REFRESH_MAX: Duration = Duration::from_secs(2);
/// Connections are closed after this time without changes.
const IDLE: Duration = Duration::from_secs(60);

pub(super) const LOCAL: &str = "SELECT schema_version FROM system.local";
pub(super) const PEERS: &str = "SELECT * FROM system.peers_v2";
pub(super) const PEERS_BEFORE_4_0: &str = "SELECT * FROM system.peers";

/// Handles changes until the proxy stops.
pub(crate) async fn run(shared: Arc<Process>, mut changes: mpsc::Receiver<Change>) {
    let mut agreement = Agreement::default();
    let mut waiting: Vec<Change> = Vec::new();
    let mut pause = PAUSE_MIN;
    let (mut disagree_since, mut is_told) = (None, false);
    loop {
        if waiting.is_empty() {
            pause = PAUSE_MIN;
            let next = match timeout(IDLE, changes.recv()).await {
                Ok(next) => next,
                Err(_) => {
                    agreement.connections.clear();
                    changes.recv().await
                }
            };
            let Some(change) = next else { return };
            waiting.push(change);
            agreement.linked = Linked::default();
        }
        while let Ok(change) = changes.try_recv() {
            waiting.push(change);
        }
        agreement.linked.note(&shared);
        waiting.retain(|change| !change.done.is_closed());
        let coordinators = waiting.iter().map(|change| change.coordinator).collect();
        let Round { agreed, without } = agreement.round(&shared, coordinators).await;
        if without.is_empty() {
            (disagree_since, is_told) = (None, false);
        } else if disagree_since.get_or_insert_with(Instant::now).elapsed() >= looks::DELAY {
            // Clients are to see it: once is enough.
            is_told |= !is_told
                && shared
                    .senders
                    .control
                    .try_send(ControlRequest::Versions)
                    .is_ok();
        }
        shared.schema_awaited_of.store(Arc::new(without));
        if !agreed.is_empty() {
            show(&shared).await;
            for change in waiting.extract_if(.., |change| agreed.contains(&change.coordinator)) {
                // The client may have disconnected.
                let _ = change.done.send(());
            }
        }
        if !waiting.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Waits until the snapshot has been refreshed, or cannot be: then clients should not wait for it.
async fn show(shared: &Process) {
    let (done, read) = oneshot::channel();
    let refresh = async {
        let request = ControlRequest::Refresh(Some(done));
        if shared.senders.control.send(request).await.is_ok() {
            // An error means that the control connection was lost.
            let _ = read.await;
        }
    };
    let _ = timeout(REFRESH_MAX, refresh).await;
}

/// Connections to nodes that were asked, opened on first use.
#[derive(Default)]
struct Agreement {
    connections: FxHashMap<SocketAddr, Conn>,
    /// Since the first of the changes that wait.
    linked: Linked,
}

/// Nodes that workers have had links to. One that stands still loses them within seconds.
#[derive(Debug, Default)]
pub(super) struct Linked(FxHashSet<HostId>);

impl Linked {
    /// Adds those that workers have links to now.
    pub(super) fn note(&mut self, shared: &Process) {
        let (snapshot, stats) = (shared.snapshot.load(), shared.stats.nodes());
        let nodes = snapshot.nodes().all().iter().zip(stats);
        let linked = nodes
            .filter(|(node, stats)| !node.is_gone() && stats.links_up.load(Ordering::Relaxed) > 0);
        self.0.extend(linked.map(|(node, _)| node.host_id()));
    }
}

/// The result of a round.
#[derive(Debug, Default)]
struct Round {
    /// The coordinators whose changes all nodes that are up have.
    agreed: BTreeSet<SocketAddr>,
    /// Nodes that do not have all changes, or say nothing.
    without: Vec<SocketAddr>,
}

/// The response of a node.
struct Told {
    schema_version: Option<Vec<u8>>,
    /// Its peers as it knows them, if that was requested.
    peers: Option<Rows>,
}

/// The result of asking a node.
enum Answer {
    Told(Told),
    Silent,
    /// Nobody listens there.
    Refused,
}

/// A peer whose schema version differs, according to other nodes.
struct Lagging {
    address: SocketAddr,
    /// Its version as another node knows it.
    version: Option<[u8; 16]>,
    /// It blocks agreement even if it does not respond.
    is_up: bool,
}

type Asked = Result<(Conn, Told), ConnError>;

/// The responses of the nodes asked first.
struct Heard {
    /// The nodes that responded, with this version unless they differ.
    from: BTreeSet<SocketAddr>,
    version: Vec<u8>,
    /// The peers of the first of them, as it knows them.
    peers: Rows,
    /// Another version was heard, too.
    differ: bool,
}

/// `None` if none responded. Nothing is known about a change whose coordinator
/// did not respond; the other changes need not wait for it.
fn heard(answers: Vec<(SocketAddr, Answer)>) -> Option<Heard> {
    let mut heard: Option<Heard> = None;
    for (address, answer) in answers {
        let Answer::Told(Told {
            schema_version: Some(version),
            peers: Some(peers),
        }) = answer
        else {
            continue;
        };
        let heard = heard.get_or_insert_with(|| Heard {
            from: BTreeSet::new(),
            version: version.clone(),
            peers,
            differ: false,
        });
        heard.differ |= heard.version != version;
        heard.from.insert(address);
    }
    heard
}

impl Agreement {
    async fn round(&mut self, shared: &Arc<Process>, coordinators: BTreeSet<SocketAddr>) -> Round {
        let asked = coordinators.iter().map(|node| (*node, ANSWER_MAX));
        let answers = self.ask(shared, asked.collect(), true).await;
        let Some(heard) = heard(answers) else {
            return Round {
                agreed: BTreeSet::new(),
                without: Vec::from_iter(coordinators),
            };
        };
        let Heard {
            from,
            version,
            peers,
            differ,
        } = heard;
        let lagging = lagging(shared, &self.linked, &peers, &version);
        if differ {
            return Round {
                agreed: BTreeSet::new(),
                without: awaited(&lagging, coordinators),
            };
        }
        let awaited = awaited(&lagging, BTreeSet::new());
        if !awaited.is_empty() {
            // They may take longer to respond than a client waits, which then wants to know them.
            shared.schema_awaited_of.store(Arc::new(awaited));
        }
        let asked = lagging.iter().map(|peer| match peer.is_up {
            true => (peer.address, ANSWER_MAX),
            false => (peer.address, DOUBTFUL_ANSWER_MAX),
        });
        let answers = self.ask(shared, asked.collect(), false).await;
        let is_up = |address| {
            lagging
                .iter()
                .any(|peer| peer.address == address && peer.is_up)
        };
        let without = answers
            .into_iter()
            .filter(|(address, answer)| match answer {
                Answer::Told(told) => told.schema_version.as_ref() != Some(&version),
                Answer::Silent => is_up(*address),
                Answer::Refused => false,
            });
        let without: Vec<SocketAddr> = without.map(|(address, _)| address).collect();
        match without.is_empty() {
            true => Round {
                agreed: from,
                without,
            },
            false => Round {
                agreed: BTreeSet::new(),
                without,
            },
        }
    }

    /// Queries nodes in parallel, each with a time limit.
    async fn ask(
        &mut self,
        shared: &Arc<Process>,
        nodes: Vec<(SocketAddr, Duration)>,
        for_peers: bool,
    ) -> Vec<(SocketAddr, Answer)> {
        let mut tasks = JoinSet::new();
        for (address, limit) in nodes {
            let conn = self.connections.remove(&address);
            let shared = shared.clone();
            tasks.spawn(async move {
                let asked = timeout(limit, ask_node(&shared, address, conn, for_peers)).await;
                (address, asked.unwrap_or(Err(ConnError::Timeout(limit))))
            });
        }
        let answers: Vec<(SocketAddr, Asked)> = tasks.join_all().await;
        let mut told = Vec::with_capacity(answers.len());
        for (address, answer) in answers {
            let answer = match answer {
                Ok((conn, answer)) => {
                    self.connections.insert(address, conn);
                    Answer::Told(answer)
                }
                Err(e) => {
                    tracing::debug!(node = %address, "no response about its schema: {e}");
                    match e {
                        ConnError::Io(e) if e.kind() == ErrorKind::ConnectionRefused => {
                            Answer::Refused
                        }
                        _ => Answer::Silent,
                    }
                }
            };
            told.push((address, answer));
        }
        told
    }
}

async fn ask_node(
    shared: &Process,
    address: SocketAddr,
    conn: Option<Conn>,
    for_peers: bool,
) -> Asked {
    // A connection that was left open may have been closed meanwhile.
    if let Some(conn) = conn
        && let Ok(told) = ask_over(conn, for_peers).await
    {
        return Ok(told);
    }
    let dialer = (**shared.dialer.load()).clone();
    let mut conn = dialer
        .dial(address, shared.snapshot.load().version())
        .await?;
    let config = shared.settings.load_full();
    let options = startup_options(&config.payload);
    conn.open(&options, config.control_token().as_deref())
        .await?;
    ask_over(conn, for_peers).await
}

async fn ask_over(mut conn: Conn, for_peers: bool) -> Asked {
    let local = query(&mut conn, LOCAL).await?;
    let row = local.rows.first();
    let schema_version = row.and_then(|row| local.cell(row, "schema_version"));
    let schema_version = schema_version.map(<[u8]>::to_vec);
    let mut peers = None;
    if for_peers {
        peers = Some(match query(&mut conn, PEERS).await {
            Err(ConnError::Node { .. }) => query(&mut conn, PEERS_BEFORE_4_0).await?,
            answer => answer?,
        });
    }
    let told = Told {
        schema_version,
        peers,
    };
    Ok((conn, told))
}

/// The peers that have another version, except those known to be down. Nodes learn peers' versions
/// by gossip, once a second, so the peers may already have this version. `linked`: nodes that were up a while ago.
fn lagging(shared: &Process, linked: &Linked, peers: &Rows, version: &[u8]) -> Vec<Lagging> {
    let snapshot = shared.snapshot.load();
    let stats = shared.stats.nodes();
    let down = shared.nodes_down();
    let different = peers.rows.iter().filter(|row| {
        // A node that has never been up has no release version.
        peers.cell(row, "release_version").is_some()
            && peers.cell(row, "schema_version") != Some(version)
    });
    different
        .filter_map(|row| {
            let host_id: HostId = peers.cell(row, "host_id")?.try_into().ok()?;
            let nodes = snapshot.nodes().all();
            let is_it = |node: &Node| node.host_id() == host_id && !node.is_gone();
            let at = nodes.iter().position(is_it);
            let links = at.and_then(|at| stats.get(at));
            let is_linked = links.is_some_and(|node| node.links_up.load(Ordering::Relaxed) > 0);
            let is_down = down.contains(&host_id);
            let address = match at {
                Some(at) => nodes[at].address(),
                None => address_of(peers, row, nodes.first()?.address().port())?,
            };
            // Workers may have reconnected to a node before Cassandra reports it as up.
            (is_linked || !is_down).then_some(Lagging {
                address,
                version: peers
                    .cell(row, "schema_version")
                    .and_then(|of| of.try_into().ok()),
                is_up: !is_down && (is_linked || linked.0.contains(&host_id)),
            })
        })
        .collect()
}

/// The nodes that keep others waiting: those that are up and lag, and coordinators that differ, as each lacks what
/// another has made.
fn awaited(lagging: &[Lagging], differing: BTreeSet<SocketAddr>) -> Vec<SocketAddr> {
    let up = lagging.iter().filter(|peer| peer.is_up);
    let mut all = differing;
    all.extend(up.map(|peer| peer.address));
    Vec::from_iter(all)
}

/// The version of a node that is up and has another one than this, as another node says. `linked`: nodes that were
/// up when all agreed, or later.
pub(super) fn other_version(
    shared: &Process,
    linked: &mut Linked,
    peers: &Rows,
    version: &[u8],
) -> Option<[u8; 16]> {
    linked.note(shared);
    let lagging = lagging(shared, linked, peers, version);
    let other = lagging
        .into_iter()
        .filter(|peer| peer.is_up)
        .find_map(|peer| peer.version);
    if other.is_none() {
        *linked = Linked::default();
        linked.note(shared);
    }
    other
}

#[cfg(test)]
mod tests;
