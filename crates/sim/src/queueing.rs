//! Replica choice alone: policies before modelled nodes, in virtual time. Whole engines are left out, so that ten
//! proxies and a hundred nodes take seconds. Its experiments are [`crate::assignment`] and [`crate::capacity`].
//!
//! - **Requests** come at random, however many are under way, or from clients that ask again once they are answered.
//! - **Proxies** choose with [`helenus_policy::choice`], as in production, each by what it has seen itself.
//! - **Nodes** serve a few requests at a time, while the others wait in the order in which they came, or all at once,
//!   together as fast as a measured curve says. The work of a request is log-normal.
//! - **Keys** follow a Zipf distribution; their owners are neighbours on the ring. Reads go to one node, writes to all
//!   owners; a write is answered when most have done it.
//!
//! Not modelled: caches, what Cassandra's own replica choice does behind the coordinator, queues at the proxies, their
//! failure detector and CPU, and network other than a fixed delay.
//!
//! - [`setup`]: a run's size and load, and what goes wrong in it; [`curve`]: what a measured node completes
//! - `proxy`: who chooses nodes; `node`: who serves requests; `model`: one run; [`outcome`]: what it has shown

pub mod curve;
mod model;
mod node;
pub mod outcome;
mod proxy;
pub mod setup;

pub use curve::{Curve, Point};
pub use helenus_policy::choice::Policy;
pub use model::run;
pub use outcome::Outcome;
pub use setup::{Cell, Demand, Extent, Service, Setup};
