//! The dashboard's data. Counters are cumulative: the page computes rates and percentiles from the
//! difference between two polls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{PACKED_BUCKETS, Packed};
use serde::Serialize;

use super::api::keys::{self, KeysView};
use super::api::shown::since_1970_ms;
use super::encodings::{self, EncodingsView};
use super::layouts::{self, LayoutsView};
use super::reports::ReportView;
use super::{process, ready, reports};
use crate::process::Process;
use crate::records::node_state::{self, NodeState};
use helenus_engine::session::names::Kind;
use helenus_engine::snapshot::Node;
use helenus_engine::stats::{
    BUCKETS, Histogram, NodeStats, PackedStats, ScheduleCounters, bucket_bound_us,
};

#[derive(Debug, Serialize)]
pub(super) struct View {
    version: &'static str,
    /// Changes with a restart, which resets all counters.
    started_unix_ms: u64,
    now_unix_ms: u64,
    cluster: String,
    /// Protocol version used with nodes; a guess until one has responded.
    protocol: u8,
    local_dc: String,
    epoch: u64,
    ready: bool,
    /// Why not.
    ready_reason: Option<String>,
    clients: usize,
    clients_max: usize,
    clients_by_name: Vec<ClientsView>,
    prepared: usize,
    resident_bytes: Option<u64>,
    cpu_seconds: Option<f64>,
    /// How long links wait for more queries.
    window_us: u64,
    totals: BTreeMap<&'static str, u64>,
    /// Upper bounds of the buckets of all counts of queries sent together; the last bucket has
    /// none.
    packed_bounds: Vec<u32>,
    /// Upper bounds of the buckets of all latencies, exclusive.
    bounds_us: Vec<u64>,
    classes: Vec<ClassView>,
    nodes: Vec<NodeView>,
    tables: Vec<TableView>,
    /// The partitions that are asked for most.
    hot: KeysView,
    /// Null if `layouts.enabled` is off.
    layouts: Option<LayoutsView>,
    /// Null if `payload.enabled` is off.
    encodings: Option<EncodingsView>,
}

/// Clients with the same names.
#[derive(Debug, Serialize)]
struct ClientsView {
    driver: Box<str>,
    driver_version: Box<str>,
    application: Box<str>,
    application_version: Box<str>,
    clients: u64,
}

#[derive(Debug, Serialize)]
struct ClassView {
    class: &'static str,
    latency: Latency,
    /// The following fields cover the schedules of all nodes; for scans they count pieces.
    queued: u64,
    dispatched: u64,
    aged: u64,
    /// Immediately or after waiting.
    refused: u64,
    /// Only of those that waited.
    waits: Latency,
}

#[derive(Debug, Serialize)]
pub(super) struct NodeView {
    address: String,
    /// Its place in this list, for as long as the proxy runs.
    number: usize,
    dc: String,
    rack: String,
    release_version: String,
    /// Not known: null.
    processors: Option<u32>,
    state: NodeState,
    links_up: u64,
    in_flight: u64,
    queued: u64,
    /// In use, and their current number.
    scan_slots_taken: u64,
    scan_slots: u64,
    /// The score by which replicas are chosen: predicted finish of a request of one millisecond of work, the parts
    /// of which it is made, and workers that have ejected the node.
    score_us: u64,
    slowdown: f64,
    failures: f64,
    outstanding_us: u64,
    ejected: u64,
    /// Requests in flight from one worker that the schedule allows now.
    window: u64,
    /// Its report on itself: null if `assignment.reports` is off.
    report: Option<ReportView>,
    counters: BTreeMap<&'static str, u64>,
    latency: Latency,
    packed_out: PackedView,
    packed_in: PackedView,
}

/// Frames by the queries they carried.
#[derive(Debug, Serialize)]
struct PackedView {
    queries: u64,
    frames: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct TableView {
    keyspace: String,
    table: String,
    reads: u64,
    writes: u64,
    errors: u64,
    latency: Latency,
}

#[derive(Debug, Serialize)]
struct Latency {
    count: u64,
    sum_us: u64,
    /// Index and count of each bucket that is not empty.
    buckets: Vec<(usize, u64)>,
}

fn class_view(class: Class, histogram: &Histogram, nodes: &[Arc<NodeStats>]) -> ClassView {
    let at = class as usize;
    let sum = |value: fn(&ScheduleCounters) -> &AtomicU64| {
        nodes.iter().map(|n| load(value(&n.schedule[at]))).sum()
    };
    let waits: Vec<Latency> = nodes.iter().map(|n| latency(&n.waits[at])).collect();
    let mut buckets = BTreeMap::new();
    for (index, count) in waits.iter().flat_map(|w| &w.buckets) {
        *buckets.entry(*index).or_insert(0) += count;
    }
    let refused: u64 = sum(|s| &s.refused);
    let expired: u64 = sum(|s| &s.expired);
    let shed: u64 = sum(|s| &s.shed);
    ClassView {
        class: class.name(),
        latency: latency(histogram),
        queued: nodes.iter().map(|n| load(&n.queued[at])).sum(),
        dispatched: sum(|s| &s.dispatched),
        aged: sum(|s| &s.aged),
        refused: refused + expired + shed,
        waits: Latency {
            count: waits.iter().map(|w| w.count).sum(),
            sum_us: waits.iter().map(|w| w.sum_us).sum(),
            buckets: buckets.into_iter().collect(),
        },
    }
}

pub(super) fn view(shared: &Process, started: SystemTime) -> View {
    let snapshot = shared.snapshot.load();
    let stats = &shared.stats;
    let usage = process::usage();
    let ready = ready::check(shared);
    let node_stats = stats.nodes();
    View {
        version: env!("CARGO_PKG_VERSION"),
        started_unix_ms: since_1970_ms(started),
        now_unix_ms: since_1970_ms(SystemTime::now()),
        cluster: snapshot.cluster_name.clone(),
        protocol: snapshot.version as u8,
        local_dc: snapshot.local_dc.clone(),
        epoch: snapshot.epoch,
        ready: ready.is_ok(),
        ready_reason: ready.err().map(|reason| format!("{reason:#}")),
        clients: shared.clients.load(Ordering::Relaxed),
        clients_max: shared.settings.load().limits.clients_max,
        clients_by_name: stats.clients.list().into_iter().map(clients_view).collect(),
        prepared: shared.prepared_count(),
        resident_bytes: usage.map(|u| u.resident_bytes),
        cpu_seconds: usage.map(|u| u.cpu_seconds),
        window_us: load(&stats.window_us),
        packed_bounds: (0..PACKED_BUCKETS).filter_map(Packed::bound).collect(),
        totals: stats.global.list().into_iter().collect(),
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
            .map(|table| TableView {
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
pub(super) fn nodes(shared: &Process) -> Vec<NodeView> {
    let (snapshot, settings) = (shared.snapshot.load(), shared.settings.load());
    let node_stats = shared.stats.nodes();
    let has_logins = shared.has_logins.load(Ordering::Relaxed);
    let states = node_state::states(&settings, &snapshot, &node_stats, has_logins);
    let unused = NodeStats::default();
    let now = Instant::now();
    let nodes = snapshot.nodes.iter().enumerate().map(|(index, node)| {
        let stats = node_stats.get(index).map_or(&unused, |s| s);
        let at = NodeIndex(index as u16);
        let is_reporting = settings.assignment.reports;
        let report = is_reporting.then(|| reports::view(&shared.reports.of(at), now));
        node_view((index, node), stats, states[index], report)
    });
    nodes.collect()
}

fn clients_view((kind, clients): (Kind, u64)) -> ClientsView {
    ClientsView {
        driver: kind.driver,
        driver_version: kind.driver_version,
        application: kind.application,
        application_version: kind.application_version,
        clients,
    }
}

fn node_view(
    (number, node): (usize, &Node),
    stats: &NodeStats,
    state: NodeState,
    report: Option<ReportView>,
) -> NodeView {
    NodeView {
        address: node.address.to_string(),
        number,
        dc: node.dc.clone(),
        rack: node.rack.clone(),
        release_version: node.release_version.clone(),
        processors: node.processors,
        state,
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
        counters: stats.counters.list().into_iter().collect(),
        latency: latency(&stats.latency),
        packed_out: packed(&stats.packed_out),
        packed_in: packed(&stats.packed_in),
    }
}

fn packed(stats: &PackedStats) -> PackedView {
    PackedView {
        queries: load(&stats.queries),
        frames: stats.units.iter().map(load).collect(),
    }
}

fn latency(histogram: &Histogram) -> Latency {
    let counts = histogram.counts();
    Latency {
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
