//! Places layouts: which of them are held where, so that the queries asked there cost least, under a bound on copies.
//!
//! ```text
//! minimise  Σ over places p and queries q of weight(q, p) · cost(q, p)      with at most so many copies in all places
//! cost(q, p) = cost of q on the best layout of all, if that is held at p, otherwise on the table
//! ```
//!
//! The table is held at every place. A proxy chooses among all layouts of a table, wherever they are held, and reads the
//! table if the best is not held where it is: a layout of another place can be in the way. Of layouts that are equally
//! good any may be chosen, so all of them have to be there.
//!
//! 1. If no layout could be in the way, places would be independent: the exact search (`solve.rs`) finds the best 1, 2, …
//!    layouts of each, and the best division of the copies among them is a lower bound.
//! 2. All ways of holding the layouts that were found there are looked at one by one, up to a limit on the work.
//!
//! Limits: a proxy that cannot read the best layout may find another that has the table's order; this is not counted.

use std::collections::BTreeMap;

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
    /// Layouts that are tried besides those that are found; they stand for all that do the same for every query.
    pub known: Vec<Layout>,
    pub asked: Asked,
    /// Of layouts, in all places together.
    pub copies_max: usize,
    /// Of the exact search and of the look at all ways, each.
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
    let mut pool = Pool::new(model, columns);
    let singles = singles(&candidates, &pool.own, options);
    let found = singles.iter().flat_map(|single| &single.chosen).flatten();
    let found = found.filter_map(|c| candidates.layouts().get(*c));
    for layout in options.known.iter().chain(found) {
        pool.add(model, layout);
    }
    let bounds = division(&singles, options.copies_max);
    let mut search = Search {
        pool: &pool,
        asked: &options.asked,
        best: vec![None; options.copies_max + 1],
        evaluations_left: options.effort.evaluations_max,
    };
    // First, so that of equal ways the one of layouts that are known is kept.
    search.extend(0, &mut Vec::new(), 0);
    for (_, counts) in &bounds {
        let chosen = singles.iter().zip(counts);
        let chosen =
            chosen.map(|(single, count)| single.chosen.get(*count).map_or(&[][..], Vec::as_slice));
        let rows = chosen.map(|chosen| {
            let layouts = chosen.iter().filter_map(|c| candidates.layouts().get(*c));
            layouts
                .map(|layout| costs_on(model, layout))
                .collect::<Vec<_>>()
        });
        search.look(&pool.combined(&rows.collect::<Vec<_>>()));
    }
    let mut placements: Vec<Placement> = Vec::new();
    let mut least = pool.total(&[], &options.asked);
    for (best, (bound, _)) in search.best.into_iter().zip(&bounds) {
        let Some(best) = best.filter(|best| best.cost < least * (1.0 - ROUNDING)) else {
            continue;
        };
        least = best.cost;
        placements.push(Placement {
            held: pool.held(&best.held, places),
            cost_us: best.cost / total,
            lower_bound_us: bound.min(best.cost) / total,
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
    // Layouts that do the same are not one: a proxy may choose either.
    let mut pool = Pool::new(model, columns);
    pool.rows = held.iter().map(|of| costs_on(model, &of.layout)).collect();
    let places = held.iter().map(|held| {
        let places = (0..u32::BITS).zip(&held.places);
        let places = places.filter(|(_, held)| **held);
        places.map(|(place, _)| 1_u32 << place).sum()
    });
    let chosen: Vec<(usize, u32)> = places.enumerate().collect();
    let of_place = |(place, weights): (usize, &Vec<f64>)| {
        let total: f64 = weights.iter().sum();
        (total > 0.0).then(|| pool.cost_at(place, &chosen, weights) / total)
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

/// The best layouts of one place, as if there were no others. By their number, from none.
struct Single {
    chosen: Vec<Vec<usize>>,
    /// Not less than these do all queries of the place cost. The last may be of any number.
    lower: Vec<f64>,
}

fn singles(candidates: &Candidates, own: &[f64], options: &PlaceOptions) -> Vec<Single> {
    let count = options.copies_max.min(HELD_MAX);
    let searches = (options.asked.len() * count).max(1) as u64;
    let effort = Effort {
        evaluations_max: options.effort.evaluations_max / searches,
    };
    let of_place = |weights: &Vec<f64>| {
        let total: f64 = weights.iter().sum();
        let own_cost = weights.iter().zip(own).map(|(w, cost)| w * cost).sum();
        let mut single = Single {
            chosen: vec![Vec::new()],
            lower: vec![own_cost],
        };
        if total <= 0.0 {
            return single;
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
            let mut chosen = found.chosen;
            chosen.sort_unstable();
            chosen.dedup();
            single.chosen.push(chosen);
            single.lower.push(lower * total);
        }
        if count < options.copies_max {
            // With more than are looked for: as if each query had the layout that is best for it.
            let weights = problem.weights().iter().enumerate();
            let least: f64 = weights
                .map(|(query, weight)| weight * best_of(&problem, query))
                .sum();
            single.lower.push(least * total);
        }
        single
    };
    options.asked.iter().map(of_place).collect()
}

fn best_of(problem: &Problem, query: usize) -> f64 {
    let costs = (0..problem.candidates()).filter_map(|of| problem.row(of).get(query).copied());
    costs.fold(f64::INFINITY, f64::min)
}

/// For each number of copies, the least that they cost divided among places, and how many each has.
fn division(singles: &[Single], copies_max: usize) -> Vec<(f64, Vec<usize>)> {
    let mut best: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); copies_max + 1];
    for single in singles {
        let with = |copies: usize| {
            let counts = single.lower.iter().enumerate().take(copies + 1);
            let divided = counts.map(|(count, lower)| {
                let (others, counts) = &best[copies - count];
                (others + lower, [&counts[..], &[count]].concat())
            });
            let least = divided.min_by(|a, b| a.0.total_cmp(&b.0));
            least.unwrap_or_default()
        };
        best = (0..=copies_max).map(with).collect();
    }
    best
}

/// Costs of all queries on some layouts.
struct Pool {
    /// On the table.
    own: Vec<f64>,
    layouts: Vec<Layout>,
    rows: Vec<Vec<f64>>,
}

impl Pool {
    fn new(model: &dyn CostModel, columns: usize) -> Pool {
        Pool {
            own: costs_on(model, &Layout::own(columns)),
            layouts: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a layout, unless another costs the same for every query.
    fn add(&mut self, model: &dyn CostModel, layout: &Layout) {
        let row = costs_on(model, layout);
        if self.find(&row).is_none() {
            self.layouts.push(layout.clone());
            self.rows.push(row);
        }
    }

    fn find(&self, row: &[f64]) -> Option<usize> {
        self.rows.iter().position(|other| other == row)
    }

    /// Layouts with these costs, each at its place.
    fn combined(&self, rows: &[Vec<Vec<f64>>]) -> Vec<(usize, u32)> {
        let mut held: BTreeMap<usize, u32> = BTreeMap::new();
        for (place, rows) in rows.iter().enumerate() {
            for layout in rows.iter().filter_map(|row| self.find(row)) {
                *held.entry(layout).or_default() |= 1 << place;
            }
        }
        held.into_iter().collect()
    }

    /// Layouts are held at the places of which the bits are set.
    fn cost_at(&self, place: usize, held: &[(usize, u32)], weights: &[f64]) -> f64 {
        let queries = weights.iter().enumerate().filter(|(_, w)| **w > 0.0);
        let costs = queries.map(|(query, weight)| {
            let own = self.own[query];
            let (mut least, mut is_here) = (own, true);
            for (layout, places) in held {
                let (cost, held_here) = (self.rows[*layout][query], places >> place & 1 == 1);
                if cost < least {
                    (least, is_here) = (cost, held_here);
                } else if cost == least && cost < own {
                    is_here &= held_here;
                }
            }
            weight * if is_here { least } else { own }
        });
        costs.sum()
    }

    fn total(&self, held: &[(usize, u32)], asked: &[Vec<f64>]) -> f64 {
        let places = asked.iter().enumerate();
        places
            .map(|(place, weights)| self.cost_at(place, held, weights))
            .sum()
    }

    fn held(&self, held: &[(usize, u32)], places: usize) -> Vec<Held> {
        let held = held.iter().map(|(layout, bits)| Held {
            layout: self.layouts[*layout].clone(),
            places: (0..places).map(|place| bits >> place & 1 == 1).collect(),
        });
        held.collect()
    }
}

#[derive(Clone)]
struct Best {
    cost: f64,
    held: Vec<(usize, u32)>,
}

/// Looks at all ways of holding the layouts of a pool.
struct Search<'a> {
    pool: &'a Pool,
    asked: &'a [Vec<f64>],
    /// By the number of copies.
    best: Vec<Option<Best>>,
    evaluations_left: u64,
}

impl Search<'_> {
    /// With these, and any layouts of the pool from one on.
    fn extend(&mut self, from: usize, held: &mut Vec<(usize, u32)>, copies: usize) {
        for layout in from..self.pool.rows.len() {
            for places in 1..1u32 << self.asked.len() {
                let more = copies + places.count_ones() as usize;
                if self.evaluations_left == 0 {
                    return;
                }
                self.evaluations_left -= 1;
                if more < self.best.len() {
                    held.push((layout, places));
                    self.look(held);
                    self.extend(layout + 1, held, more);
                    held.pop();
                }
            }
        }
    }

    /// Of equal costs fewer layouts are better: each is one more write.
    fn look(&mut self, held: &[(usize, u32)]) {
        let work = self.pool.own.len() * self.asked.len() * (1 + held.len());
        self.evaluations_left = self.evaluations_left.saturating_sub(work as u64);
        let cost = self.pool.total(held, self.asked);
        let copies = held.iter().map(|(_, places)| places.count_ones() as usize);
        let Some(best) = self.best.get_mut(copies.sum::<usize>()) else {
            return;
        };
        let is_better = |best: &Best| {
            let less = cost < best.cost * (1.0 - ROUNDING);
            let same = cost <= best.cost * (1.0 + ROUNDING);
            less || same && held.len() < best.held.len()
        };
        if best.as_ref().is_none_or(is_better) {
            *best = Some(Best {
                cost,
                held: held.to_vec(),
            });
        }
    }
}

/// Of every query on a layout. Infinite where it cannot answer.
fn costs_on(model: &dyn CostModel, layout: &Layout) -> Vec<f64> {
    let cost = |query: usize| {
        let work = model.work(query, &Access::of(&model.shape(query), layout));
        work.map_or(f64::INFINITY, |work| model.coefficients().cost_us(&work))
    };
    (0..model.queries()).map(cost).collect()
}
