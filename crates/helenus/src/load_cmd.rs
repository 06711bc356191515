//! `helenus load`: a key-value load on any CQL endpoint.

use crate::stand::{run_to_end, spinner};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use helenus_load::endpoint::{Endpoint, Policy, parse_consistency};
use helenus_load::keys::Keys;
use helenus_load::kv::{KeyValue, Mix, Table};
use helenus_load::machine::Machine;
use helenus_load::measure::{Latency, Phase};
use helenus_load::process::{Watched, raise_open_files_limit};
use helenus_load::run::{Limit, Plan, Progress, run_closed, run_open};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Put a load of point reads and writes on any CQL endpoint and measure it.
#[derive(Args, Debug)]
pub struct LoadArgs {
    /// Contact point, host:port; may be given several times
    #[arg(
        long = "contact",
        default_value = "127.0.0.1:9042",
        value_name = "HOST:PORT"
    )]
    contact: Vec<String>,
    /// Shares of reads and writes
    #[arg(long, default_value = "read=0.5,write=0.5", value_parser = parse_mix)]
    mix: Shares,
    /// Clients; each sends its next query when the last one is answered, unless --rate is given
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Measured time, such as 10s, 500ms or 2m
    #[arg(long, default_value = "10s", value_parser = parse_time)]
    duration: Duration,
    /// Time before the measurement that is not recorded
    #[arg(long, default_value = "2s", value_parser = parse_time)]
    warmup: Duration,
    /// Queries per second at fixed moments, whether or not earlier ones are answered (open loop)
    #[arg(long)]
    rate: Option<f64>,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// How keys are drawn
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Keyspace; created with SimpleStrategy if missing
    #[arg(long, default_value = "helenus_load")]
    keyspace: String,
    /// Replication factor of a keyspace that is created
    #[arg(long, default_value_t = 1)]
    replication: usize,
    /// Do not create and fill the table: it is there from an earlier run with the same --keys and --value-bytes
    #[arg(long)]
    no_fill: bool,
    /// Which node the driver prefers
    #[arg(long, value_enum, default_value_t = Preference::TokenAware)]
    policy: Preference,
    /// Connections to each host the driver discovers
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Driver sessions the clients share, as if each were an application
    #[arg(long, default_value_t = 1)]
    sessions: usize,
    /// Consistency level
    #[arg(long, default_value = "LOCAL_QUORUM")]
    consistency: String,
    /// Role, if the cluster asks for one; the password is read from HELENUS_LOAD_PASSWORD
    #[arg(long)]
    username: Option<String>,
    /// Process whose CPU time and memory are recorded too, name=pid; may be given several times
    #[arg(long, value_parser = parse_watched, value_name = "NAME=PID")]
    watch: Vec<Watched>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Distribution {
    Uniform,
    /// Exponent 0.99, popular keys scattered
    Zipfian,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Preference {
    TokenAware,
    RoundRobin,
}

#[derive(Clone, Copy, Debug)]
struct Shares {
    read_share: f64,
}

#[derive(Serialize)]
struct Outcome {
    command: String,
    machine: Machine,
    result: Phase,
}

pub fn run(args: LoadArgs) -> Result<()> {
    raise_open_files_limit();
    run_to_end(load(args))
}

async fn load(args: LoadArgs) -> Result<()> {
    let endpoint = args.endpoint()?;
    let table = Table {
        keyspace: args.keyspace.clone(),
        table: "kv".into(),
        replication: args.replication,
        keys: args.keys,
        value_bytes: args.value_bytes,
    };
    if !args.no_fill {
        table.create(&endpoint.connect().await?).await?;
        let progress = Arc::new(Progress::default());
        let shown = show(progress.clone(), format!("filling {} rows", args.keys));
        table.fill(&endpoint, 256, progress).await?;
        shown.stop();
    }
    let keys = match args.distribution {
        Distribution::Uniform => Keys::uniform(args.keys),
        Distribution::Zipfian => Keys::zipfian(args.keys),
    };
    let mix = Mix::of_reads(args.mix.read_share);
    let workload = KeyValue::open(&endpoint, &table, keys, mix, args.sessions.max(1)).await?;
    let workload = Arc::new(workload);
    let mut plan = Plan::new(args.clients as usize, Limit::Time(args.duration));
    plan.warmup = args.warmup;
    plan.seed = args.seed;
    plan.watched = args.watch.clone();
    plan.watched.push(Watched::this_process());
    let shown = show(
        plan.progress.clone(),
        format!("{} for {:?}", endpoint.name, args.duration),
    );
    let phase = match args.rate {
        Some(rate) => {
            ensure!(
                rate > 0.0 && rate.is_finite(),
                "--rate must be a positive number"
            );
            run_open(&workload, rate, &plan).await
        }
        None => run_closed(&workload, &plan).await,
    };
    shown.stop();
    print!("{}", summary(&phase));
    if let Some(path) = &args.json {
        let outcome = Outcome {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::here(std::path::Path::new("/")),
            result: phase.clone(),
        };
        std::fs::write(path, serde_json::to_string_pretty(&outcome)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if phase.ops == 0 {
        bail!("no query succeeded");
    }
    Ok(())
}

impl LoadArgs {
    fn endpoint(&self) -> Result<Endpoint> {
        let policy = match self.policy {
            Preference::TokenAware => Policy::TokenAware,
            Preference::RoundRobin => Policy::RoundRobin,
        };
        let mut endpoint = Endpoint::new(self.contact.join(","), self.contact.clone(), policy);
        endpoint.connections_per_host = self.connections;
        endpoint.consistency = parse_consistency(&self.consistency)?;
        if let Some(user) = &self.username {
            let password = std::env::var("HELENUS_LOAD_PASSWORD")
                .context("--username needs the password in HELENUS_LOAD_PASSWORD")?;
            endpoint.credentials = Some((user.clone(), password));
        }
        Ok(endpoint)
    }
}

/// A live line of the queries per second, refreshed four times a second.
pub struct Shown {
    task: tokio::task::JoinHandle<()>,
    bar: indicatif::ProgressBar,
}

impl Shown {
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

pub fn show(progress: Arc<Progress>, what: String) -> Shown {
    let bar = spinner(&what);
    let line = bar.clone();
    let task = tokio::spawn(async move {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let done = progress.done.load(Ordering::Relaxed);
            let failed = progress.failed.load(Ordering::Relaxed);
            let rate = (done - before) * 4;
            line.set_message(format!("{what}: {done} done, {rate}/s, {failed} failed"));
            before = done;
        }
    });
    Shown { task, bar }
}

fn summary(phase: &Phase) -> String {
    let mut out = format!(
        "{} queries in {:.1} s: {:.0}/s, {} failed\n",
        phase.ops,
        phase.seconds,
        phase.ops_per_second,
        phase.errors_total()
    );
    let mut line = |name: &str, ops: u64, latency: &Latency| {
        if ops > 0 {
            out += &format!(
                "  {name:<6} mean {:.0}  p50 {}  p95 {}  p99 {}  p99.9 {}  max {} µs\n",
                latency.us_mean,
                latency.us_p50,
                latency.us_p95,
                latency.us_p99,
                latency.us_p999,
                latency.us_max
            );
        }
    };
    line("all", phase.ops, &phase.latency);
    for (name, kind) in &phase.by_kind {
        line(name, kind.ops, &kind.latency);
    }
    for (name, used) in &phase.processes {
        out += &format!(
            "  {name}: {:.1} µs CPU a query, {} MiB resident\n",
            used.cpu_us_per_op,
            used.resident_kib / 1024
        );
    }
    for (error, times) in &phase.errors {
        out += &format!("  failed: {error}: {times}\n");
    }
    out
}

fn parse_mix(text: &str) -> Result<Shares> {
    let (mut read, mut write) = (0.0, 0.0);
    for part in text.split(',') {
        let (name, share) = part
            .split_once('=')
            .context("write it as read=0.5,write=0.5")?;
        let share: f64 = share
            .parse()
            .with_context(|| format!("{share:?} is no number"))?;
        ensure!(
            share.is_finite() && share >= 0.0,
            "shares must not be negative"
        );
        match name {
            "read" => read = share,
            "write" => write = share,
            _ => bail!("{name:?} is unknown: only read and write can be mixed"),
        }
    }
    ensure!(read + write > 0.0, "at least one share must be above 0");
    Ok(Shares {
        read_share: read / (read + write),
    })
}

/// A number with the unit ms, s, m or h; seconds if there is none.
pub fn parse_time(text: &str) -> Result<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits
        .parse()
        .with_context(|| format!("{text:?} is no time; try 10s"))?;
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        other => bail!("unknown unit {other:?}: use ms, s, m or h"),
    };
    Duration::try_from_secs_f64(number * unit).with_context(|| format!("{text:?} is no time"))
}

fn parse_watched(text: &str) -> Result<Watched> {
    let (name, pid) = text.split_once('=').context("write it as name=pid")?;
    Ok(Watched::new(
        name,
        pid.parse()
            .with_context(|| format!("{pid:?} is no process id"))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_shares_of_their_sum() {
        assert_eq!(parse_mix("read=0.5,write=0.5").unwrap().read_share, 0.5);
        assert_eq!(parse_mix("read=3,write=1").unwrap().read_share, 0.75);
        assert_eq!(parse_mix("write=1").unwrap().read_share, 0.0);
        for wrong in ["read", "scan=1", "read=-1", "read=0,write=0", "read=nan"] {
            assert!(parse_mix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_time("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(parse_time("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(parse_time("7").unwrap(), Duration::from_secs(7));
        for wrong in ["", "s", "5x", "-1s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
