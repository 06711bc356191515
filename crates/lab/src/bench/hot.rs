//! `helenus bench hot`.

use super::common::{Common, Nodes, hand_over, middle};
use super::variants::{self, Variant, checked};
use crate::node_cpus::default_share;
use crate::testbed::Proxy;
use anyhow::{Result, ensure};
use clap::Args;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{narrate, spinner};
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::arms::{Arm, HELENUS, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::experiments::hot::{FIRST_REPLICA, Hot, Rate};
use helenus_load::measure::{Kind, Phase};
use helenus_load::report::Report;
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
    #[arg(long = "variant", value_parser = parse_variant, value_name = "NAME:SECTION.KEY=VALUE")]
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
    let rounds = common.rounds.unwrap_or(if common.quick { 2 } else { 3 });
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
    println!("{}", cells_table(&report, &experiment.arms));
    for note in &report.notes {
        println!("{note}");
    }
    hand_over(&report, common)?;
    drop(open);
    drop(proxies);
    nodes.down()
}

impl HotArgs {
    fn check(&self) -> Result<()> {
        for (flag, value, max) in [
            ("--hot-share", self.hot_share, 1.0),
            ("--rate", self.rate.unwrap_or(1.0), 1e6),
            ("--cell-seconds", self.cell_seconds.unwrap_or(1.0), 3600.0),
            ("--time-out", self.time_out, 3600.0),
        ] {
            ensure!(
                value > 0.0 && value <= max,
                "{flag} must be above 0 and at most {max}"
            );
        }
        let common = &self.common;
        ensure!(
            common.rounds.is_none_or(|rounds| rounds > 0),
            "at least one round is needed"
        );
        ensure!(
            common.replication == 1,
            "the table is on three nodes, or on all if there are fewer: leave out --replication"
        );
        ensure!(common.keys > 1, "other keys are needed beside the hot one");
        Ok(())
    }

    /// Helenus, and the same without sharing, and without spreading either.
    fn variants(&self) -> Vec<Variant<()>> {
        let variant = |name: &str, settings: &[&str]| Variant {
            name: name.to_owned(),
            part: (),
            settings: settings.iter().map(|of| (*of).to_owned()).collect(),
        };
        let unshared = "aggregation.share_reads=false";
        let mut variants = vec![
            variant(HELENUS, &[]),
            variant(&format!("{HELENUS}-unshared"), &[unshared]),
        ];
        if !self.common.quick {
            let name = format!("{HELENUS}-bound");
            variants.push(variant(&name, &[unshared, "assignment.spread_hot=false"]));
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
        let span = |quick, full| Duration::from_secs_f64(if common.quick { quick } else { full });
        let direct = |name, policy| common.arm(name, nodes.contact_points.clone(), policy);
        let mut arms = vec![
            direct(FIRST_REPLICA, Policy::FirstReplica),
            direct(TOKEN_AWARE, Policy::TokenAware),
            direct(ROUND_ROBIN, Policy::RoundRobin),
        ];
        let through =
            |(variant, proxy): &(Variant<()>, Proxy)| common.through(&variant.name, proxy);
        arms.extend(proxies.iter().map(through));
        arms.extend(common.extra_arms());
        for arm in &mut arms {
            arm.endpoint.consistency = Consistency::One;
            arm.endpoint.request_timeout = Duration::from_secs_f64(self.time_out);
        }
        let clients: &[u32] = match (self.clients.is_empty(), common.quick) {
            (false, _) => &self.clients,
            (true, true) => &[128],
            (true, false) => &[32, 128, 512],
        };
        Ok(Hot {
            table: Table {
                keyspace: "helenus_hot".into(),
                table: "kv".into(),
                replication: match common.contact.is_empty() {
                    true => usize::from(common.nodes().min(3)),
                    false => 3,
                },
                keys: if common.quick {
                    common.keys.min(20_000)
                } else {
                    common.keys
                },
                value_bytes: VALUE_BYTES,
            },
            arms,
            clients: clients.iter().map(|&clients| clients as usize).collect(),
            hot_share: self.hot_share,
            rate: self.rate.map_or(Rate::Share(0.5), Rate::PerSecond),
            rounds,
            cell_time: self
                .cell_seconds
                .map_or_else(|| span(2.0, 6.0), Duration::from_secs_f64),
            slices: if common.quick { 1 } else { 2 },
            warmup: span(20.0, 60.0),
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }
}

fn parse_variant(text: &str) -> Result<Variant<()>> {
    variants::parse(text, ())
}

/// Medians over the rounds, but for failures, which are summed.
fn cells_table(report: &Report, arms: &[Arm]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "cell",
        "arm",
        "reads/s",
        "hot p50 ms",
        "p99",
        "others p50 ms",
        "p99",
        "failed",
    ]);
    let cells = report.arms.values().flat_map(|of| of.keys());
    let cells: std::collections::BTreeSet<&String> = cells.collect();
    for cell in cells {
        for arm in arms {
            let name = &arm.endpoint.name;
            let phases = report.phases(name, cell);
            if phases.is_empty() {
                continue;
            }
            let of_kind = |kind: &'static str, of: fn(&Kind) -> u64| {
                middle(phases, |phase| {
                    let kind = phase.by_kind.get(kind).filter(|kind| kind.ops > 0)?;
                    Some(of(kind) as f64 / 1000.0)
                })
            };
            let failed: u64 = phases.iter().map(Phase::errors_total).sum();
            table.add_row([
                cell.clone(),
                name.clone(),
                middle(phases, |phase| Some(phase.ops_per_second)),
                of_kind("hot", |kind| kind.latency.us_p50),
                of_kind("hot", |kind| kind.latency.us_p99),
                of_kind("other", |kind| kind.latency.us_p50),
                of_kind("other", |kind| kind.latency.us_p99),
                failed.to_string(),
            ]);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: HotArgs,
    }

    fn args(line: &str) -> Result<HotArgs> {
        let args = Line::try_parse_from(line.split_whitespace())?.args;
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
