//! An experiment: the cluster, what the clients ask, and the arms that are compared.

use std::net::SocketAddr;

use helenus_engine::config::Config;
use helenus_policy::schedule::Variant;

use super::calibration::Calibration;

/// All that is the same for every arm.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    pub nodes: u32,
    /// Stretches of the ring that each node has.
    pub vnodes: u32,
    /// Cores of each machine.
    pub cores: u32,
    /// True if nodes, proxies and clients are all on one machine; if not, each has its own, and the
    /// clients' is never busy.
    pub one_machine: bool,
    /// Threads of a node's READ stage (`concurrent_reads`).
    pub read_threads: u32,
    /// Requests of clients that a node works on at a time (`native_transport_max_threads`).
    pub request_threads: u32,
    /// True if the rows are in files. A coordinator guesses from its own how many rows are elsewhere, and
    /// so how many nodes to ask at once; of rows that are in memory only it knows nothing.
    pub flushed: bool,
    pub proxies: u32,
    pub workers: u32,
    /// Connections of the clients' driver to each proxy.
    pub connections: u32,
    pub clients: u32,
    pub queries: u32,
    /// Load that comes beside that, whatever was answered.
    pub offered: Option<Offered>,
    /// Queries before those that count, so that proxies have something to learn from.
    pub warmup: u32,
    /// Of ten queries, so many are points.
    pub points_in_ten: u32,
    /// Of a hundred others, so many read a whole table for rows that it has not.
    pub filters_in_hundred: u32,
    pub tables: u32,
    /// Rows of each table, and bytes of each row.
    pub rows: u32,
    pub row_bytes: u32,
    /// A scan asks for 1 to this many rows.
    pub scan_rows_max: u32,
    /// A client waits so long for a query; one that fails counts with that time.
    pub time_out_us: u64,
    /// One way between machines, in place of the calibration's between processes.
    pub hop_us: Option<f64>,
    /// The bandwidth of a connection, in bytes per microsecond; 0: unbounded.
    pub bytes_per_us: u32,
    /// Rows have this part of their bytes in memory while the simulation runs, and settings of proxies
    /// that count bytes are smaller by as much.
    pub shrink: u32,
    pub costs: Calibration,
}

/// Queries that are sent at a rate, at random times, whether or not those before are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    pub points_per_s: u32,
    pub writes_per_s: u32,
    /// For how long.
    pub for_us: u64,
}

impl Setup {
    /// Fukuda et al., section V: 12 nodes, 10,000,000 rows of 1 KB in 1,000 tables, each node with one
    /// stretch of the ring; 2,000 queries. Machines have 4 cores.
    pub fn paper() -> Self {
        Setup {
            seed: 1,
            nodes: 12,
            vnodes: 1,
            cores: 4,
            one_machine: false,
            read_threads: 32,
            request_threads: 128,
            flushed: true,
            proxies: 1,
            workers: 4,
            connections: 16,
            clients: 1000,
            queries: 2000,
            offered: None,
            warmup: 4000,
            points_in_ten: 5,
            filters_in_hundred: 0,
            tables: 1000,
            rows: 10_000,
            row_bytes: 1000,
            scan_rows_max: 10_000,
            time_out_us: 60_000_000,
            hop_us: Some(100.0),
            bytes_per_us: 1_250,
            shrink: 16,
            costs: Calibration::committed(),
        }
    }

    /// Many nodes behind many proxies that do not know what the others do.
    pub fn large() -> Self {
        Setup {
            nodes: 100,
            proxies: 10,
            queries: 20_000,
            warmup: 4_000,
            tables: 100,
            rows: 100_000,
            ..Setup::paper()
        }
    }

    /// `helenus bench scheduling` on a machine of two cores: three nodes, one proxy and the clients share
    /// them; rows are in the nodes' memory.
    pub fn bench() -> Self {
        Setup {
            nodes: 3,
            vnodes: 16,
            cores: 2,
            one_machine: true,
            flushed: false,
            workers: 2,
            warmup: 400,
            tables: 10,
            hop_us: None,
            bytes_per_us: 0,
            ..Setup::paper()
        }
    }

    /// More points than a node can serve, and few writes: on its two cores it serves 17,000 requests per second,
    /// and is offered 26,000 points and 2,000 writes. Clients wait for two seconds.
    pub fn overload() -> Self {
        Setup {
            nodes: 1,
            vnodes: 16,
            cores: 2,
            clients: 8,
            queries: 0,
            offered: Some(Offered {
                points_per_s: 26_000,
                writes_per_s: 2_000,
                for_us: 5_000_000,
            }),
            warmup: 400,
            points_in_ten: 10,
            tables: 1,
            rows: 100_000,
            time_out_us: 2_000_000,
            ..Setup::paper()
        }
    }

    pub(super) fn delay_us(&self) -> u64 {
        self.hop_us.unwrap_or(self.costs.hop_us).round() as u64
    }

    /// Bytes of a row in an answer, lengths included.
    fn row_bytes_sent(&self) -> f64 {
        f64::from(self.row_bytes) + 8.0
    }

    /// As `row_bytes_sent`, while the simulation runs.
    pub(super) fn row_bytes_held(&self) -> usize {
        let held = self.row_bytes_sent() / f64::from(self.shrink.max(1));
        (held.round() as usize).max(super::rows::ROW_BYTES_LEAST)
    }

    /// How many bytes one in memory stands for.
    pub(super) fn scale(&self) -> f64 {
        (self.row_bytes_sent() / self.row_bytes_held() as f64).max(1.0)
    }

    pub(super) fn row_kib(&self) -> f64 {
        self.row_bytes_sent() / 1024.0
    }

    /// An arm's settings as they are for rows of this size in memory, and for its number of proxies.
    pub(super) fn config(&self, config: &Config) -> Config {
        let mut config = config.clone();
        let scaled = |bytes: usize| match bytes {
            0 => 0,
            bytes => ((bytes as f64 / self.scale()).round() as usize).max(1),
        };
        let memory_max = config.limits.memory_max.unwrap_or(MEMORY_MAX);
        config.limits.memory_max = Some(scaled(memory_max));
        let backlog = &mut config.limits.client_backlog_bytes_max;
        *backlog = scaled(*backlog);
        config.links.bulk_bytes = scaled(config.links.bulk_bytes);
        config.scheduling.piece_kib = scaled(config.scheduling.piece_kib);
        let others = (1..self.proxies).map(|proxy| {
            let [_, _, high, low] = proxy.to_be_bytes();
            SocketAddr::from(([10, 1, high, low], 9142))
        });
        config.listen.proxies = others.collect();
        config
    }
}

/// A quarter of a machine with 16 GiB.
const MEMORY_MAX: usize = 4 << 30;

/// One of the systems compared.
#[derive(Clone, Debug)]
pub enum Arm {
    /// No proxy. Drivers send points to an owner, and scans to any node, which asks the others.
    Direct,
    /// Proxies with these settings.
    Proxied(Box<Config>),
}

impl Arm {
    /// The default with one of the orders.
    pub fn variant(variant: Variant) -> Self {
        let mut config = Config::default();
        config.scheduling.variant = variant.to_string();
        Arm::Proxied(Box::new(config))
    }

    /// Direct first, then the paper's orders, then the default.
    pub fn all() -> Vec<(String, Arm)> {
        let direct = [("direct".to_owned(), Arm::Direct)];
        let variants = Variant::ALL.map(|variant| (variant.to_string(), Arm::variant(variant)));
        direct.into_iter().chain(variants).collect()
    }
}
