//! Counters of one proxy: written by workers without locks, read by the admin server.

mod predictions;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use helenus_policy::predict::SlowestPace;
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{PACKED_BUCKETS, Packed, code, strip_prelude};
use rustc_hash::FxBuildHasher;

use crate::features::InStats;
use crate::session::names::ClientKinds;
use crate::support::rate_limited_warning::Repeated;

pub use predictions::{COMPARED, Predictions, Quality};

/// Buckets of a latency histogram: eight a power of two from 1 µs to about 134 s.
pub const BUCKETS: usize = 27 * 8;

/// A latency histogram in microseconds with about 12 % resolution.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum_us: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub fn record(&self, us: u64) {
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub fn counts(&self) -> Vec<u64> {
        self.buckets
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .collect()
    }

    /// Adds how often each bucket was counted.
    pub fn add_counts(&self, to: &mut [u64]) {
        for (to, count) in to.iter_mut().zip(&self.buckets) {
            *to += count.load(Ordering::Relaxed);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.counts().iter().all(|count| *count == 0)
    }

    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }
}

fn bucket(us: u64) -> usize {
    if us < 8 {
        return us as usize;
    }
    let power = 63 - us.leading_zeros() as usize;
    let eighth = (us >> (power - 3)) as usize & 7;
    ((power - 2) * 8 + eighth).min(BUCKETS - 1)
}

/// Upper bound of a bucket (exclusive), in microseconds.
pub fn bucket_bound_us(index: usize) -> u64 {
    if index < 8 {
        return index as u64 + 1;
    }
    let power = index / 8 + 2;
    (8 + index as u64 % 8 + 1) << (power - 3)
}

macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub struct $name { $($(#[$doc])* pub $field: AtomicU64,)* }
        impl $name {
            /// Name and value of every counter.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Counters of the whole proxy.
    Global {
        clients_accepted,
        /// Taken over from the process before this one.
        clients_adopted,
        clients_refused,
        clients_protocol_errors,
        client_bytes_in,
        client_bytes_out,
        client_reads,
        client_writes,
        requests_query,
        requests_prepare,
        requests_execute,
        requests_batch,
        requests_system,
        requests_opaque,
        requests_token_aware,
        requests_overloaded,
        requests_refused_by_rules,
        requests_timed_out,
        requests_cancelled,
        requests_retried,
        /// Waited because coordinators missed replicas while the ring was changing.
        requests_paused,
        requests_rescued,
        reads_hedged,
        hedges_won,
        /// Answered with an error of the proxy's own; those that it has taken in, and those that it has not.
        requests_failed,
        requests_refused,
        reprepares,
        prepares_ahead,
        prepared_recalled,
        auth_accepted,
        auth_refused,
        auth_unjudged,
        auth_overloaded,
        schema_agreements,
        control_reconnects,
        reads_shared,
        reads_parked,
        /// Writes that shared a batch, batches of several, and batches that parted after an error.
        writes_merged,
        write_batches,
        write_batches_parted,
        lwt_waited,
        lwt_graces,
        lwt_gave_up,
        lwt_stood_aside,
        scans_in_pieces,
        scan_pieces,
        scans_in_parts,
        scans_in_stretches,
        scans_not_in_parts,
        scan_parts_wasted,
        scan_parts_retried,
        /// Waited for a node that was slow, and went to another one.
        scans_moved,
        reads_by_owner,
        layout_reads,
        layout_reads_sorted,
        layout_reads_of_table,
        layout_reads_fallen_back,
        layout_writes,
        layout_writes_refused,
        layout_writes_fenced,
        /// Writes of which nobody knows whether the table has them, and of derived layouts that no node has taken.
        layout_writes_doubted,
        layout_writes_missed,
        worker_sleeps,
        /// Requests whose traces a collector has taken, and those that none has got.
        traces_exported,
        traces_dropped,
    }
}

counters! {
    /// Counters of one node.
    NodeCounters {
        requests,
        read_requests,
        ejections,
        errors,
        timeouts,
        bytes_in,
        bytes_out,
        reads,
        writes,
        frames_out,
        links_opened,
        links_failed,
        queued_total,
    }
}

/// How many queries travelled together.
#[derive(Debug, Default)]
pub struct PackedStats {
    pub units: [AtomicU64; PACKED_BUCKETS],
    pub queries: AtomicU64,
}

impl PackedStats {
    pub(crate) fn add(&self, packed: &mut Packed) {
        let queries = packed.drain(|bucket, units| add(&self.units[bucket], units.into()));
        if queries > 0 {
            add(&self.queries, queries);
        }
    }
}

/// One node's counters and gauges.
#[derive(Debug, Default)]
pub struct NodeStats {
    pub name: String,
    pub counters: NodeCounters,
    pub links_up: AtomicU64,
    pub in_flight: AtomicU64,
    /// Waiting, by class.
    pub queued: [AtomicU64; Class::COUNT],
    /// Time that requests waited for the node, by class, of those that did.
    pub waits: [Histogram; Class::COUNT],
    pub schedule: [ScheduleCounters; Class::COUNT],
    /// When a request of a millisecond of work would be finished, as the worker that told last predicts.
    pub score_us: AtomicU64,
    /// Of what that is made, by the same worker: how much longer answers take than predicted, the share
    /// of requests that fail, both in thousandths, and the predicted work outstanding.
    pub slowdown_milli: AtomicU64,
    pub failures_milli: AtomicU64,
    pub outstanding_us: AtomicU64,
    /// Workers that have ejected it.
    pub ejected: AtomicU64,
    /// Why the last of them has: the share of requests that failed, or how much longer answers took than is typical,
    /// in thousandths; 0 for what was not the reason.
    pub ejected_failures_milli: AtomicU64,
    pub ejected_slower_milli: AtomicU64,
    /// Requests in flight from one worker that the schedule allows now.
    pub window: AtomicU64,
    /// Scan slots in use, over all workers.
    pub scan_slots_taken: AtomicU64,
    pub scan_slots: AtomicU64,
    /// Frames (or writes and reads, without frames) by the queries they carried.
    pub packed_out: PackedStats,
    pub packed_in: PackedStats,
    pub latency: Histogram,
    /// Links that could not be replaced.
    pub(crate) failed_renewals: Repeated,
    /// Roles that can have no link for a while, though the node can be reached.
    pub(crate) unjudged_roles: Repeated,
}

/// Counters of one node's schedule for one class.
#[derive(Debug, Default)]
pub struct ScheduleCounters {
    pub dispatched: AtomicU64,
    pub aged: AtomicU64,
    pub refused: AtomicU64,
    pub expired: AtomicU64,
    pub shed: AtomicU64,
}

/// One table's counters.
#[derive(Debug, Default)]
pub struct TableStats {
    /// A number for the keyspace.
    pub tenant: u32,
    /// Of all tables that there are counters for.
    pub number: u32,
    pub keyspace: String,
    pub table: String,
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub errors: AtomicU64,
    pub latency: Histogram,
    /// The time that the slowest of its filtering scans take over the ring.
    pace: Mutex<SlowestPace>,
}

impl TableStats {
    /// Notes that a filtering scan took so long over so many tokens of the ring.
    pub(crate) fn note_pace(&self, tokens: u64, us: u32) {
        if let Ok(mut pace) = self.pace.lock() {
            pace.note(tokens, us);
        }
    }

    pub(crate) fn pace(&self) -> SlowestPace {
        match self.pace.lock() {
            Ok(pace) => *pace,
            Err(poisoned) => *poisoned.into_inner(),
        }
    }
}

/// Errors that clients were answered with, by code.
#[derive(Debug, Default)]
pub struct ErrorCounts {
    known: [AtomicU64; code::ALL.len()],
    /// Codes that the protocol does not know.
    others: AtomicU64,
}

impl ErrorCounts {
    /// Counts an error by its body.
    #[cold]
    pub(crate) fn note(&self, header_flags: u8, body: &[u8]) {
        let content = strip_prelude(header_flags, body).map_or(&[][..], |(_, content)| content);
        let error = content.first_chunk().copied().map(i32::from_be_bytes);
        let known = code::ALL.iter().position(|code| Some(*code) == error);
        add(known.map_or(&self.others, |at| &self.known[at]), 1);
    }

    /// Each code that has been counted, and how often; −1 for those that the protocol does not know.
    pub fn list(&self) -> Vec<(i32, u64)> {
        let counters = self.known.iter().chain([&self.others]);
        let codes = code::ALL.into_iter().chain([-1]);
        let counts = counters.map(|counter| counter.load(Ordering::Relaxed));
        codes.zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Stats {
    pub global: Global,
    pub errors: ErrorCounts,
    /// By class, as clients saw it.
    pub latency: [Histogram; Class::COUNT],
    pub clients: ClientKinds,
    pub predictions: Predictions,
    /// The waiting window in force, in microseconds, of the worker that told last.
    pub window_us: AtomicU64,
    nodes: RwLock<Vec<Arc<NodeStats>>>,
    tables: RwLock<Vec<Arc<TableStats>>>,
    /// Counters of features, by name.
    pub features: InStats,
}

impl Stats {
    /// The node's counters, made on first use. Workers keep the `Arc`.
    pub fn node(&self, index: NodeIndex, name: impl FnOnce() -> String) -> Arc<NodeStats> {
        let mut nodes = match self.nodes.write() {
            Ok(nodes) => nodes,
            Err(poisoned) => poisoned.into_inner(),
        };
        while nodes.len() <= index.0 as usize {
            nodes.push(Arc::default());
        }
        let slot = &mut nodes[index.0 as usize];
        if slot.name.is_empty() {
            *slot = Arc::new(NodeStats {
                name: name(),
                ..NodeStats::default()
            });
        }
        slot.clone()
    }

    pub fn nodes(&self) -> Vec<Arc<NodeStats>> {
        self.nodes.read().map(|n| n.clone()).unwrap_or_default()
    }

    /// A table's counters; past `max` tables all further ones share `other`.
    pub fn table(&self, keyspace: &str, table: &str, max: usize) -> Arc<TableStats> {
        let mut tables = match self.tables.write() {
            Ok(tables) => tables,
            Err(poisoned) => poisoned.into_inner(),
        };
        let find = |tables: &[Arc<TableStats>], ks: &str, t: &str| {
            tables
                .iter()
                .find(|s| s.keyspace == ks && s.table == t)
                .cloned()
        };
        if let Some(found) = find(&tables, keyspace, table) {
            return found;
        }
        let (keyspace, table) = if tables.len() >= max {
            ("other", "other")
        } else {
            (keyspace, table)
        };
        if let Some(found) = find(&tables, keyspace, table) {
            return found;
        }
        let made = Arc::new(TableStats {
            tenant: FxBuildHasher.hash_one(keyspace) as u32,
            number: tables.len() as u32,
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            ..TableStats::default()
        });
        tables.push(made.clone());
        made
    }

    pub fn tables(&self) -> Vec<Arc<TableStats>> {
        self.tables.read().map(|t| t.clone()).unwrap_or_default()
    }
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Subtracts from a gauge.
pub(crate) fn sub(gauge: &AtomicU64, n: u64) {
    gauge.fetch_sub(n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_below_its_buckets_bound_and_above_the_one_before() {
        for us in (0..100_000).chain([1 << 20, (1 << 25) + 12345]) {
            let b = bucket(us);
            assert!(us < bucket_bound_us(b), "{us} in {b}");
            assert!(b == 0 || us >= bucket_bound_us(b - 1), "{us} in {b}");
        }
    }

    #[test]
    fn errors_are_counted_by_code_and_strange_ones_together() {
        let errors = ErrorCounts::default();
        for error in [code::OVERLOADED, 7, code::OVERLOADED, -3] {
            errors.note(0, &error.to_be_bytes());
        }
        errors.note(0, &[]);
        // Behind a warning.
        let warned = [&[0, 1, 0, 1, b'x'][..], &code::INVALID.to_be_bytes()].concat();
        errors.note(helenus_wire::flags::WARNING, &warned);
        assert_eq!(
            errors.list(),
            [(code::OVERLOADED, 2), (code::INVALID, 1), (-1, 3)]
        );
    }

    #[test]
    fn a_keyspace_is_one_tenant_and_further_tables_share_their_counters() {
        let stats = Stats::default();
        let tenant = |keyspace, table| stats.table(keyspace, table, 3).tenant;
        let one = tenant("one", "a");
        assert_eq!(tenant("one", "b"), one);
        assert_ne!(tenant("two", "a"), one);
        let further = stats.table("three", "a", 3);
        assert_eq!(further.keyspace, "other");
        assert!(Arc::ptr_eq(&further, &stats.table("four", "a", 3)));
        assert_eq!(stats.table("two", "a", 3).keyspace, "two");
    }
}
