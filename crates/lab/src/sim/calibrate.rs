//! `helenus sim calibrate`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use helenus_cluster::{ClusterSpec, DEFAULT_VERSION};
use helenus_console::terminal::{run_to_end, spinner};
use helenus_load::experiments::scheduling::{Calibration as Measuring, MixedCosts};
use helenus_load::process::Watched;
use helenus_load::report::machine::Machine;
use helenus_sim::scheduling::{Arm, Calibration, Setup, Variant, run as simulate};

use crate::load::parse_watched;
use crate::testbed::{Proxy, start_nodes};

/// Nobody would believe more.
const FACTOR_MAX: f64 = 10.0;
/// Queries of each simulation.
const QUERIES: u32 = 2_000;
/// Each of two factors depends a little on the other.
const FITTINGS: usize = 3;

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
    /// CPU time of all nodes for a query 5:5 of 32 clients, sent to the nodes, in milliseconds, if
    /// `helenus bench scheduling` has measured it; that takes longer, and is more exact.
    #[arg(long, value_name = "MS", requires = "proxied_ms")]
    direct_ms: Option<f64>,
    /// The same through Helenus.
    #[arg(long, value_name = "MS", requires = "direct_ms")]
    proxied_ms: Option<f64>,
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
    let (figures, mut mixed) = measuring.run(&mut |line| bar.set_message(line)).await?;
    bar.finish_and_clear();
    let lines = figures
        .iter()
        .map(|(name, value)| format!("{name} = {value}\n"));
    let measured = Calibration::parse(&lines.collect::<String>()).map_err(|e| anyhow!(e))?;
    if let (Some(direct_ms), Some(proxied_ms)) = (args.direct_ms, args.proxied_ms) {
        mixed.direct_us = direct_ms * 1_000.0;
        mixed.proxied_us = proxied_ms * 1_000.0;
    }
    let (fitted, factors) = fit(measured, &mixed, QUERIES);
    let data = own
        .as_ref()
        .map_or(std::path::Path::new("/"), |own| own.dir());
    let machine = Machine::here(data);
    let [points, rows, remote] = factors;
    let text = fitted.write(&format!(
        "What reads cost, in microseconds of one core: measured by `helenus sim calibrate` with\n\
         {} nodes of Cassandra {} on {} cores, all on one machine.\n\
         \n\
         Nodes that do the same all the time do it at their best. For the queries of the benchmark they\n\
         took {:.0} µs a point read alone, {:.0} µs a query 5:5, and {:.0} µs of these through Helenus. So\n\
         what belongs to point reads is multiplied by {points:.2}, to ranges by {rows:.2}, and to messages\n\
         between nodes by {remote:.2}.",
        measuring.nodes.len(),
        args.cassandra,
        machine.cores,
        mixed.points_us,
        mixed.direct_us,
        mixed.proxied_us,
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

/// Multiplies what nodes do so that the simulated ones need as much for a mix of queries as the real ones
/// did; the factors are those of point reads, of ranges, and of messages between nodes.
fn fit(measured: Calibration, mixed: &MixedCosts, queries: u32) -> (Calibration, [f64; 3]) {
    let scaled = |[points, rows, remote]: [f64; 3]| Calibration {
        coordinate_us: measured.coordinate_us * points,
        point_us: measured.point_us * points,
        range_us: measured.range_us * rows,
        row_us: measured.row_us * rows,
        row_kib_us: measured.row_kib_us * rows,
        answer_row_us: measured.answer_row_us * rows,
        answer_kib_us: measured.answer_kib_us * rows,
        remote_us: measured.remote_us * remote,
        remote_row_us: measured.remote_row_us * remote,
        remote_kib_us: measured.remote_kib_us * remote,
        ..measured
    };
    let begin = Instant::now();
    let nodes_us = |factors: [f64; 3], arm: &Arm| {
        let setup = Setup {
            clients: 32,
            points_in_ten: 5,
            queries,
            costs: scaled(factors),
            ..Setup::bench()
        };
        simulate(&setup, arm, begin).nodes_us_per_query
    };
    let factor = |wanted: f64, found: f64| match found > 0.0 {
        true => (wanted / found).clamp(1.0 / FACTOR_MAX, FACTOR_MAX),
        false => 1.0,
    };
    let points = factor(mixed.points_us, measured.coordinate_us + measured.point_us);
    let default = Arm::variant(Variant::Default);
    let (mut rows, mut remote) = (1.0, 1.0);
    for _ in 0..FITTINGS {
        // Proxies ask owners, so that little of theirs are messages between nodes.
        let others = nodes_us([points, 0.0, remote], &default);
        let own = nodes_us([points, 1.0, remote], &default) - others;
        rows = factor(mixed.proxied_us - others, own);
        let others = nodes_us([points, rows, 0.0], &Arm::Direct);
        let own = nodes_us([points, rows, 1.0], &Arm::Direct) - others;
        remote = factor(mixed.direct_us - others, own);
    }
    let factors = [points, rows, remote];
    (scaled(factors), factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_found_again() {
        let costs = Calibration::committed();
        let begin = Instant::now();
        let nodes_us = |points_in_ten, arm: &Arm| {
            let setup = Setup {
                clients: 32,
                points_in_ten,
                queries: 400,
                costs,
                ..Setup::bench()
            };
            simulate(&setup, arm, begin).nodes_us_per_query
        };
        let mixed = MixedCosts {
            points_us: nodes_us(10, &Arm::Direct),
            direct_us: nodes_us(5, &Arm::Direct),
            proxied_us: nodes_us(5, &Arm::variant(Variant::Default)),
        };
        let halved = Calibration {
            row_us: costs.row_us / 2.0,
            row_kib_us: costs.row_kib_us / 2.0,
            answer_row_us: costs.answer_row_us / 2.0,
            answer_kib_us: costs.answer_kib_us / 2.0,
            range_us: costs.range_us / 2.0,
            ..costs
        };
        let (_, [points, rows, remote]) = fit(halved, &mixed, 400);
        for (found, expected) in [(points, 1.0), (rows, 2.0), (remote, 1.0)] {
            assert!(
                (found / expected - 1.0).abs() < 0.1,
                "{points} {rows} {remote}"
            );
        }
    }
}
