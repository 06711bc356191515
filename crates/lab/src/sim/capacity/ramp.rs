//! Results of a ramp, as the simulator needs them.

use anyhow::{Context, Result, ensure};
use helenus_load::ramp::capacity::{Capacity, Step, Unit};
use helenus_load::ramp::evidence::Kind;
use helenus_load::ramp::page;
use helenus_load::ramp::steps::Broken;
use helenus_load::report::Report;
use helenus_sim::queueing::{Curve, Point};
use std::path::Path;

pub(super) struct Measured {
    pub(super) nodes: u16,
    /// Of one node.
    pub(super) curve: Curve,
    /// CPU of the nodes at the knee, microseconds per query; None if it was not seen.
    pub(super) node_cpu_us: Option<f64>,
    /// Cores that a node may use.
    pub(super) node_cores: Option<f64>,
    pub(super) replication: Option<String>,
    /// The likely cause of the peak: the resource that was full.
    limit: Option<Kind>,
}

impl Measured {
    pub(super) fn read(path: &Path, nodes: Option<u16>) -> Result<Self> {
        let (report, capacity) = page::read(path)?;
        Self::of(&report, &capacity, nodes).with_context(|| format!("{}", path.display()))
    }

    pub(super) fn of(report: &Report, capacity: &Capacity, nodes: Option<u16>) -> Result<Self> {
        ensure!(
            capacity.unit == Unit::Clients,
            "a ramp of an open loop does not say how much is under way: measure it without --open-loop"
        );
        let known = capacity
            .headroom
            .as_ref()
            .and_then(|headroom| headroom.nodes);
        let known = known.and_then(|nodes| u16::try_from(nodes).ok());
        let nodes = nodes.or(known).context(
            "the ramp does not know how many nodes it was measured over: give --measured-nodes",
        )?;
        let points: Vec<Point> = capacity
            .steps
            .iter()
            .filter(|step| step.broken != Some(Broken::Errors))
            .map(point)
            .collect();
        let curve = Curve::of_endpoint(&points, nodes)
            .context("two loads without errors at least are needed for a curve")?;
        let cpus = || {
            let evidence = capacity.saturation.evidence.iter();
            evidence.filter(|each| each.kind == Kind::NodeCpu)
        };
        let knee = capacity
            .knee
            .as_ref()
            .map(|knee| knee.ops_per_second.median);
        let used: f64 = cpus().map(|each| each.used).sum();
        Ok(Self {
            nodes,
            curve,
            node_cpu_us: knee.filter(|_| used > 0.0).map(|ops| used * 1e6 / ops),
            node_cores: cpus().find_map(|each| each.capacity),
            replication: report.settings.get("replication factor").cloned(),
            limit: capacity.saturation.saturated.first().map(|each| each.kind),
        })
    }

    /// Reasons to doubt the figures. One sentence each.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        match self.limit {
            Some(Kind::NodeCpu | Kind::ThreadPool | Kind::Disk) => {}
            Some(Kind::ClientCpu | Kind::MachineCpu | Kind::OtherCpu) => doubts.push(
                "The ramp was limited by the client's machine, not by the nodes: nodes carry more than this \
                 model says."
                    .into(),
            ),
            Some(Kind::ProxyCpu) => doubts.push(
                "The ramp was limited by its proxy: so is each node of this model.".into(),
            ),
            Some(Kind::Network) => doubts.push(
                "The ramp was limited by the network: so is each node of this model.".into(),
            ),
            None => doubts.push(
                "The ramp does not know what limited it, so this may be the client's limit instead of the \
                 nodes'."
                    .into(),
            ),
        }
        doubts
    }
}

fn point(step: &Step) -> Point {
    Point {
        clients: step.load as f64,
        ops_per_second: step.ops_per_second.median,
        latency_us_p50: step.latency_us_p50,
        latency_us_p99: step.latency_us_p99,
        weight: step.windows as f64,
    }
}
