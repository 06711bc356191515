//! Size and load of a run, and what goes wrong in it.

use std::ops::Range;

use helenus_policy::choice::Policy;

use super::curve::Curve;

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

/// How a node serves requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// So many at a time, first come first served.
    Lanes {
        lanes: u32,
        /// Mean work of a request, in microseconds.
        work_us: u32,
        /// Of the logarithm of the work.
        sigma: f64,
    },
    /// All at once, together as fast as a measured node.
    Shared(Curve),
}

impl Service {
    /// Completed per second, with so many requests under way.
    pub fn rate(&self, requests: f64) -> f64 {
        match self {
            Service::Lanes { lanes, work_us, .. } => {
                requests.min(f64::from(*lanes)) / f64::from(*work_us) * 1e6
            }
            Service::Shared(curve) => curve.rate(requests),
        }
    }

    /// The greatest throughput, in requests per second.
    pub fn peak(&self) -> f64 {
        match self {
            Service::Lanes { .. } => self.rate(f64::INFINITY),
            Service::Shared(curve) => curve.peak(),
        }
    }

    /// Of a request that is alone, on average, in microseconds.
    pub fn alone_us(&self) -> f64 {
        match self {
            Service::Lanes { work_us, .. } => (*work_us).into(),
            Service::Shared(curve) => curve.alone_us(),
        }
    }

    /// Of the logarithm of a request's work.
    pub(super) fn sigma(&self) -> f64 {
        match self {
            Service::Lanes { sigma, .. } => *sigma,
            Service::Shared(curve) => curve.sigma(),
        }
    }
}

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Each of so many clients asks again as soon as it is answered.
    Clients(usize),
    /// So many per second, at random, however many are under way.
    Rate(f64),
    /// As `Rate`: this share of what the nodes carry while nothing goes wrong. Gaps between requests lose their
    /// parts of a microsecond, so 1.5 % more come than 30,000 per second.
    Utilisation(f64),
}

/// Which requests count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those that come in this time, in microseconds. Then no others come, and all are waited for.
    Time(Range<u64>),
    /// So many that end, after a fifth as many have come. Meanwhile others come.
    Requests(usize),
}

#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub policy: Policy,
    pub cell: Cell,
    pub nodes: u16,
    /// None knows what the others do.
    pub proxies: usize,
    pub replicas: u16,
    pub keys: usize,
    /// Exponent of the keys' popularity; 0 for all alike.
    pub zipf: f64,
    /// Share of the requests for one more key, the hot one.
    pub hot_share: f64,
    /// True if proxies spread the reads of hot partitions, as each has found them.
    pub spreads_hot: bool,
    /// Share of requests that go to all replicas.
    pub write_share: f64,
    pub service: Service,
    /// A coordinator that is no owner asks one, and does this share of the request's work itself; `None` if it does
    /// all of it.
    pub forward_share: Option<f64>,
    /// From a proxy to a node, or between nodes, in microseconds.
    pub hop_us: u64,
    pub timeout_us: u64,
    /// Nodes say so often how busy they are, or never.
    pub report_every_us: Option<u64>,
    pub demand: Demand,
    pub extent: Extent,
}

impl Setup {
    /// Node requests per request.
    pub fn copies(&self) -> f64 {
        let replicas = f64::from(self.replicas);
        1.0 + self.write_share * (replicas - 1.0)
    }

    /// The nodes' greatest throughput, if all were used alike.
    pub fn bound(&self) -> f64 {
        f64::from(self.nodes) * self.service.peak() / self.copies()
    }

    /// The work of a request, as proxies take it to be.
    pub(super) fn work_us(&self) -> u32 {
        self.service.alone_us() as u32
    }

    /// A window in which a node at its peak gets about four requests.
    pub(super) fn window_us(&self) -> u64 {
        ((4e6 / self.service.peak()) as u64).max(1)
    }

    /// Requests that come before those that count.
    pub(super) fn warmup(&self) -> usize {
        let clients = match self.demand {
            Demand::Clients(clients) => clients,
            Demand::Rate(_) | Demand::Utilisation(_) => 0,
        };
        match self.extent {
            Extent::Time(_) => 0,
            // Until all clients have asked twice, they are in step.
            Extent::Requests(requests) => (requests / 5).max(2 * clients),
        }
    }

    /// Nothing comes from then on.
    pub(super) fn end_us(&self) -> u64 {
        match &self.extent {
            Extent::Time(time) => time.end,
            Extent::Requests(_) => u64::MAX,
        }
    }

    /// When one node freezes, if one does: an eighth into the time that counts.
    pub(super) fn freeze_us(&self) -> Option<u64> {
        match &self.extent {
            Extent::Time(time) if self.cell == Cell::Frozen => {
                Some(time.start + (time.end - time.start) / 8)
            }
            _ => None,
        }
    }
}
