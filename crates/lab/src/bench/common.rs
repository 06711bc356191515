//! Options, nodes and report, which all experiments share.

use super::table::{aligned, table};
use super::variants::Variant;
use crate::command_line::command_line;
use crate::load::parse_watched;
use crate::node_cpus::{self, parse_cores};
use crate::node_storage;
use crate::testbed::{Proxy, start_nodes};
use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::Table as TextTable;
use helenus_cluster::{Cluster, ClusterSpec, DEFAULT_VERSION};
use helenus_load::client::endpoint::{Endpoint, Policy};
use helenus_load::experiments::arms::Arm;
use helenus_load::experiments::overhead::HELENUS;
use helenus_load::process::Watched;
use helenus_load::report::Report;
use helenus_load::report::machine::Machine;
use helenus_load::report::svg::number;
use helenus_load::storage::Storage;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options shared by all experiments.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// At most five minutes on two cores: fewer and shorter rounds
    #[arg(long)]
    pub(super) quick: bool,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// An additional arm, such as another proxy in front of the same cluster (then give --contact)
    #[arg(long = "arm", value_parser = parse_arm, value_name = "NAME=HOST:PORT[@PID]")]
    pub(super) arms: Vec<ExtraArm>,
    /// Use this cluster instead of bringing up three nodes; comma-separated or repeated
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    pub(super) contact: Vec<String>,
    /// Process whose CPU time is also recorded, such as a node of --contact; may be repeated
    #[arg(long, value_parser = parse_watched, value_name = "NAME=PID")]
    pub(super) watch: Vec<Watched>,
    /// Cassandra version to bring up
    #[arg(long, default_value = DEFAULT_VERSION)]
    pub(super) cassandra: String,
    /// Number of nodes to bring up, in `scale` one after the other [default: 3; in `scale` 4, or 2 with
    /// --quick]
    #[arg(long)]
    pub(super) nodes: Option<u16>,
    /// Cap each node's CPU to so many cores once the tables are filled; the rest is left to clients and
    /// proxies, as if the nodes had machines of their own (needs root or delegated control groups)
    #[arg(long, value_name = "CORES", conflicts_with = "contact", value_parser = parse_cores)]
    pub(super) node_cpus: Option<f64>,
    /// Replication factor of the table
    #[arg(long, default_value_t = 1)]
    pub(super) replication: usize,
    /// Connections per host that the driver discovers, for every arm
    #[arg(long, default_value_t = 4)]
    pub(super) connections: usize,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) keys: u64,
    /// Rounds; by default 5, or fewer with --quick
    #[arg(long)]
    pub(super) rounds: Option<usize>,
    /// Seed for all random choices
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Measure the nodes' storage anew before they start, even if figures of the last 30 days are known
    #[arg(long, conflicts_with = "contact")]
    pub(super) measure_storage: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ExtraArm {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) pid: Option<u32>,
}

impl Common {
    /// Number of nodes to bring up at once.
    pub(super) fn nodes(&self) -> u16 {
        self.nodes.unwrap_or(3)
    }

    /// As many as there are nodes, up to three.
    pub(super) fn replicas(&self) -> usize {
        match self.contact.is_empty() {
            true => usize::from(self.nodes().min(3)),
            false => 3,
        }
    }

    /// The first with --quick.
    pub(super) fn either<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// So many seconds unless others are given.
    pub(super) fn span(&self, given: Option<f64>, quick: f64, full: f64) -> Duration {
        Duration::from_secs_f64(given.unwrap_or(self.either(quick, full)))
    }

    /// So many rounds unless --rounds is given.
    pub(super) fn rounds(&self, quick: usize, full: usize) -> Result<usize> {
        let rounds = self.rounds.unwrap_or(self.either(quick, full));
        ensure!(rounds > 0, "at least one round is needed");
        Ok(rounds)
    }

    /// These numbers of clients unless others are given.
    pub(super) fn clients(&self, given: &[u32], quick: &[u32], full: &[u32]) -> Vec<usize> {
        let clients = match given.is_empty() {
            true => self.either(quick, full),
            false => given,
        };
        clients.iter().map(|&clients| clients as usize).collect()
    }

    /// The arms that ask the nodes directly, those of proxies that this program has started, and those of
    /// `--arm`.
    pub(super) fn arms<P>(
        &self,
        nodes: &Nodes,
        direct: &[(&str, Policy)],
        proxies: &[(Variant<P>, Proxy)],
    ) -> Vec<Arm> {
        let direct = direct.iter();
        let direct = direct.map(|(name, policy)| {
            let contact_points = nodes.contact_points.clone();
            self.arm(name, contact_points, *policy)
        });
        let through = proxies.iter();
        let through = through.map(|(variant, proxy)| self.through(&variant.name, proxy));
        let extra = self.arms.iter().map(|extra| self.running(extra));
        direct.chain(through).chain(extra).collect()
    }

    /// An arm without a proxy of its own, with as many connections per host as all arms have.
    pub(super) fn arm(&self, name: &str, contact_points: Vec<String>, policy: Policy) -> Arm {
        let mut endpoint = Endpoint::new(name, contact_points, policy);
        endpoint.connections_per_host = self.connections;
        Arm {
            endpoint,
            proxy_pid: None,
            admin: None,
        }
    }

    /// The arm of a proxy that this program has started.
    pub(super) fn through(&self, name: &str, proxy: &Proxy) -> Arm {
        Arm {
            proxy_pid: Some(proxy.pid()),
            admin: Some(proxy.admin),
            ..self.arm(name, vec![proxy.address.to_string()], Policy::TokenAware)
        }
    }

    /// The arm of a proxy that somebody else has started.
    pub(super) fn running(&self, extra: &ExtraArm) -> Arm {
        Arm {
            proxy_pid: extra.pid,
            ..self.arm(&extra.name, vec![extra.address.clone()], Policy::TokenAware)
        }
    }
}

/// The nodes used by the experiment.
pub(super) struct Nodes {
    /// None if the cluster was already running.
    pub(super) own: Option<Cluster>,
    pub(super) contact_points: Vec<String>,
    /// Known if this program started them.
    storage: Option<Storage>,
}

impl Nodes {
    pub(super) async fn up(common: &Common) -> Result<Self> {
        Self::up_with(common, |spec| spec).await
    }

    /// Nodes that somebody else has started.
    pub(super) fn running(contact_points: Vec<String>) -> Self {
        Self {
            own: None,
            contact_points,
            storage: None,
        }
    }

    /// Like [`Self::up`], with further settings of nodes that are brought up.
    pub(super) async fn up_with(
        common: &Common,
        adjust: impl FnOnce(ClusterSpec) -> ClusterSpec,
    ) -> Result<Self> {
        if !common.contact.is_empty() {
            return Ok(Self::running(common.contact.clone()));
        }
        let spec = ClusterSpec::ephemeral()
            .version(&*common.cassandra)
            .nodes(common.nodes());
        let spec = adjust(spec.heap_mib(1024).direct_mib(512));
        let measure = node_storage::measure(common.measure_storage);
        let storage = node_storage::look(&spec.existing_folder()?, measure).await?;
        let cluster = start_nodes(spec).await?;
        Ok(Self {
            contact_points: cluster
                .contact_points()
                .iter()
                .map(ToString::to_string)
                .collect(),
            own: Some(cluster),
            storage: Some(storage),
        })
    }

    /// The processes to watch: those given as options, and the nodes' if this program started them.
    pub(super) fn watched(&self, common: &Common) -> Result<Vec<Watched>> {
        let mut watched = common.watch.clone();
        if let Some(cluster) = &self.own {
            for number in cluster.nodes() {
                if let Some(process) = cluster.process(number)? {
                    watched.push(Watched::new(format!("node {number}"), process.pid));
                }
            }
        }
        Ok(watched)
    }

    /// Caps the nodes' CPU if that was asked for, and says in the report whether it was.
    pub(super) fn cap_cpu(&mut self, common: &Common, report: &mut Report) -> Result<()> {
        let note = match (common.node_cpus, &mut self.own) {
            (Some(cores), Some(cluster)) => {
                node_cpus::cap_all(cluster, cores)?;
                format!("Each node's CPU is capped at {cores} cores.")
            }
            _ => {
                "The nodes' CPU is not capped: clients, proxies and nodes share the machine.".into()
            }
        };
        report.notes.push(note);
        Ok(())
    }

    pub(super) fn report(&self, experiment: &str, common: &Common, rounds: usize) -> Report {
        let data = self
            .own
            .as_ref()
            .map_or(Path::new("/"), |cluster| cluster.dir());
        let mut machine = Machine::here(data);
        if let Some(storage) = &self.storage {
            machine = machine.with_storage(storage.clone());
        }
        if self.own.is_some() {
            let version = common.cassandra.clone();
            machine.versions.insert("cassandra".into(), version);
        }
        let command = command_line();
        Report::new(experiment, command, machine, rounds)
    }

    pub(super) fn down(self) -> Result<()> {
        if let Some(cluster) = self.own {
            cluster.down(false)?;
        }
        Ok(())
    }
}

/// Refuses options that are not above 0, or above what is given beside them.
pub(super) fn check_bounds<const N: usize>(options: [(&str, f64, f64); N]) -> Result<()> {
    for (flag, value, most) in options {
        ensure!(
            value > 0.0 && value <= most,
            "{flag} must be above 0 and at most {most}"
        );
    }
    Ok(())
}

/// Prints a table of the cells and the notes, and hands the report over.
pub(super) fn tell(report: &Report, common: &Common, cells: Option<TextTable>) -> Result<()> {
    if let Some(cells) = cells {
        println!("{cells}");
    }
    for note in &report.notes {
        println!("{note}");
    }
    hand_over(report, common)
}

/// Prints the ratios and writes the requested files.
pub(super) fn hand_over(report: &Report, common: &Common) -> Result<()> {
    println!("{}", ratios_table(report));
    if report.errors_total() > 0 {
        println!("{} queries failed; see the report.", report.errors_total());
    }
    if let Some(path) = &common.json {
        report.write_json(path)?;
    }
    if let Some(path) = &common.html {
        report.write_html(path)?;
    }
    Ok(())
}

fn ratios_table(report: &Report) -> TextTable {
    let mut table = table(["", "median", "least", "greatest"]);
    for (key, spread) in &report.ratios {
        let numbers = [spread.median, spread.min, spread.max].map(number);
        let [median, least, greatest] = numbers;
        table.add_row([key.clone(), median, least, greatest]);
    }
    aligned(table, 1)
}

fn parse_arm(text: &str) -> Result<ExtraArm> {
    let (name, rest) = text.split_once('=').context("write it as name=host:port")?;
    let arm = parse_proxy(rest)?;
    ensure!(!name.is_empty(), "the arm needs a name");
    Ok(ExtraArm {
        name: name.to_owned(),
        ..arm
    })
}

pub(super) fn parse_proxy(text: &str) -> Result<ExtraArm> {
    let (address, pid) = match text.rsplit_once('@') {
        Some((address, pid)) => {
            let pid = pid
                .parse()
                .with_context(|| format!("{pid:?} is no process id"))?;
            (address, Some(pid))
        }
        None => (text, None),
    };
    let port = address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse::<u16>().ok());
    ensure!(port.is_some(), "{address:?} is not of the form host:port");
    Ok(ExtraArm {
        name: HELENUS.to_owned(),
        address: address.to_owned(),
        pid,
    })
}

/// Options as they are parsed from a line, which begins with the program's name.
#[cfg(test)]
pub(super) fn parsed<A: Args>(line: &str) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("x"));
    let matches = command.try_get_matches_from(line.split_whitespace())?;
    A::from_arg_matches(&matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_have_a_name_an_address_and_perhaps_a_process() {
        let arm = parse_arm("go-proxy=127.0.0.1:9043@17").unwrap();
        assert_eq!(
            (&*arm.name, &*arm.address, arm.pid),
            ("go-proxy", "127.0.0.1:9043", Some(17))
        );
        assert_eq!(parse_arm("x=[::1]:9042").unwrap().pid, None);
        for wrong in ["x", "x=host", "=h:1", "x=h:1@y", "x=h:99999"] {
            assert!(parse_arm(wrong).is_err(), "{wrong}");
        }
    }
}
