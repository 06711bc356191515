//! All counters as Prometheus metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use self::page::Page;
use super::api::errors;
use super::api::keys;
use super::api::log;
use super::catalogue;
use super::encodings;
use super::layouts;
use super::process;
use super::ready;
use super::reports;
use super::rules;
use crate::process::Process;
use helenus_engine::features::layouts::LayoutStats;
use helenus_engine::snapshot::Snapshot;
use helenus_engine::stats::{Predictions, Quality, Stats, TableStats};
use helenus_policy::route::Locality;
use helenus_policy::schedule::Class;

#[cfg(test)]
mod metrics_page;
mod nodes;
pub(super) mod page;
pub(super) mod protobuf;
mod shown;
#[cfg(test)]
mod tests;
mod text;

use shown::{Shown, shown, value};

const REQUESTS: &str = "helenus_requests_total";
const REQUESTS_HELP: &str = "Requests of clients by opcode.";

/// Counters of the whole proxy, grouped by metric.
#[rustfmt::skip]
const GLOBAL: &[Shown] = &[
    shown("clients_accepted", "helenus_clients_accepted_total", &[], "Client connections accepted."),
    shown("clients_adopted", "helenus_clients_adopted_total", &[], "Client connections taken over from the process before this one (listen.handover)."),
    shown("clients_refused", "helenus_clients_refused_total", &[], "Client connections refused because limits.clients_max was reached."),
    shown("clients_protocol_errors", "helenus_client_protocol_errors_total", &[], "Client messages that broke the protocol."),
    shown("client_bytes_in", "helenus_client_received_bytes_total", &[], "Bytes received from clients."),
    shown("client_bytes_out", "helenus_client_sent_bytes_total", &[], "Bytes sent to clients."),
    shown("client_reads", "helenus_client_socket_reads_total", &[], "System calls that read from client sockets."),
    shown("client_writes", "helenus_client_socket_writes_total", &[], "System calls that wrote to client sockets."),
    shown("requests_query", REQUESTS, &[("opcode", "query")], REQUESTS_HELP),
    shown("requests_prepare", REQUESTS, &[("opcode", "prepare")], REQUESTS_HELP),
    shown("requests_execute", REQUESTS, &[("opcode", "execute")], REQUESTS_HELP),
    shown("requests_batch", REQUESTS, &[("opcode", "batch")], REQUESTS_HELP),
    shown("requests_system", "helenus_requests_answered_locally_total", &[], "Requests about the cluster's topology that the proxy answered itself."),
    shown("requests_opaque", "helenus_requests_opaque_total", &[], "Requests with statements that the proxy does not understand and passed on unchanged."),
    shown("requests_token_aware", "helenus_requests_token_aware_total", &[], "Requests routed by their partition key."),
    shown("requests_overloaded", "helenus_requests_overloaded_total", &[], "Requests answered with OVERLOADED because a bound was reached."),
    shown("requests_refused_by_rules", "helenus_requests_refused_by_rules_total", &[], "Requests that a rule refused, with OVERLOADED or because it forbids them."),
    shown("requests_cancelled", "helenus_requests_cancelled_total", &[], "Reads that were never sent because their clients had disconnected."),
    shown("requests_timed_out", "helenus_requests_timed_out_total", &[], "Requests that no node answered in time."),
    shown("requests_retried", "helenus_requests_retried_total", &[], "Requests sent to another node."),
    shown("requests_paused", "helenus_requests_paused_total", &[], "Waits of requests for coordinators that missed replicas while nodes joined or left."),
    shown("requests_rescued", "helenus_requests_rescued_total", &[], "Requests sent to another node because theirs was unresponsive."),
    shown("reads_hedged", "helenus_reads_hedged_total", &[], "Slow reads that a second replica was asked for as well."),
    shown("hedges_won", "helenus_hedges_won_total", &[], "Of these, reads that the second replica answered first."),
    shown("requests_failed", "helenus_requests_failed_total", &[], "Requests that the proxy took in and itself answered with an error."),
    shown("requests_refused", "helenus_requests_refused_total", &[], "Requests that the proxy answered with an error without taking them in: beyond a bound, against a rule, or malformed."),
    shown("reprepares", "helenus_reprepares_total", &[], "Statements prepared again because a node had forgotten them."),
    shown("prepares_ahead", "helenus_prepares_ahead_total", &[], "Statements prepared on other nodes before they were needed there."),
    shown("prepared_recalled", "helenus_prepared_recalled_total", &[], "Statements prepared elsewhere whose text was looked up on a node."),
    shown("auth_accepted", "helenus_auth_accepted_total", &[], "Logins that Cassandra accepted."),
    shown("auth_refused", "helenus_auth_refused_total", &[], "Logins that Cassandra refused."),
    shown("auth_unjudged", "helenus_auth_unjudged_total", &[], "Logins that no node could judge."),
    shown("auth_overloaded", "helenus_auth_overloaded_total", &[], "Logins refused because a bound of [limits] was reached."),
    shown("schema_agreements", "helenus_schema_agreements_total", &[], "Schema changes whose answer waited until the nodes agreed."),
    shown("control_reconnects", "helenus_control_reconnects_total", &[], "Times the control connection was reopened."),
    shown("reads_shared", "helenus_reads_shared_total", &[], "Reads answered by an identical one that had not been sent yet."),
    shown("writes_merged", "helenus_writes_merged_total", &[], "Writes that left in one batch with others."),
    shown("write_batches", "helenus_write_batches_total", &[], "Batches of several clients' writes."),
    shown("write_batches_parted", "helenus_write_batches_parted_total", &[], "Batches whose writes went by themselves after an error."),
    shown("reads_parked", "helenus_reads_parked_total", &[], "Reads that waited for an identical one to come back."),
    shown("lwt_waited", "helenus_lwt_waited_total", &[], "Conditional writes that waited in a per-partition queue."),
    shown("lwt_graces", "helenus_lwt_graces_total", &[], "Times a partition was reserved for a client whose condition did not hold."),
    shown("lwt_gave_up", "helenus_lwt_gave_up_total", &[], "Conditional writes sent past their per-partition queue, after a second in it."),
    shown("lwt_stood_aside", "helenus_lwt_stood_aside_total", &[], "Times a per-partition queue stood aside for a while, because conditions went on failing."),
    shown("scans_in_pieces", "helenus_scans_in_pieces_total", &[], "Scans that were read in sub-pages."),
    shown("reads_by_owner", "helenus_reads_by_owner_total", &[], "Reads with IN on the partition key that were split by owners."),
    shown("layout_reads", "helenus_layout_reads_total", &[], "Reads that went to a layout of their table."),
    shown("layout_reads_sorted", "helenus_layout_reads_sorted_total", &[], "Of these, those whose rows the proxy puts into the table's order."),
    shown("layout_reads_of_table", "helenus_layout_reads_of_table_total", &[], "Reads of tables with layouts that went to the table itself."),
    shown("layout_reads_fallen_back", "helenus_layout_reads_fallen_back_total", &[], "Reads of layouts that were repeated on the table, because the layout could not be read, or its rows were too many to be sorted."),
    shown("layout_writes", "helenus_layout_writes_total", &[], "Writes to tables with layouts."),
    shown("layout_writes_refused", "helenus_layout_writes_refused_total", &[], "Requests refused because layouts could not be kept equal to their table."),
    shown("layout_writes_doubted", "helenus_layout_writes_doubted_total", &[], "Writes after which it is not known whether derived layouts have what their table has: their partitions are read from the table until they have been compared."),
    shown("layout_writes_missed", "helenus_layout_writes_missed_total", &[], "Writes that a derived layout has missed, because no node took them: it is not read until it has been compared."),
    shown("layout_writes_fenced", "helenus_layout_writes_fenced_total", &[], "Requests about tables with layouts that the proxy itself answered with OVERLOADED: the catalogue could not be read."),
    shown("scans_in_parts", "helenus_scans_in_parts_total", &[], "Pages of scans that were read as parallel ranges of the ring."),
    shown("scans_in_stretches", "helenus_scans_in_stretches_total", &[], "Pages of filtering scans that were read in sequential ranges of the ring."),
    shown("scans_not_in_parts", "helenus_scans_not_in_parts_total", &[], "Scans whose parallel ranges were rejected by nodes that then answered the whole; the statement is then read whole for ten minutes."),
    shown("scan_parts_wasted", "helenus_scan_parts_wasted_total", &[], "Parallel ranges of pages and aggregates read in vain: their rows were read again, or not needed."),
    shown("scan_parts_retried", "helenus_scan_parts_retried_total", &[], "Parallel ranges of pages and aggregates that failed and were sent again, to another node or in halves."),
    shown("scans_moved", "helenus_scans_moved_total", &[], "Sub-pages and ranges of scans that waited for a slow node and were given to another owner of their rows."),
    shown("scan_pieces", "helenus_scan_pieces_total", &[], "Sub-pages of scans sent to nodes."),
    shown("traces_exported", "helenus_traces_exported_total", &[], "Requests whose spans the collector of traces has taken."),
    shown("traces_dropped", "helenus_traces_dropped_total", &[], "Requests that were to be traced, whose spans no collector has got: there were too many, or it was slow, down or refused them."),
    shown("worker_sleeps", "helenus_worker_sleeps_total", &[], "Times a worker had nothing to do and waited for its sockets: one system call each."),
];

type TableCounter = fn(&TableStats) -> &AtomicU64;
const TABLE_COUNTERS: [(&str, &str, TableCounter); 3] = [
    (
        "helenus_table_reads_total",
        "Reads of the table answered.",
        |t| &t.reads,
    ),
    (
        "helenus_table_writes_total",
        "Writes to the table answered.",
        |t| &t.writes,
    ),
    (
        "helenus_table_errors_total",
        "Requests for the table answered with an error.",
        |t| &t.errors,
    ),
];

/// The page, in this format, and its type.
pub(super) fn render(
    mut page: Page,
    shared: &Process,
    started: SystemTime,
) -> (&'static str, Vec<u8>) {
    render_all(&mut page, shared, started);
    page.finish()
}

pub(super) fn render_all(page: &mut Page, shared: &Process, started: SystemTime) {
    proxy(page, shared);
    process::render(page, started);
    log::render(page, shared);
    stats(page, &shared.stats);
    reports::render(page, shared);
    catalogue::render(page, shared);
    layouts::render(page, shared);
    encodings::render(page, shared);
    keys::render(page, shared);
    rules::render(page, shared);
    errors::render(page, &shared.stats.errors);
}

fn proxy(page: &mut Page, shared: &Process) {
    let snapshot = shared.snapshot.load();
    let name = "helenus_build_info";
    page.family(
        name,
        "gauge",
        &["version"],
        "1, labelled with the version of Helenus.",
    );
    page.sample(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.gauge(
        "helenus_clients",
        "Client connections open.",
        shared.clients.load(Ordering::Relaxed),
    );
    let name = "helenus_clients_by_name";
    let help = "Clients that are ready, by the names they gave in STARTUP.";
    page.family(
        name,
        "gauge",
        &[
            "driver",
            "driver_version",
            "application",
            "application_version",
        ],
        help,
    );
    for (kind, clients) in shared.stats.clients.list() {
        let labels = [
            ("driver", &*kind.driver),
            ("driver_version", &*kind.driver_version),
            ("application", &*kind.application),
            ("application_version", &*kind.application_version),
        ];
        page.sample(name, &labels, clients);
    }
    let prepared = shared.prepared_count();
    page.gauge(
        "helenus_prepared_statements",
        "Prepared statements remembered.",
        prepared,
    );
    let (judged, waiting) = shared.logins.counts();
    page.gauge(
        "helenus_logins_under_way",
        "Logins being judged by nodes.",
        judged,
    );
    page.gauge(
        "helenus_logins_waiting",
        "Logins waiting to be judged.",
        waiting,
    );
    page.gauge(
        "helenus_identities",
        "Different credentials that clients are, or recently were, logged in with.",
        shared.identities.count(),
    );
    memory(page, shared);
    page.gauge(
        "helenus_lwt_waiting",
        "Conditional writes waiting in per-partition queues now.",
        shared.features.lwt_turns.waiting(),
    );
    page.gauge(
        "helenus_snapshot_epoch",
        "Changes of topology or schema since startup.",
        snapshot.epoch(),
    );
    page.gauge(
        "helenus_ready",
        "1 if clients should be sent here, as /ready says, else 0.",
        u8::from(ready::check(shared).is_ok()),
    );
    page.gauge(
        "helenus_draining",
        "1 while the proxy is stopping, else 0.",
        u8::from(shared.draining.load(Ordering::Relaxed)),
    );
    let oldest = shared.turns_of_workers.oldest(Instant::now());
    page.gauge(
        "helenus_worker_turn_age_seconds",
        "Time since the last turn of the worker that has had none for longest; a worker has one every 0.1 s.",
        oldest.map_or(0.0, |of| of.ago.as_secs_f64()),
    );
    page.gauge(
        "helenus_last_reload_successful",
        "1 if the last reload of settings, certificates or secrets was taken, else 0.",
        u8::from(shared.last_reload.succeeded()),
    );
    page.gauge(
        "helenus_last_reload_success_timestamp_seconds",
        "When settings, certificates or secrets were last taken, in seconds since 1970.",
        shared.last_reload.succeeded_unix_s(),
    );
    certificates(page, shared);
    nodes_known(page, &snapshot);
}

fn certificates(page: &mut Page, shared: &Process) {
    let name = "helenus_certificate_expiry_timestamp_seconds";
    let help = "When the first certificate of a chain that the proxy shows expires, in seconds since 1970.";
    page.family(name, "gauge", &["setting"], help);
    for expiry in shared.expiries.load().iter() {
        page.sample(name, &[("setting", expiry.setting)], expiry.at_unix_s);
    }
}

fn nodes_known(page: &mut Page, snapshot: &Snapshot) {
    let name = "helenus_node_info";
    page.family(
        name,
        "gauge",
        &["node", "dc", "rack", "release_version", "locality"],
        "1, labelled with what is known about the node.",
    );
    for node in snapshot.nodes().present() {
        let labels = [
            ("node", node.address().to_string()),
            ("dc", node.dc().to_owned()),
            ("rack", node.rack().to_owned()),
            ("release_version", node.release_version().to_owned()),
            ("locality", locality(snapshot, node.address()).to_owned()),
        ];
        page.sample(name, &labels.each_ref().map(|(k, v)| (*k, v.as_str())), 1);
    }
}

fn memory(page: &mut Page, shared: &Process) {
    page.gauge(
        "helenus_memory_held_bytes",
        "Bytes held for clients: requests, pages, answers they have not read, incomplete messages.",
        shared.memory.held(),
    );
    page.gauge(
        "helenus_memory_max_bytes",
        "Bound on helenus_memory_held_bytes (limits.memory_max).",
        shared.memory_max_of(&shared.settings.load()),
    );
    if let Some(limit) = crate::system::memory::limit() {
        page.gauge(
            "helenus_memory_limit_bytes",
            "Memory that the whole process may take: the machine's, or its control group's limit.",
            limit,
        );
    }
}

/// Remote nodes have no links unless the local data centre is lost.
fn locality(snapshot: &Snapshot, node: SocketAddr) -> &'static str {
    match snapshot.nodes().locality_of(node) {
        Some(Locality::Remote) => "remote",
        Some(Locality::LocalRack | Locality::LocalDc) | None => "local",
    }
}

fn stats(page: &mut Page, stats: &Stats) {
    let values = stats.global.list();
    let mut before = "";
    for shown in GLOBAL {
        if shown.metric != before {
            let names: Vec<&str> = shown.labels.iter().map(|(name, _)| *name).collect();
            page.family(shown.metric, "counter", &names, shown.help);
            before = shown.metric;
        }
        page.sample(shown.metric, shown.labels, value(&values, shown.field));
    }
    page.gauge(
        "helenus_aggregation_window_seconds",
        "How long upstream connections collect queries before sending.",
        stats.window_us.load(Ordering::Relaxed) as f64 / 1e6,
    );
    let name = "helenus_request_duration_seconds";
    let help = "Time from a client's request to its answer, by class.";
    page.family(name, "histogram", &["class"], help);
    for (class, histogram) in Class::ALL.iter().zip(&stats.latency) {
        page.histogram(name, &[("class", class.name())], histogram);
    }
    predictions(page, &stats.predictions);
    // An entry without a name is a node that no worker has used yet.
    let mut nodes = stats.nodes();
    nodes.retain(|n| !n.name.is_empty());
    nodes::render(page, &nodes);
    table_metrics(page, &stats.tables());
    layout_metrics(page, &stats.features.layouts.list());
}

fn predictions(page: &mut Page, predictions: &Predictions) {
    let classes = Class::ALL.map(|class| (class.name(), predictions.of_class(class)));
    let mut all: Vec<(&str, Quality)> = classes.into();
    all.push(("all", predictions.of_all()));
    let name = "helenus_predictions_compared_total";
    let help = "Answers whose predicted work was compared with the time they took: one in 16.";
    page.family(name, "counter", &["class"], help);
    for (class, quality) in &all {
        page.sample(name, &[("class", class)], quality.compared);
    }
    type Figure = fn(&Quality) -> Option<f64>;
    let figures: [(&str, &str, Figure); 2] = [
        (
            "helenus_prediction_bias",
            "Geometric mean of actual / predicted time of the last compared answers.",
            |quality| quality.bias,
        ),
        (
            "helenus_prediction_rank_correlation",
            "Rank correlation (Spearman) of predicted and actual time of the last compared answers.",
            |quality| quality.rank_correlation,
        ),
    ];
    for (name, help, figure) in figures {
        page.family(name, "gauge", &["class"], help);
        for (class, quality) in &all {
            if let Some(value) = figure(quality) {
                page.sample(name, &[("class", class)], value);
            }
        }
    }
}

fn table_metrics(page: &mut Page, tables: &[Arc<TableStats>]) {
    for (name, help, counter) in TABLE_COUNTERS {
        page.family(name, "counter", &["keyspace", "table"], help);
        for table in tables {
            let value = counter(table).load(Ordering::Relaxed);
            page.sample(name, &table_labels(table), value);
        }
    }
    let name = "helenus_table_request_duration_seconds";
    let help = "Time from a client's request for the table to its answer.";
    page.family(name, "histogram", &["keyspace", "table"], help);
    for table in tables {
        page.histogram(name, &table_labels(table), &table.latency);
    }
}

fn layout_metrics(page: &mut Page, layouts: &[Arc<LayoutStats>]) {
    let name = "helenus_reads_of_layout_total";
    page.family(
        name,
        "counter",
        &["keyspace", "table", "layout"],
        "Reads that went to this layout of the table.",
    );
    for layout in layouts {
        let labels = [
            ("keyspace", layout.keyspace.as_str()),
            ("table", &layout.table),
            ("layout", &layout.physical),
        ];
        page.sample(name, &labels, layout.reads.load(Ordering::Relaxed));
    }
}

fn table_labels(table: &TableStats) -> [(&str, &str); 2] {
    [("keyspace", &table.keyspace), ("table", &table.table)]
}
