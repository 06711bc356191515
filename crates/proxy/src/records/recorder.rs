//! Once a second: what is counted goes into the history, and what has changed becomes events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use helenus_engine::snapshot::{Mover, Snapshot};
use helenus_engine::stats::NodeStats;
use helenus_policy::schedule::Class;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::MissedTickBehavior;

use crate::admin;
use crate::process::Process;
use crate::records::events::{Observed, SeenNode, SeenProxy};
use crate::records::history::{Gauges, Seen, Standing};
use crate::records::node_state::{self, NodeState};
use crate::system::boot_time;

const INTERVAL: Duration = Duration::from_secs(1);

/// Records until the proxy stops.
pub(crate) async fn run(shared: Arc<Process>) {
    let mut observed = Observed::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    // A step that was late is longer; none is made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        record(&shared, Instant::now(), boot_time::now(), &mut observed);
    }
}

/// `now` and `at`: one moment, by both clocks.
fn record(shared: &Process, now: Instant, at: Duration, observed: &mut Observed) {
    let (snapshot, settings) = (shared.snapshot.load(), shared.settings.load());
    let stats = shared.stats.nodes();
    let has_logins = node_state::has_logins(
        shared.has_logins.load(Ordering::Relaxed),
        shared.clients.load(Ordering::Relaxed),
        &stats,
    );
    shared.has_logins.store(has_logins, Ordering::Relaxed);
    let states = node_state::states(&settings, &snapshot, &stats, has_logins);
    // Without an admin server nobody can ask for it.
    if admin::is_served(&settings.admin) {
        let standing: Vec<Standing> = standing(&states, &stats);
        shared.history.record(
            at,
            &Seen {
                stats: &shared.stats,
                nodes: &stats,
                standing: &standing,
                gauges: gauges(shared, &snapshot, &states, &stats),
                cpu_us: cpu_us(),
            },
        );
    }
    for (kind, text) in observed.look(now, seen(shared, now, &snapshot, &states, &stats)) {
        shared.events.note_at(at, kind, text);
    }
}

fn standing(states: &[NodeState], stats: &[Arc<NodeStats>]) -> Vec<Standing> {
    let both = states.iter().zip(stats);
    both.map(|(state, stats)| Standing {
        is_down: *state == NodeState::Down,
        is_ejected: load(&stats.ejected) > 0 && *state != NodeState::Gone,
    })
    .collect()
}

fn gauges(
    shared: &Process,
    snapshot: &Snapshot,
    states: &[NodeState],
    stats: &[Arc<NodeStats>],
) -> Gauges {
    let settings = shared.settings.load();
    let mut gauges = Gauges {
        clients: shared.clients.load(Ordering::Relaxed) as u64,
        resident_bytes: resident_bytes().unwrap_or(0),
        window_us: load(&shared.stats.window_us),
        ..Gauges::default()
    };
    for (at, state) in states.iter().enumerate() {
        if *state == NodeState::Gone {
            continue;
        }
        let is_used =
            *state != NodeState::Unused || !node_state::is_elsewhere(&settings, snapshot, at);
        gauges.nodes += u64::from(is_used);
        gauges.nodes_up += u64::from(*state == NodeState::Up);
        gauges.nodes_down += u64::from(*state == NodeState::Down);
        let Some(stats) = stats.get(at) else {
            continue;
        };
        let is_ejected = load(&stats.ejected) > 0;
        gauges.nodes_ejected += u64::from(is_ejected);
        gauges.nodes_out += u64::from(is_ejected || *state == NodeState::Down);
        gauges.links += load(&stats.links_up);
        gauges.in_flight += load(&stats.in_flight);
        for class in Class::ALL {
            gauges.queued[class as usize] += load(&stats.queued[class as usize]);
        }
    }
    gauges
}

fn seen(
    shared: &Process,
    now: Instant,
    snapshot: &Snapshot,
    states: &[NodeState],
    stats: &[Arc<NodeStats>],
) -> SeenProxy {
    let nodes = snapshot.nodes().all().iter().zip(states).enumerate();
    let nodes = nodes.map(|(at, (node, state))| {
        let value = |of: fn(&NodeStats) -> &AtomicU64| stats.get(at).map_or(0, |at| load(of(at)));
        SeenNode {
            host_id: node.host_id(),
            address: node.address(),
            state: *state,
            ejected: value(|stats| &stats.ejected),
            in_flight: value(|stats| &stats.in_flight),
            bytes_in: value(|stats| &stats.counters.bytes_in),
            slower_milli: value(|stats| &stats.ejected_slower_milli),
            failures_milli: value(|stats| &stats.ejected_failures_milli),
        }
    });
    let addresses = |movers: &[Mover]| movers.iter().map(|mover| mover.address).collect();
    let (pauses, settings) = (shared.features.pause.list(now), shared.settings.load());
    SeenProxy {
        is_known: snapshot.is_known(),
        silence: Duration::from_millis(settings.links.silence_ms) + INTERVAL * 2,
        is_draining: shared.draining.load(Ordering::Acquire),
        not_ready: admin::not_ready(shared),
        nodes: nodes.collect(),
        joining: addresses(snapshot.nodes().joining()),
        leaving: addresses(snapshot.nodes().leaving()),
        overloaded: load(&shared.stats.global.requests_overloaded),
        failed: load(&shared.stats.global.requests_failed),
        pauses: pauses
            .iter()
            .map(|hold| (hold.of.to_string(), hold.until))
            .collect(),
        proxies_down: (**shared.proxies_down.load()).clone(),
        proxies: settings.other_proxies().to_vec(),
    }
}

/// Processor time of all threads so far.
fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// `None` if there is no `/proc`.
fn resident_bytes() -> Option<u64> {
    let statm = procfs::process::Process::myself().ok()?.statm().ok()?;
    Some(statm.resident * procfs::page_size())
}

fn load(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::history::Resolution;

    fn recorded() -> Process {
        let config = crate::config::from_toml("").expect("settings");
        let shared = crate::testing::process(config);
        let mut observed = Observed::default();
        let (now, at) = (Instant::now(), boot_time::now());
        let mut record_later = |seconds| {
            let passed = Duration::from_secs(seconds);
            record(&shared, now + passed, at + passed, &mut observed);
        };
        shared.clients.store(5, Ordering::Relaxed);
        record_later(1);
        shared
            .stats
            .global
            .requests_overloaded
            .store(7, Ordering::Relaxed);
        record_later(2);
        shared
    }

    #[test]
    fn what_is_counted_and_what_has_changed_is_recorded() {
        let shared = recorded();
        let steps = shared.history.steps(Resolution::Fine, 0, |step| {
            (step.gauges.clients, step.gauges.resident_bytes > 1 << 20)
        });
        assert_eq!(steps, [(5, true), (5, true)]);
        let (events, _) = shared.events.from(0);
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [crate::records::events::Kind::OverloadBegan]);
    }
}
