//! HRCA, the paper's way of choosing layouts: simulated annealing over states of one layout for each
//! replica. A neighbour exchanges two clustering columns of one replica. A better state is always
//! taken, a worse one with the probability
//!
//! ```text
//! (cost ÷ new cost) ^ (1 ÷ temperature)
//! ```
//!
//! that is exp(−Δ ÷ temperature) with Δ on a logarithmic scale, since costs span orders of magnitude.
//! The temperature falls geometrically. The best state that was seen counts.
//!
//! Evidence: `design/tests.rs` compares it with the proven optimum.
//!
//! Limits: it does not know how good its result is; [`crate::solve`] does.
//!
//! Source: Qiao et al., algorithm 1, which leaves temperatures and number of steps open; Kirkpatrick
//! et al., "Optimization by simulated annealing" (1983).

use crate::design::candidates::Candidates;
use crate::design::problem::Problem;
use crate::layout::Layout;
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anneal {
    pub seed: u64,
    /// In each run.
    pub steps: u32,
    /// Runs from the start, of which the best counts.
    pub runs: u32,
    pub temperature_first: f64,
    pub temperature_last: f64,
}

impl Default for Anneal {
    fn default() -> Self {
        Anneal {
            seed: 1,
            steps: 100_000,
            runs: 4,
            temperature_first: 1.0,
            temperature_last: 0.001,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Annealed {
    pub layouts: Vec<Layout>,
    /// Weighted mean over the workload.
    pub cost_us: f64,
}

/// Starts with `start` on each of `replicas` replicas and exchanges the columns of `permuted`. None
/// if `start` or what comes of it is not among the candidates.
pub fn anneal(
    candidates: &Candidates,
    start: &Layout,
    permuted: &[usize],
    replicas: usize,
    parameters: &Anneal,
) -> Option<Annealed> {
    let mut rng = Rng::new(parameters.seed);
    let mut best: Option<Annealed> = None;
    for _ in 0..parameters.runs.max(1) {
        let mut run = Run::new(candidates, start, replicas)?;
        run.cool(permuted, parameters, &mut rng)?;
        if best
            .as_ref()
            .is_none_or(|best| run.best.cost_us < best.cost_us)
        {
            best = Some(run.best);
        }
    }
    best
}

struct Run<'a> {
    candidates: &'a Candidates,
    problem: &'a Problem,
    layouts: Vec<Layout>,
    chosen: Vec<usize>,
    cost: f64,
    best: Annealed,
}

impl<'a> Run<'a> {
    fn new(candidates: &'a Candidates, start: &Layout, replicas: usize) -> Option<Self> {
        let layouts = vec![start.clone(); replicas];
        let chosen = vec![candidates.candidate(start)?; replicas];
        let problem = candidates.problem();
        let cost = problem.cost(&chosen);
        let best = Annealed {
            layouts: layouts.clone(),
            cost_us: cost,
        };
        Some(Run {
            candidates,
            problem,
            layouts,
            chosen,
            cost,
            best,
        })
    }

    fn cool(&mut self, permuted: &[usize], parameters: &Anneal, rng: &mut Rng) -> Option<()> {
        let (first, last) = (parameters.temperature_first, parameters.temperature_last);
        let count = permuted.len().min(crate::layout::PERMUTED_MAX);
        if count < 2 || self.layouts.is_empty() {
            return Some(());
        }
        for step in 0..parameters.steps {
            let progress = f64::from(step) / f64::from(parameters.steps);
            let temperature = first * (last / first).powf(progress);
            let replica = rng.below(self.layouts.len());
            let a = rng.below(count);
            let b = (a + 1 + rng.below(count - 1)) % count;
            let mut layout = self.layouts[replica].clone();
            // The columns that may change places are the first ones of every layout.
            layout.swap(a, b);
            let candidate = self.candidates.candidate(&layout)?;
            let before = std::mem::replace(&mut self.chosen[replica], candidate);
            let cost = match candidate == before {
                true => self.cost,
                false => self.problem.cost(&self.chosen),
            };
            let accepted =
                cost <= self.cost || rng.unit() < (self.cost / cost).powf(1.0 / temperature);
            if !accepted {
                self.chosen[replica] = before;
                continue;
            }
            self.cost = cost;
            self.layouts[replica] = layout;
            if cost < self.best.cost_us {
                self.best.cost_us = cost;
                self.best.layouts.clone_from(&self.layouts);
            }
        }
        Some(())
    }
}
