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
use helenus_console::terminal::spinner;

use super::cluster::Cluster;

/// How long a node may have a hint and not tell of it.
pub(crate) const UNSEEN_MAX: Duration = Duration::from_secs(20);

/// [`UNSEEN_MAX`] in this cluster: hints are for other nodes, so one node alone has none.
pub(crate) fn unseen_max(cluster: &Cluster) -> Duration {
    match cluster.nodes().len() {
        1 => Duration::ZERO,
        _ => UNSEEN_MAX,
    }
}
/// Nodes deliver hints every ten seconds.
const PATIENCE: Duration = Duration::from_secs(120);

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

/// Since when all nodes have answered at each look, and none had hints.
#[derive(Debug, Default)]
struct Free(Option<Looks>);

/// The first and the last of several looks.
#[derive(Clone, Copy, Debug)]
struct Looks {
    first: Instant,
    last: Instant,
}

/// What came and went between looks that are further apart is not known.
const APART_MAX: Duration = Duration::from_secs(15);

impl Free {
    /// True if all nodes have been free for that long, by the look that has just ended.
    fn is_for(&mut self, now: Instant, is_free: bool, time: Duration) -> bool {
        if !is_free {
            self.0 = None;
            return false;
        }
        let known = self
            .0
            .filter(|looks| now.duration_since(looks.last) <= APART_MAX);
        let first = known.map_or(now, |looks| looks.first);
        self.0 = Some(Looks { first, last: now });
        now.duration_since(first) >= time
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_or_a_silent_node_begins_the_quiet_time_anew() {
        let (begin, s) = (Instant::now(), Duration::from_secs);
        let mut free = Free::default();
        assert!(!free.is_for(begin, true, s(20)));
        assert!(!free.is_for(begin + s(10), true, s(20)));
        assert!(!free.is_for(begin + s(19), true, s(20)));
        assert!(!free.is_for(begin + s(20), false, s(20)));
        assert!(!free.is_for(begin + s(22), true, s(20)));
        assert!(!free.is_for(begin + s(32), true, s(20)));
        assert!(!free.is_for(begin + s(41), true, s(20)));
        assert!(free.is_for(begin + s(42), true, s(20)));
        // Nobody has looked for a while.
        let later = begin + s(60);
        assert!(!free.is_for(later, true, s(20)));
        assert!(!free.is_for(later + s(10), true, s(20)));
        assert!(free.is_for(later + s(20), true, s(20)));
        assert!(Free::default().is_for(begin, true, s(0)), "one node");
    }
}
