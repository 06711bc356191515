//! The options of `helenus bench assignment`, and the experiment that follows from them.

use crate::bench::common::{Common, Nodes};
use crate::bench::variants::{self, Variant};
use crate::node_cpus::default_share;
use crate::testbed::Proxy;
use anyhow::{Result, bail, ensure};
use clap::Args;
use helenus_load::client::endpoint::{Policy, parse_consistency};
use helenus_load::experiments::arms::{HELENUS, JAVA, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::experiments::assignment::{Assignment, Scenario};
use helenus_load::workload::ycsb::UserTable;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of `--quick`, minus the time for a last cell that takes longer than in the round before, for
/// bringing the nodes down and for writing the report.
const QUICK: Duration = Duration::from_secs(270);
const SCAN_ROWS: i32 = 1000;
const SCAN_CLIENTS: usize = 20;
/// Suffix of the names of arms that take the agents' reports.
const REPORTS: &str = "reports";

#[derive(Args, Debug)]
pub(in crate::bench) struct AssignmentArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// What happens to the nodes: idle, stressed, frozen, stalling, compacting, slow-disk, slow-network (only
    /// if named, as then all clients and proxies reach the nodes through relays) [default: all but that one;
    /// with --quick idle,stressed,frozen; with --contact idle]
    #[arg(long, value_delimiter = ',', value_parser = parse_scenario)]
    scenarios: Vec<Scenario>,
    /// Assignment policies, each run by a separate Helenus beside the default (assignment.policy)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    policies: Vec<String>,
    /// Also a Helenus without second attempts (assignment.hedging) [default: unless --quick]
    #[arg(long)]
    unhedged: bool,
    /// Start the nodes with the agent (docs/agent.md), and run a further Helenus that takes its reports for the
    /// default and for each of --policies that can use them. Without JAR, as `helenus cluster up --agent`
    #[arg(long, value_name = "JAR", num_args = 0..=1, require_equals = true, conflicts_with = "contact")]
    pub(super) agent: Option<Option<PathBuf>>,
    /// Also measure the Java driver with its default load balancing, straight to the nodes (needs Maven the
    /// first time)
    #[arg(long)]
    pub(super) java: bool,
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
    pub(super) stress_processes: u32,
    /// Milliseconds that a slow network to one node adds to a round trip
    #[arg(long, default_value_t = 20.0)]
    pub(super) delay_ms: f64,
    /// Reads per second that a slow disk does, of the node that has it
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) disk_reads: u32,
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

impl AssignmentArgs {
    pub(super) fn check(&self) -> Result<()> {
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
            !faults || self.common.nodes() > 1,
            "at least two nodes are needed"
        );
        Ok(())
    }

    /// In their own order, whatever the order given.
    pub(super) fn scenarios(&self) -> Vec<Scenario> {
        let quick = vec![Scenario::Idle, Scenario::Stressed, Scenario::Frozen];
        let further = [Scenario::Stalling, Scenario::Compacting, Scenario::SlowDisk];
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
    pub(super) fn choose_cap(&mut self) {
        if self.common.node_cpus.is_none() && self.scenarios().contains(&Scenario::Stressed) {
            self.common.node_cpus = Some(default_share(self.common.nodes()));
        }
    }

    /// Without a scenario that is not possible here.
    pub(super) fn leave_out(&mut self, scenario: Scenario) -> Result<()> {
        let mut scenarios = self.scenarios();
        scenarios.retain(|&of| of != scenario);
        ensure!(!scenarios.is_empty(), "nothing is left to measure");
        self.scenarios = scenarios;
        Ok(())
    }

    /// The reports that there are of the nodes: without them the paper's policies do nothing.
    pub(super) fn on_reports(&self) -> Option<String> {
        if self.agent.is_some() {
            return Some(format!(
                "All nodes have the agent, which starts reads of one partition before range reads, for direct \
                 arms as well. Only arms whose names end in {REPORTS} take its reports."
            ));
        }
        let mut variants = self.variants(None).into_iter();
        let is_resource = |setting: &String| setting.starts_with("assignment.policy=resource");
        let any = variants.any(|variant| variant.settings.iter().any(is_resource));
        any.then(|| {
            "No node reports its use of CPU, memory and disk, so the resource policies take \
             replicas in turn, as token-aware."
                .to_owned()
        })
    }

    /// `secret_file` is the agents', if the nodes have any.
    pub(super) fn variants(&self, secret_file: Option<&Path>) -> Vec<Variant<()>> {
        let variant = |name: String, settings: Vec<String>| Variant {
            name,
            part: (),
            settings,
        };
        let reports = secret_file.map(|file| {
            [
                "assignment.reports=true".to_owned(),
                format!("assignment.reports_secret_file={}", file.display()),
            ]
        });
        let mut variants = vec![variant(HELENUS.into(), Vec::new())];
        if let Some(reports) = &reports {
            variants.push(variant(format!("{HELENUS}-{REPORTS}"), reports.to_vec()));
        }
        if self.unhedged || !self.common.quick {
            let setting = "assignment.hedging=false".to_owned();
            variants.push(variant(format!("{HELENUS}-unhedged"), vec![setting]));
        }
        for name in &self.policies {
            let setting = format!("assignment.policy={name}");
            let of_policy = format!("{HELENUS}-{name}");
            let has_use = name.starts_with("resource") || name == "c3";
            if let Some(reports) = reports.as_ref().filter(|_| has_use) {
                let settings = [std::slice::from_ref(&setting), reports].concat();
                variants.push(variant(format!("{of_policy}-{REPORTS}"), settings));
            }
            variants.push(variant(of_policy, vec![setting]));
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

    pub(super) fn experiment(
        &self,
        rounds: usize,
        nodes: &Nodes,
        proxies: &[(Variant<()>, Proxy)],
        java: Option<PathBuf>,
        began: Instant,
    ) -> Result<Assignment> {
        let common = &self.common;
        let seconds = Duration::from_secs_f64;
        let span = |quick, full| seconds(if common.quick { quick } else { full });
        let records = if common.quick { 20_000 } else { 100_000 };
        let direct = |name, policy| common.arm(name, nodes.contact_points.clone(), policy);
        let mut arms = vec![
            direct(TOKEN_AWARE, Policy::TokenAware),
            direct(ROUND_ROBIN, Policy::RoundRobin),
        ];
        if java.is_some() {
            arms.push(direct(JAVA, Policy::TokenAware));
        }
        let through =
            |(variant, proxy): &(Variant<()>, Proxy)| common.through(&variant.name, proxy);
        arms.extend(proxies.iter().map(through));
        arms.extend(common.extra_arms());
        for arm in &mut arms {
            arm.endpoint.request_timeout = seconds(self.time_out);
        }
        let levels = self.consistency.iter();
        let levels = levels.map(|text| parse_consistency(text));
        Ok(Assignment {
            users: UserTable {
                keyspace: "helenus_assignment".into(),
                replication: match common.contact.is_empty() {
                    true => usize::from(common.nodes().min(3)),
                    false => 3,
                },
                records: self.records.unwrap_or(records),
            },
            arms,
            java,
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
        "slow-disk" => Scenario::SlowDisk,
        _ => bail!(
            "unknown scenario {text}: use idle, stressed, frozen, stalling, compacting, slow-disk \
             or slow-network"
        ),
    })
}

fn parse_variant(text: &str) -> Result<Variant<()>> {
    variants::parse(text, ())
}

#[cfg(test)]
mod tests;
