//! A design for a workload, and what it is compared with.

use crate::access::Access;
use crate::cost::{CostModel, Work};
use crate::design::anneal::{Anneal, Annealed, anneal};
use crate::design::candidates::Candidates;
use crate::design::heuristic::best_single;
use crate::design::solve::{Certificate, Effort, Objective, solve};
use crate::layout::Layout;

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Layouts to be chosen.
    pub replicas: usize,
    /// Clustering columns that may change places; see [`Layout::all`].
    pub permuted: Vec<usize>,
    /// Layouts that stay besides those that are chosen, and cannot be lost.
    pub kept: Vec<Layout>,
    pub objective: Objective,
    pub effort: Effort,
    /// Also runs the paper's algorithm, for comparison.
    pub anneal: Option<Anneal>,
}

/// All costs are weighted means over the workload.
#[derive(Clone, Debug)]
pub struct Design {
    /// One for each replica; one may come twice.
    pub layouts: Vec<Layout>,
    pub cost_us: f64,
    /// Cost of the cheapest set found, which the certificate speaks of. Lower than `cost_us` only with a slack.
    pub least_cost_us: f64,
    pub certificate: Certificate,
    /// The objective was cost first, and no set within the slack suffers less from a loss.
    pub loss_proven: bool,
    /// For each layout, what the workload costs while that one is lost. Infinite if none is left.
    pub cost_without_us: Vec<f64>,
    /// Cost on the table's own layout alone.
    pub own_cost_us: f64,
    /// The best layout for all replicas alike, and its cost.
    pub single: (Layout, f64),
    pub annealed: Option<Annealed>,
    /// For each query, the layout that it reads.
    pub reads: Vec<Read>,
    /// Layouts that differ for the workload.
    pub candidates: usize,
}

/// How one query is answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// Into [`Design::layouts`]; None if a kept layout is at least as cheap.
    pub layout: Option<usize>,
    /// None if no layout of the design can answer the query.
    pub work: Option<Work>,
    /// On the table's own layout.
    pub own_work: Work,
}

/// None if there is nothing to choose: no replica, no query or no clustering column.
pub fn design(model: &dyn CostModel, columns: usize, options: &Options) -> Option<Design> {
    if model.queries() == 0 || columns == 0 {
        return None;
    }
    let own = Layout::own(columns);
    let all = Layout::all(columns, &options.permuted);
    let start = all.first()?.clone();
    let candidates = Candidates::new(model, all, &options.kept);
    let problem = candidates.problem();
    let solution = solve(problem, options.replicas, options.objective, options.effort)?;
    let layouts = solution
        .chosen
        .iter()
        .filter_map(|c| candidates.layouts().get(*c));
    let layouts: Vec<Layout> = layouts.cloned().collect();
    let annealed = options.anneal.as_ref().and_then(|parameters| {
        anneal(
            &candidates,
            &start,
            &options.permuted,
            options.replicas,
            parameters,
        )
    });
    let (single, single_cost) = best_single(problem)?;
    let kept_cost = |query: usize| {
        let costs = options
            .kept
            .iter()
            .filter_map(|layout| cost_on(model, query, layout));
        costs.map(|(_, cost)| cost).fold(f64::INFINITY, f64::min)
    };
    let cost_without = |lost: usize| {
        let mut others = solution.chosen.clone();
        others.remove(lost);
        let cheapest = |query: usize| {
            let costs = others.iter().filter_map(|c| problem.row(*c).get(query));
            costs.copied().fold(kept_cost(query), f64::min)
        };
        let weights = problem.weights().iter().enumerate();
        weights
            .map(|(query, weight)| weight * cheapest(query))
            .sum()
    };
    let weights = problem.weights().iter().enumerate();
    let own_cost =
        |query: usize| cost_on(model, query, &own).map_or(f64::INFINITY, |(_, cost)| cost);
    Some(Design {
        cost_us: solution.cost,
        least_cost_us: solution.least_cost,
        certificate: solution.certificate,
        loss_proven: solution.loss_proven,
        cost_without_us: (0..solution.chosen.len()).map(cost_without).collect(),
        own_cost_us: weights
            .map(|(query, weight)| weight * own_cost(query))
            .sum(),
        single: (candidates.layouts().get(single)?.clone(), single_cost),
        annealed,
        reads: (0..model.queries())
            .map(|query| read(model, query, &layouts, &options.kept, &own))
            .collect(),
        candidates: candidates.layouts().len(),
        layouts,
    })
}

/// Cost of the workload if each query reads the cheapest of these layouts. Infinite if none can answer one.
pub fn mean_cost_us(model: &dyn CostModel, layouts: &[Layout]) -> f64 {
    let (mut cost, mut weights) = (0.0, 0.0);
    for query in 0..model.queries() {
        let costs = layouts
            .iter()
            .filter_map(|layout| cost_on(model, query, layout));
        let cheapest = costs.map(|(_, cost)| cost).fold(f64::INFINITY, f64::min);
        cost += model.weight(query) * cheapest;
        weights += model.weight(query);
    }
    cost / weights
}

/// True if two layouts do the same for every query of the workload.
pub fn is_same_for(model: &dyn CostModel, one: &Layout, other: &Layout) -> bool {
    (0..model.queries()).all(|query| {
        let shape = model.shape(query);
        Access::of(&shape, one) == Access::of(&shape, other)
    })
}

/// Work and cost of a query on a layout; None if it cannot be answered there.
fn cost_on(model: &dyn CostModel, query: usize, layout: &Layout) -> Option<(Work, f64)> {
    let work = model.work(query, &Access::of(&model.shape(query), layout))?;
    Some((work, model.coefficients().cost_us(&work)))
}

fn read(
    model: &dyn CostModel,
    query: usize,
    layouts: &[Layout],
    kept: &[Layout],
    own: &Layout,
) -> Read {
    let kept = kept.iter().map(|layout| (None, layout));
    let chosen = layouts
        .iter()
        .enumerate()
        .map(|(at, layout)| (Some(at), layout));
    let costs = kept.chain(chosen).filter_map(|(at, layout)| {
        let (work, cost) = cost_on(model, query, layout)?;
        Some((at, work, cost))
    });
    let best = costs.min_by(|a, b| a.2.total_cmp(&b.2));
    Read {
        layout: best.and_then(|(at, ..)| at),
        work: best.map(|(_, work, _)| work),
        own_work: cost_on(model, query, own)
            .map(|(work, _)| work)
            .unwrap_or_default(),
    }
}
