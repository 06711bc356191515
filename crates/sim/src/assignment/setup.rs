//! The experiment: how large it is, and what goes wrong in it.

/// The fault in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Nothing.
    Idle,
    /// Every second node is five times slower.
    HalfSlow,
    /// One node does nothing for five seconds.
    Frozen,
    /// As `HalfSlow`, and nodes' reports come two seconds late.
    ReportsDelayed,
    /// As `HalfSlow`, and nine in ten reports are lost.
    ReportsLost,
    /// As `HalfSlow`, and one slow node in five says that it is idle.
    ReportsFalse,
    /// One key gets [`Setup::hot_share`] of all requests.
    HotKey,
}

impl Cell {
    pub const ALL: [Cell; 7] = [
        Cell::Idle,
        Cell::HalfSlow,
        Cell::Frozen,
        Cell::ReportsDelayed,
        Cell::ReportsLost,
        Cell::ReportsFalse,
        Cell::HotKey,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Cell::Idle => "idle",
            Cell::HalfSlow => "half of the nodes 5 times slower",
            Cell::Frozen => "one node frozen for 5 s",
            Cell::ReportsDelayed => "half slow, reports delayed by 2 s",
            Cell::ReportsLost => "half slow, 90 % of the reports lost",
            Cell::ReportsFalse => "half slow, a tenth of the nodes reports nothing in use",
            Cell::HotKey => "one key gets a tenth of the requests",
        }
    }

    /// True if every second node is slow.
    pub(super) fn has_slow_nodes(self) -> bool {
        !matches!(self, Cell::Idle | Cell::Frozen | Cell::HotKey)
    }
}

/// A run's size and load.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub cell: Cell,
    pub seed: u64,
    pub proxies: usize,
    pub nodes: u16,
    pub replicas: u16,
    pub keys: usize,
    pub zipf: f64,
    /// Requests that a node serves at a time.
    pub lanes: usize,
    /// Mean work of a request, in microseconds.
    pub work_us: u32,
    /// Of the logarithm of the work.
    pub sigma: f64,
    /// Share of all nodes' time that is used while nothing goes wrong.
    pub utilisation: f64,
    /// Share of the requests for the hot key, if there is one.
    pub hot_share: f64,
    /// True if proxies spread the reads of hot partitions, as each has found them.
    pub spreads_hot: bool,
    /// The work of a coordinator that is no owner, as a share of the request's.
    pub forward_share: f64,
    /// From a proxy to a node, or between nodes, in microseconds.
    pub hop_us: u64,
    pub timeout_us: u64,
    pub report_every_us: u64,
    /// Not counted.
    pub warmup_us: u64,
    pub length_us: u64,
}

impl Setup {
    /// Ten proxies that know nothing of each other, a hundred nodes.
    pub fn new(cell: Cell, seed: u64) -> Setup {
        Setup {
            cell,
            seed,
            proxies: 10,
            nodes: 100,
            replicas: 3,
            keys: 1_000_000,
            zipf: 0.99,
            lanes: 4,
            work_us: 2_000,
            sigma: 0.5,
            utilisation: 0.15,
            hot_share: if cell == Cell::HotKey { 0.1 } else { 0.0 },
            spreads_hot: true,
            forward_share: 0.25,
            hop_us: 100,
            timeout_us: 2_000_000,
            report_every_us: 250_000,
            warmup_us: 1_000_000,
            length_us: 8_000_000,
        }
    }

    /// Requests per second over all proxies.
    pub fn rate(&self) -> f64 {
        let lanes = f64::from(self.nodes) * self.lanes as f64;
        self.utilisation * lanes / f64::from(self.work_us) * 1e6
    }
}
