//! The throughput of many nodes, from a ramp that was measured over few: nodes that are as fast as the
//! measured curve says, before proxies that choose among replicas as in production.
//!
//! - **A node** is a flow-equivalent server: with n requests in it, it completes as many per second as the
//!   measured node did with n clients, whatever it is inside that makes it so. All its requests progress
//!   alike (processor sharing). By construction a single node in a closed loop repeats the ramp's curve.
//! - **Work** of a request is log-normal around 1; its spread follows from the ramp's percentiles.
//! - **Proxies** choose with [`helenus_policy::choice`], each by what it has seen itself.
//! - **Keys** have neighbouring owners on the ring. Reads go to one of them, writes to all; a write is
//!   answered when most have done it.
//!
//! Not modelled: whatever the ramp has not shown. Caches and compactions are as during the ramp, with as
//! much data per node. Streaming, garbage collection of one node alone, coordinators that forward,
//! messages between nodes, the proxies' own CPU and queues, and the network but for a fixed delay are left
//! out. Scheduling, hedging and aggregation are part of it only as far as the ramp went through a proxy.
//!
//! Source of the idea: K. M. Chandy, U. Herzog, L. Woo, *Parametric Analysis of Queuing Networks*, IBM
//! Journal of Research and Development 19 (1975).
//!
//! - [`curve`]: what a node completes; [`setup`]: size and load of a run
//! - `node`, `world`: a run; [`outcome`]: what it has shown
//! - [`sweep`]: many loads, and the knee among them

pub mod curve;
mod node;
pub mod outcome;
pub mod setup;
pub mod sweep;
mod world;

#[cfg(test)]
mod tests;

pub use curve::{Curve, Point};
pub use helenus_policy::choice::Policy;
pub use outcome::Outcome;
pub use setup::{Demand, Setup};
pub use world::run;
