//! `helenus bench assignment`.

use super::common::{Common, Nodes, hand_over};
use super::variants::{self, Variant, split};
use crate::serve_cmd::judge;
use crate::testbed::{Proxy, spinner};
use anyhow::{Result, bail, ensure};
use clap::Args;
use faults::ClusterFaults;
use helenus_cluster::{Cluster, ClusterSpec};
use helenus_load::arms::{Arm, HELENUS, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::assignment::{Assignment, Scenario};
use helenus_load::endpoint::{Endpoint, Policy, parse_consistency};
use helenus_load::process::raise_open_files_limit;
use helenus_load::ycsb::UserTable;
use relay::Relays;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use table::cells_table;

mod compactions;
mod faults;
mod relay;
mod table;

/// Time limit of `--quick`, minus the time for a last cell that takes longer than in the round before, for
/// bringing the nodes down and for writing the report.
const QUICK: Duration = Duration::from_secs(270);
const SCAN_ROWS: i32 = 1000;
const SCAN_CLIENTS: usize = 20;
/// Share of the machine's cores that the nodes get together if they are capped for the stress.
const NODES_SHARE: f64 = 0.6;

#[derive(Args, Debug)]
pub(super) struct AssignmentArgs {
    #[command(flatten)]
    common: Common,
    /// What happens to the nodes: idle, stressed, frozen, stalling, compacting, slow-network (only if named,
    /// as then all clients and proxies reach the nodes through relays) [default: all but that one; with
    /// --quick idle,stressed,frozen; with --contact idle]
    #[arg(long, value_delimiter = ',', value_parser = parse_scenario)]
    scenarios: Vec<Scenario>,
    /// Assignment policies, each run by a separate Helenus beside the default (assignment.policy)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    policies: Vec<String>,
    /// An additional Helenus with its own settings, separated by spaces
    #[arg(long = "variant", value_parser = parse_variant, value_name = "NAME:SECTION.KEY=VALUE")]
    own_variants: Vec<Variant<()>>,
    /// Numbers of clients [default: 5,20,100,500, or 20 with --quick]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: Vec<u32>,
    /// The paper's numbers of clients and more: 5,10,20,50,100,500,1000
    #[arg(long, conflicts_with = "clients")]
    full: bool,
    /// Consistency levels of the reads; scans use the first
    #[arg(long, value_delimiter = ',', default_value = "ONE,QUORUM")]
    consistency: Vec<String>,
    /// Records in the table [default: 100000, or 20000 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// Busy processes on each stressed node, within its CPU limit
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    stress_processes: u32,
    /// Milliseconds that a slow network to one node adds to a round trip
    #[arg(long, default_value_t = 20.0)]
    delay_ms: f64,
    /// Reads per second with one node at fault
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Seconds for which a node is frozen, stalls or compacts; as long before and after is measured (2 with --quick)
    #[arg(long, default_value_t = 5.0)]
    freeze_seconds: f64,
    /// Seconds per cell [default: 8, or 2 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
    /// Seconds a client waits; a failed request counts with this time in percentiles
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    time_out: f64,
}

pub(super) async fn assignment(mut args: AssignmentArgs) -> Result<()> {
    let began = Instant::now();
    raise_open_files_limit();
    args.check()?;
    args.choose_cap();
    let common = &args.common;
    let rounds = common.rounds.unwrap_or(if common.quick { 2 } else { 3 });
    ensure!(rounds > 0, "at least one round is needed");
    let (variants, skipped) = split(args.variants(), judge);
    for line in &skipped {
        eprintln!("{line}");
    }
    let is_relayed = args.scenarios().contains(&Scenario::SlowNetwork);
    let relayed = |spec: ClusterSpec| if is_relayed { spec.relayed() } else { spec };
    let mut nodes = Nodes::up_with(common, relayed).await?;
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
    let experiment = args.experiment(rounds, &nodes, &proxies, began)?;
    let mut report = nodes.report("assignment", common, rounds);
    variants::describe(&mut report, &proxies);
    report.notes.extend(args.without_reports());
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
    {
        let delay = Duration::from_secs_f64(args.delay_ms / 1000.0);
        let (own, processes) = (nodes.own.as_ref(), args.stress_processes);
        let mut faults = ClusterFaults::new(own, relays.as_ref(), delay, processes);
        let say = &mut |line| bar.set_message(line);
        experiment.run(&open, &mut faults, &mut report, say).await?;
    }
    bar.finish_and_clear();
    println!("{}", cells_table(&report, &experiment.arms));
    for note in &report.notes {
        println!("{note}");
    }
    hand_over(&report, common)?;
    drop(open);
    drop(proxies);
    drop(relays);
    nodes.down()
}

/// Where the nodes tell clients to connect, in their order.
fn announced(cluster: &Cluster) -> Result<Vec<SocketAddr>> {
    let nodes = cluster.nodes().into_iter();
    let addresses = nodes.map(|number| Ok(cluster.announced_address(number)?));
    addresses.collect()
}

async fn start_relays(cluster: &Cluster) -> Result<Relays> {
    let announced = announced(cluster)?.into_iter();
    let pairs: Vec<(SocketAddr, SocketAddr)> = announced.zip(cluster.contact_points()).collect();
    Relays::start(&pairs).await
}

impl AssignmentArgs {
    fn check(&self) -> Result<()> {
        for (flag, value, max) in [
            ("--cell-seconds", self.cell_seconds.unwrap_or(1.0), 3600.0),
            ("--freeze-seconds", self.freeze_seconds, 600.0),
            ("--time-out", self.time_out, 3600.0),
            ("--rate", self.rate, 100_000.0),
            ("--delay-ms", self.delay_ms, 10_000.0),
        ] {
            ensure!(
                value > 0.0 && value <= max,
                "{flag} must be above 0 and at most {max}"
            );
        }
        for level in &self.consistency {
            parse_consistency(level)?;
        }
        let faults = self.scenarios().iter().any(|&of| of != Scenario::Idle);
        ensure!(
            !faults || self.common.contact.is_empty(),
            "faults need nodes that this command starts: leave out --contact, or give --scenarios \
             idle"
        );
        ensure!(
            !faults || self.common.nodes > 1,
            "at least two nodes are needed"
        );
        Ok(())
    }

    /// In their own order, whatever the order given.
    fn scenarios(&self) -> Vec<Scenario> {
        let quick = vec![Scenario::Idle, Scenario::Stressed, Scenario::Frozen];
        let further = [Scenario::Stalling, Scenario::Compacting];
        let mut scenarios = match (self.scenarios.is_empty(), self.common.contact.is_empty()) {
            (true, true) if self.common.quick => quick,
            (true, true) => [quick.as_slice(), &further].concat(),
            (true, false) => vec![Scenario::Idle],
            (false, _) => self.scenarios.clone(),
        };
        scenarios.sort_unstable();
        scenarios.dedup();
        scenarios
    }

    /// Without a limit of their own, stressed nodes would take CPU from the others.
    fn choose_cap(&mut self) {
        if self.common.node_cpus.is_none() && self.scenarios().contains(&Scenario::Stressed) {
            let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
            let each = cores * NODES_SHARE / f64::from(self.common.nodes);
            self.common.node_cpus = Some((each * 100.0).round() / 100.0);
        }
    }

    /// The paper's policies do nothing without reports of the nodes.
    fn without_reports(&self) -> Option<String> {
        let mut variants = self.variants().into_iter();
        let is_resource = |setting: &String| setting.starts_with("assignment.policy=resource");
        let any = variants.any(|variant| variant.settings.iter().any(is_resource));
        any.then(|| {
            "No node reports its use of CPU, memory and disk, so the resource policies take \
             replicas in turn, as token-aware."
                .to_owned()
        })
    }

    fn variants(&self) -> Vec<Variant<()>> {
        let variant = |name: String, settings: Vec<String>| Variant {
            name,
            part: (),
            settings,
        };
        let mut variants = vec![variant(HELENUS.into(), Vec::new())];
        for name in &self.policies {
            let setting = format!("assignment.policy={name}");
            variants.push(variant(format!("{HELENUS}-{name}"), vec![setting]));
        }
        variants.extend(self.own_variants.iter().cloned());
        variants
    }

    fn clients(&self) -> Vec<usize> {
        let by_default: &[u32] = match (self.full, self.common.quick) {
            (true, _) => &[5, 10, 20, 50, 100, 500, 1000],
            (false, true) => &[20],
            (false, false) => &[5, 20, 100, 500],
        };
        let clients = match self.clients.is_empty() {
            true => by_default,
            false => &self.clients,
        };
        clients.iter().map(|&clients| clients as usize).collect()
    }

    fn experiment(
        &self,
        rounds: usize,
        nodes: &Nodes,
        proxies: &[(Variant<()>, Proxy)],
        began: Instant,
    ) -> Result<Assignment> {
        let common = &self.common;
        let seconds = Duration::from_secs_f64;
        let span = |quick, full| seconds(if common.quick { quick } else { full });
        let records = if common.quick { 20_000 } else { 100_000 };
        let arm = |name: &str, contact_points: Vec<String>, policy, proxy_pid, admin| {
            let mut endpoint = Endpoint::new(name, contact_points, policy);
            endpoint.connections_per_host = common.connections;
            endpoint.request_timeout = seconds(self.time_out);
            Arm {
                endpoint,
                proxy_pid,
                admin,
            }
        };
        let direct = |name, policy| arm(name, nodes.contact_points.clone(), policy, None, None);
        let mut arms = vec![
            direct(TOKEN_AWARE, Policy::TokenAware),
            direct(ROUND_ROBIN, Policy::RoundRobin),
        ];
        let proxy_arm = |name: &str, address: String, pid, admin| {
            arm(name, vec![address], Policy::TokenAware, pid, admin)
        };
        for (variant, proxy) in proxies {
            let address = proxy.address.to_string();
            let (pid, admin) = (Some(proxy.pid()), Some(proxy.admin));
            arms.push(proxy_arm(&variant.name, address, pid, admin));
        }
        for extra in &common.arms {
            let address = extra.address.clone();
            arms.push(proxy_arm(&extra.name, address, extra.pid, None));
        }
        let levels = self.consistency.iter();
        let levels = levels.map(|text| parse_consistency(text));
        Ok(Assignment {
            users: UserTable {
                keyspace: "helenus_assignment".into(),
                replication: match common.contact.is_empty() {
                    true => usize::from(common.nodes.min(3)),
                    false => 3,
                },
                records: self.records.unwrap_or(records),
            },
            arms,
            rounds,
            scenarios: self.scenarios(),
            levels: levels.collect::<Result<_>>()?,
            clients: self.clients(),
            scan_clients: SCAN_CLIENTS,
            scan_rows_max: SCAN_ROWS,
            rate_per_second: self.rate,
            freeze: seconds(self.freeze_seconds),
            around_freeze: span(2.0, self.freeze_seconds),
            fault_levels: if common.quick { 1 } else { usize::MAX },
            warmup: span(12.0, 60.0),
            cell_warmup: span(0.5, 2.0),
            cell_time: self.cell_seconds.map_or_else(|| span(2.0, 8.0), seconds),
            time_out: seconds(self.time_out),
            settle_max: span(10.0, 60.0),
            until: common.quick.then(|| began + QUICK),
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }
}

fn parse_scenario(text: &str) -> Result<Scenario> {
    Ok(match text {
        "idle" => Scenario::Idle,
        "stressed" => Scenario::Stressed,
        "frozen" => Scenario::Frozen,
        "stalling" => Scenario::Stalling,
        "compacting" => Scenario::Compacting,
        "slow-network" => Scenario::SlowNetwork,
        _ => bail!(
            "unknown scenario {text}: use idle, stressed, frozen, stalling, compacting or \
             slow-network"
        ),
    })
}

fn parse_variant(text: &str) -> Result<Variant<()>> {
    variants::parse(text, ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AssignmentArgs,
    }

    fn args(line: &str) -> AssignmentArgs {
        Line::try_parse_from(line.split_whitespace())
            .unwrap_or_else(|error| panic!("{error}"))
            .args
    }

    #[test]
    fn each_policy_has_a_proxy_of_its_own_beside_the_default() {
        let pairs = |line: &str| -> Vec<(String, String)> {
            let variants = args(line).variants().into_iter();
            variants.map(|v| (v.name, v.settings.join(" "))).collect()
        };
        assert_eq!(pairs("x"), [("helenus".into(), String::new())]);
        assert_eq!(
            pairs("x --policies first,token-aware")[1..],
            [
                ("helenus-first".into(), "assignment.policy=first".into()),
                (
                    "helenus-token-aware".into(),
                    "assignment.policy=token-aware".into()
                ),
            ]
        );
    }

    #[test]
    fn clients_are_those_of_the_paper_on_request() {
        assert_eq!(args("x").clients(), [5, 20, 100, 500]);
        assert_eq!(args("x --quick").clients(), [20]);
        assert_eq!(args("x --full").clients().len(), 7);
        assert_eq!(args("x --quick --clients 3,4").clients(), [3, 4]);
    }

    #[test]
    fn scenarios_have_an_order_and_faults_need_own_nodes() {
        use Scenario::{Compacting, Frozen, Idle, SlowNetwork, Stalling, Stressed};
        assert_eq!(
            args("x").scenarios(),
            [Idle, Stressed, Frozen, Stalling, Compacting]
        );
        assert_eq!(args("x --quick").scenarios(), [Idle, Stressed, Frozen]);
        assert_eq!(
            args("x --scenarios slow-network,frozen,idle,frozen").scenarios(),
            [Idle, Frozen, SlowNetwork]
        );
        let contact = "x --contact 127.0.0.1:9042";
        assert_eq!(args(contact).scenarios(), [Idle]);
        assert!(args(contact).check().is_ok());
        assert!(
            args(&format!("{contact} --scenarios frozen"))
                .check()
                .is_err()
        );
        assert!(args("x --nodes 1").check().is_err());
        assert!(args("x --nodes 1 --scenarios idle").check().is_ok());
        assert!(Line::try_parse_from(["x", "--scenarios", "calm"]).is_err());
    }

    #[test]
    fn stress_needs_a_limit_and_gets_one() {
        let capped = |line: &str| {
            let mut args = args(line);
            args.choose_cap();
            args.common.node_cpus
        };
        assert!(capped("x").is_some_and(|cores| cores >= 0.01));
        assert_eq!(capped("x --node-cpus 0.3"), Some(0.3));
        assert_eq!(capped("x --scenarios idle,frozen"), None);
    }

    #[test]
    fn numbers_have_bounds() {
        assert!(args("x").check().is_ok());
        for wrong in [
            "x --rate 0",
            "x --rate NaN",
            "x --freeze-seconds 0",
            "x --cell-seconds 0",
            "x --time-out 4000",
            "x --consistency MOST",
            "x --delay-ms 0",
        ] {
            assert!(args(wrong).check().is_err(), "{wrong}");
        }
    }
}
