//! `helenus bench scale`.

use super::common::{Common, Nodes, tell};
use crate::node_cpus::{cap_all, default_share};
use crate::testbed::Proxy;
use anyhow::{Context, Result, ensure};
use clap::Args;
use helenus_cluster::Cluster;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{narrate, spinner};
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::scale::{HELENUS, Scale, Sessions, TOKEN_AWARE};
use helenus_load::measure::Phase;
use helenus_load::report::Report;
use helenus_load::workload::kv::Table;
use std::time::Instant;

/// A capped Java process takes minutes to start.
const READY_TIMEOUT_S: u64 = 900;

#[derive(Args, Debug)]
pub(super) struct ScaleArgs {
    #[command(flatten)]
    common: Common,
    /// Numbers of clients in the cells
    #[arg(long, value_delimiter = ',', default_value = "10,40,100,400", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Clients of each arm while a node joins
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    join_clients: u32,
    /// Seconds per arm, cell and round [default: 6, or 1.5 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
    /// Seconds of steady state before a node joins, and of settling after it [default: 30, or 10 with
    /// --quick]
    #[arg(long)]
    steady_seconds: Option<f64>,
    /// Leave out the ramp and the grid that it is compared with
    #[arg(long)]
    no_knee: bool,
}

pub(super) async fn scale(args: ScaleArgs) -> Result<()> {
    raise_open_files_limit();
    args.check()?;
    let common = &args.common;
    let (most, cores) = (args.nodes(), args.cores());
    let mut nodes = Nodes::up_with(common, |spec| {
        spec.nodes(1).ready_timeout_s(READY_TIMEOUT_S)
    })
    .await?;
    let proxy = Proxy::start_with(&nodes.contact_points, &[]).await?;
    let scale = args.experiment(&nodes, &proxy)?;
    let mut report = nodes.report("scale", common, scale.rounds);
    args.describe(&mut report, cores);
    let bar = spinner("scale");
    let mut say = narrate(&bar, Instant::now());
    let open = scale.prepare(&mut say).await?;
    if let Some(cluster) = &mut nodes.own {
        cap_all(cluster, cores)?;
    }
    scale.warm_up(&open, &mut say).await;
    let watched = nodes.watched(common)?;
    let measured = scale.cells(&open, 1, &watched, &mut report, &mut say);
    measured.await?;
    let capacity = match args.no_knee {
        true => None,
        false => Some(scale.knee(&open, &watched, &mut report, &mut say).await?),
    };
    for number in 2..=most {
        let cluster = nodes
            .own
            .take()
            .context("the nodes must be this command's own")?;
        let join = add_node(cluster, cores);
        let joined = scale.join(&open, number, join, &mut report, &mut say);
        nodes.own = Some(joined.await?);
        note_errors(&mut report, &scale, number);
        scale.warm_up(&open, &mut say).await;
        let watched = nodes.watched(common)?;
        let measured = scale.cells(&open, number, &watched, &mut report, &mut say);
        measured.await?;
    }
    bar.finish_and_clear();
    scale.finish(&mut report, most, capacity.as_ref());
    if let Some(capacity) = &capacity {
        let lines = capacity.sentences().into_iter();
        report
            .notes
            .extend(lines.map(|line| format!("Ramp with one node: {line}.")));
    }
    tell(&report, common, None)?;
    drop::<Vec<Sessions>>(open);
    drop(proxy);
    nodes.down()
}

/// On a thread of its own, because it waits for a process.
async fn add_node(mut cluster: Cluster, cores: f64) -> Result<Cluster> {
    let added = tokio::task::spawn_blocking(move || {
        let added = cluster.add_capped_node(cores);
        added.map(|_| cluster)
    });
    Ok(added
        .await
        .context("the thread that adds a node failed")??)
}

/// Notes the failures during a join, and how long they lasted.
fn note_errors(report: &mut Report, scale: &Scale, node: usize) {
    let cell = format!("node {node} joins");
    for arm in &scale.arms {
        let name = &arm.endpoint.name;
        let phases: Vec<Phase> = report.phases(name, &cell).to_vec();
        for phase in phases {
            let figure = |key: &str| phase.extra.get(key).copied().unwrap_or(0.0);
            let errors = phase
                .errors
                .iter()
                .map(|(kind, times)| format!("{times} × {kind}"));
            let errors = match phase.errors.is_empty() {
                true => "none failed".to_owned(),
                false => format!(
                    "failed: {}, in {} seconds",
                    Vec::from_iter(errors).join(", "),
                    figure("seconds_with_errors")
                ),
            };
            report.notes.push(format!(
                "Node {node} joined in {:.0} s; {name}: {} queries, {errors}; p99 of the worst second \
                 {:.0} ms, steady {:.0} ms (its worst second {:.0} ms).",
                figure("join_seconds"),
                phase.ops,
                figure("join_p99_us_worst") / 1000.0,
                figure("steady_p99_us") / 1000.0,
                figure("steady_p99_us_worst") / 1000.0
            ));
        }
    }
}

impl ScaleArgs {
    fn check(&self) -> Result<()> {
        let common = &self.common;
        ensure!(
            common.contact.is_empty() && common.arms.is_empty(),
            "nodes are added to a cluster that this command starts: leave out --contact and --arm"
        );
        ensure!(
            (1..=8).contains(&self.nodes()),
            "--nodes must be from 1 to 8"
        );
        for (flag, value) in [
            ("--cell-seconds", self.cell_seconds),
            ("--steady-seconds", self.steady_seconds),
        ] {
            ensure!(
                value.is_none_or(|value| (1.0..=3600.0).contains(&value)),
                "{flag} must be from 1 to 3600"
            );
        }
        common.rounds(2, 3)?;
        ensure!(
            common.replication == 1,
            "a keyspace of the first node can have only one replica: leave out --replication"
        );
        Ok(())
    }

    /// In the end.
    fn nodes(&self) -> usize {
        let by_default = self.common.either(2, 4);
        self.common.nodes.unwrap_or(by_default).into()
    }

    /// Of each node.
    fn cores(&self) -> f64 {
        let most = u16::try_from(self.nodes()).unwrap_or(u16::MAX);
        self.common.node_cpus.unwrap_or_else(|| default_share(most))
    }

    fn experiment(&self, nodes: &Nodes, proxy: &Proxy) -> Result<Scale> {
        let common = &self.common;
        let steady = common.span(self.steady_seconds, 10.0, 30.0);
        let contact_points = nodes.contact_points.clone();
        Ok(Scale {
            table: Table {
                keyspace: "helenus_scale".into(),
                table: "kv".into(),
                replication: common.replication,
                keys: common.keys,
                value_bytes: 100,
            },
            arms: vec![
                common.arm(TOKEN_AWARE, contact_points, Policy::TokenAware),
                common.through(HELENUS, proxy),
            ],
            clients: common.clients(&self.clients, &[], &[]),
            rounds: common.rounds(2, 3)?,
            cell_time: common.span(self.cell_seconds, 1.5, 6.0),
            slices: common.either(2, 4),
            warmup_max: common.span(None, 15.0, 120.0),
            join_clients: self.join_clients as usize,
            steady,
            settling: steady,
            grid: match common.quick {
                true => vec![4, 16, 64, 128, 256, 400],
                false => vec![1, 4, 8, 16, 32, 64, 96, 128, 192, 256, 400, 512],
            },
            window: common.span(None, 0.7, 2.0),
            seed: common.seed,
        })
    }

    fn describe(&self, report: &mut Report, cores: f64) {
        let common = &self.common;
        let mut set = |name: &str, value: String| report.settings.insert(name.into(), value);
        set("nodes", format!("1 to {}", self.nodes()));
        set("cores of each node", cores.to_string());
        set("rows", common.keys.to_string());
        set("replication factor", common.replication.to_string());
        set("connections per host", common.connections.to_string());
        set(
            "clients of each arm while a node joins",
            self.join_clients.to_string(),
        );
        set("seed", common.seed.to_string());
        report.notes.push(format!(
            "Each node has {cores} cores, a joining one from the start of its process on. Clients and \
             Helenus share the rest of the machine."
        ));
        report.notes.push(
            "What a client counts as failed is what its driver reports: the driver sends a query that was \
             UNAVAILABLE to a second node, if it knows one. Behind Helenus it knows none."
                .into(),
        );
        report.notes.push(
            "While a node joins, both arms run side by side and compete for the nodes; in all other cells \
             they take turns."
                .into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::common::parsed;

    fn args(line: &str) -> Result<ScaleArgs> {
        let args: ScaleArgs = parsed(line)?;
        args.check()?;
        Ok(args)
    }

    #[test]
    fn four_nodes_by_default_two_if_it_is_quick() {
        assert_eq!(args("x").unwrap().nodes(), 4);
        assert_eq!(args("x --quick").unwrap().nodes(), 2);
        let three = args("x --quick --nodes 3 --node-cpus 0.4").unwrap();
        assert_eq!((three.nodes(), three.cores()), (3, 0.4));
        assert!(args("x").unwrap().cores() <= args("x --nodes 2").unwrap().cores());
        assert_eq!(args("x").unwrap().clients, [10, 40, 100, 400]);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "x --contact 127.0.0.1:9042",
            "x --arm a=127.0.0.1:9042",
            "x --nodes 0",
            "x --nodes 9",
            "x --clients 0",
            "x --clients ten",
            "x --cell-seconds 0.1",
            "x --steady-seconds nan",
            "x --rounds 0",
            "x --replication 3",
            "x --join-clients 0",
        ] {
            assert!(args(line).is_err(), "{line}");
        }
    }
}
