//! The section `scheduling`.

use helenus_policy::schedule::Variant;
use serde::{Deserialize, Serialize};

/// Which of the queries that want a node goes first, and how many it gets at a time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scheduling {
    /// Whether requests wait in the proxy and scans come in pieces. If not, nodes get everything at once,
    /// up to `links.in_flight_max`.
    pub enabled: bool,
    /// `default`; or one of the orders of Fukuda et al. for comparison, in which scans come whole: `O`
    /// (arrival), `ReS` (points first), and with pages in parts `P` (arrival), `ReS+P` (points first),
    /// `P+RaS` (of scans those that need fewest nodes first), `A` (all).
    pub variant: String,
    /// Least and most queries other than scans in flight on a node while there are scans, over all
    /// workers; the number in force follows the latency. 1 to 1,000. Without scans only
    /// `links.in_flight_max` applies.
    pub window_min: u32,
    /// See `window_min`. More than 128 would wait in the node's own queues, where nothing can
    /// overtake them.
    pub window_max: u32,
    /// Pieces of scans in flight beside points, writes and other quick queries, on a node that can do no
    /// more than `scan_slots_idle` at a time; 1 to 64. Half of the node's processors count instead if
    /// that is more (and no more than `scan_slots_max`), here and for `scan_slots_idle`.
    pub scan_slots: u32,
    /// Least pieces of scans in flight on a node that has nothing else to do; `scan_slots` to 64. While
    /// scans wait, Helenus tries more and fewer, and keeps, also beside other queries, what gets more
    /// of them through without making the others slower.
    pub scan_slots_idle: u32,
    /// Most pieces of scans in flight on a node; `scan_slots_idle` to 64. All three alike: a fixed
    /// number.
    pub scan_slots_max: u32,
    /// Whether scans tell the nodes' agents their priority, by what is left of them, in a custom
    /// payload: of use where several proxies or direct clients scan at the same time. Nodes without
    /// the agent ignore it.
    pub agent_priority: bool,
    /// Most rows of a scan's piece, in KiB; 1 to 65,536. Twice as much while there are no points, writes or
    /// other quick queries. 0: scans come whole.
    pub piece_kib: usize,
    /// About how long a scan's piece takes its node, in milliseconds; 1 to 1,000. Twice as much while
    /// there are no points, writes or other quick queries, and as much as it takes for a scan alone.
    /// Pieces have 500 rows at least, if `piece_kib` allows, and more where less than nine tenths of
    /// their work would be rows. 0: only `piece_kib` counts.
    pub piece_ms: u32,
    /// Pages of at least this many rows are read in parts, several at once, each from an owner of its
    /// stretch of the ring, unless one partition makes up a good part of a page; 8 to 100,000. 0: never,
    /// which includes aggregates.
    pub parallel_rows: usize,
    /// Scans under way at a time in this proxy, running or waiting; beyond them clients get OVERLOADED.
    /// 0: any number.
    pub scans_max: usize,
    /// As `scans_max`, for the scans of one keyspace.
    pub scans_per_keyspace_max: usize,
    /// Longest wait of a read of known partitions for its node, in milliseconds; 10 to 600,000. A read
    /// that has waited for half of it goes before all else; one that would wait longer is answered with
    /// OVERLOADED.
    pub point_wait_max_ms: u64,
    /// As `point_wait_max_ms`, for writes.
    pub write_wait_max_ms: u64,
    /// As `point_wait_max_ms`, for each piece of a scan.
    pub scan_wait_max_ms: u64,
    /// As `point_wait_max_ms`, for what is neither such a read nor a write nor a scan.
    pub other_wait_max_ms: u64,
    /// How long a request other than a scan waits for its node, in milliseconds, where more comes than the
    /// node serves; 100 to 600,000, or 0: as long as anywhere. Then it is answered with OVERLOADED. A
    /// little less than how long clients wait, which is two seconds in many drivers. A burst that the
    /// node works off faster than new requests come, by an eighth at least, is not shed; clients that ask
    /// again when they are answered are, if so many wait, also where they would have waited longer.
    pub standing_wait_max_ms: u64,
    /// As `standing_wait_max_ms`, for each piece of a scan, and for whole scans that cannot be cut, which
    /// `scan_wait_max_ms` would let wait longer. Who scans is taken to wait for a page for longer than
    /// others, as `limits.page_timeout_ms` says; if your drivers do not, set both to less.
    pub standing_scan_wait_max_ms: u64,
}

impl Scheduling {
    /// Whether scans come in pieces.
    pub fn in_pieces(&self) -> bool {
        self.enabled && !self.order().is_preset() && self.piece_kib > 0
    }

    /// About how much work a piece is, in microseconds; 0: any.
    pub fn piece_us(&self) -> u32 {
        self.piece_ms.saturating_mul(1_000)
    }

    /// Whether large pages come in parts.
    pub fn in_parts(&self) -> bool {
        let may = self.in_pieces() || (self.enabled && self.order().parallel());
        may && self.parallel_rows > 0
    }

    /// Who goes first.
    pub fn order(&self) -> Variant {
        self.variant.parse().unwrap_or_default()
    }
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling {
            enabled: true,
            variant: Variant::Default.to_string(),
            window_min: 8,
            window_max: 64,
            scan_slots: 1,
            scan_slots_idle: 2,
            scan_slots_max: 32,
            agent_priority: false,
            piece_kib: 8_192,
            piece_ms: 10,
            parallel_rows: 1_000,
            scans_max: 0,
            scans_per_keyspace_max: 0,
            point_wait_max_ms: 5_000,
            write_wait_max_ms: 5_000,
            scan_wait_max_ms: 60_000,
            other_wait_max_ms: 10_000,
            standing_wait_max_ms: 1_500,
            standing_scan_wait_max_ms: 30_000,
        }
    }
}
