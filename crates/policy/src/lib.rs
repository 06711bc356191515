//! Ring, replicas, routing and scheduling.
//!
//! Everything here is pure and deterministic: no sockets, clock, threads or randomness, and no
//! result depends on the iteration order of a hash map. Whatever changes from call to call (a
//! round-robin turn, a window) is an argument.
//!
//! A query passes the modules in this order: [`token`] maps its partition key to a position on the
//! ring, [`ring`] knows which nodes own that position, [`route`] puts the nodes in the order in
//! which to try them, and [`schedule`] decides whether the chosen node gets the query now, later or
//! not at all, by the work that [`predict`] expects of it. Besides these, [`turns`] keeps
//! conditional writes of one partition from colliding, [`window`] sets how long a link collects
//! queries before sending them, [`hot`] finds the partitions that are asked for most, and [`limit`] says
//! whether one more request may pass a limit.
//!
//! Every policy opens with what it decides, its formula, the evidence for it, its limits and its
//! source.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod choice;
pub mod hot;
pub mod limit;
pub mod predict;
pub mod ring;
pub mod route;
pub mod schedule;
mod sync;
pub mod token;
pub mod turns;
pub mod window;

#[cfg(test)]
mod test_rng;
