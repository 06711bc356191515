//! Good sets of layouts, fast: the best single one, greedy choice, and its improvement by exchange.
//!
//! Source: Teitz and Bart, "Heuristic methods for estimating the generalized vertex median of a
//! weighted graph" (1968).

use crate::design::problem::Problem;
use crate::design::reduce::{Reduced, lower};

/// The best layout for all replicas alike, found by looking at every one; None if there is none.
pub fn best_single(problem: &Problem) -> Option<(usize, f64)> {
    let costs = (0..problem.candidates()).map(|candidate| (candidate, problem.cost(&[candidate])));
    costs.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// One layout after the other, each the one that lowers the cost most.
pub fn greedy(problem: &Problem, replicas: usize) -> Vec<usize> {
    let reduced = Reduced::new(problem);
    let chosen = greedy_reduced(&reduced, replicas);
    chosen
        .into_iter()
        .map(|candidate| reduced.original(candidate))
        .collect()
}

pub(crate) fn greedy_reduced(problem: &Reduced, replicas: usize) -> Vec<usize> {
    let mut chosen = Vec::new();
    let mut costs = vec![f64::INFINITY; problem.queries()];
    for _ in 0..replicas {
        let Some((candidate, _)) = best_addition(problem, &costs) else {
            break;
        };
        lower(&mut costs, problem.row(candidate));
        chosen.push(candidate);
    }
    chosen
}

/// Exchanges one layout at a time as long as the cost falls.
pub(crate) fn exchange(problem: &Reduced, chosen: &mut [usize]) -> f64 {
    let mut cost = problem.cost(chosen);
    let mut unchanged = 0;
    let mut at = 0;
    while unchanged < chosen.len() {
        let mut others = chosen.to_vec();
        others.remove(at);
        let costs = problem.cheapest(&others);
        match best_addition(problem, &costs) {
            Some((candidate, new_cost)) if new_cost < cost * (1.0 - 1e-12) => {
                chosen[at] = candidate;
                cost = new_cost;
                unchanged = 0;
            }
            _ => unchanged += 1,
        }
        at = (at + 1) % chosen.len();
    }
    cost
}

/// The candidate that lowers these costs most, and what they add up to then.
fn best_addition(problem: &Reduced, costs: &[f64]) -> Option<(usize, f64)> {
    let with = |candidate: usize| -> f64 {
        let row = problem.row(candidate);
        costs
            .iter()
            .zip(row)
            .map(|(cost, other)| cost.min(*other))
            .sum()
    };
    let all = (0..problem.candidates()).map(|candidate| (candidate, with(candidate)));
    all.min_by(|a, b| a.1.total_cmp(&b.1))
}
