//! Hints that nodes keep for each other.
//!
//! A hint is a write that comes late: hours, if its node was away. What must not happen before all writes
//! have come waits until no node keeps hints.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_catalogue::sweep::{Free, HINTS_UNSEEN_MAX};
use helenus_console::terminal::spinner;

use super::cluster::Cluster;

/// Nodes deliver hints every ten seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// [`HINTS_UNSEEN_MAX`] in this cluster: hints are for other nodes, so one node alone has none.
pub(crate) fn unseen_max(cluster: &Cluster) -> Duration {
    match cluster.nodes().len() {
        1 => Duration::ZERO,
        _ => HINTS_UNSEEN_MAX,
    }
}

/// Waits until all nodes have answered, and none has kept hints, for `quiet` without a break. `otherwise`: what
/// follows if they do not.
pub(crate) async fn wait_for_none(
    cluster: &Cluster,
    quiet: Duration,
    otherwise: &str,
) -> Result<()> {
    let begin = Instant::now();
    let bar = spinner("waiting until no node keeps hints");
    let mut free = Free::default();
    loop {
        let kept = kept(cluster).await;
        if free.is_for(Instant::now(), kept.is_empty(), quiet) {
            bar.finish_and_clear();
            return Ok(());
        }
        if !kept.is_empty() && begin.elapsed() > PATIENCE {
            bail!(
                "{}; {otherwise}: run this again when all nodes are up and hints have been delivered \
                 (nodetool statushandoff, system_views.pending_hints)",
                kept.join("; ")
            );
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// Looks from time to time whether nodes keep hints.
#[derive(Debug, Default)]
pub(crate) struct Watched(Free);

impl Watched {
    /// True if all nodes have answered, and none has kept hints, at each look for `quiet`.
    pub(crate) async fn look(&mut self, cluster: &Cluster, quiet: Duration) -> bool {
        let kept = kept(cluster).await;
        self.0.is_for(Instant::now(), kept.is_empty(), quiet)
    }
}

/// Nodes with hints, or that do not answer.
async fn kept(cluster: &Cluster) -> Vec<String> {
    let mut found = Vec::new();
    for node in cluster.nodes() {
        let address = cluster.address(&node);
        if !node.is_connected() {
            found.push(format!("{address} is not reached"));
            continue;
        }
        // The table is there since 4.1.
        let hints: Result<Vec<(i32,)>> = cluster
            .rows_of(&node, "SELECT files FROM system_views.pending_hints")
            .await;
        match hints {
            Ok(rows) if rows.iter().any(|(files,)| *files > 0) => {
                found.push(format!("{address} keeps hints"));
            }
            Ok(_) => {}
            Err(e) if format!("{e:#}").contains("does not exist") => {}
            Err(e) => found.push(format!(
                "{address} does not tell whether it keeps hints: {e:#}"
            )),
        }
    }
    found
}
