//! Layouts that miss writes because nodes are away.
//!
//! A layout is written at ANY. For a replica that is down, a coordinator keeps a hint, but not if that has been down for
//! longer than `max_hint_window`: then it waits for its time-out, keeps nothing, and says that the write is done. So once
//! no replica of a range has been up for nearly that long, nobody is to write the layout any more. Which nodes these are
//! says [`helenus_catalogue::away`].
//!
//! Nodes to which the proxy has no link, those of another data centre for one, are away while the last that Cassandra has
//! reported of them is that they are down.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_catalogue::away::{Away as Nodes, Sight};
use helenus_catalogue::{Catalogue, LayoutState};
use helenus_engine::features::layouts::Missed;
use helenus_engine::snapshot::Snapshot;
use helenus_policy::ring::NodeIndex;

use super::marks::now_ms;
use crate::process::Process;
use crate::records::node_state::{self, NodeState};

/// Nodes that were seen to go.
#[derive(Debug, Default)]
pub(super) struct Away(Nodes);

/// `is_reported`: Cassandra has reported last that it is down.
fn sight(state: NodeState, is_reported: bool) -> Sight {
    match state {
        NodeState::Up => Sight::Up,
        NodeState::Down => Sight::Down,
        NodeState::Unused if is_reported => Sight::ReportedDown,
        NodeState::Unused => Sight::Unused,
        NodeState::Gone => Sight::Gone,
    }
}

impl Away {
    /// Notes how nodes are, and says which layouts miss writes because of that, if not now, then soon.
    pub(super) fn look_around(&mut self, common: &Process, catalogue: &Catalogue) -> Vec<Missed> {
        if common.draining.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.note(common);
        self.missing(catalogue, &common.snapshot.load(), Instant::now(), now_ms())
    }

    /// Notes how nodes are.
    pub(super) fn note(&mut self, common: &Process) {
        if common.draining.load(Ordering::Acquire) {
            // Its links end.
            return;
        }
        let (snapshot, settings) = (common.snapshot.load(), common.settings.load());
        let has_logins = common.has_logins.load(Ordering::Relaxed);
        let states = node_state::states(&settings, &snapshot, &common.stats.nodes(), has_logins);
        let last_down = common.nodes_last_down();
        let nodes = snapshot.nodes().all().iter().enumerate();
        let reported = nodes.filter(|(_, node)| last_down.contains(&node.host_id()));
        let reported = reported.map(|(at, _)| at).collect();
        let window = snapshot.nodes().hint_window();
        self.look(&states, &reported, window, Instant::now());
    }

    /// Notes how nodes are. `reported`: those that were reported as down. `window`: for how long hints are kept.
    fn look(
        &mut self,
        states: &[NodeState],
        reported: &BTreeSet<usize>,
        window: Duration,
        now: Instant,
    ) {
        let states = states.iter().enumerate();
        let sights = states.map(|(at, state)| sight(*state, reported.contains(&at)));
        self.0.look(sights, window, now);
    }

    /// Layouts with a range none of whose replicas has been up for nearly as long as hints are kept.
    fn missing(
        &self,
        catalogue: &Catalogue,
        snapshot: &Snapshot,
        now: Instant,
        now_ms: i64,
    ) -> Vec<Missed> {
        let window = snapshot.nodes().hint_window();
        let mut missed = Vec::new();
        for (table, of) in &catalogue.tables {
            let layouts = of.layouts.iter().flat_map(|of| &of.layouts);
            let written = layouts.filter(|of| of.state() != Some(LayoutState::Behind));
            for layout in written.filter(|of| of.is_derived()) {
                let keyspace = layout.keyspace_in(table);
                // A sweep begins with a layout anew only if it reaches all nodes, however one proxy sees them.
                let age_ms =
                    u64::try_from(now_ms.saturating_sub(layout.created)).unwrap_or_default();
                let long_away = self.0.for_long(window, Duration::from_millis(age_ms), now);
                if long_away.is_empty() {
                    continue;
                }
                let Some(nodes) = range_of(snapshot, keyspace, &long_away) else {
                    continue;
                };
                missed.push(Missed {
                    keyspace: keyspace.to_owned(),
                    physical: layout.physical.clone(),
                    why: why(snapshot, nodes, window),
                });
            }
        }
        missed
    }
}

/// The replicas of a range of which all are among these nodes.
fn range_of<'a>(
    snapshot: &'a Snapshot,
    keyspace: &str,
    among: &BTreeSet<usize>,
) -> Option<&'a [NodeIndex]> {
    let slots = snapshot.nodes().ring()?.len();
    let replicas = snapshot.schema().owners(keyspace)?;
    let mut of_slots = (0..slots).map(move |slot| replicas.of_slot(slot));
    let is_among = |node: &NodeIndex| among.contains(&node.as_usize());
    of_slots.find(|nodes| !nodes.is_empty() && nodes.iter().all(is_among))
}

fn why(snapshot: &Snapshot, nodes: &[NodeIndex], window: Duration) -> String {
    let nodes = nodes.iter().filter_map(|at| snapshot.nodes().get(*at));
    let addresses: Vec<String> = nodes.map(|node| node.address().to_string()).collect();
    format!(
        "no replica of some partitions was up for nearly as long as nodes keep hints ({} s by max_hint_window and \
         hinted_handoff_enabled): {}",
        window.as_secs(),
        addresses.join(", ")
    )
}

#[cfg(test)]
mod tests;
