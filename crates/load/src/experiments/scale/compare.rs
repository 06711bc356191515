//! Ratios of the experiment.

use super::cells::{cell, grid_cell, join_cell};
use super::experiment::Scale;
use crate::experiments::arms::{HELENUS, ratio_key};
use crate::measure::Phase;
use crate::ramp::capacity::Capacity;
use crate::report::Report;
use crate::report::spread::Spread;

impl Scale {
    /// `nodes`: the greatest number measured. `capacity`: of one node, by the ramp.
    pub fn finish(&self, report: &mut Report, nodes: usize, capacity: Option<&Capacity>) {
        for arm in &self.arms {
            let name = &*arm.endpoint.name;
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
        report.charts = self.plots(report, nodes);
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
            let values: Vec<f64> = phases.iter().map(|phase| phase.ops_per_second).collect();
            Some(Spread::of(&values)?.median)
        });
        let best = medians.reduce(f64::max)?;
        Some((knee / best - 1.0).abs())
    }
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
