//! Places layouts: which of them are held where, so that the queries asked there cost least, under a bound on copies.
//!
//! ```text
//! minimise  Σ over places p and queries q of weight(q, p) · cost(q, p)      with at most so many copies in all places
//! cost(q, p) = cost of q on the table, or on the best layout that is held at p
//! ```
//!
//! The table is held at every place. A proxy reads the best layout that is held where it is, so places are independent:
//! the exact search (`solve.rs`) finds the best 1, 2, … layouts of each, and the copies are divided among them so that the
//! sum is least.

use crate::access::Access;
use crate::cost::CostModel;
use crate::design::candidates::Candidates;
use crate::design::problem::Problem;
use crate::design::solve::{Certificate, Effort, Objective, solve};
use crate::layout::Layout;

/// Layouts that are looked for at one place: each is one more write.
pub const HELD_MAX: usize = 5;
/// Places among which layouts can be divided.
pub const PLACES_MAX: usize = 12;
/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// For each place, how often each query is asked there.
pub type Asked = Vec<Vec<f64>>;

/// A layout, and the places where it is held.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub layout: Layout,
    pub places: Vec<bool>,
}

impl Held {
    pub fn copies(&self) -> usize {
        self.places.iter().filter(|held| **held).count()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlaceOptions {
    /// Clustering columns that may change places; see [`Layout::all`].
    pub permuted: Vec<usize>,
    /// Layouts that are taken in place of others that do the same for every query of a place.
    pub known: Vec<Layout>,
    pub asked: Asked,
    /// Of layouts, in all places together.
    pub copies_max: usize,
    pub effort: Effort,
}

/// Where layouts are held.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub held: Vec<Held>,
    /// Mean of all queries.
    pub cost_us: f64,
    /// Nothing that takes as many copies costs less.
    pub lower_bound_us: f64,
}

impl Placement {
    pub fn copies(&self) -> usize {
        self.held.iter().map(Held::copies).sum()
    }

    /// True if it is known that nothing costs less.
    pub fn is_proven(&self) -> bool {
        self.cost_us <= self.lower_bound_us * (1.0 + ROUNDING)
    }
}

/// The best placements found, with more and more copies: each costs less than those with fewer. None is worth it if
/// there are none.
pub fn place(model: &dyn CostModel, columns: usize, options: &PlaceOptions) -> Vec<Placement> {
    let places = options.asked.len();
    let total: f64 = options.asked.iter().flatten().sum();
    if columns == 0 || places == 0 || places > PLACES_MAX || total <= 0.0 {
        return Vec::new();
    }
    let own = Layout::own(columns);
    let all = Layout::all(columns, &options.permuted);
    let candidates = Candidates::new(model, all, std::slice::from_ref(&own));
    let singles = singles(&candidates, &costs_on(model, &own), options);
    let bounds = divisions(&singles, options.copies_max, |way| way.lower);
    let divisions = divisions(&singles, options.copies_max, |way| way.cost);
    let mut placements: Vec<Placement> = Vec::new();
    let mut least = divisions[0].0;
    for ((cost, counts), (bound, _)) in divisions.iter().zip(&bounds).skip(1) {
        if *cost >= least * (1.0 - ROUNDING) {
            continue;
        }
        least = *cost;
        let chosen = singles.iter().zip(counts);
        let chosen = chosen.map(|(ways, count)| ways.get(*count).map_or(&[][..], |w| &w.chosen));
        let chosen = fewer(
            &candidates,
            options,
            chosen.map(<[usize]>::to_vec).collect(),
        );
        placements.push(Placement {
            held: held(&candidates, &chosen, &options.known),
            cost_us: cost / total,
            lower_bound_us: bound.min(*cost) / total,
        });
    }
    placements
}

/// For each place the mean cost of the queries that are asked there; None where there are none.
pub fn cost_by_place(
    model: &dyn CostModel,
    columns: usize,
    held: &[Held],
    asked: &[Vec<f64>],
) -> Vec<Option<f64>> {
    let own = costs_on(model, &Layout::own(columns));
    let rows: Vec<Vec<f64>> = held.iter().map(|of| costs_on(model, &of.layout)).collect();
    let of_place = |(place, weights): (usize, &Vec<f64>)| {
        let total: f64 = weights.iter().sum();
        let here = || (rows.iter().zip(held)).filter(|(_, of)| of.places.get(place) == Some(&true));
        let cost = |query: usize| {
            let costs = here().map(|(row, _)| row[query]);
            costs.fold(own[query], f64::min)
        };
        let asked = weights.iter().enumerate().filter(|(_, w)| **w > 0.0);
        let sum: f64 = asked.map(|(query, weight)| weight * cost(query)).sum();
        (total > 0.0).then(|| sum / total)
    };
    asked.iter().enumerate().map(of_place).collect()
}

/// For each layout the places where it is the best for a query that is asked there, or as good as the best.
pub fn read_at(
    model: &dyn CostModel,
    columns: usize,
    layouts: &[Layout],
    asked: &[Vec<f64>],
) -> Vec<Vec<bool>> {
    let own = costs_on(model, &Layout::own(columns));
    let rows: Vec<Vec<f64>> = layouts.iter().map(|l| costs_on(model, l)).collect();
    let is_best = |row: &[f64], query: usize| {
        let least = rows.iter().map(|row| row[query]);
        row[query] < own[query] && row[query] <= least.fold(f64::INFINITY, f64::min)
    };
    let reads = |row: &Vec<f64>, weights: &Vec<f64>| {
        let mut weights = weights.iter().enumerate();
        weights.any(|(query, weight)| *weight > 0.0 && is_best(row, query))
    };
    let of_row = |row| asked.iter().map(|weights| reads(row, weights)).collect();
    rows.iter().map(of_row).collect()
}

/// Some layouts at one place.
struct Way {
    chosen: Vec<usize>,
    /// Of all queries of the place.
    cost: f64,
    /// With as many layouts they do not cost less.
    lower: f64,
}

/// The best layouts of each place, by their number, from none. With more than [`HELD_MAX`] only the bound is lower.
fn singles(candidates: &Candidates, own: &[f64], options: &PlaceOptions) -> Vec<Vec<Way>> {
    let count = options.copies_max.min(HELD_MAX);
    let searches = (options.asked.len() * count).max(1) as u64;
    let effort = Effort {
        evaluations_max: options.effort.evaluations_max / searches,
    };
    let of_place = |weights: &Vec<f64>| {
        let total: f64 = weights.iter().sum();
        let asked = weights.iter().zip(own).filter(|(weight, _)| **weight > 0.0);
        let own_cost = asked.map(|(weight, cost)| weight * cost).sum();
        let mut ways = vec![Way {
            chosen: Vec::new(),
            cost: own_cost,
            lower: own_cost,
        }];
        if total <= 0.0 {
            return ways;
        }
        let problem = candidates.problem().asked(weights);
        for replicas in 1..=count {
            let Some(found) = solve(&problem, replicas, Objective::Cost, effort) else {
                break;
            };
            let lower = match found.certificate {
                Certificate::Optimal => found.least_cost,
                Certificate::AtLeast { lower_bound } => lower_bound,
            };
            ways.push(Way {
                chosen: found.chosen,
                cost: found.least_cost * total,
                lower: lower * total,
            });
        }
        if count < options.copies_max {
            // As if each query had the layout that is best for it.
            let weights = problem.weights().iter().enumerate();
            let least: f64 = weights
                .map(|(query, weight)| weight * best_of(&problem, query))
                .sum();
            ways.push(Way {
                chosen: Vec::new(),
                cost: f64::INFINITY,
                lower: least * total,
            });
        }
        ways
    };
    options.asked.iter().map(of_place).collect()
}

fn best_of(problem: &Problem, query: usize) -> f64 {
    let costs = (0..problem.candidates()).filter_map(|of| problem.row(of).get(query).copied());
    costs.fold(f64::INFINITY, f64::min)
}

/// For each number of copies, the least sum of a measure of which they are divided among places, and how many each has.
fn divisions(
    singles: &[Vec<Way>],
    copies_max: usize,
    measure: impl Fn(&Way) -> f64,
) -> Vec<(f64, Vec<usize>)> {
    let mut best: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); copies_max + 1];
    for ways in singles {
        let with = |copies: usize| {
            let ways = ways.iter().enumerate().take(copies + 1);
            let divided = ways.map(|(count, way)| {
                let (others, counts) = &best[copies - count];
                (others + measure(way), [&counts[..], &[count]].concat())
            });
            let least = divided.min_by(|a, b| a.0.total_cmp(&b.0));
            least.unwrap_or_default()
        };
        best = (0..=copies_max).map(with).collect();
    }
    best
}

/// The same at the same cost with fewer layouts, each of which is one more write, and with those that are known.
fn fewer(
    candidates: &Candidates,
    options: &PlaceOptions,
    mut chosen: Vec<Vec<usize>>,
) -> Vec<Vec<usize>> {
    let known = options.known.iter();
    let known: Vec<usize> = known.filter_map(|of| candidates.candidate(of)).collect();
    for place in 0..chosen.len() {
        let problem = candidates.problem().asked(&options.asked[place]);
        let most = problem.cost(&chosen[place]) * (1.0 + ROUNDING);
        for at in 0..chosen[place].len() {
            if known.contains(&chosen[place][at]) {
                continue;
            }
            let others = chosen
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != place);
            let elsewhere = others.flat_map(|(_, chosen)| chosen);
            let better = known.iter().chain(elsewhere).copied().find(|other| {
                let mut changed = chosen[place].clone();
                changed[at] = *other;
                problem.cost(&changed) <= most
            });
            if let Some(better) = better {
                chosen[place][at] = better;
            }
        }
    }
    chosen
}

/// The candidates that are chosen at each place as layouts; first those that are known, in their order.
fn held(candidates: &Candidates, chosen: &[Vec<usize>], known: &[Layout]) -> Vec<Held> {
    let known = known
        .iter()
        .filter_map(|layout| Some((candidates.candidate(layout)?, layout)));
    let known: Vec<(usize, &Layout)> = known.collect();
    let mut all: Vec<usize> = chosen.concat();
    let place_of = |candidate: usize| known.iter().position(|(known, _)| *known == candidate);
    all.sort_unstable_by_key(|of| (place_of(*of).unwrap_or(usize::MAX), *of));
    all.dedup();
    let of_candidate = |candidate: usize| {
        let known = place_of(candidate).map(|at| known[at].1);
        Some(Held {
            layout: known.or(candidates.layouts().get(candidate))?.clone(),
            places: chosen.iter().map(|of| of.contains(&candidate)).collect(),
        })
    };
    all.into_iter().filter_map(of_candidate).collect()
}

/// Of every query on a layout. Infinite where it cannot answer.
fn costs_on(model: &dyn CostModel, layout: &Layout) -> Vec<f64> {
    let cost = |query: usize| {
        let work = model.work(query, &Access::of(&model.shape(query), layout));
        work.map_or(f64::INFINITY, |work| model.coefficients().cost_us(&work))
    };
    (0..model.queries()).map(cost).collect()
}
