//! The experiment as data: its cells, and what is told of them.

use super::experiment::Scale;
use crate::experiments::arms::{Arm, HELENUS, ratio_key};
use crate::experiments::experiment::{Cell, Experiment};
use crate::measure::Phase;
use crate::process::Watched;
use crate::progress::IntervalStats;
use crate::ramp::capacity::Capacity;
use crate::report::Report;
use crate::report::chart::{Chart, median};
use crate::report::figures::PER_SECOND;
use crate::report::ratios::Ratios;
use crate::report::svg::{Line, LineChart};

/// The name of a closed loop's cell with so many nodes.
fn cell(nodes: usize, clients: usize) -> String {
    match nodes {
        1 => format!("1 node, {clients} clients"),
        _ => format!("{nodes} nodes, {clients} clients"),
    }
}

/// Of the clients that run while this node joins.
pub(super) fn join_cell(node: usize) -> String {
    format!("node {node} joins")
}

/// Of a load that the ramp is compared with.
pub(super) fn grid_cell(clients: usize) -> String {
    format!("grid, {clients} clients")
}

impl Scale {
    /// With so many nodes. A job is a number of clients.
    pub(super) fn declared(&self, nodes: usize, watched: &[Watched]) -> Experiment<usize> {
        let named = |&clients: &usize| (cell(nodes, clients), clients);
        let cells = self.clients.iter().map(named);
        let cells = cells.map(|(name, clients)| Cell::of_all(name, clients, self.arms.len()));
        Experiment {
            arms: self.arms.clone(),
            rounds: self.rounds,
            until: None,
            watched: watched.to_vec(),
            cells: cells.collect(),
            ratios: Ratios::default(),
            charts: self.clients.iter().map(|&of| chart(nodes, of)).collect(),
        }
    }

    /// `nodes`: the greatest number measured. `capacity`: of one node, by the ramp.
    pub fn finish(&self, report: &mut Report, nodes: usize, capacity: Option<&Capacity>) {
        for name in self.arms.iter().map(Arm::name) {
            for more in 2..=nodes {
                let key = ratio_key(name, &format!("{}_nodes_vs_one", word(more)));
                let values = self.growth(report, name, more);
                report.set_ratio(key, &values);
            }
            let joins: Vec<Phase> = (2..=nodes)
                .flat_map(|node| report.phases(name, &join_cell(node)).to_vec())
                .collect();
            if !joins.is_empty() {
                let errors: u64 = joins.iter().map(Phase::errors_total).sum();
                report.set_ratio(ratio_key(name, "client_errors"), &[errors as f64]);
            }
            let raises: Vec<f64> = joins.iter().filter_map(p99_raise).collect();
            report.set_ratio(ratio_key(name, "join_p99_vs_steady"), &raises);
        }
        if let Some(error) = capacity.and_then(|capacity| self.knee_error(report, capacity)) {
            report.set_ratio("knee_error", &[error]);
        }
        self.declared(nodes, &[]).finish(report);
        for node in 2..=nodes {
            let title = format!("p99 of each second, node {node} joins");
            let p99 = self.seconds(report, node, &title, "ms", |second| {
                second.latency_us_p99 as f64 / 1000.0
            });
            let title = format!("Throughput of each second, node {node} joins");
            let throughput = self.seconds(report, node, &title, "queries/s", |second| {
                second.ops_per_second
            });
            report
                .charts
                .extend([p99, throughput].into_iter().flatten());
        }
    }

    /// For each round, the best throughput over the numbers of clients, over that with one node.
    fn growth(&self, report: &Report, arm: &str, nodes: usize) -> Vec<f64> {
        let best = |nodes: usize, round: usize| {
            let of = |&clients: &usize| {
                let phases = report.phases(arm, &cell(nodes, clients));
                phases.get(round).map(|phase| phase.ops_per_second)
            };
            self.clients.iter().filter_map(of).reduce(f64::max)
        };
        let rounds = 0..self.rounds;
        rounds
            .filter_map(|round| Some(best(nodes, round)? / best(1, round)?))
            .collect()
    }

    /// How far the throughput that the ramp reports for its knee is from the highest of the grid.
    fn knee_error(&self, report: &Report, capacity: &Capacity) -> Option<f64> {
        let knee = capacity.knee.as_ref()?.ops_per_second.median;
        let medians = self.grid.iter().filter_map(|&clients| {
            let phases = report.phases(HELENUS, &grid_cell(clients));
            median(phases, PER_SECOND)
        });
        let best = medians.reduce(f64::max)?;
        Some((knee / best - 1.0).abs())
    }

    fn seconds(
        &self,
        report: &Report,
        node: usize,
        title: &str,
        axis: &str,
        of: fn(&IntervalStats) -> f64,
    ) -> Option<String> {
        let arms = self.arms.iter().map(Arm::name).enumerate();
        let line = |(colour, name): (usize, &str)| {
            let seconds = report.timeline.get(&format!("{name}, node {node}"))?;
            let points = seconds.iter().map(|second| (second.at_seconds, of(second)));
            Some(Line {
                name: name.to_owned(),
                colour,
                points: points.collect(),
            })
        };
        let chart = LineChart {
            title: title.into(),
            axis: axis.into(),
            across: "seconds; the join begins after the steady state".into(),
            names: Vec::new(),
            series: arms.filter_map(line).collect(),
        };
        (!chart.series.is_empty()).then(|| chart.svg())
    }
}

/// By the number of nodes, up to this one.
fn chart(nodes: usize, clients: usize) -> Chart {
    let cells = (1..=nodes).map(|nodes| (nodes.to_string(), cell(nodes, clients)));
    let title = format!("Throughput of {clients} clients");
    Chart::lines((&title, "queries/s", "nodes"), cells.collect(), PER_SECOND)
}

fn p99_raise(phase: &Phase) -> Option<f64> {
    let of = |name: &str| phase.extra.get(name).copied();
    Some(of("join_p99_us_worst")? / of("steady_p99_us").filter(|&us| us > 0.0)?)
}

fn word(nodes: usize) -> String {
    match nodes {
        2 => "two".into(),
        3 => "three".into(),
        4 => "four".into(),
        more => more.to_string(),
    }
}
