//! Heterogeneous replicas: every copy of a table holds the same rows in a clustering order of its
//! own, a *layout*, and a query reads the copy on which it touches the fewest rows. This crate
//! chooses the layouts from a workload and a sample of the rows.
//!
//! Everything here is pure and deterministic: no sockets, clock, threads or randomness; a seed is an
//! argument where something is drawn.
//!
//! From top to bottom:
//!
//! 1. [`Table`], [`Layout`], [`Shape`]: what can be sorted in which order, and what a statement asks
//!    of the columns. [`Access`] is the exact part: which slice of a layout a statement reads.
//! 2. [`Sample`], [`Statistics`]: rows with their correlations, and what is known of the rows beyond
//!    the sample. [`draw()`] makes queries with values from statements with markers.
//! 3. [`CostModel`]: predicted work of a query on a layout, either as in the paper
//!    ([`IndependentModel`]) or counted on the sample ([`SampledModel`]); [`calibrate`] finds
//!    the coefficients from measurements.
//! 4. [`design()`]: the layouts with the least weighted work, with a certificate; [`place()`]: in which data
//!    center each is held.
//! 5. [`Redesign`]: when other layouts would pay for being built.
//!
//! Apart from these, [`plan`] carries out statements on a table whose layouts exist.
//!
//! Source: Qiao et al., "Heterogeneous Replica for Query on Cassandra" (2018).

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod access;
mod column_set;
mod cost;
mod design;
mod draw;
mod layout;
pub mod naming;
pub mod plan;
mod query;
mod rank;
mod redesign;
mod rng;
mod sample;
mod shape;
mod statistics;
mod table;
mod value;

#[cfg(test)]
mod testing;

pub use access::Access;
pub use column_set::{COLUMNS_MAX, ColumnSet};
pub use cost::{
    COEFFICIENTS, CONDITION_MAX, Calibration, Coefficients, CostModel, Fit, FitError,
    IndependentModel, Measurement, PARTS, Prediction, SORT_ROWS_MAX, SampledModel, Selectivities,
    Storage, Timed, Work, calibrate, comparisons, fit,
};
pub use design::{
    Anneal, Annealed, Asked, Candidates, Certificate, Design, Effort, HELD_MAX, Held, Objective,
    Options, PLACES_MAX, PlaceOptions, Placement, Problem, Read, Solution, anneal, best_single,
    cost_by_place, design, greedy, is_same_for, mean_cost_us, place, read_at, solve,
};
pub use draw::{Bound, Marker, Statement, StatementColumn, draw};
pub use layout::{Layout, PERMUTED_MAX};
pub use query::{Query, Restriction};
pub use rank::rank_correlation;
pub use redesign::{Advice, Build, Comparison, Redesign, RedesignRules, Standing};
pub use sample::{RowError, Sample};
pub use shape::Shape;
pub use statistics::{Collector, HyperLogLog, SpaceSaving, Statistics};
pub use table::{Table, TableError};
pub use value::Value;
