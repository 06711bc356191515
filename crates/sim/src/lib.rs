//! Virtual time, clients, a network and nodes around the proxy's own code.
//!
//! [`chaos`] runs whole proxies while everything around them fails. The rest is an experiment about the
//! order of service, around the proxy's scheduler alone.
//!
//! What a real cluster answers in minutes, and never twice alike, is answered here in
//! milliseconds and always alike: the same seed gives the same result to the last
//! digit. It shows which order of service wins and where constants begin to matter;
//! how much is won in reality only `helenus bench scheduling` can tell.
//!
//! Its model: a node is a READ stage, that is some threads behind one FIFO, as in
//! Cassandra. A read takes a base and a time for each row, with some spread. A message
//! takes a fixed delay. Clients are closed loops. Not in the model: the proxies' own
//! CPU, request threads, disks that are slower for two than for one, collected
//! garbage, replicas.
//!
//! - [`setup`]: the experiment: cluster, data, clients, and the arms to compare
//! - [`data`]: which nodes a range touches
//! - [`node`]: the READ stage
//! - [`events`], [`dice`]: virtual time and repeatable randomness
//! - [`world`]: one run; [`outcome`]: what it showed

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

// Its events are being taken apart.
#[allow(clippy::too_many_lines)]
pub mod chaos;
pub mod data;
pub mod dice;
pub mod events;
pub mod node;
pub mod outcome;
pub mod setup;
pub mod world;
