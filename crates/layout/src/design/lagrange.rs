//! A lower bound for every set of layouts, by Lagrangian relaxation.
//!
//! A price u(q) that each query pays relaxes "every query reads one chosen layout". A candidate then
//! gains ρ(c) = Σ max(0, u(q) − cost(q, c)), and no set of r candidates costs less than
//!
//! ```text
//! Σ u(q) − the r greatest gains
//! ```
//!
//! Subgradient steps raise that: a query that several chosen candidates serve pays too much, one that
//! none serves too little. At the best prices the bound is mostly the optimum itself.
//!
//! Source: Cornuéjols, Fisher and Nemhauser, "Location of bank accounts to optimize float" (1977);
//! Held, Wolfe and Crowder, "Validation of subgradient optimization" (1974).

use crate::design::reduce::Reduced;

const STEPS: usize = 2000;
/// Steps without a better bound, after which they become shorter.
const PATIENCE: usize = 30;

#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// Σ u(q)
    pub prices: f64,
    /// ρ(c) of each candidate.
    pub gains: Vec<f64>,
    /// For sets of as many layouts as were asked for.
    pub bound: f64,
}

/// `start` is what each query costs on a good set, and `upper` what the set costs.
pub(crate) fn lower_bound(
    problem: &Reduced,
    replicas: usize,
    start: Vec<f64>,
    upper: f64,
) -> Bound {
    let cheapest = problem.cheapest(&(0..problem.candidates()).collect::<Vec<_>>());
    let mut prices = start;
    let mut best: Option<Bound> = None;
    let (mut pace, mut waited) = (2.0, 0);
    for _ in 0..STEPS {
        let gains = gains(problem, &prices);
        let top = greatest(&gains, replicas);
        let sum: f64 = prices.iter().sum();
        let bound = sum - top.iter().map(|c| gains[*c]).sum::<f64>();
        // Prices may begin infinite, if a good set leaves a query unanswered.
        if bound.is_finite() && best.as_ref().is_none_or(|best| bound > best.bound) {
            waited = 0;
            best = Some(Bound {
                prices: sum,
                gains,
                bound,
            });
        } else {
            waited += 1;
            if waited >= PATIENCE {
                (pace, waited) = (pace / 2.0, 0);
            }
        }
        let gap = upper - bound;
        if gap <= upper.abs() * 1e-9 || pace < 1e-3 {
            break;
        }
        let mut slope = vec![1.0; prices.len()];
        for candidate in &top {
            let served = problem.row(*candidate).iter().zip(&prices);
            for (slope, (cost, price)) in slope.iter_mut().zip(served) {
                *slope -= f64::from(u8::from(cost < price));
            }
        }
        let length: f64 = slope.iter().map(|s| s * s).sum();
        if length == 0.0 {
            break;
        }
        let step = pace * gap / length;
        for ((price, slope), least) in prices.iter_mut().zip(&slope).zip(&cheapest) {
            // Below the cheapest candidate a price only lowers the bound.
            *price = (*price + step * slope).max(*least);
        }
    }
    best.unwrap_or(Bound {
        prices: 0.0,
        gains: vec![0.0; problem.candidates()],
        bound: 0.0,
    })
}

fn gains(problem: &Reduced, prices: &[f64]) -> Vec<f64> {
    let gain = |candidate: usize| -> f64 {
        let row = problem.row(candidate);
        prices
            .iter()
            .zip(row)
            .map(|(price, cost)| (price - cost).max(0.0))
            .sum()
    };
    (0..problem.candidates()).map(gain).collect()
}

fn greatest(gains: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..gains.len()).collect();
    let count = count.min(order.len());
    if count == 0 {
        return Vec::new();
    }
    order.select_nth_unstable_by(count - 1, |a, b| gains[*b].total_cmp(&gains[*a]));
    order.truncate(count);
    order
}
