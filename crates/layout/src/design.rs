//! Chooses one layout for each replica so that the workload costs least, each query being read from
//! the layout on which it is cheapest:
//!
//! ```text
//! minimise  Σ weight(q) · min over chosen layouts of cost(q, layout)
//! ```
//!
//! This is the p-median problem. There are three ways: the best single layout (`heuristic.rs`), the
//! paper's simulated annealing (`anneal.rs`), and an exact search that proves its result
//! (`solve.rs`). [`design()`] runs all three. [`place()`] decides in which data centre which layouts are held.
//!
//! Source: Qiao et al., section 3.2; Reese, "Solution methods for the p-median problem" (2006).

mod anneal;
mod candidates;
mod heuristic;
mod lagrange;
mod loss;
mod place;
mod plan;
mod problem;
mod reduce;
mod search;
mod solve;

#[cfg(test)]
mod tests;

pub use anneal::{Anneal, Annealed, anneal};
pub use candidates::Candidates;
pub use heuristic::{best_single, greedy};
pub use place::{
    Asked, HELD_MAX, Held, PLACES_MAX, PlaceOptions, Placement, cost_by_place, place, read_at,
};
pub use plan::{Design, Options, Read, design, is_same_for, mean_cost_us};
pub use problem::Problem;
pub use solve::{Certificate, Effort, Objective, Solution, solve};
