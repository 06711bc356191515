//! The state of a node, for people.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use helenus_engine::config::Config;
use helenus_engine::snapshot::Snapshot;
use helenus_engine::stats::NodeStats;
use helenus_policy::ring::NodeIndex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// Has a link.
    Up,
    /// Has no link, but should.
    Down,
    /// Has no link and needs none: until a client logs in, or because it is in another data centre.
    Unused,
    /// Left the cluster.
    Gone,
}

impl NodeState {
    /// As the admin server's answers have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeState::Up => "up",
            NodeState::Down => "down",
            NodeState::Unused => "unused",
            NodeState::Gone => "gone",
        }
    }
}

/// True if a node is in another data centre, and not to be asked for that.
pub(crate) fn is_elsewhere(settings: &Config, snapshot: &Snapshot, at: usize) -> bool {
    snapshot.nodes().is_remote(NodeIndex(at as u16)) && !settings.cluster.allow_remote_dc
}

/// True if some clients have logged in, which only shows in links: it is so from the first link on, until there is
/// no client any more. All links may be lost meanwhile, and then no client can log in again.
pub(crate) fn has_logins(before: bool, clients: usize, stats: &[Arc<NodeStats>]) -> bool {
    let mut nodes = stats.iter();
    let has_links = nodes.any(|node| node.links_up.load(Ordering::Relaxed) > 0);
    has_links || (before && clients > 0)
}

/// The state of each node of the snapshot. `has_logins`: as above.
pub(crate) fn states(
    settings: &Config,
    snapshot: &Snapshot,
    stats: &[Arc<NodeStats>],
    has_logins: bool,
) -> Vec<NodeState> {
    let links = |at: usize| {
        let stats = stats.get(at);
        stats.map_or(0, |stats| stats.links_up.load(Ordering::Relaxed))
    };
    // With authentication there are links only for clients that have logged in, and then to all nodes.
    let has_links = (0..snapshot.nodes().count()).any(|at| links(at) > 0);
    let needs_none = snapshot.protocol().asks_for_login() && !has_links && !has_logins;
    let nodes = snapshot.nodes().all().iter().enumerate();
    nodes
        .map(|(at, node)| {
            let is_unused = is_elsewhere(settings, snapshot, at);
            match (node.is_gone(), links(at), needs_none || is_unused) {
                (true, ..) => NodeState::Gone,
                (_, 1.., _) => NodeState::Up,
                (_, 0, true) => NodeState::Unused,
                (_, 0, false) => NodeState::Down,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_stay_logged_in_when_all_links_are_lost() {
        let stats = [Arc::new(NodeStats::default())];
        let set = |links| stats[0].links_up.store(links, Ordering::Relaxed);
        // Connected, and not logged in.
        assert!(!has_logins(false, 3, &stats));
        set(2);
        assert!(has_logins(false, 3, &stats));
        set(0);
        assert!(has_logins(true, 3, &stats));
        assert!(!has_logins(true, 0, &stats));
    }
}
