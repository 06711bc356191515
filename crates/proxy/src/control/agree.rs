//! Schema agreement: whether every node that is up has the changes that clients have just made.
//!
//! All waiting changes share one loop. A round asks the nodes that made them, then peers that seem
//! to lag, and completes every change that was made before the round started, by a node that
//! responded. It uses its own connections, so that the control connection can keep receiving
//! events.
//!
//! There is no reliable source for which nodes are up: `system.peers` keeps the last schema version
//! of a node that is down. So a differing peer counts only if it responds, or if workers have links
//! to it; it does not count if Cassandra has reported it as down, or if this proxy cannot reach it
//! either.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::members::address_of;
use crate::conn::{Conn, ConnError};
use crate::process::{Change, ControlRequest, Process};
use crate::rows::{Rows, query};

use helenus_engine::node::greeting::startup_options;
use helenus_engine::snapshot::{HostId, Snapshot};

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

const LOCAL: &str = "SELECT schema_version FROM system.local";
const PEERS: &str = "SELECT * FROM system.peers_v2";
const PEERS_BEFORE_4_0: &str = "SELECT * FROM system.peers";

/// Handles changes until the proxy stops.
pub(crate) async fn run(shared: Arc<Process>, mut changes: mpsc::Receiver<Change>) {
    let mut agreement = Agreement::default();
    let mut waiting: Vec<Change> = Vec::new();
    let mut pause = PAUSE_MIN;
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
        }
        while let Ok(change) = changes.try_recv() {
            waiting.push(change);
        }
        waiting.retain(|change| !change.done.is_closed());
        let coordinators = waiting.iter().map(|change| change.coordinator).collect();
        let agreed = agreement.round(&shared, coordinators).await;
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
}

/// The response of a node.
struct Told {
    schema_version: Option<Vec<u8>>,
    /// What it knows about its peers, if that was requested.
    peers: Option<Rows>,
}

/// A peer whose schema version differs, according to other nodes.
struct Lagging {
    address: SocketAddr,
    /// Whether it blocks agreement even if it does not respond.
    is_up: bool,
}

type Asked = Result<(Conn, Told), ConnError>;

/// The unanimous response of the nodes asked first.
struct Heard {
    /// The nodes that responded.
    from: BTreeSet<SocketAddr>,
    version: Vec<u8>,
    peers: Rows,
}

/// `None` if they differ, or if none responded. Nothing is known about a change whose coordinator
/// did not respond; the other changes need not wait for it.
fn heard(told: Vec<(SocketAddr, Option<Told>)>) -> Option<Heard> {
    let mut heard: Option<Heard> = None;
    for (address, told) in told {
        let Some(Told {
            schema_version: Some(version),
            peers: Some(peers),
        }) = told
        else {
            continue;
        };
        let heard = heard.get_or_insert_with(|| Heard {
            from: BTreeSet::new(),
            version: version.clone(),
            peers,
        });
        if heard.version != version {
            return None;
        }
        heard.from.insert(address);
    }
    heard
}

impl Agreement {
    /// The coordinators among these whose schema version all nodes that are up share.
    async fn round(
        &mut self,
        shared: &Arc<Process>,
        coordinators: BTreeSet<SocketAddr>,
    ) -> BTreeSet<SocketAddr> {
        let coordinators = coordinators.into_iter().map(|node| (node, ANSWER_MAX));
        let told = self.ask(shared, coordinators.collect(), true).await;
        let Some(heard) = heard(told) else {
            return BTreeSet::new();
        };
        let Heard {
            from,
            version,
            peers,
        } = heard;
        let lagging = lagging(&shared.snapshot.load(), shared, &peers, &version);
        let asked = lagging.iter().map(|peer| match peer.is_up {
            true => (peer.address, ANSWER_MAX),
            false => (peer.address, DOUBTFUL_ANSWER_MAX),
        });
        let told = self.ask(shared, asked.collect(), false).await;
        let agree = told.into_iter().all(|(address, told)| match told {
            Some(told) => told.schema_version.as_ref() == Some(&version),
            None => !lagging
                .iter()
                .any(|peer| peer.address == address && peer.is_up),
        });
        match agree {
            true => from,
            false => BTreeSet::new(),
        }
    }

    /// Queries nodes in parallel, each with a time limit; `None` for those that did not respond.
    async fn ask(
        &mut self,
        shared: &Arc<Process>,
        nodes: Vec<(SocketAddr, Duration)>,
        for_peers: bool,
    ) -> Vec<(SocketAddr, Option<Told>)> {
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
            match answer {
                Ok((conn, answer)) => {
                    self.connections.insert(address, conn);
                    told.push((address, Some(answer)));
                }
                Err(e) => {
                    tracing::debug!(node = %address, "no response about its schema: {e}");
                    told.push((address, None));
                }
            }
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
    let mut conn = match conn {
        Some(conn) => conn,
        None => {
            let dialer = (**shared.dialer.load()).clone();
            let mut conn = dialer.dial(address, shared.snapshot.load().version).await?;
            let config = shared.settings.load_full();
            let options = startup_options(&config.payload);
            conn.open(&options, config.control_token().as_deref())
                .await?;
            conn
        }
    };
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
/// by gossip, once a second, so the peers may already have this version.
fn lagging(snapshot: &Snapshot, shared: &Process, peers: &Rows, version: &[u8]) -> Vec<Lagging> {
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
            let mut nodes = snapshot.nodes.iter();
            let at = nodes.position(|node| node.host_id == host_id && !node.gone);
            let links = at.and_then(|at| stats.get(at));
            let is_linked = links.is_some_and(|node| node.links_up.load(Ordering::Relaxed) > 0);
            let is_down = down.contains(&host_id);
            let address = match at {
                Some(at) => snapshot.nodes[at].address,
                None => address_of(peers, row, snapshot.nodes.first()?.address.port())?,
            };
            // Workers may have reconnected to a node before Cassandra reports it as up.
            (is_linked || !is_down).then_some(Lagging {
                address,
                is_up: is_linked && !is_down,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use helenus_engine::snapshot::{Node, SystemColumn};
    use helenus_policy::ring::NodeIndex;

    /// Client addresses differ from the addresses between nodes.
    fn native(number: u8) -> SocketAddr {
        SocketAddr::from(([10, 1, 0, number], 9042))
    }

    fn shared() -> Process {
        let shared = crate::testing::process(Config::default());
        let nodes = (1..=3).map(|number| Node {
            address: native(number),
            host_id: [number; 16],
            dc: String::new(),
            rack: String::new(),
            release_version: String::new(),
            processors: None,
            timeouts: None,
            batches: None,
            gone: false,
        });
        shared.publish(Snapshot {
            nodes: nodes.collect(),
            ..Snapshot::unknown()
        });
        shared
    }

    fn link(shared: &Process, number: u8) {
        let stats = shared.stats.node(NodeIndex(number as u16 - 1), String::new);
        stats.links_up.store(1, Ordering::Relaxed);
    }

    /// What node 1 knows about its peers, by their numbers and schema versions.
    fn peers(known: &[(u8, &[u8])]) -> Rows {
        let names = [
            "peer",
            "host_id",
            "native_address",
            "native_port",
            "release_version",
            "schema_version",
        ];
        let columns = names.map(|name| SystemColumn {
            name: name.to_owned(),
            type_raw: Vec::new(),
        });
        let rows = known.iter().map(|(number, version)| {
            let cells = [
                vec![10, 2, 0, *number],
                vec![*number; 16],
                vec![10, 1, 0, *number],
                9042_i32.to_be_bytes().to_vec(),
                b"5.0.6".to_vec(),
                version.to_vec(),
            ];
            cells.map(Some).to_vec()
        });
        Rows {
            columns: columns.to_vec(),
            rows: rows.collect(),
        }
    }

    /// Numbers of the lagging peers, and whether they block agreement.
    fn found(shared: &Process, peers: &Rows) -> Vec<(SocketAddr, bool)> {
        let lagging = lagging(&shared.snapshot.load(), shared, peers, b"new");
        let of = |peer: Lagging| (peer.address, peer.is_up);
        lagging.into_iter().map(of).collect()
    }

    #[test]
    fn a_peer_counts_if_it_is_linked_and_not_if_it_was_reported_down() {
        let shared = shared();
        link(&shared, 2);
        let peers = peers(&[(2, b"old"), (3, b"old")]);
        // Node 3 is not known to be up: it is asked, but its silence does not count.
        assert_eq!(
            found(&shared, &peers),
            [(native(2), true), (native(3), false)]
        );
        // The event has the client address; the row has the address between nodes as well.
        shared.note_status(native(3), true);
        assert_eq!(found(&shared, &peers), [(native(2), true)]);
        // Workers have reached it before Cassandra reported it as up.
        link(&shared, 3);
        assert_eq!(
            found(&shared, &peers),
            [(native(2), true), (native(3), false)]
        );
        shared.note_status(native(3), false);
        assert_eq!(
            found(&shared, &peers),
            [(native(2), true), (native(3), true)]
        );
    }

    #[test]
    fn a_coordinator_that_does_not_answer_leaves_only_its_own_changes_unconfirmed() {
        let told = |version: Option<&[u8]>| {
            Some(Told {
                schema_version: version.map(<[u8]>::to_vec),
                peers: Some(peers(&[])),
            })
        };
        let agreed = |told: [Option<Told>; 3]| {
            let told = (1..).map(native).zip(told).collect();
            heard(told).map(|heard| (heard.from.into_iter().collect::<Vec<_>>(), heard.version))
        };
        let (new, old) = (Some(&b"new"[..]), Some(&b"old"[..]));
        assert_eq!(
            agreed([told(new), None, told(new)]),
            Some((vec![native(1), native(3)], b"new".to_vec()))
        );
        assert_eq!(
            agreed([None, told(new), told(None)]),
            Some((vec![native(2)], b"new".to_vec()))
        );
        assert_eq!(agreed([told(new), told(new), told(old)]), None);
        assert_eq!(agreed([None, None, None]), None);
    }

    #[test]
    fn what_agrees_or_has_never_been_up_does_not_lag_and_a_node_that_has_just_joined_does() {
        let shared = shared();
        let mut peers = peers(&[(2, b"new"), (3, b"old"), (9, b"old")]);
        assert_eq!(
            found(&shared, &peers),
            [(native(3), false), (native(9), false)]
        );
        for row in &mut peers.rows {
            row[4] = None;
        }
        assert_eq!(found(&shared, &peers), []);
    }
}
