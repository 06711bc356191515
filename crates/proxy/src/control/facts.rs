//! Facts that only a node itself knows: its number of processors, which bounds the scans it can run
//! in parallel, its time-outs, and how large a batch may be.
//!
//! No table lists the processors, but the thread pool that handles responses of other nodes has the
//! same size. A node that has never received such a response does not list it, and one before 4.0
//! does not have these tables. Time-outs change with the node's configuration, so a node is asked
//! again when it comes back, and periodically.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Locality;
use helenus_wire::Version;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::process::Process;
use crate::rows::query;
use helenus_engine::batch_limits::{self, BatchLimits};
use helenus_engine::node::greeting::startup_options;
use helenus_engine::snapshot::Snapshot;
use helenus_engine::timeouts::{SETTINGS, Timeouts};

/// Where a node tells.
pub(crate) const POOLS: &str = "system_views.thread_pools";
const POOL: &str = "RequestResponseStage";
pub(crate) const NODE_SETTINGS: &str = "system_views.settings";

/// A node that has responded this often without its processors is then asked only at the longer
/// interval.
const ANSWERS_MAX: u8 = 6;
/// A node with complete facts is asked again after this time.
const AGE_MAX: Duration = Duration::from_secs(300);

/// The response of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// `None` if unknown.
    pub processors: Option<u32>,
    /// `None` if unknown.
    pub timeouts: Option<Timeouts>,
    /// `None` if unknown.
    pub batches: Option<BatchLimits>,
    /// The node's error if it refused one of the queries.
    pub refusal: Option<String>,
}

/// Queries in progress, and the results so far.
#[derive(Default)]
pub(crate) struct Asking {
    tasks: JoinSet<(usize, Result<Facts, ConnError>)>,
    nodes: Vec<Asked>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    under_way: bool,
    /// When it last responded.
    answered: Option<Instant>,
    /// Responses without the processors.
    in_vain: u8,
}

impl Asking {
    /// Queries all nodes that may serve, if their facts are unknown or old.
    pub(crate) fn ask(&mut self, shared: &Process, version: Version) {
        let snapshot = shared.snapshot.load();
        let config = shared.settings.load_full();
        self.nodes.resize(snapshot.nodes.len(), Asked::default());
        let now = Instant::now();
        for (index, (node, asked)) in snapshot.nodes.iter().zip(&mut self.nodes).enumerate() {
            let remote =
                snapshot.places.locality(NodeIndex(index as u16)) == Some(Locality::Remote);
            let out_of_reach = remote && !config.cluster.allow_remote_dc;
            let known = node.processors.is_some() || asked.in_vain >= ANSWERS_MAX;
            let fresh = asked.answered.is_some_and(|then| now < then + AGE_MAX);
            if node.gone || out_of_reach || asked.under_way || known && fresh {
                continue;
            }
            asked.under_way = true;
            let dialer = (**shared.dialer.load()).clone();
            let config = config.clone();
            let address = node.address;
            self.tasks.spawn(async move {
                let limit = dialer.connect_timeout * 3;
                let told = tokio::time::timeout(limit, ask(&config, &dialer, address, version));
                let told = told.await.unwrap_or(Err(ConnError::Timeout(limit)));
                if let Err(e) = &told {
                    tracing::debug!(node = %address, "no response about its settings: {e}");
                }
                (index, told)
            });
        }
    }

    /// The facts may have changed.
    pub(crate) fn doubt(&mut self) {
        for node in &mut self.nodes {
            node.answered = None;
        }
    }

    /// A snapshot with new facts, once a node has responded; `None` immediately if no query is
    /// running.
    pub(crate) async fn next(&mut self, shared: &Process) -> Option<Snapshot> {
        while let Some(ended) = self.tasks.join_next().await {
            let Ok((index, told)) = ended else { continue };
            let asked = self.nodes.get_mut(index)?;
            asked.under_way = false;
            let Ok(facts) = told else { continue };
            asked.answered = Some(Instant::now());
            if facts.processors.is_none() {
                asked.in_vain = asked.in_vain.saturating_add(1);
            }
            let snapshot = shared.snapshot.load_full();
            let known = snapshot.nodes.get(index)?;
            let processors = facts.processors.or(known.processors);
            let timeouts = facts.timeouts.or(known.timeouts);
            let batches = facts.batches.or(known.batches);
            let told = (processors, timeouts, batches);
            if told == (known.processors, known.timeouts, known.batches) {
                continue;
            }
            tracing::info!(node = %known.address, processors, "a node has told of itself");
            let mut snapshot = (*snapshot).clone();
            snapshot.epoch += 1;
            let node = snapshot.nodes.get_mut(index)?;
            node.processors = processors;
            node.timeouts = timeouts;
            node.batches = batches;
            return Some(snapshot);
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
) -> Result<Facts, ConnError> {
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
    let batches = told.map(BatchLimits::from_settings);
    let processors = or_refused(processors(&mut conn).await, &mut refusal)?;
    Ok(Facts {
        processors,
        timeouts,
        batches,
        refusal,
    })
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
    let names: Vec<String> = timeouts.chain(batches).collect();
    let cql = format!(
        "SELECT name, value FROM {NODE_SETTINGS} WHERE name IN ({})",
        names.join(", ")
    );
    let rows = query(conn, &cql).await?;
    let told = rows.rows.iter();
    let told = told.filter_map(|row| Some((rows.text(row, "name")?, rows.text(row, "value")?)));
    Ok(Some(told.collect()))
}
