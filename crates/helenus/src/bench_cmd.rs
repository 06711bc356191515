//! `helenus bench`: the experiments.

use crate::load_cmd::show;
use crate::stand::{Proxy, run_to_end, spinner, start_nodes};
use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_cluster::{Cluster, ClusterSpec, DEFAULT_VERSION};
use helenus_load::endpoint::{Endpoint, Policy};
use helenus_load::kv::Table;
use helenus_load::machine::Machine;
use helenus_load::overhead::{Arm, HELENUS, Overhead, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::process::{Watched, raise_open_files_limit};
use helenus_load::report::Report;
use helenus_load::run::Progress;
use helenus_load::svg::number;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Run an experiment on a real local cluster and report ratios with their spread.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand, Debug)]
enum Experiment {
    /// What it costs to go through a proxy: latency, CPU time, throughput, memory
    Overhead(OverheadArgs),
}

#[derive(Args, Debug)]
struct OverheadArgs {
    /// At most five minutes on two cores: fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A further arm, such as another proxy in front of the same cluster (then give --contact)
    #[arg(long = "arm", value_parser = parse_arm, value_name = "NAME=HOST:PORT[@PID]")]
    arms: Vec<ExtraArm>,
    /// Use this cluster instead of bringing up three nodes; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    contact: Vec<String>,
    /// Use this running Helenus instead of starting one
    #[arg(long, value_parser = parse_proxy, value_name = "HOST:PORT[@PID]")]
    proxy: Option<ExtraArm>,
    /// Version of Cassandra to bring up
    #[arg(long, default_value = DEFAULT_VERSION)]
    cassandra: String,
    /// Nodes to bring up
    #[arg(long, default_value_t = 3)]
    nodes: u16,
    /// Replication factor of the table
    #[arg(long, default_value_t = 1)]
    replication: usize,
    /// Connections to each host the driver discovers, for every arm
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Rounds; by default 5, or 3 with --quick
    #[arg(long)]
    rounds: Option<usize>,
    /// Idle clients opened in each round to measure memory; 0 leaves it out
    #[arg(long, default_value_t = 1000)]
    idle_clients: usize,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Debug)]
struct ExtraArm {
    name: String,
    address: String,
    pid: Option<u32>,
}

pub fn run(args: BenchArgs) -> Result<()> {
    let Experiment::Overhead(args) = args.experiment;
    run_to_end(overhead(args))
}

async fn overhead(args: OverheadArgs) -> Result<()> {
    let open_files = raise_open_files_limit();
    let rounds = args.rounds.unwrap_or(if args.quick { 3 } else { 5 });
    ensure!(rounds > 0, "at least one round is needed");
    // The proxy and this process hold one descriptor each for every idle client.
    let needed = (args.idle_clients * rounds + 500) as u64;
    ensure!(
        open_files >= needed,
        "only {open_files} open files are allowed and {needed} are needed: raise `ulimit -n` or \
         lower --idle-clients"
    );
    let own_cluster = match args.contact.is_empty() {
        true => {
            let spec = ClusterSpec::ephemeral()
                .version(&*args.cassandra)
                .nodes(args.nodes);
            Some(start_nodes(spec.heap_mib(1024).direct_mib(512)).await?)
        }
        false => None,
    };
    let nodes = match &own_cluster {
        Some(cluster) => cluster
            .contact_points()
            .iter()
            .map(ToString::to_string)
            .collect(),
        None => args.contact.clone(),
    };
    let proxy = match &args.proxy {
        Some(_) => None,
        None => Some(Proxy::start(&nodes).await?),
    };
    let experiment = args.experiment(rounds, &nodes, proxy.as_ref(), own_cluster.as_ref())?;
    experiment
        .table
        .create(&experiment.arms[0].endpoint.connect().await?)
        .await?;
    let progress = Arc::new(Progress::default());
    let shown = show(progress.clone(), format!("filling {} rows", args.keys));
    experiment
        .table
        .fill(&experiment.arms[0].endpoint, 128, progress)
        .await?;
    shown.stop();

    let data = own_cluster
        .as_ref()
        .map_or(Path::new("/"), |cluster| cluster.dir());
    let mut machine = Machine::here(data);
    if own_cluster.is_some() {
        machine
            .versions
            .insert("cassandra".into(), args.cassandra.clone());
    }
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let mut report = Report::new("overhead", command, machine, rounds);
    let bar = spinner("overhead");
    experiment
        .run(&mut report, &mut |line| bar.set_message(line))
        .await?;
    bar.finish_and_clear();

    println!("{}", ratios_table(&report));
    if report.errors_total() > 0 {
        println!(
            "{} queries failed; the report says how.",
            report.errors_total()
        );
    }
    if let Some(path) = &args.json {
        report.write_json(path)?;
    }
    if let Some(path) = &args.html {
        report.write_html(path)?;
    }
    drop(proxy);
    if let Some(cluster) = own_cluster {
        cluster.down(false)?;
    }
    Ok(())
}

impl OverheadArgs {
    fn experiment(
        &self,
        rounds: usize,
        nodes: &[String],
        proxy: Option<&Proxy>,
        cluster: Option<&Cluster>,
    ) -> Result<Overhead> {
        let arm = |name: &str, contact_points: Vec<String>, policy, proxy_pid| {
            let mut endpoint = Endpoint::new(name, contact_points, policy);
            endpoint.connections_per_host = self.connections;
            Arm {
                endpoint,
                proxy_pid,
            }
        };
        let helenus = match (&self.proxy, proxy) {
            (Some(given), _) => (given.address.clone(), given.pid),
            (None, Some(own)) => (own.address.to_string(), Some(own.pid())),
            (None, None) => anyhow::bail!("there is no proxy to measure"),
        };
        let mut arms = vec![
            arm(TOKEN_AWARE, nodes.to_vec(), Policy::TokenAware, None),
            arm(ROUND_ROBIN, nodes.to_vec(), Policy::RoundRobin, None),
            arm(HELENUS, vec![helenus.0], Policy::TokenAware, helenus.1),
        ];
        for extra in &self.arms {
            let taken = arms.iter().any(|arm| arm.endpoint.name == extra.name);
            ensure!(!taken, "the name {} is taken by another arm", extra.name);
            arms.push(arm(
                &extra.name,
                vec![extra.address.clone()],
                Policy::TokenAware,
                extra.pid,
            ));
        }
        let mut watched = Vec::new();
        if let Some(cluster) = cluster {
            for number in cluster.nodes() {
                if let Some(process) = cluster.process(number)? {
                    watched.push(Watched::new(format!("node {number}"), process.pid));
                }
            }
        }
        let seconds = |quick, full| Duration::from_secs_f64(if self.quick { quick } else { full });
        Ok(Overhead {
            table: Table {
                keyspace: "helenus_overhead".into(),
                table: "kv".into(),
                replication: self.replication,
                keys: self.keys,
                value_bytes: self.value_bytes,
            },
            arms,
            rounds,
            warmup: seconds(42.0, 90.0),
            cell_warmup: seconds(0.5, 1.0),
            cell_time: seconds(1.5, 5.0),
            slices: if self.quick { 5 } else { 15 },
            low_rate_per_second: 200.0,
            saturation_clients: vec![64, 256],
            idle_clients: self.idle_clients,
            watched,
            seed: self.seed,
        })
    }
}

fn ratios_table(report: &Report) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["", "median", "least", "greatest"]);
    for (key, spread) in &report.ratios {
        let numbers = [spread.median, spread.min, spread.max].map(number);
        let [median, least, greatest] = numbers;
        table.add_row([key.clone(), median, least, greatest]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn parse_arm(text: &str) -> Result<ExtraArm> {
    let (name, rest) = text.split_once('=').context("write it as name=host:port")?;
    let arm = parse_proxy(rest)?;
    ensure!(!name.is_empty(), "the arm needs a name");
    Ok(ExtraArm {
        name: name.to_owned(),
        ..arm
    })
}

fn parse_proxy(text: &str) -> Result<ExtraArm> {
    let (address, pid) = match text.rsplit_once('@') {
        Some((address, pid)) => {
            let pid = pid
                .parse()
                .with_context(|| format!("{pid:?} is no process id"))?;
            (address, Some(pid))
        }
        None => (text, None),
    };
    let port = address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse::<u16>().ok());
    ensure!(port.is_some(), "{address:?} is not of the form host:port");
    Ok(ExtraArm {
        name: HELENUS.to_owned(),
        address: address.to_owned(),
        pid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_have_a_name_an_address_and_perhaps_a_process() {
        let arm = parse_arm("go-proxy=127.0.0.1:9043@17").unwrap();
        assert_eq!(
            (&*arm.name, &*arm.address, arm.pid),
            ("go-proxy", "127.0.0.1:9043", Some(17))
        );
        assert_eq!(parse_arm("x=[::1]:9042").unwrap().pid, None);
        for wrong in ["x", "x=host", "=h:1", "x=h:1@y", "x=h:99999"] {
            assert!(parse_arm(wrong).is_err(), "{wrong}");
        }
    }
}
