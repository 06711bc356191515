//! What a run has shown.

use helenus_engine::stats::Quality;

use crate::times::Times;

/// The queries that count, and what they have cost.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Queries that failed are among them, with the client's time-out.
    pub points: Times,
    pub scans: Times,
    /// Of scans that read a whole table for rows that it has not.
    pub filters: Times,
    pub writes: Times,
    pub points_failed: u32,
    pub scans_failed: u32,
    pub writes_failed: u32,
    /// Until the last query ended.
    pub length_us: u64,
    /// Processor time per query, in microseconds: of all nodes, all proxies and the clients.
    pub nodes_us_per_query: f64,
    pub proxies_us_per_query: f64,
    pub clients_us_per_query: f64,
    /// Most reads that waited inside a node at a time.
    pub node_queue_most: usize,
    /// How near the first proxy's predictions of work came, over all classes.
    pub predicted: Option<Quality>,
}
