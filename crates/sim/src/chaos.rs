//! Whole proxies before modelled nodes, in virtual time, from one seed.
//!
//! The engines are the product's own ([`helenus_engine::Engine`]), several workers in each of several
//! proxies. Around them: clients that speak the protocol as drivers do, nodes that speak it as
//! Cassandra does, and a network that cuts bytes anywhere. Then things go wrong: connections break,
//! nodes stop, freeze and come back, forget prepared statements, answer with errors, or not at all;
//! clients leave in the middle, and proxies are restarted.
//!
//! What must hold all the same is checked while it happens (`checks`) and when all is quiet again.

mod bounds;
mod cassandra;
mod catalogue;
mod checks;
mod client;
mod coverage;
mod cql;
mod doubts;
mod ledger;
mod lists;
mod load;
mod pipe;
mod proxy;
mod terms;
mod wide;
mod world;

#[cfg(test)]
mod tests;

pub use bounds::{Bounds, Broken, Cause, shortest};
pub use checks::Violation;
pub use coverage::Covered;
pub use world::{run, run_within};
