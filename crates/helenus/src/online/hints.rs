//! Hints that nodes keep for each other.
//!
//! A hint is a write that comes late: hours, if its node was away. What must not happen before all writes
//! have come waits until no node keeps hints.
//!
//! Nodes write hints down every 10 s and tell of those in files that are closed, which happens every 10 s
//! again, unless hand-off is paused, and only while the node that they are for is up. So the hint of a write
//! shows after [`UNSEEN_MAX`] in which all nodes are up.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use scylla::value::CqlTimestamp;

use super::cluster::Cluster;
use super::compare_and_set::now_ms;
use crate::terminal::spinner;

/// How long a node may have a hint and not tell of it.
pub(crate) const UNSEEN_MAX: Duration = Duration::from_secs(20);

/// The same of this cluster: hints are for other nodes.
pub(crate) fn unseen_max(cluster: &Cluster) -> Duration {
    match cluster.nodes().len() {
        1 => Duration::ZERO,
        _ => UNSEEN_MAX,
    }
}
/// Nodes deliver hints every ten seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Beside [`UNSEEN_MAX`], for clocks that differ.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(10);

/// Waits until all nodes have answered, and none has kept hints, for `quiet` without a break. `otherwise`: what
/// follows if they do not.
pub(crate) async fn wait_for_none(
    cluster: &Cluster,
    quiet: Duration,
    otherwise: &str,
) -> Result<()> {
    wait(cluster, quiet, otherwise, None).await
}

/// The same, or until all that they keep is of writes from now on: clients go on.
pub(crate) async fn wait_for_old(
    cluster: &Cluster,
    quiet: Duration,
    otherwise: &str,
) -> Result<()> {
    let seen = now_ms() + ms(quiet) + ms(CLOCKS_DIFFER_MAX);
    wait(cluster, quiet, otherwise, Some(seen)).await
}

/// `seen`: hints in files that are younger than this do not count, once that time has come.
async fn wait(
    cluster: &Cluster,
    quiet: Duration,
    otherwise: &str,
    seen: Option<i64>,
) -> Result<()> {
    let begin = Instant::now();
    let bar = spinner("waiting until no node keeps hints");
    let mut none_since = None;
    loop {
        let kept = kept(cluster).await;
        let is_old = |(_, oldest): &&(String, Option<i64>)| {
            seen.is_none_or(|seen| oldest.is_none_or(|oldest| oldest <= seen))
        };
        let old: Vec<&str> = kept.iter().filter(is_old).map(|(why, _)| &**why).collect();
        let is_seen = seen.is_some_and(|seen| now_ms() >= seen);
        if kept.is_empty() {
            if none_since.get_or_insert_with(Instant::now).elapsed() >= quiet {
                bar.finish_and_clear();
                return Ok(());
            }
        } else if old.is_empty() && is_seen {
            bar.finish_and_clear();
            return Ok(());
        } else {
            none_since = None;
            if begin.elapsed() > PATIENCE {
                bail!(
                    "{}; {otherwise}: run this again when all nodes are up and hints have been delivered \
                     (nodetool statushandoff, system_views.pending_hints)",
                    old.join("; ")
                );
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Nodes with hints, and when the oldest file with some was begun, in milliseconds since 1970; or that do not answer.
async fn kept(cluster: &Cluster) -> Vec<(String, Option<i64>)> {
    let mut found = Vec::new();
    for node in cluster.nodes() {
        let address = cluster.address(&node);
        if !node.is_connected() {
            found.push((format!("{address} is not reached"), None));
            continue;
        }
        // The table is there since 4.1.
        let hints: Result<Vec<(i32, Option<CqlTimestamp>)>> = cluster
            .rows_of(
                &node,
                "SELECT files, oldest FROM system_views.pending_hints",
            )
            .await;
        match hints {
            Ok(rows) => {
                let files = rows.iter().filter(|(files, _)| *files > 0);
                let oldest = files.map(|(_, oldest)| oldest.map_or(i64::MIN, |oldest| oldest.0));
                let kept = oldest.min();
                found.extend(kept.map(|oldest| (format!("{address} keeps hints"), Some(oldest))));
            }
            Err(e) if format!("{e:#}").contains("does not exist") => {}
            Err(e) => found.push((
                format!("{address} does not tell whether it keeps hints: {e:#}"),
                None,
            )),
        }
    }
    found
}
