//! What is done in the cells of the experiment, and the extra figures of a phase.

use super::experiment::CAS_CLIENTS;
use super::{Aggregation, Part, TOKEN_AWARE};
use crate::experiments::arms::describe;
use crate::measure::Phase;
use crate::report::Report;
use crate::report::chart::median;
use crate::report::figures::PER_SECOND;
use crate::scrape::Metrics;
use crate::workload::cas::{Balance, Learns};
use crate::workload::kv::Mix;
use crate::workload::ycsb::Core;
use anyhow::{Result, ensure};

/// The offered rate of the tail-latency cells, as a share of the saturation throughput of
/// token-aware.
const RATE_SHARE: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Insert,
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    KeyValue(Kind),
    Ycsb(Core),
    /// An open loop; see [`RATE_SHARE`].
    SameRate(Kind),
    /// Plain connections, one request at a time on each.
    ManyClients(Kind),
    /// Reads with Zipf-distributed keys.
    HotZipf,
    /// Reads, half of them of a single key.
    HotViral,
    Cas(Learns),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub what: What,
    pub clients: usize,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Read => "read",
        }
    }

    pub(super) fn mix(self) -> Mix {
        match self {
            Self::Insert => Mix::WRITES,
            Self::Read => Mix::READS,
        }
    }
}

/// The choices of [`Aggregation::only`].
pub const CELL_KINDS: [&str; 7] = [
    "cas",
    "insert",
    "read",
    "ycsb",
    "same-rate",
    "many-clients",
    "hot",
];

pub(super) const BOTH: [Kind; 2] = [Kind::Insert, Kind::Read];

impl What {
    /// One of [`CELL_KINDS`].
    fn kind(self) -> &'static str {
        match self {
            Self::KeyValue(kind) => kind.name(),
            Self::Ycsb(_) => "ycsb",
            Self::SameRate(_) => "same-rate",
            Self::ManyClients(_) => "many-clients",
            Self::HotZipf | Self::HotViral => "hot",
            Self::Cas(_) => "cas",
        }
    }

    /// True if an arm of this part is measured.
    pub(super) fn has(self, part: Part) -> bool {
        match self {
            Self::KeyValue(_) => !matches!(part, Part::HotKey | Part::Cas),
            Self::Ycsb(_) | Self::SameRate(_) => matches!(part, Part::All | Part::Throughput),
            Self::ManyClients(_) => part == Part::All,
            Self::HotZipf | Self::HotViral => matches!(part, Part::All | Part::HotKey),
            Self::Cas(_) => matches!(part, Part::All | Part::Cas),
        }
    }
}

impl Job {
    pub(super) fn name(&self) -> String {
        let clients = self.clients;
        match self.what {
            What::KeyValue(kind) => format!("{}, {clients} clients", kind.name()),
            What::Ycsb(core) => format!("YCSB {core:?}, {clients} clients"),
            What::SameRate(kind) => {
                let percent = RATE_SHARE * 100.0;
                format!("{}, {percent} % of saturation", kind.name())
            }
            What::ManyClients(kind) => format!("{}, {clients} plain connections", kind.name()),
            What::HotZipf => format!("zipfian reads, {clients} clients"),
            What::HotViral => format!("viral reads, {clients} clients"),
            What::Cas(Learns::FromAttempts) => format!("compare-and-set, {clients} clients"),
            What::Cas(Learns::ByReading) => format!("read, compare-and-set, {clients} clients"),
        }
    }

    /// Enough clients to keep some node or the proxy busy all the time.
    pub(super) fn is_saturating(&self) -> bool {
        matches!(self.what, What::KeyValue(_) | What::Ycsb(_)) && self.clients >= 64
    }
}

impl Aggregation {
    /// A cell whose load depends on other cells comes after them.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let job = |what, clients| Job { what, clients };
        // First, because it must not be missing when time runs out.
        let of_cas = |learns| job(What::Cas(learns), CAS_CLIENTS);
        let mut jobs = [Learns::FromAttempts, Learns::ByReading]
            .map(of_cas)
            .to_vec();
        for kind in BOTH {
            let of = |&clients: &usize| job(What::KeyValue(kind), clients);
            jobs.extend(self.clients.iter().map(of));
        }
        for core in [Core::A, Core::B, Core::C] {
            jobs.push(job(What::Ycsb(core), self.clients_usual));
        }
        let of_both = |what: fn(Kind) -> What, clients| BOTH.map(|kind| job(what(kind), clients));
        jobs.extend(of_both(What::SameRate, self.clients_usual));
        jobs.extend(of_both(What::ManyClients, self.many_clients));
        jobs.push(job(What::HotZipf, self.clients_usual));
        jobs.push(job(What::HotViral, self.clients_usual));
        jobs.retain(|job| self.is_chosen(job.what.kind()));
        jobs
    }

    fn is_chosen(&self, kind: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|chosen| chosen == kind)
    }

    pub(super) fn check_cells(&self) -> Result<()> {
        ensure!(
            !self.is_chosen("same-rate") || BOTH.iter().all(|kind| self.is_chosen(kind.name())),
            "the rates of `same-rate` are shares of what `insert` and `read` reach: choose them, too"
        );
        Ok(())
    }

    /// [`RATE_SHARE`] of the best throughput of this kind that the token-aware client reached so
    /// far.
    pub(super) fn same_rate(&self, report: &Report, kind: Kind) -> f64 {
        let of = |&clients: &usize| {
            let what = What::KeyValue(kind);
            let cell = Job { what, clients }.name();
            median(report.phases(TOKEN_AWARE, &cell), PER_SECOND)
        };
        let best = self.clients.iter().filter_map(of).fold(0.0, f64::max);
        (best * RATE_SHARE).max(1.0)
    }

    pub(super) fn describe(&self, report: &mut Report) {
        let settings = [
            ("rows", self.table.keys.to_string()),
            ("bytes of an item", (8 + self.table.value_bytes).to_string()),
            ("YCSB records", self.users.records.to_string()),
            (
                "replication factor of compare-and-set",
                self.counters.replication.to_string(),
            ),
            (
                "seconds per cell, at most",
                self.cell_time.as_secs_f64().to_string(),
            ),
            (
                "seconds of warm-up per cell",
                self.cell_warmup.as_secs_f64().to_string(),
            ),
            (
                "seconds of warm-up before the first round",
                self.warmup.as_secs_f64().to_string(),
            ),
        ];
        let (endpoint, replication) = (&self.arms[0].arm.endpoint, self.table.replication);
        describe(report, endpoint, replication, self.seed, settings);
        report.notes.extend(
            [
                "Ratios of throughput at saturation are geometric means over the cells of at least \
                 64 clients; worst_cell_vs_token_aware is the least of those cells, YCSB included, \
                 by its median over rounds.",
                "Plain connections of direct arms are distributed round-robin over the nodes.",
                "System calls are those with which the proxy reads and writes sockets.",
            ]
            .map(str::to_owned),
        );
    }
}

/// Adds what a proxy counted during the phase. Metrics that it does not have are left out.
pub(super) fn add_metrics(phase: &mut Phase, added: &Metrics) {
    let extra = &mut phase.extra;
    let calls = [
        "helenus_client_socket_reads_total",
        "helenus_client_socket_writes_total",
        "helenus_node_socket_reads_total",
        "helenus_node_socket_writes_total",
    ]
    .map(|name| added.sum(name));
    let queries = added
        .sum("helenus_requests_total")
        .filter(|&count| count > 0.0);
    if let (Some(queries), Some(calls)) = (queries, calls.into_iter().sum::<Option<f64>>()) {
        extra.insert("syscalls_per_query".into(), calls / queries);
    }
    if let (Some(sent), Some(frames)) = (
        added.sum("helenus_node_requests_total"),
        added
            .sum("helenus_node_sent_frames_total")
            .filter(|&count| count > 0.0),
    ) {
        extra.insert("queries_per_frame".into(), sent / frames);
    }
    let buckets = added.buckets("per_frame");
    let frames: f64 = buckets.iter().map(|(_, count)| count).sum();
    for (bound, count) in buckets.iter().filter(|_| frames > 0.0) {
        let bound = match bound.is_finite() {
            true => format!("{bound:05}"),
            false => "more".into(),
        };
        let name = format!("{SHARE_OF_FRAMES}{bound}");
        extra.insert(name, count / frames);
    }
}

/// Prefix of the histogram of queries per frame: the share of frames in each bucket, by upper
/// bound.
pub(super) const SHARE_OF_FRAMES: &str = "share_of_frames_up_to_";

pub(super) fn add_balance(phase: &mut Phase, balance: Balance) {
    let applied = phase
        .by_kind
        .get(crate::workload::cas::KINDS[0])
        .map_or(0, |kind| kind.ops);
    let figures = [
        (
            "cas_successes_per_second",
            applied as f64 / phase.seconds.max(1e-9),
        ),
        ("cas_successes_in_all", balance.applied as f64),
        ("cas_unknown", balance.unknown as f64),
        ("cas_final_value", balance.value as f64),
        ("cas_lost", balance.lost() as f64),
        ("cas_surplus", balance.surplus() as f64),
    ];
    let named = figures.map(|(name, value)| (name.to_owned(), value));
    phase.extra.extend(named);
}
