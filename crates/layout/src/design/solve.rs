//! The exact way: layouts that are proven to cost least, or how far from it they may be at most.
//!
//! 1. The problem is reduced (`reduce.rs`).
//! 2. Greedy choice with exchange gives a good set (`heuristic.rs`).
//! 3. Lagrangian relaxation gives a bound, often equal to it (`lagrange.rs`).
//! 4. Branch and bound closes the gap (`search.rs`), up to a limit on the work.
//! 5. If asked for, among the sets of that cost the one that suffers least from the loss of a layout.
//!
//! The bounds are differences of costs, which mean nothing if a cost is infinite: then nothing is proven.

use std::cmp::Ordering;

use crate::design::heuristic::{exchange, greedy_reduced};
use crate::design::lagrange::{Bound, lower_bound};
use crate::design::loss::cost_and_worst_loss;
use crate::design::problem::Problem;
use crate::design::reduce::Reduced;
use crate::design::search::{Goal, Search};

/// The measure by which one set of layouts is better than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    Cost,
    /// First the cost; among sets that cost at most `slack` more (0.02 is 2 %) than the best, the cost
    /// with the worst layout lost.
    CostThenLoss {
        slack: f64,
    },
    /// Cost plus the cost with the worst layout lost times this weight.
    Weighted {
        loss_weight: f64,
    },
}

/// How much may be searched, counted in costs that are looked at. A billion take about a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    pub evaluations_max: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            evaluations_max: 4_000_000_000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Certificate {
    /// No set has a lower objective, with [`Objective::CostThenLoss`] none a lower cost than
    /// [`Solution::least_cost`].
    Optimal,
    /// The work was used up, or a cost is infinite: no set is below this.
    AtLeast { lower_bound: f64 },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Candidates of the problem, one for each replica; one may come twice.
    pub chosen: Vec<usize>,
    /// The workload's mean cost.
    pub cost: f64,
    /// The lowest cost of any set found. That of `chosen` is higher only where the objective gives up
    /// some of it.
    pub least_cost: f64,
    /// The cost with the worst one of them lost. None if there is only one.
    pub cost_with_worst_loss: Option<f64>,
    /// Of the least cost, or of the weighted sum.
    pub certificate: Certificate,
    /// For [`Objective::CostThenLoss`]: no other set within the slack suffers less from a loss.
    pub loss_proven: bool,
}

/// The best set of `replicas` candidates. None if there are no candidates or no replicas.
pub fn solve(
    problem: &Problem,
    replicas: usize,
    objective: Objective,
    effort: Effort,
) -> Option<Solution> {
    if problem.candidates() == 0 || replicas == 0 {
        return None;
    }
    let reduced = Reduced::new(problem);
    let mut solver = Solver {
        problem: &reduced,
        evaluations_left: effort.evaluations_max,
    };
    let least = solver.least_cost(replicas);
    let (least_cost, _) = cost_and_worst_loss(&reduced, &least.chosen);
    let with_loss = |chosen: &[usize], certificate, loss_proven| {
        let (cost, loss) = cost_and_worst_loss(&reduced, chosen);
        Solution {
            chosen: chosen.iter().map(|c| reduced.original(*c)).collect(),
            cost,
            // Rounding may make the same cost a little less.
            least_cost: least_cost.min(cost),
            cost_with_worst_loss: (replicas > 1).then_some(loss),
            certificate,
            loss_proven,
        }
    };
    let certificate = match least.proven {
        true => Certificate::Optimal,
        false => Certificate::AtLeast {
            lower_bound: least.bound.bound,
        },
    };
    let goal = match objective {
        _ if replicas == 1 => Goal::Cost,
        Objective::Cost => Goal::Cost,
        Objective::CostThenLoss { slack } => Goal::Loss {
            cost_max: least_cost * (1.0 + slack.max(0.0) + 1e-9),
        },
        Objective::Weighted { loss_weight } => Goal::Both {
            loss_weight: loss_weight.max(0.0),
        },
    };
    if goal == Goal::Cost {
        return Some(with_loss(&least.chosen, certificate, replicas == 1));
    }
    let fewer = solver.least_cost(replicas - 1);
    let loss_floor = if fewer.proven {
        reduced.cost(&fewer.chosen)
    } else {
        fewer.bound.bound
    };
    let start = harden(&reduced, &least.chosen, goal);
    let search = Search::new(
        &reduced,
        goal,
        &least.bound,
        loss_floor,
        start,
        solver.evaluations_left,
    );
    let found = search.run();
    let proven = found.complete && reduced.is_finite();
    let certificate = match (goal, proven) {
        (Goal::Both { .. }, true) => Certificate::Optimal,
        (Goal::Both { loss_weight }, false) => {
            let cost = least.bound.bound;
            let lower_bound = cost + loss_weight * cost.max(loss_floor);
            Certificate::AtLeast { lower_bound }
        }
        _ => certificate,
    };
    Some(with_loss(&found.chosen, certificate, proven))
}

struct Solver<'a> {
    problem: &'a Reduced,
    evaluations_left: u64,
}

struct Least {
    chosen: Vec<usize>,
    bound: Bound,
    proven: bool,
}

impl Solver<'_> {
    fn least_cost(&mut self, replicas: usize) -> Least {
        let mut chosen = greedy_reduced(self.problem, replicas);
        let cost = exchange(self.problem, &mut chosen);
        let start = self.problem.cheapest(&chosen);
        let bound = lower_bound(self.problem, replicas, start, cost);
        let search = Search::new(
            self.problem,
            Goal::Cost,
            &bound,
            0.0,
            chosen,
            self.evaluations_left,
        );
        let found = search.run();
        self.evaluations_left = found.evaluations_left;
        Least {
            chosen: found.chosen,
            proven: found.complete && self.problem.is_finite(),
            bound,
        }
    }
}

/// A set that suffers less from a loss, by exchanging one layout at a time: a start for the search.
fn harden(problem: &Reduced, chosen: &[usize], goal: Goal) -> Vec<usize> {
    let value = |chosen: &[usize]| {
        let (cost, loss) = cost_and_worst_loss(problem, chosen);
        match goal {
            Goal::Cost => cost,
            Goal::Loss { cost_max } if cost > cost_max => f64::INFINITY,
            Goal::Loss { .. } => loss,
            Goal::Both { loss_weight } => cost + loss_weight * loss,
        }
    };
    let mut best = chosen.to_vec();
    let mut best_value = value(&best);
    loop {
        let at_first = best_value;
        for at in 0..best.len() {
            for candidate in 0..problem.candidates() {
                let before = std::mem::replace(&mut best[at], candidate);
                match value(&best) {
                    less if less < best_value * (1.0 - 1e-12) => best_value = less,
                    _ => best[at] = before,
                }
            }
        }
        // Of costs that are no numbers none is lower.
        if best_value.partial_cmp(&at_first) != Some(Ordering::Less) {
            return best;
        }
    }
}
