//! `helenus bench assignment`.

use super::common::{Nodes, tell};
use super::table::{Shown, cells_table};
use super::variants::{self, checked};
use crate::testbed::{agent_jar, cache_folder};
use anyhow::{Context, Result};
use faults::{ClusterFaults, Severity};
use helenus_cluster::{Cluster, ClusterSpec, DiskLimits};
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::spinner;
use helenus_load::client::java;
use helenus_load::experiments::assignment::Scenario;
use helenus_load::report::figures::{ERRORS, PER_SECOND, at_cost};
use helenus_proxy::Config;
use relay::Relays;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

mod args;
mod compactions;
mod faults;
mod relay;

pub(super) use args::AssignmentArgs;

/// Times include failures.
const COLUMNS: [(&str, Shown); 7] = [
    ("requests/s", Shown::Median(PER_SECOND)),
    ("mean ms", Shown::Median(at_cost::MEAN_MS)),
    ("p50", Shown::Median(at_cost::P50_MS)),
    ("p95", Shown::Median(at_cost::P95_MS)),
    ("p99", Shown::Median(at_cost::P99_MS)),
    ("p99.9", Shown::Median(at_cost::P999_MS)),
    ("failed", Shown::Sum(ERRORS)),
];

pub(super) async fn assignment(mut args: AssignmentArgs) -> Result<()> {
    let began = Instant::now();
    raise_open_files_limit();
    args.check()?;
    args.choose_cap();
    let common = &args.common;
    let rounds = common.rounds(2, 3)?;
    let java = match args.java {
        true => Some(java_program().await?),
        false => None,
    };
    let is_relayed = args.scenarios().contains(&Scenario::SlowNetwork);
    let has_slow_disk = args.scenarios().contains(&Scenario::SlowDisk);
    let agent = args.agent.clone().map(agent_jar).transpose()?;
    let adjust = |mut spec: ClusterSpec| {
        if let Some(jar) = agent {
            spec = spec.agent(jar);
        }
        if is_relayed {
            spec = spec.relayed();
        }
        if has_slow_disk {
            // Mapped data, as 4.1 has by default, cannot be dropped from the page cache.
            spec = spec.yaml("disk_access_mode", "mmap_index_only");
        }
        spec
    };
    let mut nodes = Nodes::up_with(common, adjust).await?;
    let secret_file = nodes.own.as_ref().and_then(Cluster::report_secret_file);
    let variants = checked(args.variants(secret_file.as_deref()))?;
    let mut skipped = Vec::new();
    if has_slow_disk && let Err(why) = can_slow_disk(&nodes) {
        args.leave_out(Scenario::SlowDisk)?;
        skipped.push(format!("The cells with a slow disk are left out: {why:#}."));
    }
    for line in &skipped {
        eprintln!("{line}");
    }
    let common = &args.common;
    let relays = match (is_relayed, &nodes.own) {
        (true, Some(cluster)) => Some(start_relays(cluster).await?),
        _ => None,
    };
    if let (Some(cluster), Some(_)) = (&nodes.own, &relays) {
        let announced = announced(cluster)?;
        nodes.contact_points = announced.iter().map(ToString::to_string).collect();
    }
    let bar = spinner("starting proxies");
    let proxies = variants::start(variants, &nodes.contact_points, &bar).await?;
    let experiment = args.experiment(rounds, &nodes, &proxies, java, began)?;
    let mut report = nodes.report("assignment", common, rounds);
    variants::describe(&mut report, &proxies);
    report.notes.extend(args.on_reports());
    report.notes.extend(skipped);
    let open = experiment
        .prepare(&mut |line| bar.set_message(line))
        .await?;
    nodes.cap_cpu(common, &mut report)?;
    if args.scenarios().contains(&Scenario::Stressed) {
        report.notes.push(format!(
            "A stressed node shares its CPU limit with {} processes that use CPU and memory.",
            args.stress_processes
        ));
    }
    if is_relayed {
        report.notes.push(format!(
            "All clients and proxies reach the nodes through relays. A slow network adds {} ms to a \
             round trip to one node.",
            args.delay_ms
        ));
    }
    if args.scenarios().contains(&Scenario::SlowDisk) {
        report.notes.push(format!(
            "In the cells of a slow disk, the page cache of the nodes' data files is emptied several times a \
             second for all arms; the slow disk does {} reads a second.",
            args.disk_reads
        ));
    }
    {
        let severity = Severity {
            delay: Duration::from_secs_f64(args.delay_ms / 1000.0),
            processes: args.stress_processes,
            disk_reads_per_second: args.disk_reads,
        };
        let mut faults = ClusterFaults::new(nodes.own.as_ref(), relays.as_ref(), severity);
        let say = &mut |line| bar.set_message(line);
        experiment.run(&open, &mut faults, &mut report, say).await?;
    }
    bar.finish_and_clear();
    let cells = cells_table(&report, &experiment.arms, COLUMNS);
    tell(&report, common, Some(cells))?;
    drop(open);
    drop(proxies);
    drop(relays);
    nodes.down()
}

async fn java_program() -> Result<PathBuf> {
    let bar = spinner("building the Java program");
    let cache = cache_folder()?;
    let built = tokio::task::spawn_blocking(move || java::build(&cache)).await;
    bar.finish_and_clear();
    built.context("the thread that builds the Java program failed")?
}

/// Where the nodes tell clients to connect, in their order.
fn announced(cluster: &Cluster) -> Result<Vec<SocketAddr>> {
    let nodes = cluster.nodes().into_iter();
    let addresses = nodes.map(|number| Ok(cluster.announced_address(number)?));
    addresses.collect()
}

async fn start_relays(cluster: &Cluster) -> Result<Relays> {
    let announced = announced(cluster)?;
    let nodes = cluster.contact_points();
    let mut pairs: Vec<(SocketAddr, SocketAddr)> = announced.into_iter().zip(nodes).collect();
    if cluster.report_secret_file().is_some() {
        // Proxies look for a node's agent where clients find the node.
        let port = Config::default().assignment.reports_port;
        let at_port = |address: SocketAddr| SocketAddr::new(address.ip(), port);
        let of_agents = pairs.clone().into_iter();
        pairs.extend(of_agents.map(|(from, to)| (at_port(from), at_port(to))));
    }
    Relays::start(&pairs).await
}

/// Checks that a node's reads from its disk can be limited here.
fn can_slow_disk(nodes: &Nodes) -> Result<()> {
    let cluster = nodes
        .own
        .as_ref()
        .context("the nodes are not this program's")?;
    let node = cluster
        .nodes()
        .first()
        .copied()
        .context("there is no node")?;
    cluster.disk_cap(node, DiskLimits::default())?;
    Ok(())
}
