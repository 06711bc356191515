//! Branch and bound over sets of layouts.
//!
//! Candidates come in the order of their Lagrangian gains, so that once the bound of one is too high,
//! those of all later ones are too. A second bound is stronger deep in the tree: what is left to be
//! saved is at most the sum of what the best remaining candidates save each for itself, because two of
//! them together never save more than the sum (the savings are submodular). With one layout left to
//! choose, that is the exact answer.
//!
//! Source: Nemhauser, Wolsey and Fisher, "An analysis of approximations for maximizing submodular set
//! functions" (1978) for the second bound.

use crate::design::lagrange::Bound;
use crate::design::loss::cost_and_worst_loss;
use crate::design::reduce::{Reduced, lower};

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-11;

/// The quantity that is to be as low as possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    Cost,
    /// The worst cost with one layout lost, of the sets that cost no more than this.
    Loss {
        cost_max: f64,
    },
    /// Cost plus the worst cost with one layout lost, times this.
    Both {
        loss_weight: f64,
    },
}

/// Searches all sets of `replicas` candidates, with repetition.
pub(crate) struct Search<'a> {
    problem: &'a Reduced,
    replicas: usize,
    goal: Goal,
    /// No set costs less with one of its layouts lost.
    loss_floor: f64,
    bound: &'a Bound,
    /// Candidates, the greatest Lagrangian gain first.
    order: Vec<usize>,
    /// Sums of the gains up to each place of the order.
    gains_up_to: Vec<f64>,
    /// A candidate may be chosen twice. That never lowers the cost, only what a loss costs.
    repeat: bool,
    best: Vec<usize>,
    best_value: f64,
    evaluations_left: u64,
    complete: bool,
}

/// The best set found, and whether all were searched.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub chosen: Vec<usize>,
    pub complete: bool,
    pub evaluations_left: u64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        problem: &'a Reduced,
        goal: Goal,
        bound: &'a Bound,
        loss_floor: f64,
        start: Vec<usize>,
        evaluations_max: u64,
    ) -> Self {
        let mut order: Vec<usize> = (0..problem.candidates()).collect();
        order.sort_by(|a, b| bound.gains[*b].total_cmp(&bound.gains[*a]));
        let mut gains_up_to = vec![0.0];
        for candidate in &order {
            let before = gains_up_to.last().copied().unwrap_or(0.0);
            gains_up_to.push(before + bound.gains[*candidate]);
        }
        let mut search = Search {
            replicas: start.len(),
            gains_up_to,
            repeat: goal != Goal::Cost || problem.candidates() < start.len(),
            problem,
            goal,
            loss_floor,
            bound,
            order,
            best_value: f64::INFINITY,
            best: Vec::new(),
            evaluations_left: evaluations_max,
            complete: true,
        };
        search.offer(&start);
        if search.best.is_empty() {
            search.best = start;
        }
        search
    }

    pub(crate) fn run(mut self) -> Found {
        let costs = vec![f64::INFINITY; self.problem.queries()];
        let mut chosen = Vec::with_capacity(self.replicas);
        self.descend(0, &costs, &mut chosen, self.bound.prices);
        Found {
            chosen: self.best,
            complete: self.complete,
            evaluations_left: self.evaluations_left,
        }
    }

    /// All sets that begin with `chosen` and continue with candidates from `from` on. `relaxed` is the
    /// sum of prices less the gains of those chosen.
    fn descend(&mut self, from: usize, costs: &[f64], chosen: &mut Vec<usize>, relaxed: f64) {
        let left = self.replicas - chosen.len();
        let saved = match chosen.is_empty() {
            true => vec![f64::INFINITY; self.order.len()],
            false => match self.savings(from, costs, relaxed, left) {
                Some(saved) => saved,
                None => return,
            },
        };
        let cost: f64 = costs.iter().sum();
        let others: f64 = {
            let mut sorted = saved.clone();
            sorted.sort_unstable_by(|a, b| b.total_cmp(a));
            sorted.iter().take(left - 1).sum()
        };
        for (at, saved) in saved.into_iter().enumerate() {
            let place = from + at;
            let candidate = self.order[place];
            if !self.may_improve(relaxed - self.greatest_gains(place, left)) || !self.complete {
                // Gains only fall from here on.
                return;
            }
            // The first level has no savings to go by.
            let submodular = if chosen.is_empty() {
                0.0
            } else {
                cost - saved - others
            };
            if !self.may_improve(submodular) {
                continue;
            }
            chosen.push(candidate);
            if left == 1 {
                self.offer(chosen);
            } else {
                let mut lowered = costs.to_vec();
                lower(&mut lowered, self.problem.row(candidate));
                let next = if self.repeat { place } else { place + 1 };
                let relaxed = relaxed - self.bound.gains[candidate];
                self.descend(next, &lowered, chosen, relaxed);
            }
            chosen.pop();
        }
    }

    /// Savings of each candidate from `from` on, by itself. None if the work is used up.
    ///
    /// The last layout is looked for only as far as the Lagrangian bound lets it matter. Before that,
    /// all are needed: a set that begins early may go on with a candidate that no set begins with.
    fn savings(
        &mut self,
        from: usize,
        costs: &[f64],
        relaxed: f64,
        left: usize,
    ) -> Option<Vec<f64>> {
        let mut saved = Vec::new();
        for place in from..self.order.len() {
            if left == 1 && !self.may_improve(relaxed - self.greatest_gains(place, left)) {
                break;
            }
            let row = self.problem.row(self.order[place]);
            saved.push(
                costs
                    .iter()
                    .zip(row)
                    .map(|(cost, other)| (cost - other).max(0.0))
                    .sum(),
            );
        }
        let evaluations = (saved.len() * costs.len()) as u64;
        match self.evaluations_left.checked_sub(evaluations) {
            Some(left) => {
                self.evaluations_left = left;
                Some(saved)
            }
            None => {
                self.complete = false;
                None
            }
        }
    }

    /// The most that `count` candidates from a place on gain together.
    fn greatest_gains(&self, place: usize, count: usize) -> f64 {
        if self.repeat {
            return self.bound.gains[self.order[place]] * count as f64;
        }
        let end = (place + count).min(self.order.len());
        self.gains_up_to[end] - self.gains_up_to[place]
    }

    /// True if sets that cost at least `cost` can be better than the best so far.
    fn may_improve(&self, cost: f64) -> bool {
        let least = self.best_value - self.best_value.abs() * ROUNDING;
        match self.goal {
            Goal::Cost => cost < least,
            Goal::Loss { cost_max } => cost <= cost_max && cost.max(self.loss_floor) < least,
            Goal::Both { loss_weight } => cost + loss_weight * cost.max(self.loss_floor) < least,
        }
    }

    fn offer(&mut self, chosen: &[usize]) {
        let value = match self.goal {
            Goal::Cost => self.problem.cost(chosen),
            Goal::Loss { cost_max } => match cost_and_worst_loss(self.problem, chosen) {
                (cost, loss) if cost <= cost_max => loss,
                _ => return,
            },
            Goal::Both { loss_weight } => {
                let (cost, loss) = cost_and_worst_loss(self.problem, chosen);
                cost + loss_weight * loss
            }
        };
        if value < self.best_value {
            self.best_value = value;
            self.best = chosen.to_vec();
        }
    }
}
