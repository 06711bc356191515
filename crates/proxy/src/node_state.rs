//! Whether a node can be used, for people.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use helenus_engine::config::Config;
use helenus_engine::snapshot::Snapshot;
use helenus_engine::stats::NodeStats;
use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Locality;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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

/// The state of each node of the snapshot.
pub(crate) fn states(
    settings: &Config,
    snapshot: &Snapshot,
    stats: &[Arc<NodeStats>],
) -> Vec<NodeState> {
    let allow_remote = settings.cluster.allow_remote_dc;
    let links = |at: usize| {
        let stats = stats.get(at);
        stats.map_or(0, |stats| stats.links_up.load(Ordering::Relaxed))
    };
    // With authentication there are links only for clients that have logged in, and then to all nodes.
    let has_clients = (0..snapshot.nodes.len()).any(|at| links(at) > 0);
    let needs_none = snapshot.authenticate.is_some() && !has_clients;
    let nodes = snapshot.nodes.iter().enumerate();
    nodes
        .map(|(at, node)| {
            let place = snapshot.places.locality(NodeIndex(at as u16));
            let is_unused = place == Some(Locality::Remote) && !allow_remote;
            match (node.gone, links(at), needs_none || is_unused) {
                (true, ..) => NodeState::Gone,
                (_, 1.., _) => NodeState::Up,
                (_, 0, true) => NodeState::Unused,
                (_, 0, false) => NodeState::Down,
            }
        })
        .collect()
}
