//! The options of `helenus bench assignment`, and the experiment that follows from them.

use crate::bench::common::{Common, Nodes, check_bounds};
use crate::bench::variants::{self, Variant};
use crate::node_cpus::default_share;
use crate::testbed::Proxy;
use anyhow::{Result, bail, ensure};
use clap::Args;
use helenus_load::client::endpoint::{Policy, parse_consistency};
use helenus_load::experiments::arms::{JAVA, ROUND_ROBIN, TOKEN_AWARE};
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
    #[arg(long = "variant", value_parser = variants::parse_plain, value_name = "NAME:SECTION.KEY=VALUE")]
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
        check_bounds([
            ("--cell-seconds", self.cell_seconds.unwrap_or(1.0), 3600.0),
            ("--freeze-seconds", self.freeze_seconds, 600.0),
            ("--time-out", self.time_out, 3600.0),
            ("--rate", self.rate, 100_000.0),
            ("--delay-ms", self.delay_ms, 10_000.0),
        ])?;
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
        let file =
            secret_file.map(|file| format!("assignment.reports_secret_file={}", file.display()));
        let reports = file.as_ref().map(|file| ["assignment.reports=true", file]);
        let mut variants = vec![Variant::new("", (), &[])];
        if let Some(reports) = &reports {
            variants.push(Variant::new(REPORTS, (), reports));
        }
        if self.unhedged || !self.common.quick {
            variants.push(Variant::new("unhedged", (), &["assignment.hedging=false"]));
        }
        for name in &self.policies {
            let setting = format!("assignment.policy={name}");
            let has_use = name.starts_with("resource") || name == "c3";
            if let Some([reports, file]) = reports.filter(|_| has_use) {
                let with_reports = format!("{name}-{REPORTS}");
                let settings = [&*setting, reports, file];
                variants.push(Variant::new(&with_reports, (), &settings));
            }
            variants.push(Variant::new(name, (), &[&*setting]));
        }
        variants.extend(self.own_variants.iter().cloned());
        variants
    }

    fn clients(&self) -> Vec<usize> {
        let given: &[u32] = match self.full {
            true => &[5, 10, 20, 50, 100, 500, 1000],
            false => &self.clients,
        };
        self.common.clients(given, &[20], &[5, 20, 100, 500])
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
        let direct = [
            (TOKEN_AWARE, Policy::TokenAware),
            (ROUND_ROBIN, Policy::RoundRobin),
            (JAVA, Policy::TokenAware),
        ];
        let used = if java.is_some() { 3 } else { 2 };
        let mut arms = common.arms(nodes, &direct[..used], proxies);
        for arm in &mut arms {
            arm.endpoint.request_timeout = seconds(self.time_out);
        }
        let levels = self.consistency.iter();
        let levels = levels.map(|text| parse_consistency(text));
        Ok(Assignment {
            users: UserTable {
                keyspace: "helenus_assignment".into(),
                replication: common.replicas(),
                records: self.records.unwrap_or(common.either(20_000, 100_000)),
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
            around_freeze: common.span(None, 2.0, self.freeze_seconds),
            fault_levels: common.either(1, usize::MAX),
            warmup: common.span(None, 12.0, 60.0),
            cell_warmup: common.span(None, 0.5, 2.0),
            cell_time: common.span(self.cell_seconds, 2.0, 8.0),
            time_out: seconds(self.time_out),
            settle_max: common.span(None, 10.0, 60.0),
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

#[cfg(test)]
mod tests;
