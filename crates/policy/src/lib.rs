//! Ring, replicas, routing and scheduling.
//!
//! Everything here is pure and deterministic: no sockets, clock, threads or
//! randomness, and no result that depends on the iteration order of a hash map.
//! What changes from call to call (a round-robin turn, a window) is an argument.
//!
//! A query meets the modules in this order: [`token`] turns its partition key
//! into a place on the ring, [`ring`] says which nodes own that place, [`route`]
//! puts the nodes in the order in which to try them, and [`schedule`] decides
//! whether the chosen node gets the query now, later or not at all; how much work it
//! is, [`predict`] says. Beside them, [`turns`] keeps conditional writes of one
//! partition from colliding, and [`window`] says how long a link collects queries
//! before it sends them.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod predict;
pub mod ring;
pub mod route;
pub mod schedule;
pub mod token;
pub mod turns;
pub mod window;

#[cfg(test)]
mod dice;
