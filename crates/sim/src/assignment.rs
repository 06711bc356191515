//! Policies of replica choice before a modelled cluster, in virtual time: whole engines are left out, so that
//! ten proxies and a hundred nodes take seconds.
//!
//! - **Proxies** choose with [`helenus_policy::choice`], as in production, each by what it has seen itself.
//! - **Nodes** serve a few requests at a time, the others wait in the order in which they came. Service
//!   times are log-normal. Replicas of a key are three neighbours on the ring.
//! - **Keys** follow a Zipf distribution; requests arrive at random, however many are under way.
//! - A node that is asked for what it does not own asks an owner, which costs it a part of the work.
//!
//! Not modelled: caches, what Cassandra's own replica choice does behind the coordinator, queues at the
//! proxies, their failure detector, and network other than a fixed delay.
//!
//! - [`setup`]: the cells of the experiment; `node`: who serves requests
//! - `world`: one run; [`outcome`]: what it has shown

mod node;
pub mod outcome;
pub mod setup;
mod world;

#[cfg(test)]
mod tests;

pub use helenus_policy::choice::Policy;
pub use outcome::Outcome;
pub use setup::{Cell, Setup};
pub use world::run;
