//! Nodes that are away, and layouts that miss writes because of that.
//!
//! A layout is written at ANY. For a replica that is down, a coordinator keeps a hint, but not if that has been down for
//! longer than `max_hint_window`: then it waits for its time-out, keeps nothing, and says that the write is done. So once
//! no replica of a range has been up for nearly that long, nobody is to write the layout any more.
//!
//! A coordinator also keeps nothing while its oldest hint for a node is older than that
//! (`hint_window_persistent_enabled`). So a node that was away counts anew only once it has been back for as long, or for
//! a tenth of the window: by then hints have come.
//!
//! Nodes to which the proxy has no link, those of another data centre for one, are away while the last that Cassandra has
//! reported of them is that they are down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_catalogue::waits::refresh;
use helenus_catalogue::{Catalogue, LayoutState};
use helenus_engine::features::layouts::Missed;
use helenus_engine::snapshot::Snapshot;
use helenus_policy::ring::NodeIndex;

use super::marks::now_ms;
use crate::process::Process;
use crate::records::node_state::{self, NodeState};

/// Nodes that were seen to go, by their index.
#[derive(Debug, Default)]
pub(super) struct Away {
    nodes: BTreeMap<usize, Lost>,
    /// When none of them was up the last time.
    cut_off: Option<Instant>,
}

/// Once some node is up again, others need some time to be, too.
const REUNION: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Lost {
    since: Instant,
    /// Since when it is back.
    back: Option<Instant>,
    /// Known from a report, and there is no link that would tell.
    is_reported: bool,
}

impl Away {
    /// Notes how nodes are, and says which layouts miss writes because of that, if not now, then soon.
    pub(super) fn look_around(&mut self, common: &Process, catalogue: &Catalogue) -> Vec<Missed> {
        if common.draining.load(Ordering::Acquire) {
            // Its links end.
            return Vec::new();
        }
        let (snapshot, settings) = (common.snapshot.load(), common.settings.load());
        let has_logins = common.has_logins.load(Ordering::Relaxed);
        let states = node_state::states(&settings, &snapshot, &common.stats.nodes(), has_logins);
        let last_down = common.nodes_last_down();
        let nodes = snapshot.nodes().all().iter().enumerate();
        let reported = nodes.filter(|(_, node)| last_down.contains(&node.host_id()));
        let reported = reported.map(|(at, _)| at).collect();
        let now = Instant::now();
        self.look(&states, &reported, snapshot.nodes().hint_window(), now);
        self.missing(catalogue, &snapshot, now, now_ms())
    }

    /// Notes how nodes are. `reported`: those that were reported as down. `window`: for how long hints are kept.
    fn look(
        &mut self,
        states: &[NodeState],
        reported: &BTreeSet<usize>,
        window: Duration,
        now: Instant,
    ) {
        if !states.contains(&NodeState::Up) {
            // The proxy may be cut off, and does not know how they are: those that are away later have been all the time, for
            // all that it knows.
            self.cut_off = Some(now);
        }
        for (at, state) in states.iter().enumerate() {
            match state {
                NodeState::Down => self.note_down(at, false, now),
                NodeState::Up => self.note_up(at, window, now),
                NodeState::Gone => {
                    self.nodes.remove(&at);
                }
                NodeState::Unused if reported.contains(&at) => self.note_down(at, true, now),
                NodeState::Unused if self.nodes.get(&at).is_some_and(|of| of.is_reported) => {
                    self.note_up(at, window, now);
                }
                NodeState::Unused => {}
            }
        }
    }

    fn note_down(&mut self, at: usize, is_reported: bool, now: Instant) {
        let lost = Lost {
            since: now,
            back: None,
            is_reported,
        };
        self.nodes.entry(at).or_insert(lost).back = None;
    }

    fn note_up(&mut self, at: usize, window: Duration, now: Instant) {
        let Some(lost) = self.nodes.get_mut(&at) else {
            return;
        };
        let back = *lost.back.get_or_insert(now);
        let least = back.saturating_duration_since(lost.since).min(window / 10);
        if now.saturating_duration_since(back) >= least {
            self.nodes.remove(&at);
        }
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
        let since_cut_off = self.cut_off.map(|at| now.saturating_duration_since(at));
        if since_cut_off.is_some_and(|time| time < REUNION) || self.nodes.is_empty() {
            return Vec::new();
        }
        let mut missed = Vec::new();
        for (table, of) in &catalogue.tables {
            let layouts = of.layouts.iter().flat_map(|of| &of.layouts);
            let written = layouts.filter(|of| of.state() != Some(LayoutState::Behind));
            for layout in written.filter(|of| of.is_derived()) {
                let keyspace = layout.keyspace_in(table);
                // A sweep begins with a layout anew only if it reaches all nodes, however one proxy sees them.
                let age_ms =
                    u64::try_from(now_ms.saturating_sub(layout.created)).unwrap_or_default();
                let long_away = self.long_away(window, Duration::from_millis(age_ms), now);
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

    /// Nodes that have been away for nearly as long as hints are kept, while there was a layout of this age.
    fn long_away(&self, window: Duration, age: Duration, now: Instant) -> BTreeSet<usize> {
        // Other proxies need some time to hear of it. A connection that breaks and is opened again is no node that went.
        let most = (window / 10 * 9).max(refresh());
        let is_long_away = |lost: &Lost| {
            let time = now.saturating_duration_since(lost.since).min(age);
            lost.back.is_none() && time >= most
        };
        let nodes = self.nodes.iter().filter(|(_, lost)| is_long_away(lost));
        nodes.map(|(at, _)| *at).collect()
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
