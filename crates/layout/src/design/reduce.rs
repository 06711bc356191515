//! Makes a problem smaller without changing its optimum.
//!
//! - Queries that cost the same on every candidate become one.
//! - A candidate that is nowhere cheaper than another is dropped: with the other in its place no set
//!   costs more, also not when one of its layouts is lost, since a layout may be chosen twice.

use std::collections::BTreeMap;

use crate::design::problem::Problem;

/// Pairs of candidates that are compared, at most. Keeping a dominated one is harmless.
const COMPARED_MAX: usize = 30_000_000;

/// Costs are multiplied by the weights here.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    costs: Vec<f64>,
    queries: usize,
    /// The problem's candidate that each row stands for.
    originals: Vec<usize>,
}

impl Reduced {
    pub(crate) fn new(problem: &Problem) -> Self {
        let (columns, weights) = merged(problem);
        let row = |candidate: usize| -> Vec<f64> {
            let costs = problem.row(candidate);
            columns
                .iter()
                .zip(&weights)
                .map(|(query, weight)| costs[*query] * weight)
                .collect()
        };
        let mut rows: Vec<(f64, usize, Vec<f64>)> = (0..problem.candidates())
            .map(|candidate| (row(candidate), candidate))
            .map(|(row, candidate)| (row.iter().sum(), candidate, row))
            .collect();
        // Whoever dominates comes first.
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut kept: Vec<(f64, usize, Vec<f64>)> = Vec::new();
        let mut compared = 0;
        for row in rows {
            compared += kept.len();
            let dominates =
                |other: &(f64, usize, Vec<f64>)| other.2.iter().zip(&row.2).all(|(a, b)| a <= b);
            if compared > COMPARED_MAX || !kept.iter().any(dominates) {
                kept.push(row);
            }
        }
        Reduced {
            queries: columns.len(),
            originals: kept.iter().map(|(_, candidate, _)| *candidate).collect(),
            costs: kept.into_iter().flat_map(|(_, _, row)| row).collect(),
        }
    }

    /// True if all costs are numbers to calculate with.
    pub(crate) fn is_finite(&self) -> bool {
        self.costs.iter().all(|cost| cost.is_finite())
    }

    pub(crate) fn candidates(&self) -> usize {
        self.originals.len()
    }

    pub(crate) fn queries(&self) -> usize {
        self.queries
    }

    pub(crate) fn row(&self, candidate: usize) -> &[f64] {
        &self.costs[candidate * self.queries..(candidate + 1) * self.queries]
    }

    pub(crate) fn original(&self, candidate: usize) -> usize {
        self.originals[candidate]
    }

    /// The cheapest of these candidates for each query.
    pub(crate) fn cheapest(&self, chosen: &[usize]) -> Vec<f64> {
        let mut costs = vec![f64::INFINITY; self.queries];
        for candidate in chosen {
            lower(&mut costs, self.row(*candidate));
        }
        costs
    }

    pub(crate) fn cost(&self, chosen: &[usize]) -> f64 {
        self.cheapest(chosen).iter().sum()
    }
}

/// Lowers each cost to that of the row.
pub(crate) fn lower(costs: &mut [f64], row: &[f64]) {
    for (cost, other) in costs.iter_mut().zip(row) {
        *cost = cost.min(*other);
    }
}

/// One query of each group that costs the same everywhere, with the group's weight.
fn merged(problem: &Problem) -> (Vec<usize>, Vec<f64>) {
    let mut groups: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
    let (mut columns, mut weights) = (Vec::new(), Vec::new());
    for (query, weight) in problem.weights().iter().enumerate() {
        let candidates = 0..problem.candidates();
        let column = candidates
            .map(|c| problem.row(c)[query].to_bits())
            .collect();
        let next = columns.len();
        let group = *groups.entry(column).or_insert(next);
        if group == next {
            columns.push(query);
            weights.push(0.0);
        }
        weights[group] += weight;
    }
    (columns, weights)
}
