//! Hints that nodes keep for each other.
//!
//! A write to a table with layouts is one mutation for all of them, and so is its hint. A node that gets a
//! hint with a table that no longer exists throws the whole of it away, what is in it for the table itself
//! included. So a layout's table is dropped only when no node keeps hints.
//!
//! Nodes write hints down every 10 s and tell of those in files that are closed, which happens every 10 s
//! again, unless hand-off is paused. So a hint of the last write to the layout shows after [`UNSEEN_MAX`].

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::cluster::Cluster;
use crate::testbed::spinner;

/// How long a node may have a hint and not tell of it.
pub(super) const UNSEEN_MAX: Duration = Duration::from_secs(20);
/// Nodes deliver hints every ten seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until no node keeps hints and all nodes answer.
pub(super) async fn wait_for_none(cluster: &Cluster) -> Result<()> {
    let begin = Instant::now();
    let bar = spinner("waiting until no node keeps hints");
    loop {
        let kept = kept(cluster).await;
        if kept.is_empty() {
            bar.finish_and_clear();
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            bail!(
                "{}; the layout's table cannot be dropped yet, because hints of writes to the table would be \
                 lost with it. The layout is neither read nor written any more: run this again when all \
                 nodes are up and hints have been delivered (nodetool statushandoff, \
                 system_views.pending_hints)",
                kept.join("; ")
            );
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// Nodes with hints, or that do not answer.
async fn kept(cluster: &Cluster) -> Vec<String> {
    let mut found = Vec::new();
    for node in cluster.nodes() {
        let address = node.address;
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
