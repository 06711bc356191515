//! `helenus bench aggregation`.

use super::common::{Common, Nodes, check_bounds, hand_over};
use super::variants::{self, Variant, checked};
use crate::testbed::Proxy;
use anyhow::{Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::spinner;
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::aggregation::{
    Aggregation, CELL_KINDS, Contender, MERGED, Part, ROUND_ROBIN, TOKEN_AWARE,
};
use helenus_load::report::Report;
use helenus_load::workload::cas::Counters;
use helenus_load::workload::kv::Table;
use helenus_load::workload::ycsb::UserTable;
use std::time::{Duration, Instant};

/// Time limit of `--quick`, minus the time for bringing the nodes down and writing the report.
const QUICK: Duration = Duration::from_secs(282);

#[derive(Args, Debug)]
pub(super) struct AggregationArgs {
    #[command(flatten)]
    common: Common,
    /// Kinds of cells to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "KIND", value_parser = PossibleValuesParser::new(CELL_KINDS))]
    cells: Vec<String>,
    /// Numbers of clients at saturation [default: 1,16,64,256,512,1000, or 1,64,512 with --quick]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Fixed windows in microseconds [default: 0,1,5,10,20,30, or 0,10,30 with --quick]
    #[arg(long, value_delimiter = ',')]
    windows: Vec<u32>,
    /// An additional Helenus with its own settings (separated by spaces), in the cells of the windows
    #[arg(long = "variant", value_parser = parse_variant, value_name = "NAME:SECTION.KEY=VALUE")]
    variants: Vec<Variant<Part>>,
    /// Plain connections in the cells with many small clients
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    many_clients: u32,
    /// Records in YCSB's table [default: 100000, or 10000 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// Maximum seconds per cell [default: 5, or 1.2 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
}

pub(super) async fn aggregation(args: AggregationArgs) -> Result<()> {
    let began = Instant::now();
    let open_files = raise_open_files_limit();
    let common = &args.common;
    let rounds = common.rounds(2, 5)?;
    let seconds = args.cell_seconds.unwrap_or(1.0);
    check_bounds([("--cell-seconds", seconds, 3600.0)])?;
    // Each arm keeps its plain connections open all the time.
    let needed = u64::from(args.many_clients) * (2 + common.arms.len() as u64) + 2000;
    ensure!(
        open_files >= needed,
        "only {open_files} open files are allowed and {needed} are needed: raise `ulimit -n` or \
         lower --many-clients"
    );
    let variants = checked(args.variants())?;
    let mut nodes = Nodes::up(common).await?;
    let bar = spinner("starting proxies");
    let proxies = variants::start(variants, &nodes.contact_points, &bar).await?;
    let experiment = args.experiment(rounds, &nodes, &proxies, began)?;
    let mut report: Report = nodes.report("aggregation", common, rounds);
    variants::describe(&mut report, &proxies);
    experiment
        .prepare(&mut |line| bar.set_message(line))
        .await?;
    nodes.cap_cpu(common, &mut report)?;
    experiment
        .run(&mut report, &mut |line| bar.set_message(line))
        .await?;
    bar.finish_and_clear();
    hand_over(&report, common)?;
    drop(proxies);
    nodes.down()
}

impl AggregationArgs {
    fn variants(&self) -> Vec<Variant<Part>> {
        let by_default: &[u32] = match self.common.quick {
            true => &[0, 10, 30],
            false => &[0, 1, 5, 10, 20, 30],
        };
        let windows = match self.windows.is_empty() {
            true => by_default,
            false => &self.windows,
        };
        let mut variants = vec![Variant::new("", Part::All, &[])];
        for window_us in windows {
            let window = format!("aggregation.window_us={window_us}");
            let settings = ["aggregation.mode=window", &window];
            let name = format!("window-{window_us}");
            variants.push(Variant::new(&name, Part::Window, &settings));
        }
        for (name, part, setting) in [
            ("adaptive", Part::Window, "aggregation.mode=adaptive"),
            (MERGED, Part::Window, "aggregation.merge_writes=[\"*\"]"),
            ("sharing-on", Part::HotKey, "aggregation.share_reads=true"),
            ("sharing-off", Part::HotKey, "aggregation.share_reads=false"),
            ("queue-on", Part::Cas, "aggregation.lwt_turns=true"),
            ("queue-off", Part::Cas, "aggregation.lwt_turns=false"),
        ] {
            variants.push(Variant::new(name, part, &[setting]));
        }
        variants.extend(self.variants.iter().cloned());
        variants
    }

    fn experiment(
        &self,
        rounds: usize,
        nodes: &Nodes,
        proxies: &[(Variant<Part>, Proxy)],
        began: Instant,
    ) -> Result<Aggregation> {
        let common = &self.common;
        let direct = [
            (TOKEN_AWARE, Policy::TokenAware),
            (ROUND_ROBIN, Policy::RoundRobin),
        ];
        let arms = common.arms(nodes, &direct, proxies);
        // Those of --arm come last.
        let parts = [Part::All, Part::Throughput].into_iter();
        let parts = parts.chain(proxies.iter().map(|(variant, _)| variant.part));
        let parts = parts.chain(std::iter::repeat(Part::All));
        let arms = arms.into_iter().zip(parts);
        let keyspace = "helenus_aggregation";
        Ok(Aggregation {
            table: Table {
                keyspace: keyspace.into(),
                table: "kv".into(),
                replication: common.replication,
                keys: common.keys,
                // With the key of 8 bytes this makes the paper's item of 20 bytes.
                value_bytes: 12,
            },
            users: UserTable {
                keyspace: keyspace.into(),
                replication: common.replication,
                records: self.records.unwrap_or(common.either(10_000, 100_000)),
            },
            // Agreement among several replicas is what makes compare-and-set expensive.
            counters: Counters {
                keyspace: format!("{keyspace}_cas"),
                replication: nodes.contact_points.len().min(3),
            },
            arms: arms.map(|(arm, part)| Contender { arm, part }).collect(),
            only: self.cells.clone(),
            rounds,
            clients: common.clients(&self.clients, &[1, 64, 512], &[1, 16, 64, 256, 512, 1000]),
            clients_usual: 256,
            many_clients: self.many_clients as usize,
            warmup: common.span(None, 30.0, 90.0),
            cell_warmup: common.span(None, 0.3, 1.0),
            cell_time: common.span(self.cell_seconds, 1.2, 5.0),
            until: common.quick.then(|| began + QUICK),
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }
}

fn parse_variant(text: &str) -> Result<Variant<Part>> {
    variants::parse(text, Part::Window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::common::parsed;

    fn args(line: &str) -> AggregationArgs {
        parsed(line).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn each_window_has_a_proxy_of_its_own() {
        let names = |line: &str| -> Vec<String> {
            args(line).variants().into_iter().map(|v| v.name).collect()
        };
        assert_eq!(names("x").len(), 1 + 6 + 2 + 4);
        assert_eq!(names("x --quick").len(), 1 + 3 + 2 + 4);
        let chosen = names("x --windows 7");
        assert_eq!(chosen[..2], ["helenus", "helenus-window-7"]);
        let settings = &args("x --windows 7").variants()[1].settings;
        assert_eq!(
            settings[..],
            ["aggregation.mode=window", "aggregation.window_us=7"]
        );
    }

    #[test]
    fn own_variants_join_and_their_mistakes_are_refused() {
        let own = args("x --variant one:listen.workers=1")
            .variants()
            .pop()
            .unwrap();
        assert_eq!(
            (&*own.name, &*own.settings[0]),
            ("helenus-one", "listen.workers=1")
        );
        assert_eq!(own.part, Part::Window);
        for wrong in [
            "one",
            ":listen.workers=1",
            "one:listen.wrokers=1",
            "one:listen",
        ] {
            assert!(parse_variant(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_of_its_own_arms_are_right() {
        let variants = checked(args("x --windows 3").variants()).expect("right");
        assert_eq!(variants.len(), 8);
    }
}
