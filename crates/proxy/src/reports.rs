//! Collects what the agents in the nodes report ([`helenus_engine::upstream::node_reports`]): a task for each node, which
//! connects to its reporter, judges what comes, and keeps the last report.
//!
//! Nothing depends on it. A report that is missing, late or wrong is as if there were none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_admin_api as api;
use helenus_engine::config::Config;
use helenus_engine::snapshot::{Node, Snapshot};
use helenus_engine::upstream::node_reports::{NodeReport, NodeReports, Rejected, Resources};
use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::task::JoinHandle;

use self::peer::{Peer, ReportError, Target};
use crate::process::Process;

mod allowance;
mod peer;
mod timeline;
mod wire;

/// How often settings and nodes are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// A connection that ends sooner is no news, even if reports came.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// For a check: reports come several times a second.
const FIRST_REPORT_WITHIN: Duration = Duration::from_secs(3);

/// A task that ends with the handle.
struct Watched {
    target: Target,
    reports: Arc<NodeReports>,
    task: JoinHandle<()>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
        self.reports.is_connected.store(false, Ordering::Relaxed);
        self.reports.forget();
    }
}

/// Collects until this proxy stops.
pub(crate) async fn watch(common: Arc<Process>) {
    let mut watched: FxHashMap<NodeIndex, Watched> = FxHashMap::default();
    loop {
        let wanted = wanted(&common.settings.load(), &common.snapshot.load());
        watched.retain(|node, watched| wanted.get(node) == Some(&watched.target));
        for (node, target) in wanted {
            watched.entry(node).or_insert_with(|| {
                let reports = common.reports.of(node);
                let task = tokio::spawn(collect(target.clone(), reports.clone()));
                Watched {
                    target,
                    reports,
                    task,
                }
            });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The nodes that requests may go to.
fn wanted(config: &Config, snapshot: &Snapshot) -> FxHashMap<NodeIndex, Target> {
    if !config.assignment.reports {
        return FxHashMap::default();
    }
    let near = snapshot.nodes().by_index().filter(|(index, node)| {
        let remote = snapshot.nodes().is_remote(*index);
        !node.is_gone() && (!remote || config.cluster.allow_remote_dc)
    });
    near.map(|(index, node)| (index, target(config, node)))
        .collect()
}

fn target(config: &Config, node: &Node) -> Target {
    Target {
        address: SocketAddr::new(node.address().ip(), config.assignment.reports_port),
        host_id: node.host_id(),
        secret: config.assignment.reports_secret.clone(),
        connect_timeout: Duration::from_millis(config.links.connect_timeout_ms),
    }
}

/// Collects the reports of one node, again and again.
async fn collect(target: Target, reports: Arc<NodeReports>) {
    let mut pause = PAUSE_MIN;
    let mut has_told = false;
    loop {
        let error = match Peer::connect(&target).await {
            Ok(peer) => {
                tracing::debug!(address = %target.address, "connected to the node's reporter");
                reports.is_connected.store(true, Ordering::Relaxed);
                let connected = Instant::now();
                let (error, is_good) = receive(peer, &reports).await;
                reports.is_connected.store(false, Ordering::Relaxed);
                if is_good && connected.elapsed() >= GOOD_FOR {
                    (pause, has_told) = (PAUSE_MIN, false);
                }
                error
            }
            Err(error) => error,
        };
        if let Some(why) = error.rejected() {
            reports.on_rejected(why);
        }
        // Once until it works again: a node without the agent is no news every few seconds.
        match std::mem::replace(&mut has_told, true) {
            false => {
                tracing::warn!(address = %target.address, "no reports of the node's resources: {error}")
            }
            true => {
                tracing::debug!(address = %target.address, "no reports of the node's resources: {error}")
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Why it has ended, and whether anything that came was of use.
async fn receive(mut peer: Peer, reports: &NodeReports) -> (ReportError, bool) {
    let mut is_good = false;
    loop {
        match peer.next().await {
            Ok(Ok(report)) => {
                is_good = true;
                reports.on_report(report);
            }
            Ok(Err(why)) => reports.on_rejected(why),
            Err(error) => return (error, is_good),
        }
    }
}

/// The report of a node's agent, as seen by `helenus check`.
#[derive(Debug, Serialize)]
pub struct CheckedReport {
    pub age_ms: u64,
    /// Share of the heap in use.
    pub memory: Option<f32>,
    #[serde(flatten)]
    pub resources: api::Resources,
}

/// For `helenus check`: a node's first good report, or why there is none.
pub(crate) async fn probe(config: &Config, node: &Node) -> Result<CheckedReport, String> {
    let target = target(config, node);
    let first = async {
        let mut peer = Peer::connect(&target).await?;
        loop {
            match peer.next().await? {
                Ok(report) => return Ok(report),
                // A node may be just starting.
                Err(Rejected::Late) => {}
                Err(why) => return Err(ReportError::Rejected(why)),
            }
        }
    };
    let limit = FIRST_REPORT_WITHIN + target.connect_timeout;
    let first = tokio::time::timeout(limit, first).await;
    let first = first.unwrap_or(Err(ReportError::Silent(limit)));
    let report: NodeReport = first.map_err(|e| format!("{}: {e}", target.address))?;
    Ok(CheckedReport {
        age_ms: report.sampled.elapsed().as_millis() as u64,
        memory: report.resources.memory(),
        resources: shown(&report.resources),
    })
}

/// As answers have it.
pub(crate) fn shown(of: &Resources) -> api::Resources {
    api::Resources {
        cpu: of.cpu,
        cpu_process: of.cpu_process,
        cpu_machine: of.cpu_machine,
        disk: of.disk,
        collecting: of.collecting,
        disk_queue: of.disk_queue,
        cores: of.cores,
        heap_used: of.heap_used,
        heap_max: of.heap_max,
        collected_ms: of.collected_ms,
        read_pending: of.read_pending,
        read_active: of.read_active,
        read_max: of.read_max,
        mutation_pending: of.mutation_pending,
        mutation_active: of.mutation_active,
        mutation_max: of.mutation_max,
        compactions_pending: of.compactions_pending,
    }
}

#[cfg(test)]
mod tests;
