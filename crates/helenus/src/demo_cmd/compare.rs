//! The demo's comparison: the same applications, first straight to the nodes, then through Helenus.

use crate::load_cmd::show;
use anyhow::Result;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_load::endpoint::Endpoint;
use helenus_load::flights::dataset::Dataset;
use helenus_load::flights::queries::FlightQueries;
use helenus_load::flights::reports::{REPORT_KINDS, Reports};
use helenus_load::keys::Keys;
use helenus_load::kv::{KeyValue, Mix, Table};
use helenus_load::measure::Phase;
use helenus_load::process::connections_to;
use helenus_load::run::{Limit, Plan, run_closed};
use helenus_load::spread::{Spread, rotation};
use helenus_load::svg::number;
use helenus_load::workload::Workload;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Comparison<'a> {
    pub arms: [Arm<'a>; 2],
    pub keyspace: &'a str,
    pub table: &'a Table,
    pub data: &'a Arc<Dataset>,
    /// Sessions, one per simulated application, each with its own connections.
    pub applications: usize,
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

/// Both arms' rounds.
pub(super) struct Outcome {
    pub names: [String; 2],
    pub phases: [Vec<Phase>; 2],
    pub connections: [usize; 2],
}

impl Comparison<'_> {
    /// The everyday query mix of the applications.
    pub(super) async fn run(&self) -> Result<Outcome> {
        let mut workloads = Vec::new();
        let mut connections = [0; 2];
        for (arm, connections) in self.arms.iter().zip(&mut connections) {
            workloads.push(Arc::new(self.flight_queries(arm).await?));
            *connections = connections_to(arm.pid, self.node_ports)?;
        }
        let warmup = Duration::from_millis(500);
        let phases = self
            .rounds(&workloads, self.clients, (warmup, self.round_time))
            .await;
        Ok(self.outcome(phases, connections))
    }

    /// Look-ups of single flights while analysts read reports.
    pub(super) async fn run_reports(&self, travellers: usize, analysts: usize) -> Result<Outcome> {
        let mut workloads = Vec::new();
        let mut connections = [0; 2];
        for (arm, connections) in self.arms.iter().zip(&mut connections) {
            let queries = self.flight_queries(arm).await?;
            workloads.push(Arc::new(
                Reports::open(self.keyspace, queries, travellers).await?,
            ));
            *connections = connections_to(arm.pid, self.node_ports)?;
        }
        // A report takes a second or two, and a round should complete many of them.
        let time = (self.round_time, self.round_time * 3);
        let phases = self.rounds(&workloads, travellers + analysts, time).await;
        Ok(self.outcome(phases, connections))
    }

    async fn flight_queries(&self, arm: &Arm<'_>) -> Result<FlightQueries> {
        let keys = Keys::zipfian(self.table.keys);
        let mix = Mix::of_reads(0.5);
        let kv = KeyValue::open(arm.endpoint, self.table, keys, mix, self.applications).await?;
        FlightQueries::open(self.keyspace, self.data.clone(), kv).await
    }

    /// Both arms in turn; the first two rounds are warm-up and are not reported.
    async fn rounds<W: Workload>(
        &self,
        workloads: &[Arc<W>],
        clients: usize,
        (warmup, time): (Duration, Duration),
    ) -> [Vec<Phase>; 2] {
        let mut phases = [Vec::new(), Vec::new()];
        for round in 0..self.rounds + 2 {
            for arm in rotation(2, round) {
                let warming = round < 2;
                let mut plan = Plan::new(clients, Limit::Time(time));
                plan.warmup = warmup;
                plan.seed = round as u64;
                let name = &self.arms[arm].endpoint.name;
                let what = match warming {
                    true => format!("warming up: {name}"),
                    false => format!("round {}/{}: {name}", round - 1, self.rounds),
                };
                let _shown = show(plan.progress.clone(), what);
                let phase = run_closed(&workloads[arm], &plan).await;
                if !warming {
                    phases[arm].push(phase);
                }
            }
        }
        phases
    }

    fn outcome(&self, phases: [Vec<Phase>; 2], connections: [usize; 2]) -> Outcome {
        Outcome {
            names: [0, 1].map(|arm| self.arms[arm].endpoint.name.clone()),
            phases,
            connections,
        }
    }
}

impl Outcome {
    /// Medians over the rounds, side by side.
    pub(super) fn table(&self) -> TextTable {
        let mut table = TextTable::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["", &self.names[0], &self.names[1]]);
        let mut row = |name: &str, value: &dyn Fn(&Phase) -> f64| {
            let cells = self.phases.each_ref().map(|phases| median(phases, value));
            table.add_row([name.to_owned(), cells[0].clone(), cells[1].clone()]);
        };
        row("queries/s", &|phase| phase.ops_per_second);
        row("mean latency, ms", &|phase| phase.latency.us_mean / 1000.0);
        row("p50, ms", &|phase| phase.latency.us_p50 as f64 / 1000.0);
        row("p99, ms", &|phase| phase.latency.us_p99 as f64 / 1000.0);
        let kinds = self.phases[0]
            .first()
            .map(|phase| phase.by_kind.keys())
            .into_iter()
            .flatten();
        for kind in kinds {
            let p99 = |phase: &Phase| {
                phase
                    .by_kind
                    .get(kind)
                    .map_or(f64::NAN, |kind| kind.latency.us_p99 as f64 / 1000.0)
            };
            row(&format!("p99 of {kind}, ms"), &p99);
        }
        if self.phases[0]
            .iter()
            .all(|p| p.by_kind.contains_key(REPORT_KINDS[1]))
        {
            let [one, report] = REPORT_KINDS;
            let of = |kind: &'static str| {
                move |phase: &Phase| {
                    phase
                        .by_kind
                        .get(kind)
                        .map_or(f64::NAN, |k| k.latency.us_mean / 1000.0)
                }
            };
            row(&format!("mean of {one}, ms"), &of(one));
            row(&format!("mean of {report}, ms"), &of(report));
            row("reports/s", &|phase| {
                phase
                    .by_kind
                    .get(report)
                    .map_or(f64::NAN, |k| k.ops as f64 / phase.seconds)
            });
        }
        let failed = self.phases.each_ref().map(|phases| {
            phases
                .iter()
                .map(Phase::errors_total)
                .sum::<u64>()
                .to_string()
        });
        table.add_row(["failed or wrong answers", &failed[0], &failed[1]]);
        let connections = self.connections.map(|count| count.to_string());
        table.add_row(["connections at the nodes", &connections[0], &connections[1]]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// What failed, by kind; empty if nothing did.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, phases) in self.names.iter().zip(&self.phases) {
            for (error, times) in phases.iter().flat_map(|phase| &phase.errors) {
                lines.push(format!("{name}: {error}: {times}"));
            }
        }
        lines
    }
}

fn median(phases: &[Phase], value: &dyn Fn(&Phase) -> f64) -> String {
    let values: Vec<f64> = phases.iter().map(value).collect();
    Spread::of(&values).map_or_else(|| "–".into(), |spread| number(spread.median))
}
