//! The demo's comparisons: the same applications, first straight to the nodes, then through Helenus, at
//! the same rates.
//!
//! First the nodes are warmed up by both arms in turn ([`Comparison::heat`]). Rates are shares of what the
//! nodes then achieve directly in a closed loop: so they fit the machine, and nobody's gain is another's
//! load.

use super::outcome::Outcome;
use crate::load::show;
use anyhow::{Context, Result, ensure};
use helenus_cluster::Cluster;
use helenus_load::client::endpoint::Endpoint;
use helenus_load::measure::Phase;
use helenus_load::process::connections_to;
use helenus_load::report::spread::rotation;
use helenus_load::run::{Limit, Plan, record_open, run_closed};
use helenus_load::workload::Workload;
use helenus_load::workload::flights::dataset::Dataset;
use helenus_load::workload::flights::queries::FlightQueries;
use helenus_load::workload::flights::reports::{REPORT_KINDS, Reports};
use helenus_load::workload::flights::three_keys::ThreeKeys;
use helenus_load::workload::keys::Keys;
use helenus_load::workload::kv::{KeyValue, Mix, Table};
use std::sync::Arc;
use std::time::Duration;

/// Of what the nodes achieve directly.
const RATE_SHARE: f64 = 0.5;
/// While a node is frozen, the others do its work.
const RATE_SHARE_FROZEN: f64 = 0.2;
const RATE_FROZEN_MAX: f64 = 300.0;
/// For each arm: the nodes' JIT compiler needs them, the more so once the nodes are capped.
const HEAT_TURNS: usize = 4;
const HEAT_TIME: Duration = Duration::from_secs(2);
/// For each arm. The first turn is for connections and statements only.
const WARMUP_TURNS: usize = 2;
const OPEN_WARMUP: Duration = Duration::from_millis(500);
pub(super) const FREEZE: Duration = Duration::from_secs(5);
const BEFORE_FREEZE: Duration = Duration::from_secs(2);
const AFTER_FREEZE: Duration = Duration::from_secs(3);
/// A frozen node gets its missed writes again before the next turn.
const SETTLE: Duration = Duration::from_secs(3);
/// The default of several drivers.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Comparison<'a> {
    pub arms: [Arm<'a>; 2],
    pub keyspace: &'a str,
    pub table: &'a Table,
    pub data: &'a Arc<Dataset>,
    /// Sessions, one per simulated application, each with its own connections.
    pub applications: usize,
    /// In the closed loops of the warm-up.
    pub clients: usize,
    pub rounds: usize,
    pub round_time: Duration,
    /// Ports the nodes listen on.
    pub node_ports: &'a [u16],
}

pub(super) struct Arm<'a> {
    pub endpoint: &'a Endpoint,
    /// The process that holds the connections to the nodes.
    pub pid: u32,
}

impl Comparison<'_> {
    /// Both arms in turn send all kinds of queries to nodes that have just been started.
    pub(super) async fn heat(&self, travellers: usize, analysts: usize) -> Result<()> {
        let (mut everyday, mut reports) = (Vec::new(), Vec::new());
        for arm in &self.arms {
            let queries = self.flight_queries(arm.endpoint).await?;
            let of_arm = Reports::open(self.keyspace, queries, travellers).await?;
            reports.push(Arc::new(of_arm));
            everyday.push(Arc::new(self.flight_queries(arm.endpoint).await?));
        }
        for turn in 0..HEAT_TURNS {
            for arm in rotation(2, turn) {
                self.turn(&everyday, arm, self.clients, turn, HEAT_TIME)
                    .await;
                self.turn(&reports, arm, travellers + analysts, turn, HEAT_TIME)
                    .await;
            }
        }
        Ok(())
    }

    /// The everyday query mix of the applications.
    pub(super) async fn run(&self) -> Result<Outcome> {
        let mut workloads = Vec::new();
        let mut connections = [0; 2];
        for (arm, connections) in self.arms.iter().zip(&mut connections) {
            workloads.push(Arc::new(self.flight_queries(arm.endpoint).await?));
            *connections = connections_to(arm.pid, self.node_ports)?;
        }
        let closed = self
            .warm_up(&workloads, self.clients, self.round_time)
            .await?;
        let rate = RATE_SHARE * closed.ops_per_second;
        let phases = self.rounds(&workloads, rate, self.round_time).await;
        Ok(self.outcome(rate, phases, Some(connections)))
    }

    /// Look-ups of single flights while analysts read reports.
    pub(super) async fn run_reports(&self, travellers: usize, analysts: usize) -> Result<Outcome> {
        let mut workloads = Vec::new();
        let mut connections = [0; 2];
        for (arm, connections) in self.arms.iter().zip(&mut connections) {
            let queries = self.flight_queries(arm.endpoint).await?;
            workloads.push(Arc::new(
                Reports::open(self.keyspace, queries, travellers).await?,
            ));
            *connections = connections_to(arm.pid, self.node_ports)?;
        }
        // A report takes a second or two, and a round should complete many of them.
        let time = self.round_time * 3;
        let clients = travellers + analysts;
        let closed = self.warm_up(&workloads, clients, time).await?;
        let rate = RATE_SHARE * closed.ops_per_second;
        let reports = closed.by_kind.get(REPORT_KINDS[1]);
        let share = reports.map_or(0.0, |kind| kind.ops as f64 / closed.ops as f64);
        let open: Vec<_> = workloads
            .iter()
            .map(|workload| Arc::new(workload.with_share(share)))
            .collect();
        let phases = self.rounds(&open, rate, time).await;
        Ok(self.outcome(rate, phases, Some(connections)))
    }

    /// Flights of a month by one of three keys.
    pub(super) async fn run_three_keys(&self) -> Result<Outcome> {
        let mut workloads = Vec::new();
        for arm in &self.arms {
            let (data, sessions) = (self.data.clone(), self.applications);
            let keys = ThreeKeys::open(arm.endpoint, self.keyspace, data, sessions).await?;
            workloads.push(Arc::new(keys));
        }
        let closed = self
            .warm_up(&workloads, self.clients, self.round_time)
            .await?;
        let rate = RATE_SHARE * closed.ops_per_second;
        let phases = self.rounds(&workloads, rate, self.round_time).await;
        Ok(self.outcome(rate, phases, None))
    }

    /// Look-ups of single flights while a node stands still, at a rate that `everyday` bounds.
    pub(super) async fn run_frozen(&self, cluster: &Cluster, everyday: f64) -> Result<Outcome> {
        let nodes = cluster.nodes();
        ensure!(nodes.len() > 1, "with one node there is no other to ask");
        // The first one is where clients and proxy have looked for the others.
        let node = nodes[1];
        let rate = (everyday / RATE_SHARE * RATE_SHARE_FROZEN).min(RATE_FROZEN_MAX);
        let mut phases = [Vec::new(), Vec::new()];
        for (arm, phases) in self.arms.iter().zip(&mut phases) {
            let mut endpoint = arm.endpoint.clone();
            endpoint.request_timeout = PATIENCE;
            let queries = self.flight_queries(&endpoint).await?;
            let reports = Reports::open(self.keyspace, queries, usize::MAX).await?;
            let time = BEFORE_FREEZE + FREEZE + AFTER_FREEZE;
            let mut plan = Plan::new(self.applications, Limit::Time(time));
            plan.warmup = OPEN_WARMUP;
            let _shown = show(
                plan.progress.clone(),
                format!("a node freezes: {}", endpoint.name),
            );
            let reports = Arc::new(reports);
            let fault = async {
                tokio::time::sleep(OPEN_WARMUP + BEFORE_FREEZE).await;
                cluster.pause(node)?;
                tokio::time::sleep(FREEZE).await;
                cluster.resume(node)
            };
            let (recording, fault) = tokio::join!(record_open(&reports, rate, &plan), fault);
            fault?;
            phases.push(recording.into_phase_at_cost(&reports.kinds(), Some(PATIENCE)));
            tokio::time::sleep(SETTLE).await;
        }
        Ok(self.outcome(rate, phases, None))
    }

    async fn flight_queries(&self, endpoint: &Endpoint) -> Result<FlightQueries> {
        let keys = Keys::zipfian(self.table.keys);
        let mix = Mix::of_reads(0.5);
        let kv = KeyValue::open(endpoint, self.table, keys, mix, self.applications).await?;
        FlightQueries::open(self.keyspace, self.data.clone(), kv).await
    }

    /// Both arms in a closed loop, in turn. Returns the last phase of the first of them, which goes directly.
    async fn warm_up<W: Workload>(
        &self,
        workloads: &[Arc<W>],
        clients: usize,
        time: Duration,
    ) -> Result<Phase> {
        let mut direct = None;
        for turn in 0..WARMUP_TURNS {
            for arm in rotation(2, turn) {
                let phase = self.turn(workloads, arm, clients, turn, time).await;
                if arm == 0 {
                    direct = Some(phase);
                }
            }
        }
        let direct = direct.context("the first arm had no turn")?;
        ensure!(
            direct.ops > 0,
            "nothing was answered directly: {:?}",
            direct.errors
        );
        Ok(direct)
    }

    /// One arm in a closed loop.
    async fn turn<W: Workload>(
        &self,
        workloads: &[Arc<W>],
        arm: usize,
        clients: usize,
        turn: usize,
        time: Duration,
    ) -> Phase {
        let mut plan = Plan::new(clients, Limit::Time(time));
        plan.warmup = OPEN_WARMUP;
        plan.seed = turn as u64;
        let what = format!("warming up: {}", self.arms[arm].endpoint.name);
        let _shown = show(plan.progress.clone(), what);
        run_closed(&workloads[arm], &plan).await
    }

    /// Both arms in turn, in open loops.
    async fn rounds<W: Workload>(
        &self,
        workloads: &[Arc<W>],
        rate: f64,
        time: Duration,
    ) -> [Vec<Phase>; 2] {
        let mut phases = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            for arm in rotation(2, round) {
                let mut plan = Plan::new(self.clients, Limit::Time(time));
                plan.warmup = OPEN_WARMUP;
                plan.seed = (WARMUP_TURNS + round) as u64;
                let endpoint = self.arms[arm].endpoint;
                let what = format!("round {}/{}: {}", round + 1, self.rounds, endpoint.name);
                let _shown = show(plan.progress.clone(), what);
                let recording = record_open(&workloads[arm], rate, &plan).await;
                let cost = Some(endpoint.request_timeout);
                phases[arm].push(recording.into_phase_at_cost(&workloads[arm].kinds(), cost));
            }
        }
        phases
    }

    fn outcome(
        &self,
        rate: f64,
        phases: [Vec<Phase>; 2],
        connections: Option<[usize; 2]>,
    ) -> Outcome {
        Outcome {
            names: [0, 1].map(|arm| self.arms[arm].endpoint.name.clone()),
            rate,
            phases,
            connections,
        }
    }
}
