//! The dashboard's data. Counters are cumulative: the page computes rates and percentiles from the
//! difference between two polls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use helenus_admin_api::{self as api, Name, Snapshot};
use helenus_policy::schedule::Class;
use helenus_wire::{PACKED_BUCKETS, Packed};

use super::api::keys;
use super::api::shown::since_1970_ms;
use super::{encodings, layouts, process, ready, reports};
use crate::process::Process;
use crate::records::node_state::{self, NodeState};
use helenus_engine::session::names::Kind;
use helenus_engine::snapshot::Node;
use helenus_engine::stats::{
    BUCKETS, Histogram, NodeStats, PackedStats, ScheduleCounters, bucket_bound_us,
};

fn class_view(class: Class, histogram: &Histogram, nodes: &[Arc<NodeStats>]) -> api::Class {
    let at = class as usize;
    let sum = |value: fn(&ScheduleCounters) -> &AtomicU64| {
        nodes.iter().map(|n| load(value(&n.schedule[at]))).sum()
    };
    let waits: Vec<api::Histogram> = nodes.iter().map(|n| latency(&n.waits[at])).collect();
    let mut buckets = BTreeMap::new();
    for (index, count) in waits.iter().flat_map(|w| &w.buckets) {
        *buckets.entry(*index).or_insert(0) += count;
    }
    let refused: u64 = sum(|s| &s.refused);
    let expired: u64 = sum(|s| &s.expired);
    let shed: u64 = sum(|s| &s.shed);
    api::Class {
        class: class.name().into(),
        latency: latency(histogram),
        queued: nodes.iter().map(|n| load(&n.queued[at])).sum(),
        dispatched: sum(|s| &s.dispatched),
        aged: sum(|s| &s.aged),
        refused: refused + expired + shed,
        waits: api::Histogram {
            count: waits.iter().map(|w| w.count).sum(),
            sum_us: waits.iter().map(|w| w.sum_us).sum(),
            buckets: buckets.into_iter().collect(),
        },
    }
}

/// The answer of `/api/snapshot`.
pub(super) fn view(shared: &Process, started: SystemTime) -> Snapshot {
    let snapshot = shared.snapshot.load();
    let stats = &shared.stats;
    let usage = process::usage();
    let ready = ready::check(shared);
    let node_stats = stats.nodes();
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: since_1970_ms(started),
        now_unix_ms: since_1970_ms(SystemTime::now()),
        cluster: snapshot.cluster_name().to_owned(),
        protocol: snapshot.version() as u8,
        local_dc: snapshot.nodes().local_dc().to_owned(),
        epoch: snapshot.epoch(),
        ready: ready.is_ok(),
        ready_reason: ready.err().map(|reason| format!("{reason:#}")),
        clients: shared.clients.load(Ordering::Relaxed),
        clients_max: shared.settings.load().limits.clients_max,
        clients_by_name: stats
            .clients
            .list()
            .into_iter()
            .map(|(kind, clients)| clients_view(kind, clients))
            .collect(),
        prepared: shared.prepared_count(),
        resident_bytes: usage.map(|u| u.resident_bytes),
        cpu_seconds: usage.map(|u| u.cpu_seconds),
        window_us: load(&stats.window_us),
        packed_bounds: (0..PACKED_BUCKETS).filter_map(Packed::bound).collect(),
        totals: counters(stats.global.list()),
        bounds_us: (0..BUCKETS).map(bucket_bound_us).collect(),
        classes: Class::ALL
            .iter()
            .zip(&stats.latency)
            .map(|(class, histogram)| class_view(*class, histogram, &node_stats))
            .collect(),
        nodes: nodes(shared),
        tables: stats
            .tables()
            .iter()
            .map(|table| api::Table {
                keyspace: table.keyspace.clone(),
                table: table.table.clone(),
                reads: load(&table.reads),
                writes: load(&table.writes),
                errors: load(&table.errors),
                latency: latency(&table.latency),
            })
            .collect(),
        hot: keys::shown(shared),
        layouts: layouts::view(shared),
        encodings: encodings::view(shared),
    }
}

/// The answer of `/api/nodes`.
pub(super) fn nodes(shared: &Process) -> Vec<api::Node> {
    let (snapshot, settings) = (shared.snapshot.load(), shared.settings.load());
    let node_stats = shared.stats.nodes();
    let has_logins = shared.has_logins.load(Ordering::Relaxed);
    let states = node_state::states(&settings, &snapshot, &node_stats, has_logins);
    let unused = NodeStats::default();
    let now = Instant::now();
    let nodes = snapshot.nodes().by_index().map(|(at, node)| {
        let index = at.as_usize();
        let stats = node_stats.get(index).map_or(&unused, |s| s);
        let is_reporting = settings.assignment.reports;
        let report = is_reporting.then(|| reports::view(&shared.reports.of(at), now));
        node_view(index, node, stats, states[index], report)
    });
    nodes.collect()
}

fn clients_view(kind: Kind, clients: u64) -> api::ClientKind {
    api::ClientKind {
        driver: kind.driver,
        driver_version: kind.driver_version,
        application: kind.application,
        application_version: kind.application_version,
        clients,
    }
}

fn node_view(
    number: usize,
    node: &Node,
    stats: &NodeStats,
    state: NodeState,
    report: Option<api::Report>,
) -> api::Node {
    api::Node {
        address: node.address().to_string(),
        number,
        dc: node.dc().to_owned(),
        rack: node.rack().to_owned(),
        release_version: node.release_version().to_owned(),
        processors: node.facts().processors,
        state: state.name().into(),
        links_up: load(&stats.links_up),
        in_flight: load(&stats.in_flight),
        queued: stats.queued.iter().map(load).sum(),
        scan_slots_taken: load(&stats.scan_slots_taken),
        scan_slots: load(&stats.scan_slots),
        score_us: load(&stats.score_us),
        slowdown: load(&stats.slowdown_milli) as f64 / 1e3,
        failures: load(&stats.failures_milli) as f64 / 1e3,
        outstanding_us: load(&stats.outstanding_us),
        ejected: load(&stats.ejected),
        window: load(&stats.window),
        report,
        counters: counters(stats.counters.list()),
        latency: latency(&stats.latency),
        packed_out: packed(&stats.packed_out),
        packed_in: packed(&stats.packed_in),
    }
}

fn counters(list: Vec<(&'static str, u64)>) -> BTreeMap<Name, u64> {
    let named = list.into_iter();
    named.map(|(name, count)| (name.into(), count)).collect()
}

fn packed(stats: &PackedStats) -> api::Packed {
    api::Packed {
        queries: load(&stats.queries),
        frames: stats.units.iter().map(load).collect(),
    }
}

fn latency(histogram: &Histogram) -> api::Histogram {
    let counts = histogram.counts();
    api::Histogram {
        count: counts.iter().sum(),
        sum_us: histogram.sum_us(),
        buckets: counts
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .collect(),
    }
}

fn load(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}
