//! Facts that only a node itself knows: its number of processors, which bounds the scans it can run
//! in parallel, its time-outs, how large batches and pages may be, and how long it keeps hints.
//!
//! No table lists the processors, but the thread pool that handles responses of other nodes has the
//! same size. A node that has never received such a response does not list it, and one before 4.0
//! does not have these tables. Time-outs change with the node's configuration, so a node is asked
//! again when it comes back, and periodically (`due`).

mod due;

use std::net::SocketAddr;

use helenus_policy::ring::NodeIndex;
use helenus_wire::Version;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::due::Due;
use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::control::rows::query;
use crate::process::Process;
use helenus_engine::snapshot::batch_limits::{self, BatchLimits};
use helenus_engine::snapshot::hint_window::{self, HintWindow};
use helenus_engine::snapshot::page_limits::{self, PageLimits};
use helenus_engine::snapshot::timeouts::{SETTINGS, Timeouts};
use helenus_engine::snapshot::{Node, NodeFacts, Snapshot};
use helenus_engine::upstream::connect::greeting::startup_options;

/// Where a node tells.
pub(crate) const POOLS: &str = "system_views.thread_pools";
const POOL: &str = "RequestResponseStage";
pub(crate) const NODE_SETTINGS: &str = "system_views.settings";

/// The response of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub facts: NodeFacts,
    /// The node's error if it refused one of the queries.
    pub refusal: Option<String>,
}

/// Queries in progress, and when nodes were asked.
pub(crate) struct Asking {
    version: Version,
    tasks: JoinSet<(NodeIndex, Result<Told, ConnError>)>,
    due: Due,
}

impl Asking {
    pub(crate) fn new(shared: &Process) -> Asking {
        Asking {
            version: Version::V4,
            tasks: JoinSet::new(),
            due: Due::new(shared.start_number),
        }
    }

    /// Queries nodes in this version from now on.
    pub(crate) fn begin(&mut self, shared: &Process, version: Version) {
        self.version = version;
        self.ask(shared);
    }

    /// Queries nodes that may serve, if their facts are unknown or old: some now, others as those answer.
    pub(crate) fn ask(&mut self, shared: &Process) {
        let snapshot = shared.snapshot.load();
        let config = shared.settings.load_full();
        let nodes = snapshot.nodes();
        let has_processors = |at: NodeIndex, node: &Node| {
            let out_of_reach = nodes.is_remote(at) && !config.cluster.allow_remote_dc;
            let is_meant = !node.is_gone() && !out_of_reach;
            is_meant.then_some(node.facts().processors.is_some())
        };
        let now = Instant::now();
        let known = || nodes.by_index().map(|(at, node)| has_processors(at, node));
        while let Some(index) = self.due.begin(now, known()) {
            let at = NodeIndex(index as u16);
            let dialer = (**shared.dialer.load()).clone();
            let config = config.clone();
            let address = nodes.address_of(at);
            let version = self.version;
            self.tasks.spawn(async move {
                let limit = dialer.connect_timeout * 3;
                let told = tokio::time::timeout(limit, ask(&config, &dialer, address, version));
                let told = told.await.unwrap_or(Err(ConnError::Timeout(limit)));
                if let Err(e) = &told {
                    tracing::debug!(node = %address, "no response about its settings: {e}");
                }
                (at, told)
            });
        }
    }

    /// The facts of this node may have changed.
    pub(crate) fn doubt(&mut self, shared: &Process, node: SocketAddr) {
        let snapshot = shared.snapshot.load();
        if let Some(at) = snapshot.nodes().at(node) {
            self.due.doubt(at.as_usize(), Instant::now());
        }
    }

    /// The facts of all nodes may have changed.
    pub(crate) fn doubt_all(&mut self, shared: &Process) {
        let snapshot = shared.snapshot.load();
        let nodes = snapshot.nodes().by_index();
        for (at, _) in nodes.filter(|(_, node)| !node.is_gone()) {
            self.due.doubt(at.as_usize(), Instant::now());
        }
    }

    /// A snapshot with new facts, once a node has responded; `None` immediately if no query is
    /// running.
    pub(crate) async fn next(&mut self, shared: &Process) -> Option<Snapshot> {
        while let Some(ended) = self.tasks.join_next().await {
            let Ok((at, told)) = ended else { continue };
            let facts = told.ok().map(|told| told.facts);
            let has_processors = facts.as_ref().map(|facts| facts.processors.is_some());
            self.due.end(at.as_usize(), Instant::now(), has_processors);
            self.ask(shared);
            let Some(facts) = facts else { continue };
            let snapshot = shared.snapshot.load_full();
            let known = snapshot.nodes().get(at)?;
            let facts = facts.or(known.facts());
            if facts == *known.facts() {
                continue;
            }
            let (address, processors) = (known.address(), facts.processors);
            tracing::info!(node = %address, processors, "a node has told of itself");
            let next = snapshot.successor().node(at, |node| node.learn(facts));
            return Some(next.build());
        }
        None
    }
}

/// Connects to a node and queries it.
pub(crate) async fn ask(
    config: &Config,
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
) -> Result<Told, ConnError> {
    let mut conn = dialer.dial(address, version).await?;
    conn.open(
        &startup_options(&config.payload),
        config.control_token().as_deref(),
    )
    .await?;
    let mut refusal = None;
    let told = or_refused(settings(&mut conn).await, &mut refusal)?;
    let told: Option<Vec<_>> = told.as_ref().map(|told| {
        let told = told.iter();
        told.map(|(name, value)| (&**name, &**value)).collect()
    });
    let timeouts = told.clone().and_then(Timeouts::from_settings);
    let batches = told.clone().map(BatchLimits::from_settings);
    let pages = told.clone().map(PageLimits::from_settings);
    let hints = told.map(HintWindow::from_settings);
    let processors = or_refused(processors(&mut conn).await, &mut refusal)?;
    let facts = NodeFacts {
        processors,
        timeouts,
        batches,
        pages,
        hints,
    };
    Ok(Told { facts, refusal })
}

/// Empty if the table does not exist or the role may not read it.
fn or_refused<T>(
    told: Result<Option<T>, ConnError>,
    refusal: &mut Option<String>,
) -> Result<Option<T>, ConnError> {
    match told {
        Err(ConnError::Node { message, .. }) => {
            *refusal = Some(message);
            Ok(None)
        }
        told => told,
    }
}

async fn processors(conn: &mut Conn) -> Result<Option<u32>, ConnError> {
    let cql = format!("SELECT active_tasks_limit FROM {POOLS} WHERE name = '{POOL}'");
    let rows = query(conn, &cql).await?;
    let cell = rows
        .rows
        .first()
        .and_then(|row| rows.cell(row, "active_tasks_limit"));
    let limit = cell.and_then(|cell| cell.try_into().ok());
    Ok(limit
        .map(i32::from_be_bytes)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n > 0))
}

/// Names and values of the settings that the proxy goes by.
async fn settings(conn: &mut Conn) -> Result<Option<Vec<(String, String)>>, ConnError> {
    // Before 4.1 units stand in the names.
    let named = |name: &str, unit: &str| format!("'{name}', '{name}_in_{unit}'");
    let timeouts = SETTINGS.iter().map(|name| named(name, "ms"));
    let batches = batch_limits::SETTINGS.iter().map(|name| named(name, "kb"));
    let others = page_limits::SETTINGS.iter().chain(&hint_window::SETTINGS);
    let others = others.map(|name| format!("'{name}'"));
    let names: Vec<String> = timeouts.chain(batches).chain(others).collect();
    let cql = format!(
        "SELECT name, value FROM {NODE_SETTINGS} WHERE name IN ({})",
        names.join(", ")
    );
    let rows = query(conn, &cql).await?;
    let told = rows.rows.iter();
    let told = told.filter_map(|row| Some((rows.text(row, "name")?, rows.text(row, "value")?)));
    Ok(Some(told.collect()))
}
