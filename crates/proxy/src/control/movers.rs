//! Nodes that join the ring or leave it, as the control connection's node lists them, and whether all nodes
//! that are up agree. Until then the old ring is in force.
//!
//! Nodes hear of a change one after the other, within seconds. One that has heard reads and writes at the new
//! owners only; one that has not still reads at the old ones. So what a coordinator of the one kind writes, a
//! coordinator of the other kind may not read. If each partition is coordinated by the same node until all
//! have heard, what is written through the proxy is read through the proxy. And a node that joins is listed
//! many seconds before it takes clients.
//!
//! - **Joins**: a node is used once it says itself, over the port for clients, that its bootstrap is
//!   `COMPLETED`, and all nodes that are up and may serve this proxy list it with its tokens. Until then the
//!   owners before it coordinate.
//! - **Leaves**: a node is used until none of them lists it any more, or it does not answer. It knows that it
//!   has left, and coordinates meanwhile; Cassandra keeps it up for the ring delay.
//!
//! Limits: after [`PATIENCE`] it is done all the same. Requests that go to another coordinator than the usual
//! one in that time (because it is slow, for instance) may see the ring otherwise, as with any driver.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_wire::{Version, code};
use rustc_hash::FxHashMap;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

use crate::conn::{Conn, ConnError};
use crate::control::rows::query;
use crate::process::Process;
use helenus_engine::snapshot::{Mover, Snapshot};
use helenus_engine::upstream::connect::greeting::startup_options;

/// Between two questions about the same node.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two questions to a node that has not served for so long: it may never do.
const LONG_PAUSE: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(300);
/// How long other nodes may take to hear of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nodes that are asked about it at a time.
const AT_ONCE: usize = 8;
/// The state in `system.local` of a node in the ring.
const COMPLETED: &str = "COMPLETED";
/// The states of one that has left.
const LEFT: [&str; 2] = ["NEEDS_BOOTSTRAP", "DECOMMISSIONED"];

const LOCAL: &str = "SELECT host_id, bootstrapped FROM system.local";
const PEERS: &str = "SELECT host_id, tokens FROM system.peers_v2";
const PEERS_BEFORE_4_0: &str = "SELECT host_id, tokens FROM system.peers";

/// True if a node that says this of itself has left the ring.
pub(super) fn has_left(bootstrapped: Option<&str>) -> bool {
    bootstrapped.is_some_and(|state| LEFT.contains(&state))
}

/// Which way a node moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    In,
    Out,
}

/// The nodes that are being watched.
#[derive(Default)]
pub(super) struct Movers {
    watched: FxHashMap<(Mover, Way), AbortHandle>,
    tasks: JoinSet<(Mover, Way)>,
}

impl Movers {
    /// Watches those of a snapshot that are not watched yet.
    pub(super) fn watch(&mut self, shared: &Arc<Process>, snapshot: &Snapshot) {
        let joining = snapshot
            .nodes()
            .joining()
            .iter()
            .map(|mover| (*mover, Way::In));
        let leaving = snapshot
            .nodes()
            .leaving()
            .iter()
            .map(|mover| (*mover, Way::Out));
        let all: Vec<(Mover, Way)> = joining.chain(leaving).collect();
        // It may have given up joining, or be listed again.
        self.watched.retain(|watched, task| {
            let moves = all.contains(watched);
            if !moves {
                task.abort();
            }
            moves
        });
        for (mover, way) in all {
            if self.watched.contains_key(&(mover, way)) {
                continue;
            }
            match way {
                Way::In => tracing::info!(node = %mover.address, "a node joins"),
                Way::Out => tracing::info!(node = %mover.address, "a node leaves"),
            }
            let watch = Watch {
                mover,
                way,
                others: others(shared, snapshot, mover),
                shared: shared.clone(),
                version: snapshot.version(),
            };
            let task = self.tasks.spawn(watch.until_it_is_settled());
            self.watched.insert((mover, way), task);
        }
    }

    /// The next node that has joined or left for good; `None` immediately if none is watched.
    pub(super) async fn next(&mut self) -> Option<Mover> {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(failed) => failed.id(),
            };
            let is_watched = self.forget(id);
            let (mover, way) = match ended {
                // Of one that was given up, and may be watched again by now, nothing counts.
                Ok((_, settled)) if is_watched => settled,
                // It is watched anew.
                Err(failed) if is_watched => {
                    tracing::error!(
                        "a node that joins or leaves is not watched any more: {failed}"
                    );
                    continue;
                }
                _ => continue,
            };
            match way {
                Way::In => tracing::info!(node = %mover.address, "a node has joined"),
                Way::Out => tracing::info!(node = %mover.address, "a node has left"),
            }
            return Some(mover);
        }
        None
    }

    /// A task has ended; whether it was still wanted.
    fn forget(&mut self, task: Id) -> bool {
        let before = self.watched.len();
        self.watched.retain(|_, watch| watch.id() != task);
        self.watched.len() < before
    }
}

/// The nodes whose view of the ring counts: they may coordinate requests.
fn others(shared: &Process, snapshot: &Snapshot, mover: Mover) -> BTreeSet<SocketAddr> {
    let allow_remote = shared.settings.load().cluster.allow_remote_dc;
    let down = shared.nodes_down();
    let nodes = snapshot.nodes().by_index();
    let counts = nodes.filter(|(at, node)| {
        let is_remote = snapshot.nodes().is_remote(*at);
        let is_other = !node.is_gone() && node.host_id() != mover.host_id;
        is_other && (!is_remote || allow_remote) && !down.contains(&node.host_id())
    });
    counts.map(|(_, node)| node.address()).collect()
}

/// One node that moves, and who does not see it as it is by now.
struct Watch {
    mover: Mover,
    way: Way,
    others: BTreeSet<SocketAddr>,
    /// Settings and certificates may change meanwhile.
    shared: Arc<Process>,
    version: Version,
}

impl Watch {
    async fn until_it_is_settled(mut self) -> (Mover, Way) {
        let begin = Instant::now();
        while self.way == Way::In && !self.serves().await {
            let pause = match begin.elapsed() < LONG {
                true => PAUSE,
                false => LONG_PAUSE,
            };
            tokio::time::sleep(pause).await;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            // One that is gone cannot coordinate, whatever others see.
            if self.way == Way::Out && !self.serves().await {
                break;
            }
            self.ask_others().await;
            if self.others.is_empty() {
                break;
            }
            if Instant::now() >= until {
                tracing::warn!(
                    node = %self.mover.address,
                    not_by = ?self.others,
                    "a node has joined or left, and not all others say so within {PATIENCE:?}"
                );
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        (self.mover, self.way)
    }

    /// True if the node is in the ring if it joins, or may still coordinate if it leaves.
    async fn serves(&self) -> bool {
        let told = self.asking(self.mover.address, Question::Itself).await;
        if let Err(e) = &told {
            tracing::debug!(node = %self.mover.address, "a node that joins or leaves does not serve: {e}");
        }
        told.unwrap_or_else(|e| self.way == Way::Out && !is_gone(&e))
    }

    /// Takes out those who see the node as it is, and those who take no connections: they are down, and hear of
    /// it before they are up again. Who is slow or cannot tell now is asked again.
    async fn ask_others(&mut self) {
        let mut left = std::mem::take(&mut self.others).into_iter();
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < AT_ONCE
                && let Some(address) = left.next()
            {
                let answer = self.asking(address, Question::Other);
                asked.spawn(async move { (address, answer.await) });
            }
            let Some(ended) = asked.join_next().await else {
                return;
            };
            match ended {
                Ok((address, Ok(false))) => {
                    self.others.insert(address);
                }
                Ok((address, Err(e))) if !is_gone(&e) => {
                    tracing::debug!(node = %address, "cannot tell who is in the ring: {e}");
                    self.others.insert(address);
                }
                _ => {}
            }
        }
    }

    fn asking(
        &self,
        address: SocketAddr,
        question: Question,
    ) -> impl Future<Output = Result<bool, ConnError>> + use<> {
        let config = self.shared.settings.load_full();
        let dialer = (**self.shared.dialer.load()).clone();
        let (version, mover, way) = (self.version, self.mover, self.way);
        async move {
            let limit = dialer.connect_timeout * 3;
            let asking = async {
                let mut conn = dialer.dial(address, version).await?;
                conn.open(
                    &startup_options(&config.payload),
                    config.control_token().as_deref(),
                )
                .await?;
                match question {
                    Question::Itself => serves(&mut conn, mover, way).await,
                    Question::Other => Ok(lists(&mut conn, mover).await? == (way == Way::In)),
                }
            };
            let told = tokio::time::timeout(limit, asking).await;
            told.unwrap_or(Err(ConnError::Timeout(limit)))
        }
    }
}

/// True if an error says that a node's process takes no connections.
fn is_gone(error: &ConnError) -> bool {
    matches!(
        error,
        ConnError::Io(_) | ConnError::OtherCluster { .. } | ConnError::HasLeft
    )
}

#[derive(Clone, Copy)]
enum Question {
    /// The node: does it serve?
    Itself,
    /// Another one: does it see the node as it is?
    Other,
}

async fn serves(conn: &mut Conn, mover: Mover, way: Way) -> Result<bool, ConnError> {
    let rows = query(conn, LOCAL).await?;
    let Some(row) = rows.rows.first() else {
        return Ok(false);
    };
    let is_it = rows.cell(row, "host_id") == Some(&mover.host_id[..]);
    let state = rows.text(row, "bootstrapped");
    Ok(is_it && (way == Way::Out || state.is_none_or(|state| state == COMPLETED)))
}

/// True if a node lists another one with its tokens.
async fn lists(conn: &mut Conn, mover: Mover) -> Result<bool, ConnError> {
    let rows = match query(conn, PEERS).await {
        Err(ConnError::Node {
            code: code::INVALID,
            ..
        }) => query(conn, PEERS_BEFORE_4_0).await?,
        rows => rows?,
    };
    let has_tokens = |row: &[Option<Vec<u8>>]| {
        let tokens = rows.cell(row, "tokens");
        // Null, or a count of none.
        tokens.is_some_and(|tokens| tokens.len() > 4)
    };
    let mut all = rows.rows.iter();
    Ok(all.any(|row| rows.cell(row, "host_id") == Some(&mover.host_id[..]) && has_tokens(row)))
}
