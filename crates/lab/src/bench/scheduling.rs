//! `helenus bench scheduling`.

use super::common::{Common, Nodes, check_bounds, tell};
use super::table::{Shown, cells_table};
use super::variants::{self, Variant, checked};
use crate::testbed::Proxy;
use anyhow::{Result, ensure};
use clap::Args;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::spinner;
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::scheduling::{
    CellKind, KINDS, Mix, Mixed, Plain, ROUND_ROBIN, Scheduling, Storm, TOKEN_AWARE, Tables,
};
use helenus_load::measure::{Kind, Phase};
use helenus_load::report::Report;
use helenus_load::report::figures::{Figure, PER_SECOND};
use std::time::{Duration, Instant};

mod further;

/// Time limit of `--quick`, minus a reserve for a last cell that takes longer than in the round before,
/// for bringing the nodes down and for writing the report.
const QUICK: Duration = Duration::from_secs(270);
const EVEN: Mix = Mix {
    points: 5,
    scans: 5,
};
const MOSTLY_POINTS: Mix = Mix {
    points: 9,
    scans: 1,
};

/// Rows of the plain client's longest scans, and queries of each of its cells.
const PLAIN_SCAN_ROWS: i32 = 10_000;
const PLAIN_QUERIES: u64 = 2000;
const PLAIN_CELL_QUICK: Duration = Duration::from_secs(3);

#[derive(Args, Debug)]
pub(super) struct SchedulingArgs {
    #[command(flatten)]
    common: Common,
    /// Kinds of cells to measure: idle, aggregates, in, mixed, plain, large-reads, index, wide,
    /// open-loop, storm [default: all]
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    cells: Vec<CellKind>,
    /// Arms to leave out, such as direct-round-robin,helenus-off
    #[arg(long, value_delimiter = ',', value_name = "ARM")]
    without: Vec<String>,
    /// Tables over which the rows (--keys) are distributed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tables: u32,
    /// Bytes per row
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    row_bytes: u32,
    /// Maximum rows of a scan, drawn uniformly from 1
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(i32).range(1..))]
    scan_rows: i32,
    /// Ratios of point reads to scans [default: 9:1,5:5]
    #[arg(long, value_delimiter = ',')]
    mixes: Vec<Mix>,
    /// Numbers of clients for each mix [default: 1,8,32,125,250,500,1000; with --quick 5:5 at 250 and
    /// 125, 9:1 at 250]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: Vec<u32>,
    /// Total queries per cell [default: 2000, or 1.5 per client with --quick; a tenth of that below 125
    /// clients, but at least 300]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    queries: Option<u64>,
    /// Maximum seconds for which a cell sends queries [default: no limit, or 10 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
    /// Seconds a client waits for a whole query; a failed query counts with this time in means and
    /// percentiles [default: 60, or 30 with --quick]
    #[arg(long, value_name = "SECONDS")]
    time_out: Option<f64>,
    /// Scheduling variants, each run by a separate Helenus beside the default, for instance
    /// O,ReS,P,ReS+P,P+RaS,A
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    variants: Vec<String>,
    /// An additional Helenus with its own settings, separated by spaces
    #[arg(long = "variant", value_parser = variants::parse_plain, value_name = "NAME:SECTION.KEY=VALUE")]
    own_variants: Vec<Variant<()>>,
    /// Driver sessions of each arm, shared by its clients
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    sessions: u32,
    /// Scanning clients of the storm; 0 disables it
    #[arg(long, default_value_t = 300)]
    storm_clients: u32,
    /// Point reads per second in the storm
    #[arg(long, default_value_t = 100.0)]
    storm_rate: f64,
    /// Duration of the storm in seconds [default: 20, or 5 with --quick]
    #[arg(long)]
    storm_seconds: Option<f64>,
    /// Numbers of clients of the plain client, whose few connections they all share; 0 or nothing leaves
    /// these cells out [default: 8,50; with --quick 50, 5:5 only]
    #[arg(long, value_delimiter = ',', value_parser = parse_plain_clients)]
    plain_clients: Vec<u32>,
    /// Connections of the plain client: to the nodes in turn, or all to the proxy
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    plain_connections: u32,
    #[command(flatten)]
    further: further::FurtherArgs,
    /// Empty the page cache of the whole machine before each cell (needs root)
    #[arg(long)]
    drop_caches: bool,
}

pub(super) async fn scheduling(args: SchedulingArgs) -> Result<()> {
    let began = Instant::now();
    raise_open_files_limit();
    let common = &args.common;
    let rounds = common.rounds(2, 3)?;
    args.check()?;
    let variants = checked(args.variants())?;
    let mut nodes = Nodes::up(common).await?;
    let bar = spinner("starting proxies");
    let proxies = variants::start(variants, &nodes.contact_points, &bar).await?;
    let experiment = args.experiment(rounds, &nodes, &proxies, began)?;
    let mut report: Report = nodes.report("scheduling", common, rounds);
    variants::describe(&mut report, &proxies);
    experiment
        .prepare(&mut |line| bar.set_message(line))
        .await?;
    nodes.cap_cpu(common, &mut report)?;
    experiment
        .run(&mut report, &mut |line| bar.set_message(line))
        .await?;
    bar.finish_and_clear();
    let columns = columns();
    let columns = columns.iter().map(|(head, shown)| (&**head, *shown));
    let cells = cells_table(&report, &experiment.arms, columns);
    tell(&report, common, Some(cells))?;
    drop(proxies);
    nodes.down()
}

impl SchedulingArgs {
    fn check(&self) -> Result<()> {
        let given = |seconds: Option<f64>| seconds.unwrap_or(1.0);
        check_bounds([
            ("--cell-seconds", given(self.cell_seconds), 3600.0),
            ("--time-out", given(self.time_out), 3600.0),
            ("--storm-seconds", given(self.storm_seconds), 3600.0),
            ("--storm-rate", self.storm_rate, 10_000.0),
        ])?;
        let (keys, tables) = (self.common.keys, u64::from(self.tables));
        ensure!(
            keys >= tables,
            "--keys {keys} rows cannot fill --tables {tables}"
        );
        ensure!(
            !self.without.iter().any(|name| name == TOKEN_AWARE),
            "{TOKEN_AWARE} is what the other arms are compared with"
        );
        self.further.check()
    }

    fn leaves_out(&self, arm: &str) -> bool {
        self.without.iter().any(|name| name == arm)
    }

    /// The kinds of cells, each once.
    fn kinds(&self) -> Vec<CellKind> {
        match self.cells.is_empty() {
            true => CellKind::ALL.to_vec(),
            false => self.cells.clone(),
        }
    }

    fn variants(&self) -> Vec<Variant<()>> {
        let mut variants = vec![
            Variant::new("", (), &[]),
            Variant::new("off", (), &["scheduling.enabled=false"]),
        ];
        for name in &self.variants {
            let setting = format!("scheduling.variant={name}");
            variants.push(Variant::new(name, (), &[&*setting]));
        }
        variants.extend(self.own_variants.iter().cloned());
        variants.retain(|variant| !self.leaves_out(&variant.name));
        variants
    }

    /// Cells that are compared come first, in case time runs out.
    fn mixed(&self) -> Vec<Mixed> {
        let pairs: Vec<(Mix, u32)> =
            if self.common.quick && self.mixes.is_empty() && self.clients.is_empty() {
                vec![(EVEN, 250), (MOSTLY_POINTS, 250), (EVEN, 125)]
            } else {
                let (all_mixes, all_clients) =
                    ([EVEN, MOSTLY_POINTS], [1000, 500, 250, 125, 32, 8, 1]);
                let mixes: &[Mix] = match self.mixes.is_empty() {
                    true => &all_mixes,
                    false => &self.mixes,
                };
                let clients: &[u32] = match self.clients.is_empty() {
                    true => &all_clients,
                    false => &self.clients,
                };
                let with = |&mix: &Mix| clients.iter().map(move |&clients| (mix, clients));
                mixes.iter().flat_map(with).collect()
            };
        let cell = |(mix, clients): (Mix, u32)| Mixed {
            mix,
            clients: clients as usize,
            queries: self.queries(clients),
        };
        pairs.into_iter().map(cell).collect()
    }

    fn queries(&self, clients: u32) -> u64 {
        let of_many = match self.queries {
            Some(queries) => queries,
            None if self.common.quick => u64::from(clients) * 3 / 2,
            None => 2000,
        };
        match (self.queries, clients) {
            // A few clients would need minutes for that many.
            (None, ..125) => (of_many / 10).max(300),
            _ => of_many,
        }
    }

    /// With --quick it reads the first of the tables that are filled anyway.
    fn plain(&self) -> Option<Plain> {
        let quick = self.common.quick;
        let mut clients = self.common.clients(&self.plain_clients, &[50], &[8, 50]);
        clients.retain(|clients| *clients > 0);
        (!clients.is_empty()).then(|| Plain {
            tables: Tables {
                count: 1,
                rows: match quick {
                    true => self.common.keys / u64::from(self.tables),
                    false => self.common.keys,
                },
                scan_rows_max: PLAIN_SCAN_ROWS,
                ..self.tables()
            },
            connections: self.plain_connections as usize,
            mixes: self.base_mixes(),
            clients,
            queries: PLAIN_QUERIES,
            cell_time: quick.then_some(PLAIN_CELL_QUICK),
            short: quick,
        })
    }

    /// Of the plain client and of open loops.
    fn base_mixes(&self) -> Vec<Mix> {
        match self.common.quick {
            true => vec![EVEN],
            false => vec![EVEN, MOSTLY_POINTS],
        }
    }

    fn tables(&self) -> Tables {
        Tables {
            keyspace: format!("helenus_scheduling_rf{}", self.common.replication),
            count: self.tables as usize,
            rows: self.common.keys / u64::from(self.tables),
            row_bytes: self.row_bytes as usize,
            replication: self.common.replication,
            scan_rows_max: self.scan_rows,
        }
    }

    fn experiment(
        &self,
        rounds: usize,
        nodes: &Nodes,
        proxies: &[(Variant<()>, Proxy)],
        began: Instant,
    ) -> Result<Scheduling> {
        let common = &self.common;
        let time_out = common.span(self.time_out, 30.0, 60.0);
        let direct = [
            (TOKEN_AWARE, Policy::TokenAware),
            (ROUND_ROBIN, Policy::RoundRobin),
        ];
        let mut arms = common.arms(nodes, &direct, proxies);
        for arm in &mut arms {
            arm.endpoint.request_timeout = time_out;
        }
        arms.retain(|arm| !self.leaves_out(&arm.endpoint.name));
        let storm = Storm {
            scan_clients: self.storm_clients as usize,
            points_per_second: self.storm_rate,
            time: common.span(self.storm_seconds, 5.0, 20.0),
            short: common.quick,
        };
        let cell_time = match (self.cell_seconds, common.quick) {
            (None, false) => None,
            (given, _) => Some(common.span(given, 10.0, 10.0)),
        };
        Ok(Scheduling {
            tables: self.tables(),
            arms,
            rounds,
            mixed: self.mixed(),
            cell_time,
            storm: (self.storm_clients > 0).then_some(storm),
            plain: self.plain(),
            further: Some(
                self.further
                    .further(&self.tables(), self.base_mixes(), common.quick),
            ),
            kinds: self.kinds(),
            sessions: self.sessions as usize,
            time_out,
            warmup: common.span(None, 40.0, 60.0),
            settle_max: common.span(None, 5.0, 60.0),
            drop_caches: self.drop_caches,
            until: common.quick.then(|| began + QUICK),
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }
}

type OfKind = fn(&Kind) -> Option<f64>;

/// Medians over the rounds. Times are in milliseconds, including failures.
fn columns() -> Vec<(String, Shown)> {
    let mut columns = vec![("queries/s".to_owned(), Shown::Median(PER_SECOND))];
    for kind in KINDS {
        let figures: [(&str, OfKind); 6] = [
            ("mean ms", |kind| Some(kind.with_failures?.us_mean / 1000.0)),
            ("p50", |kind| ms(kind.with_failures?.us_p50)),
            ("p95", |kind| ms(kind.with_failures?.us_p95)),
            ("p99", |kind| ms(kind.with_failures?.us_p99)),
            ("p99.9", |kind| ms(kind.with_failures?.us_p999)),
            ("failed", |kind| Some(kind.failed as f64)),
        ];
        columns.extend(figures.map(|(head, of)| {
            let head = format!("{kind} {head}");
            (head, Shown::Median(Figure::OfKind(kind, of)))
        }));
    }
    let nodes = Figure::Of(|phase| cpu_ms(phase, |name| !["client", "proxy"].contains(&name)));
    columns.push(("nodes' CPU ms/query".to_owned(), Shown::Median(nodes)));
    let proxy = Figure::Of(|phase| cpu_ms(phase, |name| name == "proxy"));
    columns.push(("proxy's".to_owned(), Shown::Median(proxy)));
    columns
}

fn ms(us: u64) -> Option<f64> {
    Some(us as f64 / 1000.0)
}

/// CPU time per query of the watched processes with this name.
fn cpu_ms(phase: &Phase, named: fn(&str) -> bool) -> Option<f64> {
    let of_name = phase.processes.iter().filter(|(name, _)| named(name));
    let seconds: Vec<f64> = of_name.map(|(_, used)| used.cpu_seconds).collect();
    (!seconds.is_empty() && phase.ops > 0)
        .then(|| seconds.iter().sum::<f64>() * 1000.0 / phase.ops as f64)
}

fn parse_plain_clients(text: &str) -> Result<u32> {
    match text.trim() {
        "" => Ok(0),
        number => {
            let clients = number.parse()?;
            ensure!(clients <= 20_000, "at most 20000 clients");
            Ok(clients)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::common::parsed;

    fn parse(line: &str) -> Result<SchedulingArgs, clap::Error> {
        parsed(line)
    }

    fn args(line: &str) -> SchedulingArgs {
        parse(line).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn variants_of_the_paper_are_arms_with_settings() {
        let variants = args("x --variants O,ReS+P").variants();
        let pairs: Vec<(&str, String)> = variants
            .iter()
            .map(|variant| (&*variant.name, variant.settings.join(" ")))
            .collect();
        assert_eq!(
            pairs,
            [
                ("helenus", String::new()),
                ("helenus-off", "scheduling.enabled=false".into()),
                ("helenus-O", "scheduling.variant=O".into()),
                ("helenus-ReS+P", "scheduling.variant=ReS+P".into()),
            ]
        );
        let own = args("x --variant one:listen.workers=1").variants();
        assert_eq!(own[2].name, "helenus-one");
        assert!(parse("x --variant one:listen.wrokers=1").is_err());
    }

    #[test]
    fn quick_has_few_cells_and_all_of_them_can_be_chosen() {
        let cells = |line: &str| -> Vec<(String, usize, u64)> {
            let mixed = args(line).mixed().into_iter();
            mixed
                .map(|cell| (cell.mix.to_string(), cell.clients, cell.queries))
                .collect()
        };
        assert_eq!(
            cells("x --quick"),
            [
                ("5:5".into(), 250, 375),
                ("9:1".into(), 250, 375),
                ("5:5".into(), 125, 187)
            ]
        );
        let all = cells("x");
        assert_eq!(all.len(), 14);
        assert!(all.contains(&("9:1".into(), 1000, 2000)));
        assert!(all.contains(&("5:5".into(), 1, 300)));
        assert_eq!(
            cells("x --mixes 3:2 --clients 8 --queries 50"),
            [("3:2".into(), 8, 50)]
        );
        for wrong in ["5", "0:1", "1:0", "a:1", "1:-1"] {
            assert!(parse(&format!("x --mixes {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_plain_client_is_part_of_every_run_unless_it_is_turned_off() {
        let plain = args("x").plain().unwrap();
        assert_eq!((plain.clients, plain.mixes.len()), (vec![8, 50], 2));
        assert_eq!((plain.tables.count, plain.tables.rows), (1, 100_000));
        let quick = args("x --quick").plain().unwrap();
        assert_eq!((quick.clients, quick.mixes.len()), (vec![50], 1));
        // One of the tables that are there anyway.
        assert_eq!(quick.tables.name(0), args("x --quick").tables().name(0));
        assert!(quick.short && quick.cell_time.is_some());
        assert_eq!(
            args("x --plain-clients 4,9").plain().unwrap().clients,
            [4, 9]
        );
        assert!(args("x --plain-clients 0").plain().is_none());
        assert!(args("x --plain-clients=").plain().is_none());
        assert!(parse("x --plain-connections 0").is_err());
        assert!(parse("x --plain-clients 20001").is_err());
    }

    #[test]
    fn cells_and_arms_can_be_chosen() {
        assert_eq!(args("x").kinds(), CellKind::ALL);
        assert_eq!(
            args("x --cells wide,open-loop").kinds(),
            [CellKind::Wide, CellKind::OpenLoop]
        );
        assert!(parse("x --cells narrow").is_err());
        let variants = args("x --variants O --without helenus-off").variants();
        let names: Vec<&str> = variants.iter().map(|variant| &*variant.name).collect();
        assert_eq!(names, ["helenus", "helenus-O"]);
        assert!(args("x --without direct-token-aware").check().is_err());
        assert!(args("x --without direct-round-robin").check().is_ok());
    }

    #[test]
    fn times_rates_and_sizes_have_bounds() {
        assert!(args("x").check().is_ok());
        for wrong in [
            "x --time-out 0",
            "x --cell-seconds 4000",
            "x --storm-seconds 0",
            "x --storm-rate 0",
            "x --storm-rate NaN",
            "x --keys 5",
            "x --open-share 0",
            "x --open-share 1.5",
            "x --look-up-rate 0",
        ] {
            assert!(args(wrong).check().is_err(), "{wrong}");
        }
    }
}
