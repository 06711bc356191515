//! `helenus bench hot`.

use super::common::{Common, Nodes, check_bounds, tell};
use super::table::{Shown, cells_table};
use super::variants::{self, Variant, checked};
use crate::node_cpus::default_share;
use crate::testbed::Proxy;
use anyhow::{Result, ensure};
use clap::Args;
use comfy_table::Table as TextTable;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{narrate, spinner};
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::arms::{Arm, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::experiments::hot::{FIRST_REPLICA, Hot, Rate};
use helenus_load::measure::Kind;
use helenus_load::report::Report;
use helenus_load::report::figures::{ERRORS, Figure, PER_SECOND};
use helenus_load::workload::kv::Table;
use scylla::statement::Consistency;
use std::time::{Duration, Instant};

/// Bytes of a value.
const VALUE_BYTES: usize = 1_000;

#[derive(Args, Debug)]
pub(super) struct HotArgs {
    #[command(flatten)]
    common: Common,
    /// Share of the reads that are for the hot key
    #[arg(long, default_value_t = 0.8)]
    hot_share: f64,
    /// Numbers of clients in the closed loop [default: 32,128,512, or 128 with --quick]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: Vec<u32>,
    /// Reads per second in the open loop [default: half of what the token-aware driver reaches in a closed
    /// one without a hot key]
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds per arm, cell and round [default: 6, or 2 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
    /// Seconds that a client waits
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    time_out: f64,
    /// An additional Helenus with its own settings, separated by spaces
    #[arg(long = "variant", value_parser = variants::parse_plain, value_name = "NAME:SECTION.KEY=VALUE")]
    own_variants: Vec<Variant<()>>,
}

pub(super) async fn hot(mut args: HotArgs) -> Result<()> {
    raise_open_files_limit();
    args.check()?;
    let common = &mut args.common;
    if common.contact.is_empty() && common.node_cpus.is_none() {
        common.node_cpus = Some(default_share(common.nodes()));
    }
    let common = &args.common;
    let rounds = common.rounds(2, 3)?;
    let mut nodes = Nodes::up(common).await?;
    let variants = checked(args.variants())?;
    let bar = spinner("starting proxies");
    let proxies = variants::start(variants, &nodes.contact_points, &bar).await?;
    let mut report = nodes.report("hot", common, rounds);
    variants::describe(&mut report, &proxies);
    let experiment = args.experiment(rounds, &nodes, &proxies)?;
    let mut say = narrate(&bar, Instant::now());
    let open = experiment.prepare(&mut say).await?;
    nodes.cap_cpu(common, &mut report)?;
    experiment.run(&open, &mut report, &mut say).await?;
    bar.finish_and_clear();
    let cells = table(&report, &experiment.arms);
    tell(&report, common, Some(cells))?;
    drop(open);
    drop(proxies);
    nodes.down()
}

impl HotArgs {
    fn check(&self) -> Result<()> {
        check_bounds([
            ("--hot-share", self.hot_share, 1.0),
            ("--rate", self.rate.unwrap_or(1.0), 1e6),
            ("--cell-seconds", self.cell_seconds.unwrap_or(1.0), 3600.0),
            ("--time-out", self.time_out, 3600.0),
        ])?;
        let common = &self.common;
        common.rounds(2, 3)?;
        ensure!(
            common.replication == 1,
            "the table is on three nodes, or on all if there are fewer: leave out --replication"
        );
        ensure!(common.keys > 1, "other keys are needed beside the hot one");
        Ok(())
    }

    /// Helenus, and the same without sharing, and without spreading either.
    fn variants(&self) -> Vec<Variant<()>> {
        let unshared = "aggregation.share_reads=false";
        let mut variants = vec![
            Variant::new("", (), &[]),
            Variant::new("unshared", (), &[unshared]),
        ];
        if !self.common.quick {
            let settings = [unshared, "assignment.spread_hot=false"];
            variants.push(Variant::new("bound", (), &settings));
        }
        variants.extend(self.own_variants.iter().cloned());
        variants
    }

    fn experiment(
        &self,
        rounds: usize,
        nodes: &Nodes,
        proxies: &[(Variant<()>, Proxy)],
    ) -> Result<Hot> {
        let common = &self.common;
        let direct = [
            (FIRST_REPLICA, Policy::FirstReplica),
            (TOKEN_AWARE, Policy::TokenAware),
            (ROUND_ROBIN, Policy::RoundRobin),
        ];
        let mut arms = common.arms(nodes, &direct, proxies);
        for arm in &mut arms {
            arm.endpoint.consistency = Consistency::One;
            arm.endpoint.request_timeout = Duration::from_secs_f64(self.time_out);
        }
        Ok(Hot {
            table: Table {
                keyspace: "helenus_hot".into(),
                table: "kv".into(),
                replication: common.replicas(),
                keys: common.keys.min(common.either(20_000, u64::MAX)),
                value_bytes: VALUE_BYTES,
            },
            arms,
            clients: common.clients(&self.clients, &[128], &[32, 128, 512]),
            hot_share: self.hot_share,
            rate: self.rate.map_or(Rate::Share(0.5), Rate::PerSecond),
            rounds,
            cell_time: common.span(self.cell_seconds, 2.0, 6.0),
            slices: common.either(1, 2),
            warmup: common.span(None, 20.0, 60.0),
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }
}

/// Medians over the rounds, but for failures, which are summed.
fn table(report: &Report, arms: &[Arm]) -> TextTable {
    fn ms(kind: &Kind, us: u64) -> Option<f64> {
        (kind.ops > 0).then_some(us as f64 / 1000.0)
    }
    let p50 = |kind| Shown::Median(Figure::OfKind(kind, |of| ms(of, of.latency.us_p50)));
    let p99 = |kind| Shown::Median(Figure::OfKind(kind, |of| ms(of, of.latency.us_p99)));
    let columns = [
        ("reads/s", Shown::Median(PER_SECOND)),
        ("hot p50 ms", p50("hot")),
        ("p99", p99("hot")),
        ("others p50 ms", p50("other")),
        ("p99", p99("other")),
        ("failed", Shown::Sum(ERRORS)),
    ];
    cells_table(report, arms, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::common::parsed;

    fn args(line: &str) -> Result<HotArgs> {
        let args: HotArgs = parsed(line)?;
        args.check()?;
        Ok(args)
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "x --hot-share 0",
            "x --hot-share 1.5",
            "x --rate 0",
            "x --rate nan",
            "x --keys 1",
            "x --clients 0",
            "x --rounds 0",
            "x --replication 3",
            "x --cell-seconds 0",
            "x --variant nothing",
        ] {
            assert!(args(line).is_err(), "{line}");
        }
    }

    #[test]
    fn quick_leaves_out_the_arm_that_only_explains() {
        let names = |line: &str| {
            let variants = args(line).expect("good options").variants();
            variants.into_iter().map(|of| of.name).collect::<Vec<_>>()
        };
        assert_eq!(names("x --quick"), ["helenus", "helenus-unshared"]);
        let all = [
            "helenus",
            "helenus-unshared",
            "helenus-bound",
            "helenus-own",
        ];
        assert_eq!(names("x --variant own:limits.clients_max=7"), all);
        checked(args("x").expect("good options").variants()).expect("known settings");
    }
}
