//! An experiment: the cluster, what the clients ask, and the arms that are compared.

use helenus_policy::schedule::{Class, Settings, Variant};

/// All that is the same for every arm.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    pub nodes: u32,
    /// Threads of a node's READ stage; as many reads run at full speed.
    pub read_threads: u32,
    pub proxies: u32,
    pub clients: u32,
    pub queries: u32,
    /// Of ten queries, so many are points.
    pub points_in_ten: u32,
    pub tables: u32,
    pub rows: u64,
    /// A range asks for 1 to this many rows.
    pub count_max: u64,
    /// One way, in microseconds.
    pub delay_us: u64,
    pub costs: Costs,
}

/// Mean times of a read in a node, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub point_us: u32,
    /// Of each request of a range, before the first row.
    pub range_us: u32,
    pub row_us: u32,
}

impl Setup {
    /// Fukuda et al., section V: 12 nodes, 10,000,000 rows in 1,000 tables, 2,000
    /// queries. The costs are of rows of 1 KB in memory on a present machine.
    pub fn paper() -> Self {
        Setup {
            seed: 1,
            nodes: 12,
            read_threads: 4,
            proxies: 1,
            clients: 1000,
            queries: 2000,
            points_in_ten: 5,
            tables: 1000,
            rows: 10_000_000,
            count_max: 10_000,
            delay_us: 100,
            costs: Costs {
                point_us: 250,
                range_us: 500,
                row_us: 20,
            },
        }
    }

    /// Many nodes behind many proxies that know nothing of each other.
    pub fn large() -> Self {
        Setup {
            nodes: 100,
            proxies: 10,
            queries: 20_000,
            tables: 100,
            ..Setup::paper()
        }
    }
}

/// How a range of the default is sent to the nodes that it spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// One after another.
    Sequential,
    /// All at once.
    Parallel,
    /// To the first, and at once to all others that serve no range at present.
    WhenIdle,
}

/// One of the systems compared.
#[derive(Clone, Copy, Debug)]
pub enum Arm {
    /// No proxy: any node coordinates, ranges go from node to node.
    Direct,
    Proxy {
        settings: Settings,
        /// Most rows of a piece of a range.
        piece_rows: u32,
        fan: Fan,
    },
}

impl Arm {
    /// One of the paper's variants, or the default with its constants.
    pub fn variant(variant: Variant, setup: &Setup) -> Self {
        if variant.is_preset() {
            // Enough that no thread is idle for a message's delay, and hardly a queue in the node.
            let mut settings = Settings::preset(variant, 2 * setup.read_threads);
            settings.wait_max_us = [u64::MAX / 4; Class::COUNT];
            settings.queue_max = [u32::MAX; Class::COUNT];
            return Arm::Proxy {
                settings,
                piece_rows: u32::MAX,
                fan: match variant.parallel() {
                    true => Fan::Parallel,
                    false => Fan::Sequential,
                },
            };
        }
        Arm::Proxy {
            settings: Settings::default()
                .of_node(setup.read_threads)
                .shared_by(setup.proxies),
            piece_rows: PIECE_ROWS,
            fan: Fan::WhenIdle,
        }
    }

    /// Direct first, then the paper's variants, then the default.
    pub fn all(setup: &Setup) -> Vec<(String, Arm)> {
        let direct = [("direct".to_owned(), Arm::Direct)];
        let variants =
            Variant::ALL.map(|variant| (variant.to_string(), Arm::variant(variant, setup)));
        direct.into_iter().chain(variants).collect()
    }
}

/// Rows of a piece in the default, at these costs 10 ms of work. Found here, at 125 and
/// 1,000 clients, 4 threads, means of three seeds, against pieces of 250 rows: scans gain
/// 7 to 10 % (fewer requests), points lose at 9:1 0.5 ms in the mean, 2.4 ms at p99.
pub const PIECE_ROWS: u32 = 500;
