//! `helenus sim calibrate`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use helenus_cluster::{ClusterSpec, DEFAULT_VERSION};
use helenus_load::machine::Machine;
use helenus_load::process::Watched;
use helenus_load::scheduling::Calibration as Measuring;
use helenus_sim::scheduling::Calibration;

use crate::load_cmd::parse_watched;
use crate::testbed::{Proxy, run_to_end, spinner, start_nodes};

#[derive(Args)]
pub(super) struct CalibrateArgs {
    /// Nodes to measure instead of three that are brought up; comma-separated or repeated. They must be
    /// idle otherwise. The keyspace helenus_calibration is created.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    contact_point: Vec<String>,
    /// The processes of these nodes, in the same order.
    #[arg(long, value_parser = parse_watched, value_name = "NAME=PID")]
    watch: Vec<Watched>,
    /// Cassandra version to bring up.
    #[arg(long, default_value = DEFAULT_VERSION)]
    cassandra: String,
    /// Length of each of some 20 measurements, in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Load before the first of them, in seconds.
    #[arg(long, default_value_t = 60.0)]
    warmup_seconds: f64,
    /// File for the figures, which `helenus sim scheduling --calibration` reads.
    #[arg(long, value_name = "FILE", default_value = "calibration.toml")]
    out: PathBuf,
}

pub(super) fn calibrate(args: CalibrateArgs) -> Result<()> {
    for (flag, seconds) in [
        ("--seconds", args.seconds),
        ("--warmup-seconds", args.warmup_seconds),
    ] {
        let fits = seconds > 0.0 && seconds <= 3600.0;
        ensure!(fits, "{flag} must be above 0 and at most 3600");
    }
    ensure!(
        args.watch.len() == args.contact_point.len(),
        "each --contact-point needs its process, as --watch"
    );
    run_to_end(measure(args))
}

async fn measure(args: CalibrateArgs) -> Result<()> {
    let mut own = None;
    let mut nodes: Vec<(String, Watched)> = Vec::new();
    match args.contact_point.is_empty() {
        true => {
            let spec = ClusterSpec::ephemeral().version(&*args.cassandra).nodes(3);
            let cluster = start_nodes(spec.heap_mib(1024).direct_mib(512)).await?;
            for (number, address) in cluster.nodes().into_iter().zip(cluster.contact_points()) {
                let process = cluster.process(number)?.context("a node has ended")?;
                let watched = Watched::new(format!("node {number}"), process.pid);
                nodes.push((address.to_string(), watched));
            }
            own = Some(cluster);
        }
        false => nodes.extend(args.contact_point.iter().cloned().zip(args.watch.clone())),
    }
    let addresses: Vec<String> = nodes.iter().map(|(address, _)| address.clone()).collect();
    let bar = spinner("starting a proxy");
    let proxy = Proxy::start_with(&addresses, &[]).await?;
    let measuring = Measuring {
        nodes,
        proxy: (
            proxy.address.to_string(),
            Watched::new("proxy", proxy.pid()),
        ),
        time: Duration::from_secs_f64(args.seconds),
        warmup: Duration::from_secs_f64(args.warmup_seconds),
    };
    let figures = measuring.run(&mut |line| bar.set_message(line)).await?;
    bar.finish_and_clear();
    let lines = figures
        .iter()
        .map(|(name, value)| format!("{name} = {value}\n"));
    let measured = Calibration::parse(&lines.collect::<String>()).map_err(|e| anyhow!(e))?;
    let data = own
        .as_ref()
        .map_or(std::path::Path::new("/"), |own| own.dir());
    let machine = Machine::here(data);
    let text = measured.write(&format!(
        "What reads cost, in microseconds of one core: measured by `helenus sim calibrate` with\n\
         {} nodes of Cassandra {} on {} cores, all on one machine.",
        measuring.nodes.len(),
        args.cassandra,
        machine.cores
    ));
    std::fs::write(&args.out, &text)
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    print!("{text}");
    drop(proxy);
    match own {
        Some(cluster) => Ok(cluster.down(false)?),
        None => Ok(()),
    }
}
