//! Options of `helenus load ramp`.

use crate::load::options::TargetArgs;
use crate::load::parse::{parse_rate, parse_share, parse_time};
use anyhow::{Result, ensure};
use clap::Args;
use helenus_load::ramp::capacity::Unit;
use helenus_load::ramp::search::Policy;
use helenus_load::ramp::steps::Limits;
use std::path::PathBuf;
use std::time::Duration;

/// Below this, a few disturbed milliseconds decide a window.
const WINDOW_MIN: Duration = Duration::from_millis(100);
/// An open loop keeps up if at least this share of what it offers succeeds.
const ACHIEVED_SHARE_MIN: f64 = 0.95;

/// Raise the load until throughput stops growing, errors begin or a latency target breaks; report
/// the knee, what limits it, and when to add a node.
#[derive(Args, Debug)]
pub(crate) struct RampArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// 99th percentile that must not be exceeded, such as 20ms
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    pub(super) target_p99: Option<Duration>,
    /// Share of failed queries, from 0 to 1, above which a load is too high
    #[arg(long, value_parser = parse_share, default_value_t = 0.001, value_name = "SHARE")]
    pub(super) errors_max: f64,
    /// Fewest clients
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) min_clients: u32,
    /// Most clients
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) max_clients: u32,
    /// Raise the rate of queries, sent on a fixed schedule, instead of the number of clients
    #[arg(long, conflicts_with_all = ["min_clients", "max_clients"])]
    pub(super) open_loop: bool,
    /// Lowest rate of the open loop, queries per second
    #[arg(long, default_value_t = 100.0, value_parser = parse_rate, requires = "open_loop")]
    pub(super) min_rate: f64,
    /// Highest rate of the open loop, queries per second
    #[arg(long, default_value_t = 100_000.0, value_parser = parse_rate, requires = "open_loop")]
    pub(super) max_rate: f64,
    /// Measured time of a window
    #[arg(long, default_value = "2s", value_parser = parse_time, value_name = "TIME")]
    pub(super) window: Duration,
    /// Windows of the knee, its neighbours and the peak; other candidates have half as many
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub(super) windows: u32,
    /// Longest warm-up before the first window, by 16 clients; it ends when throughput no longer rises
    #[arg(long, default_value = "60s", value_parser = parse_time, value_name = "TIME")]
    pub(super) warmup: Duration,
    /// Queries per second on a normal day, for the headroom
    #[arg(long, value_parser = parse_rate, value_name = "OPS")]
    pub(super) today: Option<f64>,
    /// Nodes behind a proxy, to count them and to look at their thread pools; comma-separated or
    /// repeated
    #[arg(long = "node", value_delimiter = ',', value_name = "HOST:PORT")]
    pub(super) nodes: Vec<String>,
    /// Cluster of `helenus cluster` that the endpoint leads to, whose nodes' CPU is recorded
    /// [default: the one called default, if --contact names one of its nodes]
    #[arg(long, value_name = "NAME", conflicts_with = "cluster_dir")]
    pub(super) cluster: Option<String>,
    /// The same, by its folder
    #[arg(long, value_name = "DIR")]
    pub(super) cluster_dir: Option<PathBuf>,
}

impl RampArgs {
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.target.arms.len() <= 1,
            "a ramp has one endpoint: run it once for each --arm"
        );
        ensure!(
            self.min_clients <= self.max_clients,
            "--min-clients must not be above --max-clients"
        );
        ensure!(
            self.min_rate <= self.max_rate,
            "--min-rate must not be above --max-rate"
        );
        ensure!(
            self.window >= WINDOW_MIN,
            "--window must be at least {WINDOW_MIN:?}"
        );
        ensure!(
            self.target_p99.is_none_or(|target| !target.is_zero()),
            "--target-p99 must be above 0"
        );
        Ok(())
    }

    pub(super) fn unit(&self) -> Unit {
        match self.open_loop {
            true => Unit::OpsPerSecond,
            false => Unit::Clients,
        }
    }

    pub(super) fn policy(&self) -> Policy {
        let limits = Limits {
            latency_us_p99_max: self.target_p99.map(|target| target.as_secs_f64() * 1e6),
            error_share_max: self.errors_max,
            achieved_share_min: self.open_loop.then_some(ACHIEVED_SHARE_MIN),
        };
        let mut policy = match self.open_loop {
            true => Policy::new(
                self.min_rate.round() as u64,
                self.max_rate.round() as u64,
                limits,
            ),
            false => Policy::new(self.min_clients.into(), self.max_clients.into(), limits),
        };
        policy.confirmations = self.windows as usize;
        policy.windows = self.windows.div_ceil(2) as usize;
        policy
    }
}
