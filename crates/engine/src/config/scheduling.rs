//! The section `scheduling`.

use helenus_policy::schedule::Variant;
use serde::{Deserialize, Serialize};

/// Which of the queries that want a node goes first, and how many it gets at a time. Quick queries are points, writes
/// and others that are no scans.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scheduling {
    /// Whether requests wait in the proxy and scans are split. If not, nodes get everything at once.
    pub enabled: bool,
    /// `default`; or, for comparison, an order of Fukuda et al.: `O`, `ReS`, `P`, `ReS+P`, `P+RaS`, `A`.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub variant: String,
    /// Least and most queries other than scans in flight on a node while there are scans, over all workers; 1 to
    /// 1,000. The number in force follows the latency.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub window_min: u32,
    /// See `window_min`. More than 128 would wait in the node's own queues.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub window_max: u32,
    /// Sub-pages in flight beside quick queries, on a node that can do no more than `scan_slots_idle` at a time; 1 to
    /// 64. Half of its processors count if that is more, here and for `scan_slots_idle`.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub scan_slots: u32,
    /// Least sub-pages in flight on a node that has nothing else to do; `scan_slots` to 64. More and fewer are
    /// [tried](scheduling.md) while scans wait.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub scan_slots_idle: u32,
    /// Most sub-pages in flight on a node; `scan_slots_idle` to 64. All three alike: a fixed number.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub scan_slots_max: u32,
    /// Whether scans tell the nodes' [agents](agent.md#priorities-from-clients) their priority.
    pub agent_priority: bool,
    /// Most rows of a sub-page of a scan, in KiB; 1 to 65,536. Twice as much without quick queries. 0: scans are not
    /// split.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub piece_kib: usize,
    /// Target time of a sub-page at its node; 1 to 1,000. Longer without quick queries, and for at least 500 rows, if
    /// `piece_kib` allows. 0: only `piece_kib` counts.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub piece_ms: u32,
    /// Pages of at least this many rows are read as parallel ranges of the ring; 8 to 100,000. 0: never, which
    /// includes aggregates.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub parallel_rows: usize,
    /// Scans under way in this proxy, running or waiting; beyond them clients get OVERLOADED. 0: any number.
    pub scans_max: usize,
    /// As `scans_max`, for the scans of one keyspace.
    pub scans_per_keyspace_max: usize,
    /// Longest wait of a read of known partitions for its node; 10 to 600,000. After half of it the read goes first;
    /// one that would wait longer gets OVERLOADED.
    pub point_wait_max_ms: u64,
    /// As `point_wait_max_ms`, for writes.
    pub write_wait_max_ms: u64,
    /// As `point_wait_max_ms`, for each sub-page of a scan.
    pub scan_wait_max_ms: u64,
    /// As `point_wait_max_ms`, for everything else.
    pub other_wait_max_ms: u64,
    /// How long requests other than scans wait under sustained overload before they get OVERLOADED; 100 to 600,000,
    /// or 0: as long as anywhere. A little less than clients wait, two seconds in many drivers.
    pub standing_wait_max_ms: u64,
    /// As `standing_wait_max_ms`, for each sub-page, and for scans that cannot be split.
    pub standing_scan_wait_max_ms: u64,
}

impl Scheduling {
    /// True if scans come in pieces.
    pub fn in_pieces(&self) -> bool {
        self.enabled && !self.order().is_preset() && self.piece_kib > 0
    }

    /// About how much work a piece is, in microseconds; 0: any.
    pub fn piece_us(&self) -> u32 {
        self.piece_ms.saturating_mul(1_000)
    }

    /// True if large pages come in parts.
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
