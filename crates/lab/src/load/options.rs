//! Options of `helenus load`, and how the report names them.

use super::connection::ConnectionArgs;
use super::parse::{Arm, parse_arm, parse_mix, parse_share, parse_time, parse_watched, parse_ycsb};
use super::stop::StopArgs;
use clap::{Args, ValueEnum};
use helenus_load::process::Watched;
use helenus_load::workload::kv::Mix;
use helenus_load::workload::ycsb::Core;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Generate load on any CQL endpoint, or on several in turn, and measure it.
#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Clients; each sends its next query when the previous one is answered, unless --rate is given
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) clients: u32,
    /// Measured time of each arm, such as 10s, 500ms or 2m [default: 10s; with --operations: no limit]
    #[arg(long, value_parser = parse_time)]
    pub(super) duration: Option<Duration>,
    /// Measured queries of each arm, failed ones included
    #[arg(long, value_name = "N", conflicts_with = "slice", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) operations: Option<u64>,
    /// Warm-up before each arm's measurement, not recorded
    #[arg(long, default_value = "2s", value_parser = parse_time)]
    pub(super) warmup: Duration,
    /// Rounds into which the duration is divided [default: 1, or 5 with several arms]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: Option<u32>,
    /// Let arms take turns of about this length, at least 250ms, within a round
    #[arg(long, value_parser = parse_time)]
    pub(super) slice: Option<Duration>,
    /// Queries per second on a fixed schedule, whether or not earlier ones are answered (open loop)
    #[arg(long)]
    pub(super) rate: Option<f64>,
    #[command(flatten)]
    pub(super) stop: StopArgs,
    /// Write a histogram of each second, arm and kind of query to this file, in the log format of
    /// HdrHistogram
    #[arg(long, value_name = "FILE")]
    pub(super) hdr: Option<PathBuf>,
}

/// What queries are sent, from what kind of client, to which endpoints.
#[derive(Args, Debug)]
pub(super) struct TargetArgs {
    /// Contact points, host:port; comma-separated or repeated
    #[arg(
        long = "contact",
        default_value = "127.0.0.1:9042",
        value_delimiter = ',',
        value_name = "HOST:PORT"
    )]
    pub(super) contact: Vec<String>,
    /// An endpoint to compare instead of --contact; given several times, they take turns. Several
    /// addresses are separated by commas; @ and a process id adds CPU time and memory
    #[arg(
        long = "arm",
        value_parser = parse_arm,
        value_name = "NAME=HOST:PORT[,HOST:PORT][@PID]",
        conflicts_with = "contact"
    )]
    pub(super) arms: Vec<Arm>,
    /// Core workload of YCSB, a to f, instead of the key-value table
    #[arg(long, value_parser = parse_ycsb, value_name = "WORKLOAD", conflicts_with_all = ["statements", "mix", "hot_key", "distribution"])]
    pub(super) ycsb: Option<Core>,
    /// CQL statements from a file, instead of the key-value table
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mix", "hot_key", "distribution", "keys"])]
    pub(super) statements: Option<PathBuf>,
    /// Shares of reads, writes and ranges of rows in token order
    #[arg(long, default_value = "read=0.5,write=0.5", value_parser = parse_mix)]
    pub(super) mix: Mix,
    /// Rows per range
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) range_rows: i32,
    /// What sends queries: sessions of a real driver, or one plain connection per client
    #[arg(long, value_enum, default_value_t = Client::Driver)]
    pub(super) client: Client,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) keys: u64,
    /// How keys are drawn
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(super) distribution: Distribution,
    /// Share of all queries, from 0 to 1, that go to a single key
    #[arg(long, value_parser = parse_share, value_name = "SHARE")]
    pub(super) hot_key: Option<f64>,
    /// Bytes per value
    #[arg(long, default_value_t = 100)]
    pub(super) value_bytes: usize,
    /// Keyspace; created with SimpleStrategy if missing
    #[arg(long, default_value = "helenus_load")]
    pub(super) keyspace: String,
    /// Replication factor if the keyspace is created
    #[arg(long, default_value_t = 1)]
    pub(super) replication: usize,
    /// Do not create and fill the table: it exists from an earlier run with the same --keys and --value-bytes
    #[arg(long)]
    pub(super) no_fill: bool,
    /// Which node the driver prefers
    #[arg(long, value_enum, default_value_t = Preference::TokenAware)]
    pub(super) policy: Preference,
    /// Connections per driver session to each host it discovers
    #[arg(long, default_value_t = 2)]
    pub(super) connections: usize,
    /// Driver sessions shared by the clients, one per simulated application [default: 1], or plain
    /// connections [default: one per client]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) sessions: Option<u32>,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
    /// Role, if the cluster requires authentication; the password is read from HELENUS_LOAD_PASSWORD
    #[arg(long)]
    pub(super) username: Option<String>,
    /// Process whose CPU time and memory are also recorded, name=pid; may be repeated
    #[arg(long, value_parser = parse_watched, value_name = "NAME=PID")]
    pub(super) watch: Vec<Watched>,
    /// Seed for all random choices
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Do not print a line every second
    #[arg(long)]
    pub(super) quiet: bool,
    /// Measure the storage of the nodes anew, if they are those of `helenus cluster` on this machine, even
    /// if figures of the last 30 days are known
    #[arg(long)]
    pub(super) measure_storage: bool,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Distribution {
    Uniform,
    /// Exponent 0.99, popular keys scattered
    Zipfian,
    /// The middle keys most: three standard deviations on each side
    Gaussian,
    /// The logarithm of the key as in gaussian: few low keys most
    #[value(name = "lognormal")]
    LogNormal,
    /// Low keys most: 95 % of the queries go to the first 86 % of the keys, as in YCSB
    Exponential,
    /// The last keys most, with exponent 0.99
    Latest,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Preference {
    TokenAware,
    RoundRobin,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Client {
    /// Sessions of a driver, which discover the cluster and pool connections
    Driver,
    /// One plain connection each, one query at a time; contact points round-robin
    Raw,
}

impl LoadArgs {
    pub(super) fn cell_name(&self) -> String {
        let what = self.target.workload_name();
        match self.rate {
            Some(rate) => format!("{what}, {rate}/s"),
            None => format!("{what}, {} clients", self.clients),
        }
    }

    pub(super) fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.target.settings(self.clients);
        let time = self
            .time()
            .map_or("no limit".into(), |time| format!("{time:?}"));
        settings.insert("measured time per arm".into(), time);
        if let Some(operations) = self.operations {
            settings.insert("queries per arm".into(), operations.to_string());
        }
        settings
    }

    /// Measured time of each arm, if it is limited.
    pub(super) fn time(&self) -> Option<Duration> {
        let by_default = match self.operations {
            Some(_) => None,
            None => Some(Duration::from_secs(10)),
        };
        self.duration.or(by_default)
    }

    pub(super) fn sessions(&self) -> u32 {
        self.target.sessions(self.clients)
    }

    pub(super) fn rounds(&self) -> usize {
        let by_default = if self.target.arms.len() > 1 { 5 } else { 1 };
        self.rounds.map_or(by_default, |rounds| rounds as usize)
    }
}

impl TargetArgs {
    pub(super) fn workload_name(&self) -> String {
        match (&self.ycsb, &self.statements) {
            (Some(core), _) => format!("YCSB {core:?}"),
            (_, Some(path)) => path.file_name().map_or_else(
                || path.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            ),
            _ => "key-value".into(),
        }
    }

    pub(super) fn settings(&self, clients: u32) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        let mut set = |name: &str, value: String| settings.insert(name.to_owned(), value);
        let sessions = self.sessions(clients);
        set(
            "client",
            match self.client {
                Client::Driver => format!(
                    "driver, {sessions} sessions, {} connections per host",
                    self.connections
                ),
                Client::Raw => format!("raw, {sessions} connections"),
            },
        );
        for (name, value) in self.connection.settings() {
            set(name, value);
        }
        set("seed", self.seed.to_string());
        if self.statements.is_none() {
            set("rows", self.keys.to_string());
            set("replication factor", self.replication.to_string());
        }
        if self.ycsb.is_none() && self.statements.is_none() {
            let Mix { read, write, range } = self.mix;
            set("mix", format!("read={read},write={write},range={range}"));
            set("value bytes", self.value_bytes.to_string());
            let hot = self.hot_key.map_or(String::new(), |share| {
                format!(", one key with a share of {share}")
            });
            let keys = format!("{:?}{hot}", self.distribution).to_lowercase();
            set("key distribution", keys);
            if range > 0.0 {
                set("rows of a range", self.range_rows.to_string());
            }
        }
        settings
    }

    /// True for reads and for writes if the workload has them; None if that is not known.
    pub(super) fn reads_and_writes(&self) -> Option<(bool, bool)> {
        match (&self.ycsb, &self.statements) {
            (_, Some(_)) => None,
            // Only workload c does not write.
            (Some(core), _) => Some((true, *core != Core::C)),
            _ => Some((self.mix.read + self.mix.range > 0.0, self.mix.write > 0.0)),
        }
    }

    /// Driver sessions or plain connections, for so many clients.
    pub(super) fn sessions(&self, clients: u32) -> u32 {
        self.sessions.unwrap_or(match self.client {
            Client::Driver => 1,
            Client::Raw => clients,
        })
    }
}
