//! Nodes that the control connection's node lists and that are not used yet.
//!
//! A node that joins is listed by others as soon as they have heard that it owns its tokens. Before it
//! starts to take clients it may need many seconds, and other nodes may hear of it seconds later; meanwhile
//! they still read what it owns by now from where it was. So it is not in the snapshot, nor are its tokens in
//! the ring, until
//!
//! 1. it says itself that its bootstrap is `COMPLETED`, over the port for clients, and
//! 2. all nodes that are up and serve this proxy list it with its tokens; at most [`PATIENCE`] longer.
//!
//! Until then requests go to the owners before it, who coordinate them as they see the ring themselves: each
//! partition by the same node, so that what is written is read.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Locality;
use helenus_wire::{Version, code};
use rustc_hash::FxHashMap;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::process::Process;
use crate::rows::query;
use helenus_engine::node::greeting::startup_options;
use helenus_engine::snapshot::{Joining, Snapshot};

/// Between two questions about the same newcomer.
const PAUSE: Duration = Duration::from_millis(500);
/// How long other nodes may take to hear of a newcomer that serves; then it is used all the same.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nodes that are asked about a newcomer at a time.
const AT_ONCE: usize = 8;
/// What `system.local` says of a node in the ring.
const COMPLETED: &str = "COMPLETED";
/// What it says of one that has left.
const LEFT: [&str; 2] = ["NEEDS_BOOTSTRAP", "DECOMMISSIONED"];

const LOCAL: &str = "SELECT host_id, bootstrapped FROM system.local";
const PEERS: &str = "SELECT host_id, tokens FROM system.peers_v2";
const PEERS_BEFORE_4_0: &str = "SELECT host_id, tokens FROM system.peers";

/// Whether a node that says this of itself has left the ring.
pub(super) fn has_left(bootstrapped: Option<&str>) -> bool {
    bootstrapped.is_some_and(|state| LEFT.contains(&state))
}

/// The newcomers that are being watched.
#[derive(Default)]
pub(super) struct Newcomers {
    watched: FxHashMap<Joining, AbortHandle>,
    tasks: JoinSet<Joining>,
}

impl Newcomers {
    /// Watches those of a snapshot that are not watched yet.
    pub(super) fn watch(&mut self, shared: &Process, snapshot: &Snapshot) {
        // It may have given up joining.
        let is_listed = |joining: &Joining| snapshot.joining.contains(joining);
        self.watched.retain(|joining, task| {
            let is_listed = is_listed(joining);
            if !is_listed {
                task.abort();
            }
            is_listed
        });
        for joining in &snapshot.joining {
            if self.watched.contains_key(joining) {
                continue;
            }
            let address = joining.address;
            tracing::info!(node = %address, "a node joins: it is used when it and all others say so");
            let watch = Watch {
                joining: *joining,
                others: others(shared, snapshot),
                config: shared.settings.load_full(),
                dialer: (**shared.dialer.load()).clone(),
                version: snapshot.version,
            };
            let task = self.tasks.spawn(watch.until_it_is_used());
            self.watched.insert(*joining, task);
        }
    }

    /// The next newcomer that is to be used; `None` immediately if none is watched.
    pub(super) async fn next(&mut self) -> Option<Joining> {
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(joining) = ended {
                self.watched.remove(&joining);
                return Some(joining);
            }
        }
        None
    }
}

/// The nodes whose view of the ring counts: they may coordinate requests.
fn others(shared: &Process, snapshot: &Snapshot) -> BTreeSet<SocketAddr> {
    let allow_remote = shared.settings.load().cluster.allow_remote_dc;
    let down = shared.nodes_down();
    let nodes = (0..=u16::MAX).map(NodeIndex).zip(&snapshot.nodes);
    let counts = nodes.filter(|(at, node)| {
        let is_remote = snapshot.places.locality(*at) == Some(Locality::Remote);
        !node.gone && (!is_remote || allow_remote) && !down.contains(&node.host_id)
    });
    counts.map(|(_, node)| node.address).collect()
}

/// One newcomer, and who has not heard of it yet.
struct Watch {
    joining: Joining,
    others: BTreeSet<SocketAddr>,
    config: Arc<Config>,
    dialer: Dialer,
    version: Version,
}

impl Watch {
    async fn until_it_is_used(mut self) -> Joining {
        while !self.serves().await {
            tokio::time::sleep(PAUSE).await;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            self.ask_others().await;
            if self.others.is_empty() {
                return self.joining;
            }
            if Instant::now() >= until {
                tracing::warn!(
                    node = %self.joining.address,
                    not_by = ?self.others,
                    "a node serves and is not listed by all others within {PATIENCE:?}: it is used all the same"
                );
                return self.joining;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether the newcomer says that it is in the ring.
    async fn serves(&self) -> bool {
        let told = self.ask(self.joining.address, Question::Itself).await;
        if let Err(e) = &told {
            tracing::debug!(node = %self.joining.address, "a node that joins does not serve yet: {e}");
        }
        told.unwrap_or(false)
    }

    /// Takes out those who know the newcomer, and those who do not answer: they are down, and hear of it
    /// before they are up again.
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
            if let Ok((address, Ok(false))) = ended {
                self.others.insert(address);
            }
        }
    }

    async fn ask(&self, address: SocketAddr, question: Question) -> Result<bool, ConnError> {
        self.asking(address, question).await
    }

    fn asking(
        &self,
        address: SocketAddr,
        question: Question,
    ) -> impl Future<Output = Result<bool, ConnError>> + use<> {
        let (config, dialer) = (self.config.clone(), self.dialer.clone());
        let (version, joining) = (self.version, self.joining);
        async move {
            let limit = dialer.connect_timeout * 3;
            let asking = async {
                let mut conn = dialer.dial(address, version).await?;
                conn.open(&startup_options(), config.control_token().as_deref())
                    .await?;
                match question {
                    Question::Itself => says_that_it_serves(&mut conn, joining).await,
                    Question::Other => knows(&mut conn, joining).await,
                }
            };
            let told = tokio::time::timeout(limit, asking).await;
            told.unwrap_or(Err(ConnError::Timeout(limit)))
        }
    }
}

#[derive(Clone, Copy)]
enum Question {
    /// The newcomer: does it serve?
    Itself,
    /// Another node: does it know the newcomer?
    Other,
}

async fn says_that_it_serves(conn: &mut Conn, joining: Joining) -> Result<bool, ConnError> {
    let rows = query(conn, LOCAL).await?;
    let Some(row) = rows.rows.first() else {
        return Ok(false);
    };
    let is_it = rows.cell(row, "host_id") == Some(&joining.host_id[..]);
    let state = rows.text(row, "bootstrapped");
    Ok(is_it && state.is_none_or(|state| state == COMPLETED))
}

async fn knows(conn: &mut Conn, joining: Joining) -> Result<bool, ConnError> {
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
    Ok(all.any(|row| rows.cell(row, "host_id") == Some(&joining.host_id[..]) && has_tokens(row)))
}
